#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Killed writers, damage, and parts of other histories: the independent reader and the `verbena` command agree on what can
be read and on what is damaged.

reader_damage_test.py VERBENA
"""
import json
import os
import random
import shutil

# isort: off
from reader_support import ReaderTest, flipped, zeros  # first: it says where the others are
import chunks
import extents
import reader
import support
import tables
from store import DAMAGED


class DamageTest(ReaderTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(self.id() + os.environ.get("READER_SEED", ""))

    def objects(self, prefix, count, sizes=(100, 5000, 60_000)):
        return {f"{prefix}{i}": self.random.randbytes(sizes[i % len(sizes)]) for i in range(count)}

    def make(self):
        """A store that was opened several times, with a clone and an object of few bytes."""
        self.put_batch(self.objects("object ", 3))
        self.put(self.random.randbytes(50_000), "large")
        self.expect(0, "cp", "large", "clone")
        self.expect(0, "rm", "object 1")

    def superblock_places(self):
        return 0, 2048

    def log_places(self, store, beyond=0):
        """The places of both copies of each log chunk that is there, past this one."""
        return [place.places for place in extents.log_places(store.medium, store.superblock)
                if place.chunk and place.number > beyond]

    def check(self, numbers, change, lost=False):
        """Damages some chunks; whether the whole store is lost by it."""
        with self.subTest(chunks=numbers, change=change.__name__):
            self.assertEqual(self.while_damaged(numbers, change, self.compare_damaged) is None, lost)


class Closed(DamageTest):
    def test_superblocks(self):
        self.make()
        for number in self.superblock_places():
            for change in (zeros, flipped):
                self.check([number], change)
        self.check(self.superblock_places(), flipped, lost=True)

    def test_log(self):
        self.make()
        log = self.log_places(self.open())
        self.assertGreater(len(log), 3)
        self.check([a for a, _ in log], flipped)
        self.check([b for _, b in log], zeros)
        self.check([self.random.choice(copies) for copies in log], zeros)
        for copies in (log[0], log[-1]):
            self.check(copies, zeros, lost=True)
        # Without copy b of the superblock nobody knows that there was more.
        self.check([*log[-1], self.superblock_places()[1]], zeros)
        self.check([*log[-2], self.superblock_places()[1]], zeros, lost=True)

    def test_data(self):
        self.make()
        store = self.open()
        clone, other = store.find("clone"), store.find("object 2")
        self.check([clone.map[3].chunk], flipped)
        self.check([clone.map[0].chunk, clone.map[7].chunk, other.map[0].chunk], zeros)
        # A good chunk in a wrong place.
        good = store.medium.raw(clone.map[1].chunk, store.superblock.chunks_per_block)
        self.check([clone.map[2].chunk], lambda _: good)


    def test_a_file_that_was_cut_off(self):
        self.make()
        clone = self.open().find("clone")
        path, offset = self.chunk_file(clone.map[5].chunk)
        os.truncate(path, offset + 100)
        store = self.open()
        self.assertEqual([entry["what"] for entry in store.report.damage], ["file"])
        self.assertIn(clone.map[5].chunk, self.compare_bytes(store))


class ClosedInTwoDirectories(Closed):
    FOLDERS = 2


class Killed(DamageTest):
    """What a killed writer has left, and of that what a power failure may have left."""

    def test_killed_batches(self):
        self.put_batch(self.objects("before ", 3))
        for i in range(3):
            self.kill_batch(self.objects(f"batch {i} ", 40), self.random.random() / 10)
            store = self.compare_damaged()
            self.assertFalse(store.root.closed)
            self.check_tail(store)
            self.put(b"after", f"after {i}")
            self.compare()

    def check_tail(self, store):
        tail = self.log_places(store, beyond=store.log.watermark)
        if not tail:
            return
        copies = self.random.choice(tail)
        self.check([self.random.choice(copies)], zeros)
        self.check(copies, self.random.choice((zeros, flipped)))
        data = [birth.chunk for one in store.objects.by_number.values() for birth in one.map.values()]
        self.check([self.random.choice(data[-20:])], flipped)

    def test_what_did_not_count_never_returns(self):
        self.put_batch(self.objects("before ", 3))
        self.kill_batch(self.objects("batch ", 30), 0.05)
        store = self.open()
        tail = self.log_places(store, beyond=store.log.watermark)
        for number in tail[0] if tail else ():
            self.change(number, zeros)
        left = self.described(self.compare_damaged())
        self.put(b"after", "after")
        store = self.compare()
        self.assertEqual([entry for entry in self.described(store) if entry["name"] != "after"], left)


def copy_allocated(source, target):
    """Copies a file without writing its zeros, and without holes."""
    step = 1 << 20
    with open(source, "rb") as old, open(target, "wb") as new:
        size = os.fstat(old.fileno()).st_size
        if size:
            os.posix_fallocate(new.fileno(), 0, size)
        for at in range(0, size, step):
            part = old.read(step)
            if part != bytes(len(part)):
                os.pwrite(new.fileno(), part, at)


class Histories(DamageTest):
    """Superblocks and directories of a copy that was written to, of a backup, and of another store."""

    FOLDERS = 2

    def setUp(self):
        super().setUp()
        self.make()
        self.backup = self.save("backup")
        self.put(b"in one history", "one")
        self.one = self.save("one")
        self.restore(self.backup)
        self.put(b"in the other", "other")
        self.put(b"and again", "other")

    def save(self, name):
        for i, folder in enumerate(self.folders):
            shutil.copytree(folder, self.path(f"{name}{i}"), copy_function=copy_allocated)
        return [self.path(f"{name}{i}") for i in range(self.FOLDERS)]

    def restore(self, saved, only=(0, 1)):
        for i in only:
            shutil.rmtree(self.folders[i])
            shutil.copytree(saved[i], self.folders[i], copy_function=copy_allocated)

    def superblock_of(self, folders, number):
        with open(self.chunk_file(number)[0].replace(self.folders[number // 2048], folders[number // 2048]), "rb") as file:
            return file.read(4096)

    def test_superblocks_of_others(self):
        for number in self.superblock_places():
            for folders in (self.backup, self.one):
                self.check([number], lambda _, folders=folders, number=number: self.superblock_of(folders, number))
        other = [self.path(f"another{i}") for i in range(2)]
        done = support.verbena("put", "--data", other[0], "--data", other[1], "/dev/null", "a")
        self.assertEqual(done.returncode, 0, done.stderr)
        for number in self.superblock_places():
            self.check([number], lambda _, number=number: self.superblock_of(other, number))

    def test_a_directory_of_another_history(self):
        latest = self.save("latest")
        for saved in (self.backup, self.one):
            for i in range(2):
                self.restore(latest)
                self.restore(saved, only=[i])
                with self.subTest(saved=saved, directory=i):
                    self.compare_damaged()


def earlier(old):
    """A chunk of objects, of another table of the same opening, in which the first was modified earlier."""
    data = bytearray(old)
    data[33:41] = bytes(8)
    data[4064:4069] = (int.from_bytes(data[4064:4069], "big") + 1).to_bytes(5, "big")
    data_crc = chunks.crc(bytes(data[:chunks.DATA]))
    data[4084:4088] = data_crc.to_bytes(4, "big")
    data[4092:] = chunks.crc(bytes(data[chunks.DATA:4092]), data_crc).to_bytes(4, "big")
    return bytes(data)


class DamagedTables(DamageTest):
    """Of a table that has lost a chunk, objects in other chunks are found."""

    def test_lost_chunks(self):
        self.put_batch(self.objects("n" * 900, 300, sizes=(10, 700)))
        self.put_batch(self.objects("object ", 600, sizes=(10, 700)) | {"n" * 900 + "7": b"changed"}, times=2)
        store = self.open()
        self.assertTrue(any(one.content for one in store.objects.shown()))
        self.assertEqual(store.log.end, store.superblock.replay_from)
        names = {one.name for one in store.objects.shown()}
        stored = extents.table_places(store.medium, store.superblock)
        self.assertGreater(len(stored), 1)
        for places in stored:
            self.check([place.places[0] for place in places], zeros)
            self.check(places[0].places, zeros, lost=True)
            sections = tables.Table(places, 2048).head["sections"]
            first = 1
            for count in sections:
                lost = places[self.random.randrange(first, first + count)]
                with self.subTest(table=places[0].places, chunk=lost.number):
                    self.while_damaged(lost.places, zeros, lambda: self.compare_lost(names))
                first += count

    def test_a_write_that_was_lost(self):
        """A copy, or both, are of another table that the same opening wrote there: they are not valid."""
        self.put_batch(self.objects("n" * 900, 300, sizes=(10, 700)))
        store = self.open()
        names = {one.name for one in store.objects.shown()}
        places = extents.table_places(store.medium, store.superblock)[0]
        objects = tables.Table(places, 2048).head["sections"][0]
        place = places[self.random.randrange(1, 1 + objects)]
        for number in place.places:
            self.check([number], earlier)
        self.while_damaged(place.places, earlier, lambda: self.compare_lost(names))

    def compare_lost(self, names):
        """The command fails on the objects that are lost, and reads the others."""
        store = self.open()
        found = {one.name: one for one in store.objects.shown() if not one.lost}
        lost = names - found.keys()
        self.assertTrue(lost)
        # Lists go on, and say that they may not be complete. They need neither runs nor ids, and a name that an older
        # table has is listed where a newer one has a gap, if the object's state is known.
        shown = {one.name for one in store.objects.shown() if not one.lost & {"state", "name"}}
        done = self.run_raw("ls", "--json")
        listed = {entry["name"] for entry in json.loads(done.stdout)["objects"]}
        stated = {one.name for one in store.objects.shown() if "state" not in one.lost}
        self.assertEqual((sorted(shown - listed)[:3], sorted(listed - stated)[:3]), ([], []))
        self.assertEqual(done.returncode, 0 if shown == names else DAMAGED)
        verified = self.json("verify", *sorted(names), status=DAMAGED)
        failed = {error["object"] for error in verified["errors"]}
        self.assertEqual(sorted(failed ^ lost)[:3], [])
        for entry in verified["objects"]:
            self.assertEqual(entry["crc32"], f"{chunks.crc(store.read(found[entry['name']])[0]):08x}")


if __name__ == "__main__":
    support.main()
