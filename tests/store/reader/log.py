# SPDX-License-Identifier: Apache-2.0
"""The log: watermark, and recovery of a prefix."""
import extents
import objects
import records
from errors import Unusable


class Log:
    """Applies the log to the objects of the tables. `end` is the number after the last chunk of it that counted,
    `first_missing` that of the first past the watermark without a valid copy; `dropped` says that something past the
    watermark did not count."""

    def __init__(self, medium, root, state, report):
        self.medium, self.superblock, self.state, self.report = medium, root.superblock, state, report
        self.places = self._places()
        self.records = {number: _decode(place) for number, place in self.places.items()}
        self.watermark = self.superblock.end - 1 if root.closed else self._watermark()
        self.dropped, self.pending, self.first_missing = False, [], 0
        self._check_copies()
        self.end = self._replay()

    def _places(self):
        """By number. Where the superblock says that the log was closed, nothing past its end belongs to it."""
        found, next_number = {}, 1
        for place in extents.log_places(self.medium, self.superblock):
            if place.number < next_number:
                raise Unusable("log", "extents out of order")
            next_number = place.number + 1
            past_end = self.superblock.closed and place.number >= self.superblock.end
            if place.number >= self.superblock.replay_from and not past_end:
                found[place.number] = place
        return found

    def _watermark(self):
        highest = self.superblock.durable
        for number, (found, _) in self.records.items():
            for record in found:
                if record.type == records.COMMIT and record.fields["watermark"] < number:
                    highest = max(highest, record.fields["watermark"])
        return highest

    def _check_copies(self):
        """Past the first chunk without a valid copy nothing is incomplete: the content is undefined."""
        number = self.watermark + 1
        while number in self.places and self.places[number].chunk:
            number += 1
        self.first_missing = number
        for number, place in self.places.items():
            if place.contradict:
                raise Unusable("log", f"copies of chunk {number} differ")
            if place.foreign and not place.chunk:
                raise Unusable("log", f"chunk {number} is of another history")
            if place.foreign or number < self.first_missing:
                self.report.copies(place, number <= self.watermark, what="log")

    def _replay(self):
        number = self.superblock.replay_from
        while number in self.places and self.places[number].chunk and not self.dropped:
            self._replay_chunk(number)
            number += 1
        if number <= self.watermark:
            raise Unusable("log", f"chunk {number}")
        later = any(place.chunk for later, place in self.places.items() if later >= number)
        self.dropped = self.dropped or later or bool(self.pending)
        return number

    def _replay_chunk(self, number):
        found, refused = self.records[number]
        for record in found:
            if record.type != records.COMMIT:
                self.pending.append(record)
                continue
            if number > self.watermark and not self._data_is_there():
                self.dropped = True
                return
            try:
                self.state.apply(self.pending, record.fields["time"])
            except objects.Inapplicable as why:
                raise Unusable("log", f"chunk {number}: {why}") from None
            self.pending = []
        if refused:
            raise Unusable("log", f"chunk {number}: record refused: {refused}")

    def _data_is_there(self):
        """Every chunk that the MAPs of the transaction name."""
        for record in self.pending:
            for run in record.fields["runs"] if record.type == records.MAP else ():
                if run.held == records.BEHIND:
                    continue
                if not objects.within_block(run, self.superblock.chunks_per_block):
                    return False
                for i in range(run.count):
                    birth = objects.Birth(run.chunk + i, run.owner, run.birth_index + i, run.txn)
                    if objects.chunk_damage(self.medium, self.superblock, birth)[0]:
                        return False
        return True


def _decode(place):
    """The records of a log chunk up to the first that is refused, and the reason."""
    found = []
    if place.chunk is None:
        return found, None
    try:
        for record in records.decode(place.chunk.data(), records.IN_LOG):
            found.append(record)
    except records.Refused as refused:
        return found, refused.reason
    return found, None
