# SPDX-License-Identifier: Apache-2.0
"""Which of the two superblocks holds: the root."""
import extents
import superblocks
from errors import Unusable
from superblocks import epoch


_IDENTITY = ("store", "chunks_per_block", "media", "created")


class Root:
    """The superblock that is used, and whether the store was closed. The report gets what is wrong with the copies."""

    def __init__(self, medium, report):
        self._report = report
        a, b = superblocks.find_copies(medium)
        some = a.valid or b.valid
        if some is None:
            raise Unusable("version" if "version" in (a.reason, b.reason) else "superblock", "both copies")
        for lost in medium.settle(some.chunks_per_block, some.store):
            report.add("file", lost)
        if a.valid and b.valid:
            self.superblock = self._of_two(medium, a, b)
        else:
            self.superblock = self._of_one(*((a, b) if a.valid else (b, a)))
        if self.superblock.media != medium.media:
            raise Unusable("media", f"{medium.media} instead of {self.superblock.media}")
        self.closed = self.superblock.closed and b.valid is not None

    def _of_two(self, medium, a, b):
        root = related(a.valid, b.valid)
        if root is None:
            root = decide(medium, a.valid, b.valid)
            other = b if root is a.valid else a
            self._report.add("superblock", "contradicts the other", copy=other.name, chunk=other.number)
        return root

    def _of_one(self, good, bad):
        place = 0 if bad.name == "a" else good.valid.chunks_per_block
        self._report.add("superblock", bad.reason, crash=crash_may_leave(bad, place, good.valid), copy=bad.name,
                         chunk=place)
        return good.valid


def related(a, b):
    """The root if a crash or a failed sync may have left these two, otherwise None."""
    if a.chunk.same_copy(b.chunk):
        return a
    if any(getattr(a, field) != getattr(b, field) for field in _IDENTITY):
        return None
    ahead = a.generation - b.generation
    if a.mark != b.mark:
        return b if ahead == -1 and b.previous == a.mark else None
    if ahead == 1 and a.closed and not b.closed and a.durable >= b.durable and _but_for_closing(a) == _but_for_closing(b):
        return b
    newer = a if ahead > 0 else b
    return newer if abs(ahead) in (1, 2) and not newer.closed else None


def _but_for_closing(superblock):
    """All fields and extents but generation, durable and end."""
    raw = superblock.chunk.raw
    return raw[:30] + raw[38:70] + raw[86:4048]


def crash_may_leave(copy, place, root):
    """Whether a copy that is not valid is only incomplete."""
    if root.generation == 1:
        return True
    if copy.raw is None or (copy.name == "a" and root.closed):
        return False
    if int.from_bytes(copy.raw[14:18], "big") not in superblocks.VERSIONS:
        return False
    same = list(range(0, 14)) + list(range(18, 30)) + list(range(54, 62)) + list(range(superblocks.HEAD + 28 * superblocks.EXTENTS, 4048))
    same += list(range(4048, 4072)) + list(range(4080, 4084)) + list(range(4090, 4092))
    expected = root.encoding(place)
    if any(copy.raw[at] != expected[at] for at in same):
        return False
    extent_count = len(root.tables) + len(root.log) + 1
    return not root.closed or not any(copy.raw[superblocks.HEAD + 28 * extent_count:4048])


class _Needs:
    """What of the chunks that a superblock lists is there."""

    def __init__(self, medium, superblock):
        log = extents.log_places(medium, superblock)
        tables = [place for table in extents.table_places(medium, superblock) for place in table]
        needed = tables + [place for place in log
                           if superblock.replay_from <= place.number <= superblock.last_needed()]
        self.valid_copies = sum(place.valid_copies for place in log + tables)
        self.one_each = all(place.valid_copies for place in needed)
        self.both_each = all(place.valid_copies == 2 for place in needed)
        self.no_single = all(place.valid_copies != 1 for place in log)
        self.written = {place.txn for place in log + tables if place.valid_copies}


def _extent_marks(superblock):
    return {extent.txn for extent in superblock.tables + superblock.log}


def decide(medium, a, b):
    """The rules for two valid copies that contradict each other."""
    needs = {side: _Needs(medium, side) for side in (a, b)}
    if any(getattr(a, field) != getattr(b, field) for field in _IDENTITY):
        return b if needs[b].valid_copies > needs[a].valid_copies else a
    if a.mark == b.mark:
        return _one_of(sorted((a, b), key=lambda side: side.generation), a.generation != b.generation)
    earlier, later = sorted((a, b), key=lambda side: (epoch(side.mark), side.generation))
    if earlier.mark in _extent_marks(later) | {later.previous} and later.generation > earlier.generation:
        return _one_of((later,), needs[later].one_each)
    if needs[a].one_each != needs[b].one_each:
        return a if needs[a].one_each else b
    complete = [side for side, other in ((earlier, later), (later, earlier))
                if needs[side].both_each and needs[side].no_single and needs[side].written - _extent_marks(other)]
    return _one_of(complete, bool(complete))


def _one_of(sides, decided):
    """The last of the sides, if the rule decides for it."""
    if not decided:
        raise Unusable("contradict")
    return sides[-1]
