# SPDX-License-Identifier: Apache-2.0
"""The two copies of a chunk of the log or of a table."""
import chunks
from superblocks import epoch


NUMBER_BITS = 24  # of the index of a table chunk: its number in the table; the rest is the serial of the table


class Place:
    """Chunk i of an extent. `index` is as in the chunk, `number` that in the log or table. `chunk` is the valid copy that is used, or None; `wrong` says of each copy why it is not
    valid (None if it is); `foreign` are the names of copies from another history of the store."""

    def __init__(self, medium, superblock, extent, i, flags):
        self.index, self.txn = extent.sequence + i, extent.txn
        self.number = self.index % (1 << NUMBER_BITS) if flags == chunks.TABLE else self.index
        self.places = extent.places(i)
        self.wrong, self.foreign, valid = [], [], []
        for name, place in zip("ab", self.places):
            raw = medium.raw(place, superblock.chunks_per_block)
            chunk = chunks.Chunk(raw) if raw else None
            self.wrong.append(chunk.why_not(id=place, index=self.index, txn=extent.txn, store=superblock.store, owner=0,
                                            flags=flags) if chunk else "missing")
            if not self.wrong[-1]:
                valid.append(chunk)
            elif chunk and _of_another_history(chunk, place, superblock, extent):
                self.foreign.append(name)
        self.valid_copies = len(valid)
        self.contradict = len(valid) == 2 and not valid[0].same_copy(valid[1])
        self.chunk = valid[0] if valid and not self.contradict else None

    def lost_copies(self):
        """The copies that are not valid: name, place, reason."""
        return [copy for copy in zip("ab", self.places, self.wrong) if copy[2]]


def _of_another_history(chunk, place, superblock, extent):
    """A log chunk of this store and place that the extent's opening did not write, and none before it."""
    return (chunk.why_not(id=place, store=superblock.store, owner=0, flags=chunks.LOG) is None
            and chunk.txn != extent.txn and epoch(chunk.txn) >= epoch(extent.txn))


def log_places(medium, superblock):
    """All places of the log, in order."""
    return [Place(medium, superblock, extent, i, chunks.LOG) for extent in superblock.log for i in range(extent.count)]


def table_places(medium, superblock):
    """The places of each table, newest table first."""
    tables = []
    for extent in superblock.tables:
        if extent.sequence % (1 << NUMBER_BITS) == 0 or not tables:
            tables.append([])
        tables[-1] += [Place(medium, superblock, extent, i, chunks.TABLE) for i in range(extent.count)]
    return tables
