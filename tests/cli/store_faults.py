#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The `verbena` command on a store whose disk fails: sectors that cannot be read, writes that fail once,
directories that cannot be read, files that are cut off while they are open.

store_faults.py VERBENA
"""
import os
import random
import shutil
import signal
import subprocess
import tempfile
import unittest

import support
from faulty_disk import PAGE, FaultyDisk

CHUNK = 4048
BLOCK = 8 << 20
FILE = "blocks.0of1.000"
NOT_DONE, DAMAGED = 1, 4


def content(size, seed):
    return random.Random(seed).randbytes(size)


OLD, NEW, OTHER = content(5 * CHUNK + 100, 1), content(6 * CHUNK + 7, 2), content(3 * CHUNK, 3)


def run(*arguments, **options):
    return subprocess.run([support.VERBENA, *arguments], capture_output=True, timeout=support.SECONDS, check=False,
                          **options)


def maps_of(pid):
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            return file.read()
    except OSError:  # it has ended meanwhile
        return ""


class Faults(unittest.TestCase):
    """A store with the objects `old` and `other` that was closed, as its files."""

    @classmethod
    def setUpClass(cls):
        os.environ["ASAN_OPTIONS"] = "detect_leaks=0"
        cls.files = {}
        with tempfile.TemporaryDirectory() as folder:
            for name, data in (("old", OLD), ("other", OTHER)):
                done = run("put", "--data", folder, "-", name, input=data)
                assert done.returncode == 0, done.stderr
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), "rb") as file:
                    cls.files[name] = file.read()

    def setUp(self):
        self.place = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.data = os.path.join(self.place, "store")
        os.mkdir(self.data)

    def disk(self):
        """The store on a disk that fails, until the test ends."""
        disk = FaultyDisk(self.data)
        for name, data in self.files.items():
            disk.names[name] = disk.next
            disk.files[disk.next] = bytearray(data)
            disk.next += 1
        disk.__enter__()
        self.addCleanup(disk.__exit__)
        return disk

    def on_disk(self):
        """The store in a directory."""
        for name, data in self.files.items():
            with open(os.path.join(self.data, name), "wb") as file:
                file.write(data)

    def run_on(self, command, *arguments, status=0, **options):
        done = run(command, "--data", self.data, *arguments, **options)
        self.assertEqual(done.returncode, status, (command, arguments, done.stderr))
        return done

    def look(self, expected, *, damaged=None):
        """Every object is as it should be."""
        for name, data in expected.items():
            self.assertEqual(self.run_on("get", name, "-").stdout, data, name)
        scrubbed = run("scrub", self.data)
        if damaged is not None:
            self.assertEqual(scrubbed.returncode, DAMAGED if damaged else 0, (scrubbed.stdout, scrubbed.stderr))

    def page_of(self, data):
        """Where on the medium these bytes are."""
        at = self.files[FILE].find(data)
        self.assertEqual(at % PAGE, 0)
        return at


class Unreadable(Faults):
    def test_one_of_two_copies(self):
        places = {
            "superblock a": [0],
            "superblock b": [BLOCK],
            "log, copy a": range(PAGE, 64 * PAGE, PAGE),
            "log, copy b": range(BLOCK + PAGE, BLOCK + 64 * PAGE, PAGE),
            "one page of the log": [2 * PAGE],
        }
        for what, pages in places.items():
            with self.subTest(what):
                disk = self.disk()
                disk.unreadable.update((FILE, page) for page in pages)
                names = self.run_on("ls", "--quiet").stdout.decode()
                self.assertIn("old", names)
                self.assertIn("other", names)
                self.look({"old": OLD, "other": OTHER}, damaged=True)
                saved = os.path.join(self.place, "salvaged")
                self.assertEqual(run("salvage", self.data, saved).returncode, 0)
                self.assertEqual(run("get", "--data", saved, "old", "-").stdout, OLD)
                self.run_on("put", "-", "old", input=NEW)
                self.run_on("put", "--kind", "staged", "-", "third", input=OLD)
                self.look({"old": NEW, "other": OTHER, "third": OLD}, damaged=None)
                self.doCleanups()
                self.setUp()

    def test_a_page_of_data(self):
        for kind in ("mapped", "staged"):
            with self.subTest(kind):
                disk = self.disk()
                page = self.page_of(OLD[2 * CHUNK:3 * CHUNK])
                disk.unreadable.add((FILE, page))
                self.assertIn(b"old", self.run_on("ls").stdout)
                failed = self.run_on("get", "old", "-", status=DAMAGED)
                self.assertIn(f"offset {2 * CHUNK}".encode(), failed.stderr)
                self.assertIn(b"unreadable", failed.stderr)
                kept = self.run_on("get", "--keep-going", "old", "-", status=DAMAGED).stdout
                self.assertEqual(kept, OLD[:2 * CHUNK] + bytes(CHUNK) + OLD[3 * CHUNK:])
                self.look({"other": OTHER}, damaged=True)
                # A part of the chunk cannot be replaced; all of it can.
                part = self.run_on("put", "--kind", kind, "--offset", str(2 * CHUNK + 5), "-", "old", input=b"x",
                                   status=DAMAGED)
                self.assertIn(f"offset {2 * CHUNK}".encode(), part.stderr)
                self.assertEqual(run("salvage", self.data, os.path.join(self.place, "salvaged")).returncode, DAMAGED)
                self.run_on("put", "--kind", kind, "--offset", str(2 * CHUNK), "-", "old", input=OLD[2 * CHUNK:3 * CHUNK])
                self.look({"old": OLD, "other": OTHER}, damaged=False)
                self.doCleanups()
                self.setUp()

    def test_free_chunks(self):
        """What is free is written as a whole, which needs no reading."""
        for kind in ("mapped", "staged"):
            with self.subTest(kind):
                disk = self.disk()
                used = self.page_of(OTHER[2 * CHUNK:])
                disk.unreadable.update((FILE, page) for page in range(used + PAGE, used + 100 * PAGE, PAGE))
                self.run_on("put", "--kind", kind, "-", "old", input=NEW)
                self.look({"old": NEW, "other": OTHER}, damaged=False)
                self.doCleanups()
                self.setUp()

    def test_both_superblocks(self):
        disk = self.disk()
        disk.unreadable.update({(FILE, 0), (FILE, BLOCK)})
        for command in (["ls"], ["get", "old", "-"], ["put", "-", "new"]):
            self.run_on(*command, status=DAMAGED, input=b"")
        self.assertEqual(run("scrub", self.data).returncode, DAMAGED)

    def test_the_directory(self):
        disk = self.disk()
        disk.readdir_fails = True
        for command in (["ls"], ["get", "old", "-"], ["put", "-", "new"]):
            failed = self.run_on(*command, status=NOT_DONE, input=b"")
            self.assertIn(b"Input/output error", failed.stderr)
        self.assertEqual(run("scrub", self.data).returncode, NOT_DONE)
        self.assertEqual(run("salvage", self.data, os.path.join(self.place, "salvaged")).returncode, NOT_DONE)


class FailedWrites(Faults):
    """The write of one page fails, once. The page cache shows it all the same."""

    def pages_that_put_writes(self, kind):
        disk = self.disk()
        disk.written.clear()
        self.run_on("put", "--kind", kind, "-", "old", input=NEW)
        self.doCleanups()
        self.setUp()
        return disk.written

    def check(self, kind):
        writes = self.pages_that_put_writes(kind)
        self.assertGreater(len(writes), 8)
        failures = 0
        for number in range(len(writes)):
            with self.subTest(kind=kind, number=number, page=writes[number]):
                disk = self.disk()
                left = [number]

                def fails(_name, _page, left=left):
                    left[0] -= 1
                    return left[0] == -1

                disk.fail_writes = fails
                done = run("put", "--data", self.data, "--kind", kind, "-", "old", input=NEW)
                disk.fail_writes = None
                self.assertEqual(len(disk.failed), 1)
                self.assertIn(done.returncode, (0, NOT_DONE), done.stderr)
                failures += done.returncode
                expected = NEW if done.returncode == 0 else OLD
                self.assertEqual(self.run_on("get", "old", "-").stdout, expected)
                self.run_on("put", "-", "third", input=OTHER)
                disk.drop_cache(FILE)
                self.look({"old": expected, "other": OTHER, "third": OTHER}, damaged=False)
            self.doCleanups()
            self.setUp()
        self.assertGreater(failures, 4)

    def test_mapped(self):
        self.check("mapped")

    def test_staged(self):
        self.check("staged")


class CutOff(Faults):
    """A file that is cut off while a command works with it."""

    def test_get(self):
        self.on_disk()
        big = content(8 << 20, 9)
        self.run_on("put", "-", "big", input=big)
        with subprocess.Popen([support.VERBENA, "get", "--data", self.data, "big", "-"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, bufsize=0) as process:
            first = process.stdout.read(1)  # it is at work, and waits for us
            os.truncate(os.path.join(self.data, FILE), 2 * BLOCK)
            rest, said = process.communicate(timeout=support.SECONDS)
        self.assertEqual(process.returncode, DAMAGED, said)
        self.assertTrue(big.startswith(first + rest))
        self.assertIn(b"unreadable", said)

    def test_put(self):
        # It is stopped while it works, which takes a few tries on a quick disk.
        for _ in range(20):
            self.on_disk()
            source = os.path.join(self.place, "source")
            with open(source, "wb") as file:
                file.write(content(8 << 20, 4))
            with subprocess.Popen([support.VERBENA, "put", "--data", self.data, source, "new"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as process:
                while process.poll() is None and FILE not in maps_of(process.pid):
                    pass
                process.send_signal(signal.SIGSTOP)
                os.truncate(os.path.join(self.data, FILE), 2 * BLOCK)
                process.send_signal(signal.SIGCONT)
                _, said = process.communicate(timeout=support.SECONDS)
            if process.returncode != 0:
                self.assertEqual(process.returncode, NOT_DONE, said)
                self.assertIn(b"cut off", said)
                return
            self.doCleanups()
            self.setUp()
        self.fail("put was always quicker")


if __name__ == "__main__":
    support.main()
