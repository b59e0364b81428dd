# SPDX-License-Identifier: Apache-2.0
# bash completion of the `verbena` command, which answers itself what may come next.

_verbena() {
  local cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]:1:COMP_CWORD}")
  # bash takes words apart at "=" and ":"; with bash-completion they are put together again.
  if declare -F _get_comp_words_by_ref >/dev/null; then
    local cword
    _get_comp_words_by_ref -n =: cur words cword
    words=("${words[@]:1:cword}")
  fi
  local answer kind line
  mapfile -t answer < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
  kind=${answer[0]-}
  COMPREPLY=()
  for line in "${answer[@]:1}"; do
    COMPREPLY+=("${line%%$'\t'*}")
  done
  case $kind in
    files) mapfile -t COMPREPLY < <(compgen -f -- "${cur#*=}") && compopt -o filenames ;;
    directories) mapfile -t COMPREPLY < <(compgen -d -- "${cur#*=}") && compopt -o filenames ;;
    objects) compopt -o filenames ;;
    program*)
      if declare -F _command_offset >/dev/null; then
        _command_offset $((COMP_CWORD + 1 - ${kind#program }))
      else
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
      fi
      return
      ;;
  esac
  # A name may go on behind a "/", and a value behind a "=".
  if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == */ ]]; then compopt -o nospace; fi
  if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$cur"; fi
} 2>/dev/null

complete -F _verbena verbena
