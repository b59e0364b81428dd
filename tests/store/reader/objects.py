# SPDX-License-Identifier: Apache-2.0
"""The objects of a store as records change them, and their bytes."""
from collections import namedtuple

import chunks
import records

DRAFT = (1 << 64) - 1
Birth = namedtuple("Birth", "chunk, owner, index, txn")


class Inapplicable(Exception):
    """A valid record that does not fit the objects there are."""


class Object:
    """`map` has the birth and place of each chunk, by its index in the object; `content` is instead of chunks.
    `only_behind` has the ranges of indices that are not here, but in what is behind the store."""

    def __init__(self, number, identity, name, created):
        self.number, self.id, self.name, self.created = number, identity, name, created
        self.modified, self.size, self.content, self.map = created, 0, None, {}
        self.behind, self.only_behind = records.NOTHING, []
        self.lost = set()  # what tables have lost of it: state, runs, name, id

    def is_draft(self):
        return self.id[0] == DRAFT

    def add_runs(self, runs):
        for run in runs:
            self.replace(run.index, run.index + run.count)
            if run.held != records.HERE and not self.behind.version:
                raise Inapplicable(f"MAP of what is behind object {self.number}, but nothing is")
            if run.held == records.BEHIND:
                self.only_behind.append((run.index, run.index + run.count))
                continue
            for i in range(run.count):
                self.map[run.index + i] = Birth(run.chunk + i, run.owner, run.birth_index + i, run.txn)

    def replace(self, first, end):
        """Nothing is known of these indices any more."""
        if end - first > len(self.map):
            self.map = {index: birth for index, birth in self.map.items() if not first <= index < end}
        else:
            for index in range(first, end):
                self.map.pop(index, None)
        pieces = [piece for low, high in self.only_behind for piece in ((low, min(high, first)), (max(low, end), high))]
        self.only_behind = [(low, high) for low, high in pieces if low < high]

    def set_content(self, content):
        if chunks.crc(content[1]) != content[0]:
            raise Inapplicable(f"content of object {self.number} does not match its CRC")
        self.content, self.map, self.size, self.only_behind = content[1], {}, len(content[1]), []

    def grow(self, end, size):
        """To this size; its chunks before `end` are set."""
        if size < self.size or (end - 1) * chunks.DATA >= size:
            raise Inapplicable(f"{end} chunks and {size} bytes do not fit object {self.number} of {self.size} bytes")
        self.size = size

    def truncate(self, size):
        if self.content and size:
            raise Inapplicable(f"TRUNCATE of object {self.number}, which has content")
        self.content, self.size = None, size
        self.replace(-(-size // chunks.DATA), records.MAX_CHUNKS)


class Objects:
    """All objects by number; apply() changes them as the records of one transaction say."""

    def __init__(self, by_number, chunks_per_block, may_be_lost=lambda number: False):
        self.by_number, self._chunks_per_block, self._may_be_lost = by_number, chunks_per_block, may_be_lost

    def _get(self, number):
        """An object that the log names; None if nothing is known of it. It is found there, and not by the names and ids
        of tables."""
        if number not in self.by_number:
            if self._may_be_lost(number):
                return None
            raise Inapplicable(f"object {number} does not exist")
        one = self.by_number[number]
        one.lost -= {"name", "id"}
        return one

    def apply(self, transaction, time):
        changed = set()
        for record in transaction:
            self._apply_one(record)
            if record.type in (records.MAP, records.TRUNCATE, records.CONTENT, records.CLONE, records.TAKE):
                changed.add(record.number)
        for number in changed & self.by_number.keys():
            self.by_number[number].modified = time

    def _apply_one(self, record):
        number, fields = record.number, record.fields
        if record.type == records.CREATE:
            if number in self.by_number:
                raise Inapplicable(f"object {number} exists")
            self.by_number[number] = Object(number, fields["id"], fields["name"], fields["time"])
            return
        target = self._get(number)
        if record.type == records.DELETE:
            self.by_number.pop(number, None)
        elif target is not None and record.type == records.RENAME:
            target.name = fields["name"]
        elif target is not None and not target.lost:
            self._change(target, record)
        if record.type == records.TAKE:
            self.by_number.pop(fields["source"], None)

    def _change(self, target, record):
        fields = record.fields
        if record.type == records.MAP:
            for run in fields["runs"]:
                if run.held != records.BEHIND and not within_block(run, self._chunks_per_block):
                    raise Inapplicable("MAP of chunks of two blocks")
                target.grow(run.index + run.count, fields["size"])
            target.content = None
            target.add_runs(fields["runs"])
        elif record.type == records.TRUNCATE:
            target.truncate(fields["size"])
        elif record.type == records.CONTENT:
            target.set_content(fields["content"])
        elif record.type == records.CLONE:
            self._clone(target, fields)
        elif record.type == records.TAKE:
            source = self._get(fields["source"])
            if source is None or source.lost:
                target.lost.add("runs")
                return
            for what in ("size", "content", "map", "only_behind", "behind"):
                setattr(target, what, getattr(source, what))
        elif record.type == records.FLUSHED:
            if target.only_behind and not fields["behind"].version:
                raise Inapplicable(f"parts of object {target.number} are only behind, and nothing is")
            target.behind = fields["behind"]

    def _clone(self, target, fields):
        source = self._get(fields["source"])
        if source is None or source.lost:
            target.lost.add("runs")
            return
        if source.content or target.content:
            raise Inapplicable("CLONE of an object with content")
        target.grow(fields["to"] + fields["count"] if fields["count"] else 0, fields["size"])
        shift, end = fields["to"] - fields["from"], fields["from"] + fields["count"]
        shared = {index + shift: birth for index, birth in source.map.items() if fields["from"] <= index < end}
        if any(low < end and fields["from"] < high for low, high in source.only_behind):
            raise Inapplicable(f"CLONE of parts of object {source.number} that are only behind")
        target.replace(fields["to"], fields["to"] + fields["count"])
        target.map |= shared

    def shown(self):
        """As lists have them: without drafts, by name and then by id."""
        return sorted((one for one in self.by_number.values() if not one.is_draft()),
                      key=lambda one: (one.name.encode(), one.id))


def chunk_damage(medium, superblock, birth):
    """Why the data chunk is not what the log says, or None; and the chunk."""
    raw = medium.raw(birth.chunk, superblock.chunks_per_block)
    if raw is None:
        return "missing", None
    chunk = chunks.Chunk(raw)
    return chunk.why_not(id=birth.chunk, owner=birth.owner, index=birth.index, txn=birth.txn, store=superblock.store,
                         flags=0), chunk


def within_block(run, chunks_per_block):
    return run.chunk % chunks_per_block + run.count <= chunks_per_block


def read(medium, superblock, one):
    """The bytes of an object, with zeros for damaged chunks and for what is only behind; and the damage: offset, chunk, what
    does not match."""
    if one.content:
        return one.content, []
    data, damage = bytearray(one.size), []
    for index, birth in sorted(one.map.items()):
        offset = index * chunks.DATA
        wrong, chunk = chunk_damage(medium, superblock, birth)
        if wrong:
            damage.append({"offset": offset, "chunk": birth.chunk, "why": wrong})
            continue
        part = chunk.data()[:one.size - offset]
        data[offset:offset + len(part)] = part
    return bytes(data), damage
