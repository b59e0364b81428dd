# SPDX-License-Identifier: Apache-2.0
"""What the tests of the independent reader share: a store made by the `verbena` command, and what both say of it."""
import datetime
import os
import signal
import subprocess
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(FOLDER, "reader"), os.path.join(FOLDER, "..", "cli")]

# isort: off
import chunks
import media
import reader
import superblocks
import support
from store import DAMAGED, StoreTest

GOLDEN = os.path.join(FOLDER, "..", "golden", "store", "v3")
DOCUMENT = os.path.join(FOLDER, "..", "..", "docs", "store-format.md")
READER = os.path.join(FOLDER, "reader", "reader.py")
MEMBERS = ("id", "name", "size", "created", "modified")


def nanoseconds(text):
    """Nanoseconds since 1970 from what the command prints."""
    seconds, fraction = text.removesuffix("Z").split(".")
    whole = datetime.datetime.fromisoformat(seconds).replace(tzinfo=datetime.timezone.utc)
    return int(whole.timestamp()) * 10**9 + int(fraction.ljust(9, "0"))


class ReaderTest(StoreTest):
    """A store in one directory or several. The `verbena` command and the reader must agree on it."""

    FOLDERS = 1
    maxDiff = 10_000

    def setUp(self):
        super().setUp()
        self.folders = [self.path(f"store{i}") for i in range(self.FOLDERS)]

    def run_text(self, command, *arguments, **options):
        return support.call([support.VERBENA, command, *self.data_options(), *arguments], **options)

    def run_raw(self, command, *arguments, **options):
        return support.call_raw([support.VERBENA, command, *self.data_options(), *arguments], **options)

    def data_options(self):
        return [word for folder in self.folders for word in ("--data", folder)]

    def open(self):
        store = reader.Store(self.folders)
        self.addCleanup(store.close)
        return store

    def put_batch(self, objects, times=1):
        """Objects by name, in one command. The list is a file: where it has to wait for a pipe, the command closes the
        store in between."""
        with open(self.batch_list(objects, times), "rb") as lines:
            self.expect(0, "put", "--batch", stdin=lines)

    def batch_list(self, objects, times):
        paths, lines = {}, []
        for name, data in objects.items():
            if data not in paths:
                paths[data] = self.file(f"batch{len(paths)}", data)
            lines.append(f"{paths[data]}\t{name}\n")
        return self.file("lines", "".join(lines * times).encode())

    def kill_batch(self, objects, delay_s):
        """A batch that is killed a little after it has opened the store, wherever it then is. The list is long: at its
        end the command would close the store."""
        with open(self.batch_list(objects, 200), "rb") as file, subprocess.Popen(
                [support.VERBENA, "put", *self.data_options(), "--batch"], stdin=file, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + support.SECONDS
            while self.is_closed():
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.001)
            time.sleep(delay_s)
            process.kill()
            self.assertEqual(process.wait(support.SECONDS), -signal.SIGKILL)

    def is_closed(self):
        """Whether no valid superblock says that the store is open for writing."""
        medium = media.Folders(self.folders)
        copies = superblocks.find_copies(medium)
        medium.close()
        return all(copy.valid is None or copy.valid.closed for copy in copies)

    def listed(self):
        """What `verbena ls` says, in the reader's terms."""
        return [entry | {"created": nanoseconds(entry["created"]), "modified": nanoseconds(entry["modified"])}
                for entry in ({member: entry[member] for member in MEMBERS} for entry in self.json("ls")["objects"])]

    @staticmethod
    def described(store):
        """The same by the reader."""
        return [{member: reader.describe(one)[member] for member in MEMBERS} for one in store.objects.shown()]

    def compare(self, expected=None):
        """The lists of both are equal, and the bytes of all objects; they are what is expected. The store."""
        store = self.open()
        self.assertEqual(store.report.damage, [])
        self.assertEqual(self.described(store), self.listed())
        contents = {}
        for one in store.objects.shown():
            data, damage = store.read(one)
            self.assertEqual(damage, [], one.name)
            contents[one.name or reader.identity(one)] = data
        if contents:
            done = self.run_raw("cat", "--", *contents)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout == b"".join(contents.values()))
        if expected is not None:
            self.assertEqual(sorted(contents), sorted(expected))
            for name, data in contents.items():
                self.assertTrue(data == expected[name], name)
        return store

    def compare_damaged(self):
        """Both agree on what is damaged, what is incomplete, and on all other bytes. The store, None if it is lost."""
        try:
            store = self.open()
        except reader.Unusable:
            for command in ("ls", "scrub"):
                self.json(command, status=DAMAGED)
            return None
        self.compare_scrub(store, self.compare_bytes(store))
        return store

    def compare_bytes(self, store):
        """Both list the same objects, and agree on their bytes and on the damage in them. The damaged chunks."""
        self.assertEqual(self.described(store), self.listed())
        damage, crcs = set(), {}
        for one in store.objects.shown():
            data, wrong = store.read(one)
            crcs[reader.identity(one)] = None if wrong else f"{chunks.crc(data):08x}"
            damage |= {(reader.identity(one), entry["offset"], entry["chunk"]) for entry in wrong}
        verified = self.json("verify", *crcs, status=DAMAGED if damage else 0)
        self.assertEqual({entry["id"]: entry["crc32"] for entry in verified["objects"]}, crcs)
        named = [error["damage"] for error in verified["errors"] if "damage" in error]
        self.assertEqual({(entry["object"], entry["offset"], entry["chunk"]) for entry in named}, damage)
        return {chunk for _, _, chunk in damage}

    def compare_scrub(self, store, data_chunks):
        """Scrub finds the same damage to data, log and superblocks."""
        damaged = data_chunks | {entry["chunk"] for entry in store.report.damage}
        scrubbed = self.json("scrub", status=DAMAGED if damaged else 0)
        self.assertEqual({entry["chunk"] for entry in scrubbed["damage"]}, damaged)
        # Scrub looks for the end of the log in each extent, and may count copies past it in a later one.
        past_end = any(place.chunk for number, place in store.log.places.items() if number > store.log.first_missing)
        self.assertGreaterEqual(scrubbed["incomplete"], len(store.report.incomplete))
        self.assertTrue(past_end or scrubbed["incomplete"] == len(store.report.incomplete))

    def chunk_file(self, number):
        """The file and the offset of a chunk, of stores whose media have one file each."""
        block, place = divmod(number, 2048)
        block, medium = divmod(block, self.FOLDERS)
        path = os.path.join(self.folders[medium], f"blocks.{medium}of{self.FOLDERS}.000")
        return path, (block * 2048 + place) * chunks.SIZE

    def change(self, number, change):
        """Changes a chunk; what it was."""
        path, offset = self.chunk_file(number)
        with open(path, "r+b") as file:
            file.seek(offset)
            old = file.read(chunks.SIZE)
            file.seek(offset)
            file.write(change(old))
        return old

    def while_damaged(self, numbers, change, check):
        """The result of a check while some chunks are damaged."""
        old = [(number, self.change(number, change)) for number in numbers]
        try:
            return check()
        finally:
            for number, raw in reversed(old):
                self.change(number, lambda _, raw=raw: raw)


def zeros(_old):
    return bytes(chunks.SIZE)


def flipped(old):
    return bytes([old[0] ^ 1]) + old[1:]
