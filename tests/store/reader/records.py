# SPDX-License-Identifier: Apache-2.0
"""The records of the log and of tables."""
import re
import struct
from collections import namedtuple

(CREATE, MAP, TRUNCATE, CLONE, DELETE, RENAME, FLUSHED, COMMIT, CONTENT, TABLE, OBJECT, NAME, ID,
 TAKE) = range(1, 15)
IN_LOG = {CREATE, MAP, TRUNCATE, CLONE, DELETE, RENAME, FLUSHED, COMMIT, CONTENT, TAKE}
MAX_CHUNKS = 1 << 48
MAX_SIZE = MAX_CHUNKS * 4048
MAX_CONTENT = 512

_FORBIDDEN = re.compile(r"[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
Record = namedtuple("Record", "type, number, fields")
Run = namedtuple("Run", "index, chunk, count, txn, owner, birth_index, held")
Behind = namedtuple("Behind", "version, next, tries, whole, under")
Under = namedtuple("Under", "version, next, tries, id, name")
NOTHING = Behind(0, 0, 0, 0, None)
HERE, BOTH, BEHIND = range(3)  # where the bytes of a run are


class Refused(Exception):
    """A record that is not valid. `reason` is short, type, number, name, run, content, behind or range."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


def _need(fits, reason):
    if not fits:
        raise Refused(reason)


def _name_of(data):
    _need(len(data) <= 1000, "name")
    try:
        name = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("name") from None
    _need(not _FORBIDDEN.search(name), "name")
    return name


class _Cursor:
    """Takes fields from the front of some bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, count):
        _need(self.at + count <= len(self.data), "short")
        self.at += count
        return self.data[self.at - count:self.at]

    def u(self, bits):
        return int.from_bytes(self.bytes(bits // 8), "big")

    def words(self, count):
        return struct.unpack(f">{count}Q", self.bytes(8 * count))

    def number(self):
        number = self.u(64)
        _need(number != 0, "number")
        return number

    def id(self):
        return self.words(2)

    def size(self):
        size = self.u(64)
        _need(size <= MAX_SIZE, "range")
        return size

    def name(self):
        return _name_of(self.bytes(self.u(16)))

    def content(self):
        crc = self.u(32)
        data = self.bytes(self.u(16))
        _need(1 <= len(data) <= MAX_CONTENT, "content")
        return crc, data

    def run(self, number):
        form, index = self.u(8), self.u(64)
        if form == 4:
            count = self.u(32)
            _need(count > 0 and index + count <= MAX_CHUNKS, "run")
            return Run(index, 0, count, 0, 0, 0, BEHIND)
        _need(form <= 3, "run")
        chunk, count, txn = self.u(64), self.u(16), self.u(64)
        owner, birth_index = number, index
        if form & 1:
            owner = self.number()
            birth_index = self.u(64)
            _need((owner, birth_index) != (number, index), "run")
        _need(1 <= count <= 2048 and max(index, chunk, birth_index) + count <= MAX_CHUNKS, "run")
        return Run(index, chunk, count, txn, owner, birth_index, BOTH if form & 2 else HERE)

    def behind(self):
        version, begun, tries, flags = self.u(64), self.u(64), self.u(32), self.u(8)
        _need(flags <= 3, "behind")
        under = None
        if flags & 2:
            under = Under(self.u(64), self.u(64), self.u(32), self.id(), self.bytes(self.u(16)))
        _need((version or not flags) and (begun == 0) == (tries == 0), "behind")
        if under:
            under = under._replace(name=_name_of(under.name))
            _need((under.next == 0) == (under.tries == 0), "behind")
        return Behind(version, begun, tries, flags & 1, under)

    def runs(self, number):
        count = self.u(16)
        _need(count > 0, "run")
        return [self.run(number) for _ in range(count)]


def _clone(take):
    source, from_index, number, to_index, count, size = take.words(6)
    _need(source != 0 and number != 0, "number")
    _need(max(from_index, to_index) + count <= MAX_CHUNKS and size <= MAX_SIZE, "range")
    _need(source != number or abs(from_index - to_index) >= count, "range")
    return number, {"source": source, "from": from_index, "to": to_index, "count": count, "size": size}


def _take(take):
    source, number = take.words(2)
    _need(source != 0 and number != 0, "number")
    _need(source != number, "range")
    return number, {"source": source}


def _object(take):
    number = take.number()
    fields = {"id": take.id(), "created": take.u(64), "modified": take.u(64), "name": take.name()}
    place = take.u(8)
    _need(place <= 3, "content")
    fields["behind"] = take.behind() if place & 2 else NOTHING
    _need(not place & 2 or fields["behind"] != NOTHING, "behind")
    if place & 1:
        fields["content"] = take.content()
    else:
        fields["size"], fields["runs"], fields["chunks"] = take.size(), take.u(64), take.u(64)
        _need(fields["chunks"] <= MAX_CHUNKS, "run")
        _need(fields["runs"] <= (MAX_CHUNKS if fields["behind"].version else fields["chunks"]), "run")
    return number, fields


def _name(take):
    name, number = take.name(), take.number()
    return number, {"name": name, "id": take.id() if name == "" else (0, 0)}


def _map(take):
    number = take.number()
    return number, {"size": take.size(), "runs": take.runs(number)}


def _id(take):
    key = take.id()
    return take.number(), {"id": key}


_BODIES = {
    CREATE: lambda take: (take.number(), {"id": take.id(), "time": take.u(64), "name": take.name()}),
    MAP: _map,
    TRUNCATE: lambda take: (take.number(), {"size": take.size()}),
    CLONE: _clone,
    DELETE: lambda take: (take.number(), {}),
    RENAME: lambda take: (take.number(), {"name": take.name()}),
    FLUSHED: lambda take: (take.number(), {"behind": take.behind()}),
    COMMIT: lambda take: (None, {"txn": take.u(64), "watermark": take.u(64), "time": take.u(64)}),
    CONTENT: lambda take: (take.number(), {"content": take.content()}),
    TABLE: lambda take: (None, {"next": take.number(), "sections": [take.u(32) for _ in range(4)]}),
    OBJECT: _object,
    NAME: _name,
    ID: _id,
    TAKE: _take,
}


def decode(data, allowed):
    """The records of a chunk, one after the other. Raises Refused at the first that is not valid."""
    take = _Cursor(data)
    while take.at < len(data):
        kind = take.u(8)
        _need(kind in allowed, "type")
        number, fields = _BODIES[kind](take)
        yield Record(kind, number, fields)
