# SPDX-License-Identifier: Apache-2.0
# fish completion of the `verbena` command, which answers itself what may come next.

function __verbena_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer ($words[1] __complete $words[2..-1] 2>/dev/null)
    printf '%s\n' $answer[2..-1]
    set -l current (string replace -r -- '^--[^=]*=' '' $words[-1])
    set -l before (string match -r -- '^--[^=]*=' $words[-1])
    switch "$answer[1]"
        case files
            printf '%s\n' "$before"(__fish_complete_path $current)
        case directories
            printf '%s\n' "$before"(__fish_complete_directories $current '')
        case 'program *'
            set -l own (string replace 'program ' '' $answer[1])
            __fish_complete_subcommand --commandline $words[(math (count $words) - $own + 1)..-1]
    end
end

complete -c verbena -f -a '(__verbena_complete)'
