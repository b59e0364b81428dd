# SPDX-License-Identifier: Apache-2.0
"""Objects as files: a raw one, for the buffers and text of Python's io."""
from __future__ import annotations

import io
import os
from typing import IO, TYPE_CHECKING, Any

from .errors import Exists, NotFound

if TYPE_CHECKING:
    from .client import Client, ObjectKey

BUFFER_BYTES = 1 << 20  # of one request


class ObjectFile(io.RawIOBase):
    """An object, with a position. It is looked up once: what is renamed later stays the same file. What is written is
    there at once; sync() makes it durable."""

    def __init__(self, client: Client, key: ObjectKey, mode: str = "r") -> None:
        super().__init__()
        kind = mode.replace("b", "", 1).replace("+", "", 1)
        if kind not in ("r", "w", "a", "x"):
            raise ValueError(f"invalid mode: {mode!r}")
        self._client = client
        self._readable = kind == "r" or "+" in mode
        self._writable = kind != "r" or "+" in mode
        self._appends = kind == "a"
        self.name = str(key)
        self.mode = kind + "b" + ("+" if "+" in mode else "")
        self._id = self._make(key, new=kind == "x") if kind != "r" else client.stat(key).id
        if kind == "w":
            client.truncate(self._id, 0)
        self._position = client.stat(self._id).size if self._appends else 0

    def _make(self, key: ObjectKey, new: bool) -> Any:
        """The object's id; it is created if it is not there."""
        while True:
            try:
                return self._client.create(key) if isinstance(key, str) else self._client.create(None, key)
            except Exists:
                if new:
                    raise
            try:
                return self._client.stat(key).id
            except NotFound:  # somebody has removed it in between
                continue

    def readable(self) -> bool:
        return self._readable

    def writable(self) -> bool:
        return self._writable

    def seekable(self) -> bool:
        return True

    def _check(self, allowed: bool, what: str) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        if not allowed:
            raise io.UnsupportedOperation(what)

    def readinto(self, buffer: Any) -> int:
        self._check(self._readable, "not readable")
        size = self._client.readinto(self._id, buffer, self._position)
        self._position += size
        return size

    def readall(self) -> bytes:
        self._check(self._readable, "not readable")
        data = bytes(self._client.read(self._id, offset=self._position))
        self._position += len(data)
        return data

    def write(self, data: Any) -> int:
        self._check(self._writable, "not writable")
        if self._appends:
            self._position = self._client.stat(self._id).size
        size = memoryview(data).nbytes
        if size:
            self._client.write(self._id, data, self._position)
        self._position += size
        return size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check(True, "")
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += self._client.stat(self._id).size
        elif whence != os.SEEK_SET:
            raise ValueError(f"invalid whence ({whence})")
        if offset < 0:
            raise ValueError("negative seek position")
        self._position = offset
        return offset

    def tell(self) -> int:
        self._check(True, "")
        return self._position

    def truncate(self, size: int | None = None) -> int:
        self._check(self._writable, "not writable")
        wanted = self._position if size is None else size
        self._client.truncate(self._id, wanted)
        return wanted

    def sync(self) -> None:
        """What was written is durable then; flush() of a buffer comes before."""
        self._check(True, "")
        self._client.flush(self._id)

    def __repr__(self) -> str:
        return f"<verbena.ObjectFile {self.name!r} mode={self.mode!r}>"


def open_object(client: Client, key: ObjectKey, mode: str, buffering: int, encoding: str | None, errors: str | None,
                newline: str | None) -> IO[Any]:
    """As io.open(), over a raw object."""
    text = "b" not in mode
    if "t" in mode:
        if not text:
            raise ValueError("can't have text and binary mode at once")
        mode = mode.replace("t", "", 1)
    if not text and (encoding, errors, newline) != (None, None, None):
        raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
    if text and buffering == 0:
        raise ValueError("can't have unbuffered text I/O")
    raw = ObjectFile(client, key, mode)
    if buffering == 0:
        return raw  # type: ignore[return-value]
    size = BUFFER_BYTES if buffering < 2 else buffering
    buffer: Any
    if raw.readable() and raw.writable():
        buffer = io.BufferedRandom(raw, size)
    elif raw.writable():
        buffer = io.BufferedWriter(raw, size)
    else:
        buffer = io.BufferedReader(raw, size)
    file: Any = buffer
    if text:
        file = io.TextIOWrapper(buffer, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)
    if raw.writable():
        client._files.add(file)
    return file  # type: ignore[no-any-return]
