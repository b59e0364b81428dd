# SPDX-License-Identifier: Apache-2.0
"""A client of a store that `verbena serve` offers over RDMA."""
from __future__ import annotations

import builtins
import ctypes
import operator
import weakref
from types import TracebackType
from typing import IO, Any, NamedTuple, Union

from . import _library
from ._handle import Handle
from ._library import Memory
from .errors import Invalid, NotFound, error_of
from .file import open_object


class ObjectId(NamedTuple):
    """128 bits."""
    high: int
    low: int

    def __str__(self) -> str:
        return f"{self.high}:{self.low}"


class Info(NamedTuple):
    """What stat and list say about an object."""
    name: str  # empty: none
    id: ObjectId
    size: int  # bytes
    chunks: int
    segments: int
    created_ns: int  # since 1970
    modified_ns: int


class Transfer(NamedTuple):
    """What was written or put, and the CRC-32/BZIP2 of it as it is stored."""
    bytes: int
    object: ObjectId
    crc: int


class Limits(NamedTuple):
    io_bytes: int  # of a read or write in one step
    inline_bytes: int
    window: int


class Ping(NamedTuple):
    """Times there and back, in ns."""
    eager_min_ns: int
    eager_mean_ns: int
    eager_max_ns: int
    rdma_min_ns: int
    rdma_mean_ns: int
    rdma_max_ns: int


ObjectKey = Union[str, ObjectId]  # a name, or an id
Data = Any  # whatever has the buffer protocol: bytes, bytearray, memoryview, array, numpy's arrays


def crc32(data: Data) -> int:
    """CRC-32/BZIP2, the one that the store has."""
    with Memory(data) as memory:
        return int(_library.library().crc32(memory.address, memory.size))


def _name(name: str) -> builtins.bytes:
    encoded = name.encode(errors="surrogateescape")
    if b"\0" in encoded:
        raise Invalid("an object name has a NUL in it")
    return encoded


def _end(handle: Handle, files: weakref.WeakSet[Any]) -> None:
    """When a client is collected, or the program ends: then open files are flushed, as those of Python are."""
    try:
        handle.flush(files)
    finally:
        handle.close_if_idle()


def _optional(text: str | None) -> builtins.bytes | None:
    return None if text is None else _name(text)


def _object(key: ObjectKey) -> _library.Object:
    if isinstance(key, str):
        return _library.Object(_name(key), _library.Id(0, 0))
    return _library.Object(None, _library_id(key))


def _library_id(key: ObjectId) -> _library.Id:
    if not isinstance(key, tuple) or len(key) != 2:  # two bytes would be two numbers, too
        raise TypeError(f"an object is named by a str or an ObjectId, not by {key!r}")
    return _library.Id(_number(key[0]), _number(key[1]))


def _id(made: _library.Id) -> ObjectId:
    return ObjectId(made.high, made.low)


def _info(made: _library.Info) -> Info:
    return Info(made.name.decode(errors="surrogateescape"), _id(made.id), made.bytes, made.chunks, made.segments,
                made.created_ns, made.modified_ns)


def _transfer(made: _library.Transfer) -> Transfer:
    return Transfer(made.bytes, _id(made.object), made.crc)


class Client:
    """A connection, which is made again when it is lost. Any number of threads may use it. Objects are named by a str,
    or by an ObjectId.

    with Client("node1") as client:
        client.put("greeting", b"Hello")
        bytes(client.get("greeting"))
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 7471, *, secret: builtins.bytes | str | None = None,
                 timeout: float = 30.0, device: str | None = None, libraries: str | None = None,
                 passive_wait: bool = False, fabric: str | None = None) -> None:
        self._library = _library.library()
        secret_bytes = secret.encode() if isinstance(secret, str) else secret
        if not 0 < timeout <= 4_000_000:
            raise Invalid("the timeout is not a time above 0 and up to 4000000 seconds")
        if not 0 < port < 65536:
            raise Invalid(f"{port} is not a port")
        options = _library.Options(host=_name(host), port=port, secret=secret_bytes,
                                   secret_bytes=len(secret_bytes or b""), device=_optional(device),
                                   libraries=_optional(libraries), timeout_ms=max(1, int(timeout * 1000)),
                                   passive_wait=int(passive_wait), fabric=_optional(fabric))
        handle = ctypes.c_void_p()
        self.host = host
        self.port = port
        self._check(self._library.connect(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = Handle(self._library, handle)
        self._files: weakref.WeakSet[Any] = weakref.WeakSet()  # that may have something to write
        weakref.finalize(self, _end, self._handle, self._files)

    def close(self) -> None:
        """Also by the context manager, and when nobody has the client any more. Its open files are flushed. Waits for
        calls of other threads."""
        try:
            self._handle.flush(self._files)
        finally:
            self._handle.close()

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<verbena.Client of {self.host}:{self.port}{', closed' if self.closed else ''}>"

    def _check(self, status: int) -> None:
        if status != 0:
            raise error_of(status, self._library.last_error().decode(errors="replace"))

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(self._handle.call(name, *arguments))

    # --- whole objects

    def put(self, key: ObjectKey, data: Data, *, crc: int | None = None, new: bool = False,
            durable: bool = False) -> Transfer:
        """The whole content, in one step: others see the old one or the new one. `new`: Exists if there is such an
        object. `crc`: of the data; if it has another one, nothing is stored."""
        flags = (_library.IO_NEW if new else 0) | (_library.IO_DURABLE if durable else 0)
        return self._send("put", data, crc, flags, _object(key))

    def get(self, key: ObjectKey) -> memoryview:
        """The whole content, of one moment, without a copy."""
        data = ctypes.c_void_p()
        size = ctypes.c_size_t()
        self._call("get", _object(key), ctypes.byref(data), ctypes.byref(size), None)
        if not size.value or data.value is None:
            self._library.free(data)
            return memoryview(b"")
        memory = (ctypes.c_ubyte * size.value).from_address(data.value)
        weakref.finalize(memory, self._library.free, data).atexit = False  # somebody may use it until the very end
        return memoryview(memory).cast("B")

    # --- data

    def read(self, key: ObjectKey, size: int = -1, offset: int = 0) -> memoryview:
        """Fewer bytes at the object's end; a negative size: all that follows."""
        offset = _number(offset)
        if size < 0:
            size = max(0, self.stat(key).size - offset)
        data = bytearray(size)
        return memoryview(data)[:self.readinto(key, data, offset)]

    def readinto(self, key: ObjectKey, buffer: Data, offset: int = 0) -> int:
        """How many bytes were read, into memory that can be written to."""
        done = _library.Transfer()
        with Memory(buffer, writable=True) as memory:
            self._call("read", _object(key), _number(offset), memory.address, memory.size, None, ctypes.byref(done))
        return int(done.bytes)

    def write(self, key: ObjectKey, data: Data, offset: int = 0, *, crc: int | None = None,
              repeatable: bool = False) -> Transfer:
        """The object must exist. `repeatable`: may be done again after the server was restarted."""
        return self._send("write", data, crc, _library.IO_REPEATABLE if repeatable else 0, _object(key),
                          _number(offset))

    def _send(self, call: str, data: Data, crc: int | None, flags: int, *where: Any) -> Transfer:
        options = _library.IoOptions(flags=flags | (0 if crc is None else _library.IO_CRC), crc=_number(crc or 0, 32))
        done = _library.Transfer()
        with Memory(data) as memory:
            self._call(call, *where, memory.address, memory.size, ctypes.byref(options), ctypes.byref(done))
        return _transfer(done)

    def stored_crc(self, key: ObjectKey, offset: int = 0, length: int = 0) -> int:
        """Of a range (0: to the end), from the CRCs that are stored with it."""
        crc = ctypes.c_uint32()
        self._call("stored_crc", _object(key), _number(offset), _number(length), ctypes.byref(crc), None)
        return crc.value

    def open(self, key: ObjectKey, mode: str = "rb", buffering: int = -1, encoding: str | None = None,
             errors: str | None = None, newline: str | None = None) -> IO[Any]:
        """A file, as the built-in open() has them: binary with a "b" in the mode. It writes in place; put() is the way
        to replace an object in one step."""
        return open_object(self, key, mode, buffering, encoding, errors, newline)

    # --- objects

    def create(self, name: str | None = None, id: ObjectId | None = None) -> ObjectId:
        made = _library_id(id or ObjectId(0, 0))
        self._call("create", _optional(name), ctypes.byref(made))
        return _id(made)

    def remove(self, key: ObjectKey) -> None:
        self._call("remove", _object(key))

    def rename(self, key: ObjectKey, name: str) -> None:
        """An empty name: it has none any more."""
        self._call("rename", _object(key), _name(name))

    def truncate(self, key: ObjectKey, size: int = 0) -> None:
        self._call("truncate", _object(key), _number(size))

    def replace(self, key: ObjectKey, by: ObjectKey) -> None:
        """It has the content of the other object now, which is gone, in one step."""
        self._call("replace", _object(key), _object(by))

    def stat(self, key: ObjectKey) -> Info:
        info = _library.Info()
        self._call("stat", _object(key), ctypes.byref(info))
        return _info(info)

    def exists(self, key: ObjectKey) -> bool:
        try:
            self.stat(key)
        except NotFound:
            return False
        return True

    def list(self, prefix: str = "", *, after: Info | None = None, limit: int = 0) -> builtins.list[Info]:
        """In order of name, then id; at most `limit`, if that is not 0, behind `after`."""
        options = _library.ListOptions(prefix=_name(prefix), limit=_number(limit))
        if after is not None:
            options.after_name = _name(after.name)
            options.after_id = _library_id(after.id)
        listed = ctypes.c_void_p()
        self._call("list_objects", ctypes.byref(options), ctypes.byref(listed))
        try:
            info = _library.Info()
            objects = []
            for index in range(self._library.list_count(listed)):
                self._check(self._library.list_entry(listed, index, ctypes.byref(info)))
                objects.append(_info(info))
            return objects
        finally:
            self._library.list_free(listed)

    def clone(self, source: ObjectKey, destination: ObjectKey, *, offset: int = 0, length: int = 0, to_offset: int = 0,
              allow_exist: bool = False, name: str | None = None) -> ObjectId:
        """Copy on write. `length` 0: to the end. `name`: of a destination that is made and is called by its id."""
        options = _library.CloneOptions(from_offset=_number(offset), length=_number(length),
                                        to_offset=_number(to_offset), allow_exist=int(allow_exist),
                                        name=_optional(name))
        made = _library.Id()
        self._call("clone", _object(source), _object(destination), ctypes.byref(options), ctypes.byref(made))
        return _id(made)

    def flush(self, key: ObjectKey | None = None, offset: int = 0, length: int = 0) -> None:
        """What was written before is durable then: of an object, or everything."""
        if key is None:
            self._call("flush_all")
        else:
            self._call("flush", _object(key), _number(offset), _number(length))

    def register_range(self, key: ObjectKey, offset: int = 0, length: int = 0, *, write: bool = False) -> int:
        """Conflict if a range of another client overlaps and either is for writing. Ends with the connection."""
        made = ctypes.c_uint64()
        self._call("register_range", _object(key), _number(offset), _number(length), int(write), ctypes.byref(made))
        return made.value

    def unregister_range(self, number: int) -> None:
        self._call("unregister_range", _number(number))

    # --- the connection

    @property
    def provider(self) -> str:
        return str(self._handle.call("provider_name").decode())

    @property
    def limits(self) -> Limits:
        made = _library.Limits()
        self._call("get_limits", ctypes.byref(made))
        return Limits(made.io_bytes, made.inline_bytes, made.window)

    @property
    def reconnects(self) -> int:
        count = ctypes.c_uint64()
        self._call("get_reconnects", ctypes.byref(count))
        return count.value

    def set_passive_wait(self, on: bool) -> None:
        """Calls sleep at once instead of looking for their answer for a while."""
        self._call("set_passive_wait", int(on))

    def ping_pong(self, count: int = 1, eager: int = 0, rdma: int = 0) -> Ping:
        """Messages with so many bytes, then RDMA of so many (0: none), there and back."""
        made = _library.Ping()
        self._call("ping_pong", _number(count, 32), _number(eager), _number(rdma), ctypes.byref(made))
        return Ping(made.eager_min_ns, made.eager_mean_ns, made.eager_max_ns, made.rdma_min_ns, made.rdma_mean_ns,
                    made.rdma_max_ns)


def _number(number: int, bits: int = 64) -> int:
    # ctypes would take it modulo 2^64, and only an int of Python's own.
    number = operator.index(number)
    if not 0 <= number < 1 << bits:
        raise Invalid(f"{number} is not a number of {bits} bits")
    return number
