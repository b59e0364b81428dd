# SPDX-License-Identifier: Apache-2.0
"""A chunk: its fields, its CRCs, and what examine() of docs/store-format.md says of it."""
import struct
import zlib

SIZE = 4096
DATA = 4048
LOG, TABLE, SUPERBLOCK = 1, 2, 4

_FIELDS = struct.Struct(">QQQQIIHHI")
_REVERSED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


def _reverse(word):
    return int.from_bytes(word.to_bytes(4, "little").translate(_REVERSED), "big")


def crc(data, before=0):
    """CRC-32/BZIP2, continued from that of the data before. It is zlib's with the bits of each byte, and of the
    result, in the opposite order."""
    return _reverse(zlib.crc32(data.translate(_REVERSED), _reverse(before)))


class Chunk:
    """The 4096 bytes of a place, and `state`: good, plain, or why it is neither."""

    def __init__(self, raw):
        self.raw = raw
        (self.id, self.owner, self.index, self.txn, self.store, self.data_crc, self.length, self.flags,
         self.crc32) = _FIELDS.unpack_from(raw, DATA)
        self.state = self._examine()

    def _examine(self):
        data_crc = crc(self.raw[:DATA])
        if crc(self.raw[DATA:4092], data_crc) != self.crc32:
            return "crc32"
        if self.raw[4056:4092] == bytes(36):
            return "plain"
        if data_crc != self.data_crc:
            return "data_crc"
        if self.length > DATA or self.raw[self.length:DATA] != bytes(DATA - self.length):
            return "length"
        return "good"

    def data(self):
        return self.raw[:self.length]

    def why_not(self, **expected):
        """The first field that differs from what is expected, or None. `state` is one of them."""
        if self.state != "good":
            return self.state
        for field, value in expected.items():
            if getattr(self, field) != value:
                return field
        return None

    def same_copy(self, other):
        """Equal but for id and crc32."""
        return self.raw[:DATA] == other.raw[:DATA] and self.raw[4056:4092] == other.raw[4056:4092]
