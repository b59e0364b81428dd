#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A reader that was written from docs/store-format.md alone, on golden stores and on random ones of the command.

reader_test.py VERBENA
"""
import json
import os
import random
import re
import unittest

# isort: off
from reader_support import DOCUMENT, GOLDEN, READER, ReaderTest  # first: it says where the others are
import chunks
import extents
import reader
import records
import superblocks
import support

NAMES = ["a", "b", "folder/a", "folder/b", "naïve 名前", "c" * 1000, "9:17", "d"]


def golden(name):
    with open(os.path.join(GOLDEN, f"{name}.chunk"), "rb") as file:
        return file.read()


def golden_bytes(length, seed):
    return bytes((seed * 131 + i + (i >> 8) * 7) & 255 for i in range(length))


class Golden(unittest.TestCase):
    def test_chunks_are_those_of_the_document(self):
        with open(DOCUMENT, encoding="utf-8") as file:
            examples = re.findall(r"```hex (\S+)\n(.*?)```", file.read(), re.DOTALL)
        self.assertGreater(len(examples), 3)
        for name, lines in examples:
            expected = bytearray(chunks.SIZE)
            for at, data in re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)", lines, re.MULTILINE):
                data = bytes.fromhex(data)
                expected[int(at, 16):int(at, 16) + len(data)] = data
            self.assertTrue(golden(name) == expected, name)

    def test_states(self):
        names = [name.removesuffix(".chunk") for name in os.listdir(GOLDEN) if name.endswith(".chunk")]
        self.assertGreater(len(names), 10)
        for name in names:
            self.assertEqual(chunks.Chunk(golden(name)).state, "plain" if name == "plain" else "good", name)
        self.assertTrue(chunks.Chunk(golden("log-a")).same_copy(chunks.Chunk(golden("log-b"))))

    def test_records(self):
        found = list(records.decode(chunks.Chunk(golden("log-every-record")).data(), records.IN_LOG))
        # A cache's are in tests/cli/store_behind.py.
        self.assertEqual({record.type for record in found}, records.IN_LOG - {records.FLUSHED, records.TAKE})
        for name, kinds in (("head", {records.TABLE}), ("objects", {records.OBJECT, records.DELETE}),
                            ("runs", {records.MAP}), ("names", {records.NAME}), ("ids", {records.ID})):
            found = list(records.decode(chunks.Chunk(golden(f"table-{name}")).data(), kinds))
            self.assertEqual({record.type for record in found}, kinds)

    def test_superblocks(self):
        self.assertEqual(superblocks.Superblock(golden("superblock-a")).chunk.id, 0)
        self.assertEqual(superblocks.Superblock(golden("superblock-b")).chunk.id, 2048)
        full = superblocks.Superblock(golden("superblock-full"))
        self.assertEqual(len(full.tables) + len(full.log), superblocks.EXTENTS)
        with self.assertRaises(superblocks.Refused) as refused:
            superblocks.Superblock(golden("superblock-version-2"))
        self.assertEqual(refused.exception.reason, "version")

    def test_whole_store(self):
        path = os.path.join(GOLDEN, "whole-store.chunks")
        done = support.call_raw([READER, path, "--check"])
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        store = reader.Store([path])
        self.assertEqual((found["damage"], found["incomplete"]), ([], []))
        clone, late, sparse = bytearray(golden_bytes(12244, 1)), golden_bytes(8096, 9), bytes(9 * 4048 + 5)
        clone[4058:4078] = golden_bytes(20, 3)
        expected = {"0:2": golden_bytes(10, 2), "clone of the first": clone, "cut": golden_bytes(4049, 5), "empty": b"",
                    "first": golden_bytes(12244, 1), "late": late, "part of the late": late[4048:],
                    "sparse, renamed ü": sparse + golden_bytes(4048, 4)}
        self.assertEqual([one["name"] or one["id"] for one in found["objects"]], list(expected))
        for one in found["objects"]:
            name = one["name"] or one["id"]
            self.assertEqual((one["size"], one["damage"]), (len(expected[name]), []))
            self.assertTrue(store.read(store.find(name))[0] == expected[name], name)
            if name in ("0:2", "clone of the first", "sparse, renamed ü"):
                self.assertTrue(support.call_raw([READER, path, "--cat", name]).stdout == expected[name], name)
        self.assertEqual(support.call_raw([READER, path, "--cat", "none"]).returncode, reader.NO_OBJECT)


class RandomStores(ReaderTest):
    """Operations at random, and after every few of them the comparison. READER_SEED selects others."""

    STEPS = 24

    def setUp(self):
        super().setUp()
        self.random = random.Random(self.id() + os.environ.get("READER_SEED", ""))
        self.model = {}

    def some_bytes(self):
        return self.random.randbytes(
            self.random.choice([0, 1, 100, 512, 513, 4047, 4048, 4049, 20_000, 100_000, 1_000_000]))

    def some_object(self):
        return self.random.choice(list(self.model))

    def do_put(self):
        name, data = self.random.choice(NAMES), self.some_bytes()
        self.put(data, name)
        self.model[name] = data

    def do_put_at_offset(self):
        name, data, offset = self.some_object(), self.some_bytes() or b"1", self.random.randrange(50_000)
        self.put(data, name, "--offset", str(offset))
        old = self.model[name].ljust(offset, b"\0")
        self.model[name] = old[:offset] + data + old[offset + len(data):]

    def do_append(self):
        name, data = self.some_object(), self.some_bytes()
        self.put(data, name, "--append")
        self.model[name] += data

    def do_put_sparse(self):
        name, size = self.random.choice(NAMES), self.random.randrange(1, 3_000_000)
        path = self.file("sparse", b"")
        os.truncate(path, size)
        with open(path, "r+b") as file:
            for _ in range(3):
                file.seek(self.random.randrange(size))
                file.write(self.random.randbytes(self.random.randrange(1, 9000)))
        self.expect(0, "put", path, name)
        self.model[name] = self.read("sparse")

    def do_batch(self):
        objects = {f"batch/{self.random.randrange(100)}": self.some_bytes() for _ in range(self.random.randrange(1, 20))}
        self.put_batch(objects)
        self.model |= objects

    def do_copy(self):
        source, target = self.some_object(), self.random.choice(NAMES)
        if source != target:
            self.expect(0, "cp", "--replace", "--", source, target)
            self.model[target] = self.model[source]

    def do_copy_range(self):
        source, target = self.some_object(), self.random.choice(NAMES)
        data, old = self.model[source], self.model.get(target)
        if source == target or not data:
            return
        offset = self.random.randrange(len(data))
        length = self.random.randrange(len(data) - offset) + 1
        to = self.random.choice([0, offset, offset // 4048 * 4048, self.random.randrange(30_000)])
        into = old is not None and self.random.random() < 0.5
        self.expect(0, "cp", "--range", f"{offset}:{length}", "--to", str(to), "--into" if into else "--replace", "--",
                    source, target)
        old = (old if into else b"").ljust(to, b"\0")
        self.model[target] = old[:to] + data[offset:offset + length] + old[to + length:]

    def do_move(self):
        source, target = self.some_object(), self.random.choice(NAMES)
        if target not in self.model and "9:17" not in (source, target):
            self.expect(0, "mv", "--", source, target)
            self.model[target] = self.model.pop(source)

    def do_remove(self):
        name = self.some_object()
        self.expect(0, "rm", "--", name)
        del self.model[name]

    def test_random_operations(self):
        makes = [self.do_put, self.do_put_sparse, self.do_batch]
        changes = [self.do_put_at_offset, self.do_append, self.do_copy, self.do_copy_range, self.do_copy_range,
                   self.do_move, self.do_remove]
        for step in range(self.STEPS):
            self.random.choice(makes + (changes if self.model else []))()
            if step % 8 == 7:
                self.compare(self.model)


class RandomStoresInTwoDirectories(RandomStores):
    FOLDERS = 2


class Tables(ReaderTest):
    """Enough objects for several tables, with changes of older ones in the newer ones and in the log."""

    def test_several_tables(self):
        data = [random.Random(seed).randbytes(size) for seed, size in enumerate((0, 50, 400, 600, 9000))]
        model = {f"{i:04}" + "n" * 900: data[i % 5] for i in range(300)}
        self.put_batch(model)
        # A table that is not merged with the one before, which is more than twice as large.
        changed = {f"object {i:04}": data[i % 4] for i in range(600)} | {name: data[3] for name in list(model)[::9]}
        self.put_batch(changed, times=2)
        model |= changed
        removed = list(model)[100:140]
        self.expect(0, "rm", *removed)
        for name in removed:
            del model[name]
        self.expect(0, "mv", "object 0001", "another name")
        model["another name"] = model.pop("object 0001")
        self.expect(0, "mv", "object 0002", "--no-name")
        unnamed = [entry["id"] for entry in self.listed() if entry["name"] is None]
        self.assertEqual(len(unnamed), 1)
        model[unnamed[0]] = model.pop("object 0002")
        store = self.compare(model)
        self.assertTrue(any(one.content for one in store.objects.shown()))
        self.assertGreater(len(extents.table_places(store.medium, store.superblock)), 1)
        self.assertGreater(store.log.end, store.superblock.replay_from)


class Compacted(ReaderTest):
    """Chunks that were moved have another place and birth; objects, clones and times are the same."""

    def test_compacted(self):
        data = random.Random(1).randbytes(300_000)
        self.put(bytes(62_000_000), "filler")
        model = {f"object {i}": data[i * 1000:i * 40_000 + 200] for i in range(8)}
        self.put_batch(model)
        self.put(data * 10, "large")
        self.expect(0, "cp", "--range", "40480:100000", "large", "clone")
        model |= {"large": data * 10, "clone": (data * 10)[40480:140480]}
        self.expect(0, "rm", "filler")
        before = self.described(self.compare(model))
        files = self.store_files(self.folders[0])
        self.expect(0, "compact")
        self.assertLess(len(self.store_files(self.folders[0])), len(files))
        self.assertEqual(self.described(self.compare(model)), before)


if __name__ == "__main__":
    support.main()
