#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several of the store's commands at once: nobody is kept out by a pipe that stalls, and no writer by readers.

store_shared.py VERBENA
"""
import fcntl
import os
import subprocess
import time

import support
from store import CHUNK, IN_USE, StoreTest, content


class SlowPipes(StoreTest):
    def stalled(self, *arguments, data=b"first "):
        process = subprocess.Popen([support.VERBENA, "put", "--data", self.data, *arguments], stdin=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        process.stdin.write(data)
        process.stdin.flush()
        return process

    def test_lock_nobody_out(self):
        self.put(b"old", "a")
        process = self.stalled("-", "a")
        for i in range(3):
            self.put(b"other", f"other {i}", "--wait", "0")
            self.assertEqual(self.get("a", "--wait", "0"), b"old")
        process.stdin.write(b"and last")
        process.stdin.close()
        self.assertEqual(process.wait(support.SECONDS), 0, process.stderr.read())
        self.assertEqual(self.get("a"), b"first and last")
        self.assertEqual(self.names(), ["a", "other 0", "other 1", "other 2"])

    def test_of_more_than_memory_holds(self):
        """It goes through a file without a name, of which nothing is left."""
        data = content(20_000_000)
        for directory in (None, self.path("temporary")):
            if directory:
                os.mkdir(directory)
                os.environ["TMPDIR"] = directory
            process = self.stalled("-", "large", data=data[:-1])
            self.put(b"", "other", "--wait", "5")
            process.stdin.write(data[-1:])
            process.stdin.close()
            self.assertEqual(process.wait(support.SECONDS), 0, process.stderr.read())
            self.assertEqual(self.get("large"), data)
        del os.environ["TMPDIR"]
        self.assertEqual(os.listdir(self.path("temporary")), [])
        self.assertEqual([name for name in os.listdir(self.data) if not name.startswith("blocks.")], ["lock"])

    def test_into_a_new_store_make_it_at_the_end(self):
        process = self.stalled("-", "a")
        self.assertFalse(os.path.exists(self.data))
        process.stdin.close()
        self.assertEqual(process.wait(support.SECONDS), 0)
        self.assertEqual(self.get("a"), b"first ")

    def test_of_parts(self):
        data = bytearray(content(3 * CHUNK))
        self.put(data, "a")
        process = self.stalled("--offset", "5000", "-", "a")
        self.put(b"end", "a", "--append", "--wait", "0")  # meanwhile
        process.stdin.close()
        self.assertEqual(process.wait(support.SECONDS), 0)
        data[5000:5006] = b"first "
        self.assertEqual(self.get("a"), data + b"end")

    def test_of_a_batch(self):
        """What has come is stored, and others have the store, before the next line is there."""
        process = self.stalled("--batch", data=f"{self.file('a', b'of a')}\tone\n".encode())
        while self.run_text("ls", "--quiet").stdout.count("one") == 0:
            time.sleep(0.01)
        self.put(b"other", "other", "--wait", "5")
        process.stdin.write(f"{self.path('a')}\ttwo\n".encode())
        process.stdin.close()
        self.assertEqual(process.wait(support.SECONDS), 0, process.stderr.read())
        self.assertEqual(self.names(), ["one", "other", "two"])
        self.assertEqual(self.get("two"), b"of a")


class Readers(StoreTest):
    def test_do_not_starve_writers(self):
        """Where one waits to write, who comes to read waits, too."""
        self.put(b"old", "a")
        with open(os.path.join(self.data, "lock"), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)  # as those do that read
            self.assertEqual(self.get("a", "--wait", "0"), b"old")
            writer = subprocess.Popen([support.VERBENA, "put", "--data", self.data, "--wait", "60", "/dev/null", "a"])
            deadline = time.monotonic() + support.SECONDS
            done = None
            while done is None or done.returncode == 0:  # until it waits
                self.assertLess(time.monotonic(), deadline, "readers get in for ever")
                done = self.run_text("ls", "--wait", "0")
            self.assertEqual(done.returncode, IN_USE)
            self.assertIn("waits to write", done.stderr)
            self.assertIsNone(writer.poll())
        self.assertEqual(writer.wait(support.SECONDS), 0)
        self.assertEqual(self.get("a"), b"")


if __name__ == "__main__":
    support.main()
