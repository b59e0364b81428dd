# SPDX-License-Identifier: Apache-2.0
"""The tables of a store: the states of objects that the log is applied to."""
import chunks
import extents
import objects
import records
from errors import Unusable

_SECTIONS = [
    ("objects", {records.OBJECT, records.DELETE}, lambda record: record.number),
    ("runs", {records.MAP}, lambda record: (record.number, record.fields["runs"][0].index)),
    ("names", {records.NAME}, lambda record: (record.fields["name"].encode(), record.fields["id"])),
    ("ids", {records.ID}, lambda record: record.fields["id"]),
]


class _Section:
    """The records of one section in order, and `gaps`: between which keys some may be lost."""

    def __init__(self, places, allowed, key):
        self.records, self.gaps, self.lost = [], [], []
        last, open_gap = None, False
        for place in places:
            found = _decode(place, allowed, key, last)
            if not found:
                self.lost.append(place.number)
                open_gap = True
                continue
            if open_gap:
                self.gaps.append((last, key(found[0])))
                open_gap = False
            self.records += found
            last = key(found[-1])
        if open_gap:
            self.gaps.append((last, None))

    def may_have_lost(self, key):
        """Whether a record with this key may be in a chunk that is lost."""
        return any((low is None or key > low) and (high is None or key < high) for low, high in self.gaps)


def _decode(place, allowed, key, last):
    """The records of a chunk, or None if it cannot be used."""
    if place.chunk is None:
        return None
    try:
        found = list(records.decode(place.chunk.data(), allowed))
    except records.Refused:
        return None
    keys = ([] if last is None else [last]) + [key(record) for record in found]
    return found if all(low < high for low, high in zip(keys, keys[1:])) else None


class Table:
    """One table."""

    def __init__(self, places, chunks_per_block):
        self._chunks_per_block = chunks_per_block
        self.head = _head(places)
        self.sections, self.lost = {}, []
        at = 1
        for (name, allowed, key), count in zip(_SECTIONS, self.head["sections"]):
            self.sections[name] = section = _Section(places[at:at + count], allowed, key)
            self.lost += section.lost
            at += count
        if at != len(places):
            raise Unusable("table", f"{at} chunks in extents of {len(places)}")

    def keys_match(self):
        """One NAME and one ID for each OBJECT."""
        states = [record for record in self.sections["objects"].records if record.type == records.OBJECT]
        names = {(one.fields["name"], (0, 0) if one.fields["name"] else one.fields["id"], one.number) for one in states}
        ids = {(one.fields["id"], one.number) for one in states}
        return (names == {(one.fields["name"], one.fields["id"], one.number) for one in self.sections["names"].records}
                and ids == {(one.fields["id"], one.number) for one in self.sections["ids"].records})

    def hides(self, one):
        """What of an object, in this table or an older one, may be in a chunk of this table that is lost."""
        keys = {"state": ("objects", one.number), "id": ("ids", one.id),
                "name": ("names", (one.name.encode(), (0, 0) if one.name else one.id))}
        return {what for what, (section, key) in keys.items() if self.sections[section].may_have_lost(key)}

    def states(self):
        """Number and state of each object that it mentions; None where it says that the object was removed."""
        runs = {}
        for record in self.sections["runs"].records:
            runs.setdefault(record.number, []).extend(record.fields["runs"])
        for record in self.sections["objects"].records:
            yield record.number, self._state(record, runs.get(record.number, []))

    def _state(self, record, runs):
        if record.type == records.DELETE:
            return None
        fields = record.fields
        one = objects.Object(record.number, fields["id"], fields["name"], fields["created"])
        one.modified, one.behind = fields["modified"], fields["behind"]
        try:
            if "content" in fields:
                one.set_content(fields["content"])
            else:
                one.size = fields["size"]
                self._add_runs(one, fields, runs)
        except objects.Inapplicable:
            one.lost.add("runs")
        return one

    def _add_runs(self, one, fields, runs):
        end = 0
        for run in runs:
            if run.index < end or (run.held != records.BEHIND and not objects.within_block(run, self._chunks_per_block)):
                raise objects.Inapplicable("runs")
            end = run.index + run.count
        one.add_runs(runs)
        if (end - 1) * chunks.DATA >= one.size or (len(runs), len(one.map)) != (fields["runs"], fields["chunks"]):
            one.lost.add("runs")


def _head(places):
    """The TABLE record. Without it nothing is known of the objects of this table, nor of older ones."""
    try:
        found = list(records.decode(places[0].chunk.data(), {records.TABLE})) if places[0].chunk else []
    except records.Refused:
        found = []
    if places[0].number != 0 or len(found) != 1:
        raise Unusable("table", "chunk 0")
    return found[0].fields


def load(medium, superblock, report):
    """The objects that the tables have, by number; and whether others may be in chunks that are lost, by number."""
    found, newer = {}, []
    for position, places in enumerate(extents.table_places(medium, superblock)):
        first = places[0].index
        if first < 1 << extents.NUMBER_BITS or [place.index for place in places] != list(range(first, first + len(places))):
            raise Unusable("table", "extents out of order")
        table = Table(places, superblock.chunks_per_block)
        newer.append(table)
        for place in places:
            report.copies(place, what="table", table=position)
        for number in table.lost:
            report.add("table", "lost", table=position, number=number)
        if not table.lost and not table.keys_match():
            report.add("table", "names or ids do not match its objects", table=position)
        for number, one in table.states():
            if number in found:
                continue
            if one is not None:
                one.lost = one.lost.union(*(other.hides(one) for other in newer))
            found[number] = one
    return ({number: one for number, one in found.items() if one is not None},
            lambda number: any(table.sections["objects"].may_have_lost(number) for table in newer))
