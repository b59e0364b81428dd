#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stores of which files are missing or were cut off: what was there is lost and named, and nothing else is.

store_lost_files.py VERBENA
"""
import json
import os
import shutil

import support
from store import CHUNK, DAMAGED, StoreTest, content

BLOCK = 8 << 20


class LostFiles(StoreTest):
    """Files of 8, 1, 1, 2 and 1 blocks (as on a disk that was nearly full), and objects in and over them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.contents = {"small": content(10_000, 1), "first": content(4_000_000, 2), "over": content(9_000_000, 3),
                        "middle": content(7_000_000, 4), "large": content(13_000_000, 5), "last": content(9_000_000, 6),
                        "clone": content(4_000_000, 2)}

    def setUp(self):
        super().setUp()
        capacities = {"small": 8, "first": 8, "filler": 8, "over": 9, "middle": 10, "large": 12, "last": 13}
        for name, blocks in capacities.items():
            self.put(self.contents.get(name, bytes(42_000_000)), name, "--capacity", str(blocks * BLOCK))
        self.expect(0, "rm", "filler")
        self.expect(0, "cp", "first", "clone")
        self.files = self.store_files()
        self.assertEqual([os.path.getsize(path) // BLOCK for path in self.files], [8, 1, 1, 2, 1])

    def chunks_in(self, lost):
        """Of each object, the offsets of those chunks that lost(position in all files together) is true of."""
        found = {}
        for entry in self.json("stat", "--segments", *self.contents)["objects"]:
            offsets = set()
            for segment in entry["segment_list"]:
                for i in range(segment["count"]):
                    if lost((segment["chunk"] + i) * 4096):
                        offsets.add(segment["offset"] + i * CHUNK)
            found[entry["name"]] = offsets
        return found

    def check(self, lost):
        """Each byte that is not lost comes back; the others are named; salvage brings over the same."""
        self.assertTrue(any(lost.values()))
        done = self.run_raw("get", "--keep-going", "-r", "", self.path("files"))
        self.assertEqual(done.returncode, DAMAGED, done.stderr[:1000])
        count = sum(map(len, lost.values()))
        if count > 1000:
            self.assertIn(f"... and {count - 1000} more errors\n".encode(), done.stderr)
        self.assertLess(done.stderr.count(b"\n"), 1010)
        self.compare(lost)
        for name, offsets in lost.items():
            done = self.run_raw("get", "--length", "0" if offsets else "1", name, self.path("target"))
            self.assertEqual(done.returncode, 0, done.stderr[:1000])  # others are not affected at all
            if offsets:
                done = self.run_raw("get", name, self.path("target"))
                self.assertEqual(done.returncode, DAMAGED)
                self.assertIn(f"at offset {min(offsets)} ".encode(), done.stderr)
        new = self.path("new")
        done = support.verbena("salvage", "--json", self.data, new)
        self.assertEqual(done.returncode, DAMAGED, done.stderr)
        found = json.loads(done.stdout)
        self.assertTrue(found["by_log"])
        self.assertEqual(found["bad_chunks"], sum(map(len, lost.values())))
        for name, offsets in lost.items():
            said = [line for line in found["guesses"] if f"'{name}'" in line]
            self.assertEqual(bool(said), bool(offsets), name)
        done = support.verbena("get", "-r", "--data", new, "", self.path("files"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.compare(lost)
        shutil.rmtree(new)

    def compare(self, lost):
        for name, data in self.contents.items():
            expected = bytearray(data)
            for at in lost[name]:
                expected[at:at + CHUNK] = bytes(min(CHUNK, len(data) - at))
            self.assertTrue(self.read(os.path.join("files", name)) == bytes(expected), name)
        shutil.rmtree(self.path("files"))

    def begin_of(self, index):
        return sum(os.path.getsize(path) for path in self.files[:index])

    def test_that_are_missing(self):
        for index in range(1, len(self.files)):
            begin, end = self.begin_of(index), self.begin_of(index + 1)
            lost = self.chunks_in(lambda at: begin <= at < end)
            aside = self.path("aside")
            os.rename(self.files[index], aside)
            self.check(lost)
            if index + 1 < len(self.files):
                said = self.put(b"", "new", status=DAMAGED)
                self.assertIn(os.path.basename(self.files[index]) + " is missing", said)
                self.assertIn("salvage", said)
                done = support.verbena("scrub", self.data)
                self.assertEqual(done.returncode, DAMAGED)
                self.assertIn("is missing", done.stdout)
                self.assertEqual(support.verbena("inspect", self.data).returncode, DAMAGED)
            os.rename(aside, self.files[index])
        self.assertEqual(support.verbena("scrub", "--quiet", self.data).returncode, 0)

    def test_that_were_cut(self):
        """Inside a chunk, and between two blocks."""
        for index, keep in ((0, 18_000_001), (1, 3_000_000), (3, BLOCK), (3, BLOCK + 4096), (4, 4095)):
            begin = self.begin_of(index)
            whole = os.path.getsize(self.files[index])
            lost = self.chunks_in(lambda at: begin + keep // 4096 * 4096 <= at < begin + whole)
            aside = self.path("aside")
            shutil.copyfile(self.files[index], aside)
            os.truncate(self.files[index], keep)
            self.check(lost)
            os.rename(aside, self.files[index])

    def test_of_the_first(self):
        """The superblocks are gone: chunks tell whose they are, and salvage says what it does not know."""
        os.remove(self.files[0])
        self.expect(DAMAGED, "ls")
        done = support.verbena("salvage", "--json", self.data, self.path("new"))
        self.assertEqual(done.returncode, DAMAGED)
        found = json.loads(done.stdout)
        self.assertFalse(found["by_log"])
        self.assertEqual(found["lost_files"], 1)
        self.assertTrue(any("blocks.0of1.000 is missing" in guess for guess in found["guesses"]))


if __name__ == "__main__":
    support.main()
