#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store's commands ended by signals, and on a terminal: what they leave, and what they show.

store_interrupted.py VERBENA
"""
import json
import os
import pty
import shutil
import signal
import subprocess
import time
import unittest

import support
from store import EXISTS, StoreTest, content

KILLS = 5  # of each command


class Interrupted(StoreTest):
    def start_put(self, name, data, *arguments):
        """A put that has all of `data` and waits for more."""
        process = subprocess.Popen([support.VERBENA, "put", "--data", self.data, *arguments, "-", name],
                                   stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdin.close)
        process.stdin.write(data)  # a pipe has 64 KiB: the rest has been read when this returns
        process.stdin.flush()
        return process

    def test_put_leaves_the_old_object(self):
        self.put(b"old", "a")
        for wanted in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start_put("a", content(9_000_000))
            process.send_signal(wanted)
            self.assertEqual(process.wait(support.SECONDS), 128 + wanted)
            self.assertIn(b"interrupted; the object is unchanged", process.stderr.read())
            self.assertEqual(self.get("a"), b"old")
            self.assertEqual(self.names(), ["a"])
        found = support.verbena("inspect", self.data).stdout
        self.assertNotIn("unfinished", found)
        self.assertRegex(found, "closed +cleanly")

    def test_a_killed_put_leaves_the_old_object(self):
        """A pipe is read before the store is taken: this is of a file."""
        data = content(9_000_000)
        source = self.file("source", data)
        self.put(b"old", "a")
        used = None
        for arguments in ([], ["--append"], ["--sync", "each"]):
            new = b"old" + data if arguments == ["--append"] else data
            for _ in self.kill_early("put", "--data", self.data, *arguments, source, "a"):
                self.assertIn(self.get("a"), (b"old", new))
                # The next that writes removes what is left of it.
                self.put(b"old", "a")
                self.assertEqual(self.names(), ["a"])
                self.assertNotIn("unfinished", support.verbena("inspect", self.data).stdout)
                now = self.used_chunks()
                self.assertEqual(now, used or now)
                used = now
        self.assertIn("no damage", support.verbena("scrub", self.data).stdout)

    def test_a_put_killed_while_it_reads_a_pipe(self):
        self.put(b"old", "a")
        process = self.start_put("a", content(9_000_000))
        process.kill()
        process.wait(support.SECONDS)
        self.assertEqual(self.get("a"), b"old")
        self.assertEqual(sorted(name for name in os.listdir(self.data) if not name.startswith("blocks.")), ["lock"])

    def used_chunks(self):
        return json.loads(support.verbena("inspect", "--json", self.data).stdout)["space"]["used_chunks"]

    def test_a_put_killed_while_it_makes_the_store(self):
        for delay_ms in (0, 1, 2, 4, 8, 16):
            process = subprocess.Popen([support.VERBENA, "put", "--data", self.data, "/dev/null", "a"],
                                       stderr=subprocess.DEVNULL)
            time.sleep(delay_ms / 1000)
            process.kill()
            process.wait(support.SECONDS)
            self.put(b"abc", "a")
            self.assertEqual(self.get("a"), b"abc")
            shutil.rmtree(self.data)

    def kill_early(self, *command):
        """Runs it once to the end; then kills it, each time later. Yields after each, the first included."""
        began = time.monotonic()
        self.assertEqual(subprocess.run([support.VERBENA, *command], capture_output=True, check=False,
                                        timeout=support.SECONDS).returncode, 0)
        took = time.monotonic() - began
        yield
        for part in range(KILLS):
            process = subprocess.Popen([support.VERBENA, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(took * part / KILLS)
            process.kill()
            process.wait(support.SECONDS)
            yield

    def test_killed_clones_renames_and_removals(self):
        old = content(20_000_000)
        self.put(old, "a")
        self.put(b"else", "b")
        for _ in self.kill_early("cp", "--data", self.data, "--replace", "a", "b"):
            self.assertIn(self.get("b"), (b"else", old))
            self.assertEqual(self.get("a"), old)
            self.put(b"else", "b")
        for _ in self.kill_early("mv", "--data", self.data, "b", "c"):
            names = self.names()
            self.assertIn(names, (["a", "b"], ["a", "c"]))
            self.assertEqual(self.get(names[1]), b"else")
            if names[1] == "c":
                self.expect(0, "mv", "c", "b")
        for _ in self.kill_early("rm", "--data", self.data, "a"):
            self.assertIn(self.names(), (["a", "b"], ["b"]))
            if "a" in self.names():
                self.assertEqual(self.get("a"), old)
            self.put(old, "a")
        self.assertIn("no damage", support.verbena("scrub", self.data).stdout)

    def test_killed_scrubs_and_salvages(self):
        old = content(20_000_000)
        self.put(old, "a")
        for _ in self.kill_early("scrub", self.data):
            self.put(b"b", "b")  # nobody holds the store
        new = self.path("new")
        for _ in self.kill_early("salvage", self.data, new):
            # All of it, or none under its name; and the old store is free.
            self.assertEqual(self.get("a"), old)
            if os.path.exists(new):
                found = subprocess.run([support.VERBENA, "get", "--data", new, "a", "-"], capture_output=True,
                                       check=True, timeout=support.SECONDS)
                self.assertEqual(found.stdout, old)
            elif os.path.exists(new + ".part"):
                again = support.verbena("salvage", self.data, new)
                self.assertEqual(again.returncode, EXISTS)
                self.assertIn("remove it first", again.stderr)
            subprocess.run(["rm", "-rf", new, new + ".part"], check=True)

    def test_get_leaves_no_file(self):
        self.put(content(30_000_000), "a")
        os.mkfifo(self.path("pipe"))
        for wanted in (signal.SIGINT, signal.SIGKILL):
            for target in (self.path("target"), self.path("pipe")):
                process = subprocess.Popen([support.VERBENA, "get", "--data", self.data, "a", target], stderr=subprocess.PIPE)
                reader = os.open(self.path("pipe"), os.O_RDONLY | os.O_NONBLOCK)
                process.send_signal(wanted)
                _, said = process.communicate(timeout=support.SECONDS)
                os.close(reader)
                # It may have been done before, and the pipe may have had no reader.
                self.assertIn(process.returncode, (-wanted, 128 + wanted, 0, 1), said)
                if process.returncode != 0 or target.endswith("pipe"):
                    self.assertEqual(sorted(os.listdir(self.place)), ["pipe", "store"])
                else:
                    self.assertEqual(len(self.read("target")), 30_000_000)
                    os.remove(self.path("target"))

    def test_get_into_a_pipe_that_is_full(self):
        """One signal ends it, though part of what it was writing has been taken."""
        self.put(content(3_000_000), "a")
        process = subprocess.Popen([support.VERBENA, "get", "--data", self.data, "a", "-"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.assertEqual(len(process.stdout.read(1)), 1)
        time.sleep(0.3)  # to fill the pipe; earlier is no harder
        process.send_signal(signal.SIGINT)
        try:
            self.assertEqual(process.wait(support.SECONDS), 128 + signal.SIGINT)
        finally:
            process.kill()
            process.communicate()


class Terminal(StoreTest):
    def shown(self, *arguments):
        """What a command writes to a terminal, its input coming slowly."""
        reader, writer = os.pipe()
        child, terminal = pty.fork()
        if child == 0:
            os.dup2(reader, 0)
            os.close(writer)
            os.execv(support.VERBENA, ["verbena", *arguments])
        os.close(reader)
        for _ in range(7):
            os.write(writer, content(50_000))
            time.sleep(0.2)
        os.close(writer)
        said = support.read_terminal(terminal)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, said)
        return said

    def test_shows_progress_after_a_second_and_leaves_no_line(self):
        said = self.shown("put", "--data", self.data, "--quiet", "-", "a")
        self.assertEqual(said, "")
        said = self.shown("put", "--data", self.data, "--no-progress", "-", "b")
        self.assertEqual(said, "")
        said = self.shown("put", "--data", self.data, "-", "c")
        self.assertRegex(said, r"^\rput  [\d.]+ \wi?B?  [\d.]+ .*/s\x1b\[K")
        self.assertTrue(said.endswith("\r\x1b[K"), said)


if __name__ == "__main__":
    support.main()
