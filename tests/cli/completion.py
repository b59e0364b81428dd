#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What shells offer for the `verbena` command: `verbena __complete`, compared with the help of each command, and the parts of
the shells in completions/, run by the shells that are installed.

completion.py VERBENA
"""
import os
import re
import shlex
import subprocess

import support
from store import StoreTest
from support import call, need_program, verbena

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPLETIONS = os.path.join(ROOT, "completions")


def complete(*words):
    """The kind, and the candidates."""
    done = verbena("__complete", *words)
    lines = done.stdout.splitlines()
    return lines[0], [line.split("\t")[0] for line in lines[1:]]


def commands_of_help():
    return re.findall(r"^  ([a-z]+) +[A-Z]", verbena("--help").stdout, re.MULTILINE)


class Words(StoreTest):
    def test_commands(self):
        kind, found = complete("")
        self.assertEqual((kind, found), ("words", commands_of_help()))
        self.assertGreater(len(found), 20)
        self.assertEqual(complete("se"), ("words", ["serve", "send"]))
        self.assertEqual(complete("--")[1], ["--help", "--version"])
        self.assertEqual(complete("no-such", ""), ("words", []))

    def test_options_are_those_of_the_help(self):
        for command in commands_of_help():
            text = verbena(command, "--help").stdout
            options = re.findall(r"^  (?:-[a-z],)?(--[a-z-]+)", text[text.index("\nOptions:"):], re.MULTILINE)
            self.assertEqual(complete(command, "--")[1], options, command)

    def test_each_has_a_description(self):
        for command in commands_of_help():
            for line in verbena("__complete", command, "--").stdout.splitlines()[1:]:
                self.assertRegex(line, r"^--[a-z-]+\t\S", command)

    def test_values(self):
        self.assertEqual(complete("run", "--link", ""), ("words", ["auto", "udp", "shared"]))
        self.assertEqual(complete("run", "--link=u"), ("words", ["--link=udp"]))
        self.assertEqual(complete("put", "--kind", "st")[1], ["staged"])
        self.assertEqual(complete("serve", "--sync", "")[1], ["flush", "each"])
        self.assertEqual(complete("ls", "-qd", "")[0], "directories")
        self.assertEqual(complete("ls", "--data=")[0], "directories")
        self.assertEqual(complete("put", "")[0], "files")
        self.assertEqual(complete("put", "file", "")[0], "objects")
        self.assertEqual(complete("put", "--", "--x")[0], "files")

    def test_a_programs_words_are_its_own(self):
        self.assertEqual(complete("run", "--mtu", "1024", ""), ("program 1", []))
        self.assertEqual(complete("run", "--", "ibv_devinfo", "-"), ("program 2", []))
        self.assertEqual(complete("run", "ibv_devinfo", "-"), ("program 2", []))
        self.assertEqual(complete("run", "--m")[1], ["--mtu"])
        self.assertEqual(complete("range", "a", "--", "sh", "")[0], "program 2")

    def test_values_that_are_offered_are_taken(self):
        """Each but the first of a list would be refused if it were wrong."""
        for option in ("--identity", "--mtu", "--link"):
            for value in complete("devices", option, "")[1]:
                self.assertEqual(verbena("env", option, value).returncode, 0, (option, value))
        for option in ("--shell", "--view"):
            for value in complete("env", option, "")[1]:
                self.assertEqual(verbena("env", option, value).returncode, 0, (option, value))
        for option in ("--sync", "--kind"):
            for value in complete("put", option, "")[1]:
                self.expect(0, "put", "--quiet", option, value, "/dev/null", "a")


class Objects(StoreTest):
    def setUp(self):
        super().setUp()
        empty = self.file("empty", b"")
        self.expect(0, "put", "--batch", input="".join(
            f"{empty}\t{name}\n" for name in ("photos/1", "photos/2", "photos/old/3", "plain", "with space", "x:y")))
        self.expect(0, "put", "/dev/null", "7:42")

    def test_up_to_the_next_slash(self):
        self.assertEqual(complete("get", "--data", self.data, ""),
                         ("objects", ["photos/", "plain", "with space", "x:y"]))
        self.assertEqual(complete("get", f"--data={self.data}", "photos/")[1], ["photos/1", "photos/2", "photos/old/"])
        self.assertEqual(complete("rm", "-d", self.data, "plain", "x")[1], ["x:y"])
        environment = {**os.environ, "VERBENA_DATA": self.data}
        self.assertEqual(verbena("__complete", "stat", "pl", env=environment).stdout, "objects\nplain\n")

    def test_no_store_is_no_error(self):
        for words in (["--data", self.path("none"), ""], [""], ["--server", "127.0.0.1:1", ""]):
            self.assertEqual(complete("get", *words), ("objects", []))


class Shells(StoreTest):
    """The words that a shell would insert for a line."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        os.symlink(support.VERBENA, self.path("bin/verbena"))
        self.environment = {**os.environ, "PATH": self.path("bin") + ":" + os.environ["PATH"], "VERBENA_DATA": self.data,
                            "HOME": self.place, "XDG_DATA_DIRS": "/usr/share"}
        self.put(b"", "photos/1")
        self.put(b"", "plain")
        self.file("file", b"")

    def run_shell(self, *words, script):
        done = subprocess.run([*words, script], capture_output=True, text=True, cwd=self.place, timeout=support.SECONDS,
                              env=self.environment, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def check(self, completions):
        self.assertEqual(completions("verbena pi"), ["ping"])
        self.assertEqual(sorted(completions("verbena get --of")), ["--offset"])
        self.assertEqual(completions("verbena run --link u"), ["udp"])
        self.assertEqual(completions("verbena get pl"), ["plain"])
        self.assertEqual(completions("verbena get ph"), ["photos/"])
        self.assertEqual(completions("verbena put fi"), ["file"])

    def test_bash(self):
        need_program("bash")

        def completions(line):
            words = line.split(" ")
            return self.run_shell("bash", "-c", script=f"""
                source {shlex.quote(COMPLETIONS)}/verbena.bash
                compopt() {{ :; }}
                COMP_WORDS=({" ".join(map(shlex.quote, words))}) COMP_CWORD={len(words) - 1}
                _verbena
                printf '%s\\n' "${{COMPREPLY[@]}}\"""")
        self.check(completions)

    def test_fish(self):
        need_program("fish")

        def completions(line):
            found = self.run_shell("fish", "--no-config", "-c", script=f"""
                source {shlex.quote(COMPLETIONS)}/verbena.fish
                complete -C {shlex.quote(line)}""")
            return [each.split("\t")[0] for each in found]
        self.check(completions)

    def test_zsh(self):
        need_program("zsh")
        self.assertEqual(call(["zsh", "-n", f"{COMPLETIONS}/_verbena"]).returncode, 0)

        def completions(line):
            # What the completion system would have set, and what it would be told.
            words = " ".join(map(shlex.quote, line.split(" ")))
            return self.run_shell("zsh", "-f", "-c", script=f"""
                compadd() {{ shift 3; print -l -- "$@" }}
                _describe() {{ print -l -- "${{(@)${{(@P)argv[-1]}}%%:*}}" }}
                compset() {{ :; }}
                _files() {{ print -l -- $words[CURRENT]*(N) }}
                _normal() {{ :; }}
                words=({words}) CURRENT=$#words
                run() {{ source {shlex.quote(COMPLETIONS)}/_verbena }}
                run
                true""")
        self.check(completions)


if __name__ == "__main__":
    support.main()
