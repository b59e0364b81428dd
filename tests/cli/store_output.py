#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store's commands when nobody takes what they print: as other commands, quietly or with a reason, and never by abort().

store_output.py VERBENA
"""
import os
import signal
import subprocess

import support
from store import DAMAGED, NOT_DONE, StoreTest, content


class Output(StoreTest):
    """Every command that prints, with much to print and with little."""

    def setUp(self):
        super().setUp()
        # More than a pipe and a buffer take.
        names = [f"{i:04}" + "x" * 900 for i in range(100)]
        empty = self.file("empty", b"")
        self.expect(0, "put", "--batch", input="".join(f"{empty}\t{name}\n" for name in names))
        data = content(50_000)
        self.put(data, "damaged")
        self.damage(data[:4048], 7)
        self.put(b"x" * 10, "full")
        os.mkdir(self.path("tree"))
        self.file("tree/file", b"")

    def commands(self):
        yield ["ls"]
        yield ["ls", "--json"]
        yield ["stat", "damaged"]
        yield ["stat", "--segments", "damaged"]
        yield ["stat", "--json", "--segments", "damaged"]
        yield ["inspect"]
        yield ["inspect", "--segments"]
        yield ["inspect", "--json"]
        yield ["scrub"]
        yield ["scrub", "--json"]
        yield ["salvage", self.path("new")]
        yield ["salvage", "--json", self.path("new")]
        yield ["rm", "--json", "--force", "none"]
        yield ["mv", "--json", "damaged", "damaged"]
        yield ["cp", "--json", "--replace", "damaged", "clone"]
        yield ["put", "--json", "/dev/null", "empty"]
        yield ["get", "--json", "damaged", "--length", "0", self.path("target")]
        yield ["cat", "full"]
        yield ["truncate", "--json", "full", "10"]
        yield ["flush", "--json"]
        yield ["bench", "--size", "1", "--count", "1"]
        yield ["bench", "--size", "1", "--count", "1", "--json"]
        yield ["du"]
        yield ["du", "--json"]
        yield ["df"]
        yield ["df", "--json"]
        yield ["verify", "damaged"]
        yield ["verify", "--json", "damaged"]
        yield ["sync", "--dry-run", self.path("tree"), "p"]
        yield ["sync", "--json", "--dry-run", self.path("tree"), "p"]
        yield ["put", "--json", "-r", self.path("tree"), "p"]
        yield ["get", "--json", "-r", "p", self.path("back")]
        yield ["rm", "--json", "--force", "-r", "p"]

    def run_into(self, output, command, **options):
        subprocess.run(["rm", "-rf", self.path("new")], check=True)
        return subprocess.run([support.VERBENA, command[0], "--data", self.data, *command[1:]], stdout=output,
                              stderr=subprocess.PIPE, timeout=support.SECONDS, check=False, text=True, **options)

    def test_that_nobody_reads(self):
        for command in self.commands():
            reader, writer = os.pipe()
            os.close(reader)
            done = self.run_into(writer, command)
            os.close(writer)
            self.assertEqual(done.returncode, -signal.SIGPIPE, (command, done.stderr))
            if command[0] == "cat":
                self.assertEqual(done.stderr, "")

    def test_that_nobody_reads_where_the_signal_is_ignored(self):
        for command in (["ls"], ["inspect"], ["stat", "--json", "damaged"]):
            reader, writer = os.pipe()
            os.close(reader)
            done = self.run_into(writer, command, restore_signals=False,
                                 preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
            os.close(writer)
            self.assertEqual(done.returncode, NOT_DONE, command)
            self.assertIn("cannot write to standard output: Broken pipe", done.stderr)

    def test_that_is_read_in_part(self):
        done = subprocess.run(["bash", "-c", '"$0" ls --data "$1" | head -1; echo ${PIPESTATUS[0]}', support.VERBENA, self.data],
                              capture_output=True, text=True, timeout=support.SECONDS, check=True)
        self.assertRegex(done.stdout, rf"^ +SIZE +MODIFIED +OBJECT\n{128 + signal.SIGPIPE}\n$")
        self.assertEqual(done.stderr, "")

    def test_on_a_full_disk(self):
        for command in self.commands():
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = self.run_into(full, command)
            self.assertIn(done.returncode, (NOT_DONE, DAMAGED), (command, done.stderr))
            self.assertIn("No space left on device", done.stderr, command)

    def test_of_help_on_a_full_disk(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = self.run_into(full, ["put", "--help"])
        self.assertEqual(done.returncode, NOT_DONE)
        self.assertIn("No space left on device", done.stderr)


if __name__ == "__main__":
    support.main()
