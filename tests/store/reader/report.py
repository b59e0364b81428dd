# SPDX-License-Identifier: Apache-2.0
"""What a store has that it should not."""


class Report:
    """Damage, and what a crash may have left incomplete. Each entry says what it is (file, superblock, table, log), and
    where they apply `table`, `number` (of the chunk in the log or table), `copy` and `chunk` (its number in the store)."""

    def __init__(self):
        self.damage, self.incomplete = [], []

    def add(self, what, why, crash=False, **where):
        (self.incomplete if crash else self.damage).append({"what": what, "why": why, **where})

    def copies(self, place, durable=True, **where):
        """A copy of a chunk of log or table that is not valid while the other is, and copies of another history."""
        lost = place.lost_copies()
        for copy, chunk, why in lost:
            foreign = copy in place.foreign
            if foreign or len(lost) == 1:
                self.add(why="of another history" if foreign else why, crash=not durable and not foreign,
                         number=place.number, copy=copy, chunk=chunk, **where)
