# SPDX-License-Identifier: Apache-2.0
"""The superblock: its fields and bounds, and where its two copies are."""
import struct

import chunks

MAGIC = b"VERBENA STORE\n"
VERSIONS = (3, 4)
EXTENTS = 141
HEAD = 90
EXTENT = 28

_FIELDS = struct.Struct(">14sIIIIQQQQQQQHH")
_EXTENT = struct.Struct(">IIHHQQ")


class Refused(Exception):
    """This chunk is not a superblock that can be used: chunk, magic, version or shape, and what is wrong."""

    def __init__(self, reason, why):
        super().__init__(f"{reason}: {why}")
        self.reason = reason


def epoch(txn):
    return txn >> 40


class Extent:
    """The same chunks of two blocks."""

    def __init__(self, raw, chunks_per_block):
        (self.block_a, self.block_b, self.first, self.count, self.sequence, self.txn) = _EXTENT.unpack(raw)
        self.chunks_per_block = chunks_per_block

    def places(self, i):
        """The numbers of both copies of chunk i."""
        return [block * self.chunks_per_block + self.first + i for block in (self.block_a, self.block_b)]

    def wrong(self, last_epoch):
        if self.block_a == self.block_b:
            return "one block for both copies"
        if self.first == 0 and min(self.block_a, self.block_b) < 2:
            return "the place of a superblock"
        if self.count == 0 or self.first + self.count > self.chunks_per_block:
            return "not within a block"
        if epoch(self.txn) > last_epoch:
            return "an epoch to come"
        return None


class Superblock:
    """A valid superblock. `raw` is its chunk; copies are equal if they differ in id and crc32 only."""

    def __init__(self, raw):
        self.chunk = chunk = chunks.Chunk(raw)
        if chunk.state in ("crc32", "data_crc"):
            raise Refused("chunk", chunk.state)
        (magic, self.version, self.store, self.chunks_per_block, self.media, self.generation, self.mark,
         self.previous, self.created, self.replay_from, self.durable, self.end, tables, log) = _FIELDS.unpack_from(raw)
        if magic != MAGIC:
            raise Refused("magic", magic)
        if self.version not in VERSIONS:
            raise Refused("version", self.version)
        if chunk.state != "good" or chunk.flags != chunks.SUPERBLOCK:
            raise Refused("chunk", "length or flags")
        if self.chunks_per_block not in (16 << i for i in range(8)):
            raise Refused("shape", "chunks per block")
        if tables + log > EXTENTS:
            raise Refused("shape", "too many extents")
        extents = [Extent(raw[HEAD + EXTENT * i:HEAD + EXTENT * (i + 1)], self.chunks_per_block)
                   for i in range(tables + log)]
        self.tables, self.log = extents[:tables], extents[tables:]
        self._check()

    def _check(self):
        chunk = self.chunk
        bounds = {
            "owner or index": chunk.owner == chunk.index == 0,
            "tag": self.store == chunk.store,
            "mark": self.mark == chunk.txn,
            "media": 1 <= self.media <= 1024,
            "replay_from": self.replay_from >= 1,
            "durable": self.durable >= self.replay_from - 1,
            "end": self.end == 0 or self.end > self.durable,
            "length": chunk.length == HEAD + EXTENT * len(self.tables + self.log),
        }
        for field, fits in bounds.items():
            if not fits:
                raise Refused("shape", field)
        for extent in self.tables + self.log:
            wrong = extent.wrong(epoch(self.mark))
            if wrong:
                raise Refused("shape", f"extent: {wrong}")

    @property
    def closed(self):
        return self.end != 0

    def last_needed(self):
        """The last log chunk that must be there."""
        return self.end - 1 if self.closed else self.durable

    def encoding(self, number):
        """The chunk with another id."""
        raw = bytearray(self.chunk.raw)
        raw[4048:4056] = number.to_bytes(8, "big")
        raw[4092:] = chunks.crc(bytes(raw[:4092])).to_bytes(4, "big")
        return bytes(raw)


class Copy:
    """What is in the place of one copy: `valid`, a superblock, or None and the reason."""

    def __init__(self, name, number, raw):
        self.name, self.number, self.raw = name, number, raw
        self.valid, self.reason = None, "chunk"
        if raw is None:
            return
        try:
            superblock = Superblock(raw)
            if superblock.chunk.id != number:
                raise Refused("shape", "id")
            self.valid = superblock
        except Refused as refused:
            self.reason = refused.reason


def find_copies(medium):
    """Both copies. Where copy a is lost, b is looked for at each possible length of a block; on a second medium it is at
    the beginning, whatever the length."""
    a = Copy("a", 0, medium.raw(0, 16))
    lengths = [a.valid.chunks_per_block] if a.valid and medium.media == 1 else [16 << i for i in range(8)]
    candidates = [Copy("b", length, medium.raw(length, length)) for length in lengths]
    for b in candidates:
        if b.valid and b.valid.chunks_per_block == b.number:
            return a, b
    for b in candidates:
        if b.reason == "version":
            return a, b
    b = candidates[-1]
    b.valid = None
    return a, b
