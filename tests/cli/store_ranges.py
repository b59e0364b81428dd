#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`verbena range`, `truncate`, `flush` and `bench` on a store that `verbena serve` has.

store_ranges.py VERBENA
"""
import signal
import subprocess

import support
from store import NOT_DONE, NO_OBJECT, USAGE, content
from store_bench import BenchTests
from store_served import UNREACHABLE, Served
from support import verbena


class RangeTest(Served):
    OPTIONS = ("--enforce-ranges",)

    def hold(self, *words):
        """A range that is held until its input ends."""
        holder = subprocess.Popen([support.VERBENA, "range", "--server", self.address, *words], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.let_go, holder)
        line = holder.stdout.readline()
        self.assertTrue(line.startswith("registered "), line or holder.stderr.read())
        return holder, line

    def let_go(self, holder):
        if holder.stdin and not holder.stdin.closed:
            holder.communicate(timeout=support.SECONDS)
        return holder.returncode


class Ranges(RangeTest):
    def setUp(self):
        super().setUp()
        self.put(content(100_000), "a")

    def test_conflict_where_one_writes(self):
        holder, line = self.hold("--write", "--range", "1000:500", "a")
        self.assertEqual(line, "registered bytes 1000 to 1499 of a for writing\n")
        for words in (["a"], ["--write", "a"], ["--range", "1499:1", "a"], ["--range", "0:", "a"]):
            said = self.expect(NOT_DONE, "range", *words, "--", "true")
            self.assertIn("has registered bytes 1000 to 1499 for writing", said)
        self.assertEqual(self.json("range", "a", "--", "true", status=NOT_DONE)["errors"][0]["code"], "conflict")
        for words in (["--range", "1500:", "a"], ["--write", "--range", "0:1000", "a"]):
            self.expect(0, "range", *words, "--", "true")
        self.assertEqual(self.let_go(holder), 0)
        self.expect(0, "range", "--write", "a", "--", "true")

    def test_for_reading_are_shared(self):
        self.hold("a")
        self.expect(0, "range", "a", "--", "true")
        self.expect(NOT_DONE, "range", "--write", "a", "--", "true")

    def test_keep_others_from_writing(self):
        holder, _ = self.hold("a")
        self.assertEqual(self.get("a"), content(100_000))
        self.assertIn("for reading", self.expect(NOT_DONE, "truncate", "a", "1"))
        self.let_go(holder)
        self.expect(0, "truncate", "a", "1")

    def test_end_with_their_holder(self):
        holder, _ = self.hold("--write", "a")
        holder.kill()
        holder.communicate(timeout=support.SECONDS)
        self.expect(0, "range", "--write", "--wait", "50", "a", "--", "true")
        holder, _ = self.hold("--write", "a")
        holder.send_signal(signal.SIGINT)
        holder.communicate(timeout=support.SECONDS)
        self.assertEqual(holder.returncode, 128 + signal.SIGINT)
        self.expect(0, "range", "--write", "a", "--", "true")

    def test_are_waited_for(self):
        holder, _ = self.hold("--write", "a")
        with subprocess.Popen([support.VERBENA, "range", "--server", self.address, "--write", "--wait", "50", "a", "--",
                               "echo", "mine"], stdout=subprocess.PIPE, text=True) as waiting:
            self.assertIsNone(waiting.poll())
            self.let_go(holder)
            output, _ = waiting.communicate(timeout=support.SECONDS)
            self.assertEqual((waiting.returncode, output), (0, "mine\n"))

    def test_are_held_while_a_command_runs(self):
        inner = [support.VERBENA, "range", "--server", self.address, "--write", "a", "--", "echo", "never"]
        done = self.run_text("range", "a", "--", *inner)
        self.assertEqual((done.returncode, done.stdout), (NOT_DONE, ""))
        self.assertIn("for reading", done.stderr)
        got = self.run_text("range", "a", "--", support.VERBENA, "get", "--server", self.address, "a", self.path("copy"))
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(self.read("copy"), content(100_000))

    def test_exit_status_is_the_commands(self):
        for command, status in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 128 + 9),
                                (["no-such-program"], 127), (["/dev/null"], 126)):
            self.expect(status, "range", "a", "--", *command)
        done = self.json("range", "--range", "4K:", "a", "--", "sh", "-c", "exit 3", status=3)
        self.assertEqual((done["status"], done["offset"], done["length"], done["access"]), (3, 4096, 0, "read"))

    def test_a_signal_is_passed_on(self):
        with subprocess.Popen([support.VERBENA, "range", "--server", self.address, "a", "--", "sh", "-c",
                               "trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.05; done"],
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=support.SECONDS)
            self.assertEqual((process.returncode, output), (5, "told\n"))

    def test_lost_with_the_server(self):
        holder, _ = self.hold("--timeout", "2", "a")
        self.stop()
        _, said = holder.communicate(timeout=support.SECONDS)
        self.assertEqual(holder.returncode, UNREACHABLE, said)
        self.assertIn("the range was lost while it was held", said)

    def test_say_what_is_wrong(self):
        self.assertIn("no such object", self.expect(NO_OBJECT, "range", "none"))
        for words, said in ((["a", "--range", "x"], "--range: "), (["a", "--wait", "-1"], "--wait: "),
                            ([], "OBJECT is missing")):
            self.assertIn(said, self.expect(USAGE, "range", *words))
        done = verbena("range", "--data", self.data, "a")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("ranges are kept by servers", done.stderr)
        done = verbena("range", "a")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--server HOST", done.stderr)


class Sizes(Served):
    def test_truncate(self):
        data = content(50_000)
        self.put(data, "a")
        self.expect(0, "truncate", "a", "40000")
        self.expect(0, "truncate", "a", "60000")
        self.assertEqual(self.get("a"), data[:40_000] + bytes(20_000))
        self.expect(NO_OBJECT, "truncate", "b", "1")
        self.expect(0, "truncate", "--create", "b", "1")
        self.assertEqual(self.get("b"), b"\0")

    def test_flush(self):
        self.put(b"abc", "a")
        self.expect(0, "flush")
        self.stop(signal.SIGKILL)
        self.expect(UNREACHABLE, "flush", "--timeout", "1")


class Bench(BenchTests, Served):
    def place_words(self):
        return ["--server", self.address]


if __name__ == "__main__":
    support.main()
