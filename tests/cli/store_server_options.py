#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which store the store's commands take, in a directory or on a server, and what they say where that makes no sense.
None of it needs a server.

store_server_options.py VERBENA
"""
import fcntl
import json
import os

import support
from store import IN_USE, USAGE, StoreTest
from support import verbena

NOWHERE = "127.0.0.1:1"
# With --server or --data alike. There is no directory of this name: what is wrong with the options is said before.
OBJECTS = (["put", "/dev/null", "a"], ["put", "-r", "/no such", "a"], ["put", "--batch"], ["get", "a", "-"], ["ls"],
           ["stat", "a"], ["rm", "a"], ["cp", "a", "b"], ["mv", "a", "b"], ["cat", "a"], ["du"], ["verify", "a"],
           ["sync", "/no such", "a"], ["truncate", "a", "1"], ["flush"], ["bench"])
# On the files of a store.
FILES = (["df"], ["inspect"], ["scrub"], ["compact"], ["salvage", "new"])


class ServerTest(StoreTest):
    def refused(self, words, *said, **environment):
        """With the exit status of a usage error, and these words."""
        done = verbena(*words, env={**os.environ, **environment}, input="")
        self.assertEqual(done.returncode, USAGE, (words, done.stderr))
        for text in said:
            self.assertIn(text, done.stderr, words)
        return done


class Choice(ServerTest):
    def test_is_one_of_two(self):
        for words in OBJECTS:
            self.refused([*words, "--data", self.data, "--server", NOWHERE],
                         "--data and --server cannot be used together")
            self.refused(words, "VERBENA_DATA and VERBENA_SERVER are both set", VERBENA_DATA=self.data,
                         VERBENA_SERVER=NOWHERE)
            self.refused(words, "--data DIR or --server HOST", "VERBENA_SERVER")

    def test_on_the_command_line_is_taken_before_the_environment(self):
        self.put(b"abc", "a")
        environment = {**os.environ, "VERBENA_SERVER": "a server", "VERBENA_DATA": self.path("nowhere")}
        done = verbena("ls", "--quiet", "--data", self.data, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(["ls", "--server", "a/b"], "--server: invalid server 'a/b'", VERBENA_DATA=self.data)

    def test_of_the_environment(self):
        for words in OBJECTS:
            self.refused(words, "VERBENA_SERVER: invalid server 'a b'", VERBENA_SERVER="a b")

    def test_says_what_is_wrong_with_it(self):
        for server in ("node1:", "node1:0", "node1:99999", "[::1", "[::1]7471", "a b", ":1"):
            for command in (["ls"], ["ping"]):
                self.refused([*command, "--server", server], f"--server: invalid server '{server}'")

    def test_is_checked_before_a_pipe_is_read(self):
        self.refused(["put", "--server", ":", "-", "a"], "invalid server")


class Options(ServerTest):
    def test_for_a_directory_are_not_for_a_server(self):
        for option in (["--kind", "staged"], ["--capacity", "1G"], ["--wait", "2"]):
            self.refused(["put", "--server", NOWHERE, *option, "/dev/null", "a"],
                         f"{option[0]} and --server cannot be used together")
        for option in (["--sync", "each"], ["--kind", "staged"], ["--capacity", "1G"]):
            self.refused(["put", *option, "/dev/null", "a"], "not on a server", VERBENA_SERVER=NOWHERE)
        self.refused(["stat", "--server", NOWHERE, "--segments", "a"], "cannot be used together")
        self.refused(["stat", "--segments", "a"], "not on a server", VERBENA_SERVER=NOWHERE)

    def test_for_a_server_are_not_for_a_directory(self):
        for option in ("--timeout=1", "--secret-file=/dev/null", "--device=mlx5_0", "--fabric=ofi"):
            self.refused(["ls", "--data", self.data, option], "cannot be used together")

    def test_are_checked(self):
        for seconds in ("0", "-1", "nan", "inf", "100000"):
            for command in (["ls"], ["ping"]):
                self.refused([*command, "--server", NOWHERE, "--timeout", seconds], "--timeout: ")
        for count in ("0", "-1", "1.5", "x"):
            self.refused(["ping", "--server", NOWHERE, "--count", count], "--count: ")
        for fabric in ("tcp", "ofi:", "OFI", "verbs:x"):
            self.refused(["ls", "--server", NOWHERE, "--fabric", fabric], "--fabric: ")
        self.refused(["ls", "--server", NOWHERE, "--fabric", "ofi", "--device", "mlx5_0"], "for the fabric verbs")
        for seconds in ("-1", "nan", "inf"):
            self.refused(["ping", "--server", NOWHERE, "-i", seconds], "--interval: ")
        self.refused(["ping"], "no server given")

    def test_of_a_secret_that_cannot_be_read(self):
        for path in (self.path("missing"), self.place, self.file("empty", b"\n")):
            for arguments, environment in ((["--secret-file", path], {}), ([], {"VERBENA_SECRET_FILE": path})):
                done = verbena("ls", "--json", "--server", NOWHERE, *arguments, env={**os.environ, **environment})
                self.assertEqual(done.returncode, 1)
                self.assertIn("cannot be used as a secret", json.loads(done.stdout)["errors"][0]["message"])

    def test_are_in_the_help(self):
        for words in OBJECTS:
            self.assertIn("--server HOST[:PORT]", verbena(words[0], "--help").stdout)
        self.assertIn("--count COUNT", verbena("ping", "--help").stdout)
        self.assertIn("  ping ", verbena("--help").stdout)


class Files(ServerTest):
    def test_of_a_store_are_not_reached_through_a_server(self):
        for words in FILES:
            self.refused([*words, "--server", NOWHERE], "--server: this command works on the files of a store",
                         "use --data DIR on the host of the server")
            self.assertNotIn("--server", verbena(words[0], "--help").stdout)
        for words in FILES[:-1]:
            self.refused(words, "not through a server (VERBENA_SERVER)", VERBENA_SERVER=NOWHERE)

    def test_that_a_server_has(self):
        """Who wants them is told how to reach it."""
        self.put(b"abc", "a")
        with open(os.path.join(self.data, "lock"), "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # as servers do
            lock.truncate(0)
            lock.write(f"{os.getpid()}\nserver 127.0.0.1:7471\n".encode())
            lock.flush()
            for words in (["put", "/dev/null", "a"], ["get", "a", "-"], ["df"]):
                said = self.expect(IN_USE, *words, "--wait", "0")
                self.assertIn(f"in use by a server (process {os.getpid()}): use --server 127.0.0.1:7471", said)
            self.assertEqual(self.run_text("scrub").returncode, 0)
        self.assertEqual(self.get("a"), b"abc")
        self.put(b"def", "a")
        with open(os.path.join(self.data, "lock"), encoding="utf-8") as lock:
            self.assertNotIn("server", lock.read())


if __name__ == "__main__":
    support.main()
