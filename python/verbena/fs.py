# SPDX-License-Identifier: Apache-2.0
"""A file system for fsspec, and so for pandas, Dask and others: verbena://HOST[:PORT]/OBJECT.

Objects whose names have slashes are shown as files in directories, which exist as long as there is something in them.
What is opened for writing becomes the object in one step, when it is closed.
"""
from __future__ import annotations

import errno
import os
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote, urlsplit

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # type: ignore[import]

from .client import Client, Info, ObjectId
from .errors import NotFound


class VerbenaFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Options are those of verbena.Client. The connection is made when it is first needed, and by each process."""
    protocol = "verbena"
    root_marker = ""
    cachable = True

    def __init__(self, host: str = "127.0.0.1", port: int = 7471, secret: bytes | str | None = None,
                 timeout: float = 30.0, device: str | None = None, libraries: str | None = None, fabric: str | None = None,
                 **options: Any) -> None:
        super().__init__(host=host, port=port, secret=secret, timeout=timeout, device=device, libraries=libraries,
                         fabric=fabric, **options)
        self._options = {"host": host, "port": port, "secret": secret, "timeout": timeout, "device": device,
                         "libraries": libraries, "fabric": fabric}
        self._clients: dict[int, Client] = {}

    @property
    def client(self) -> Client:
        process = os.getpid()
        client = self._clients.get(process)
        if client is None:
            client = self._clients.setdefault(process, Client(**self._options))  # type: ignore[arg-type]
        return client

    # --- paths

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = os.fspath(path)
        if path.startswith("verbena://"):
            path = path[len("verbena://"):].partition("/")[2]
        return path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        if not path.startswith("verbena://"):
            return {}
        parts = urlsplit(path)
        found: dict[str, Any] = {}
        if parts.hostname:
            found["host"] = unquote(parts.hostname)
        if parts.port:
            found["port"] = parts.port
        return found

    def unstrip_protocol(self, name: str) -> str:
        """With the server: the name alone says nothing about where it is."""
        host = self._options["host"]
        shown = f"[{host}]" if ":" in str(host) else host
        return f"verbena://{shown}:{self._options['port']}/{self._strip_protocol(name)}"

    # --- what there is

    @staticmethod
    def _entry(info: Info) -> dict[str, Any]:
        return {"name": info.name, "size": info.size, "type": "file", "id": info.id,
                "created": _time(info.created_ns), "modified": _time(info.modified_ns)}

    @staticmethod
    def _directory(name: str) -> dict[str, Any]:
        return {"name": name, "size": 0, "type": "directory"}

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if not path:
            return self._directory("")
        try:
            return self._entry(self.client.stat(path))
        except NotFound:
            if self.client.list(path + "/", limit=1):
                return self._directory(path)
            raise FileNotFoundError(path) from None

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        prefix = path + "/" if path else ""
        entries: dict[str, dict[str, Any]] = {}
        for found in self.client.list(prefix):
            if not all(found.name.split("/")):
                continue  # as a path it would be another object's, or none
            first, slash, _rest = found.name[len(prefix):].partition("/")
            if slash:
                entries.setdefault(prefix + first + "/", self._directory(prefix + first))
            else:
                entries[found.name] = self._entry(found)
        if not entries and path:
            entries[path] = self._entry(self._file(path))
        listed = sorted(entries.values(), key=lambda entry: str(entry["name"]))
        return listed if detail else [entry["name"] for entry in listed]

    def _file(self, path: str) -> Info:
        try:
            return self.client.stat(path)
        except NotFound:
            raise FileNotFoundError(path) from None

    def created(self, path: str) -> datetime:
        return _time(self._file(self._strip_protocol(path)).created_ns)

    def modified(self, path: str) -> datetime:
        return _time(self._file(self._strip_protocol(path)).modified_ns)

    def ukey(self, path: str) -> str:
        """Another one when the content has changed."""
        info = self._file(self._strip_protocol(path))
        return f"{info.id}-{info.size}-{self.client.stored_crc(info.id):08x}"

    def checksum(self, path: str) -> int:
        """CRC-32/BZIP2 of the content."""
        return self.client.stored_crc(self._file(self._strip_protocol(path)).id)

    # --- data

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        if start is None and end is None:
            return bytes(self.client.get(path))
        size = self._file(path).size
        begin, stop, _step = slice(start, end).indices(size)
        return bytes(self.client.read(path, max(0, stop - begin), begin))

    def pipe_file(self, path: str, value: Any, **_: Any) -> None:
        self.client.put(self._strip_protocol(path), value)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, autocommit: bool = True,
              cache_options: dict[str, Any] | None = None, **options: Any) -> Any:
        file = VerbenaFile(self, path, mode, block_size or "default", autocommit, cache_options=cache_options, **options)
        if mode == "rb" and file.details["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, "a directory cannot be read", path)
        if mode == "ab" and self.isfile(path):
            file.loc = self.size(path)
        return file

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """A clone, which then takes the place of the other."""
        source, destination = self._strip_protocol(path1), self._strip_protocol(path2)
        if source == destination or (self.isdir(source) and not self.isfile(source)):
            return
        if not self.client.exists(destination):
            self.client.clone(source, destination)
            return
        made = self.client.create()
        try:
            self.client.clone(source, made, allow_exist=True)
            self._place(made, destination)
        except BaseException:
            self._abandon(made)
            raise

    def _place(self, draft: ObjectId, path: str) -> None:
        """An object without a name becomes the one of this name, in one step."""
        while True:
            try:
                return self.client.replace(path, draft)
            except NotFound:
                pass
            try:
                return self.client.rename(draft, path)
            except FileExistsError:
                continue

    def _abandon(self, draft: ObjectId) -> None:
        """After a failure, which is what the caller is to hear of."""
        try:
            self.client.remove(draft)
        except OSError:
            pass

    def mv_file(self, path1: str, path2: str, **_: Any) -> None:
        source, destination = self._strip_protocol(path1), self._strip_protocol(path2)
        if source == destination:
            self._file(source)
        elif self.client.exists(destination):
            self.client.replace(destination, source)
        else:
            self.client.rename(source, destination)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> None:
        if self.isfile(path1):
            self.mv_file(path1, path2)
        else:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)

    def rm_file(self, path: str) -> None:
        self.client.remove(self._strip_protocol(path))

    def _rm(self, path: str) -> None:
        # A directory goes with what was in it.
        if self.isfile(path):
            self.rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        paths = self.expand_path(path, recursive=recursive, maxdepth=maxdepth)
        if not recursive:
            for each in paths:
                if self.info(each)["type"] == "directory":
                    raise IsADirectoryError(errno.EISDIR, "a directory is removed with recursive=True", each)
        for each in reversed(paths):
            self._rm(each)

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if truncate:
            self.client.put(path, b"")
        elif not self.client.exists(path):
            self.client.create(path)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """There is one when there is something in it."""

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Likewise."""

    def rmdir(self, path: str) -> None:
        """It is gone with the last that was in it."""

    def invalidate_cache(self, path: str | None = None) -> None:
        """Nothing is cached."""


class VerbenaFile(AbstractBufferedFile):  # type: ignore[misc]
    """What is written goes to an object without a name, beside the real one, unless it is short; commit() makes it the
    real one. A process that is killed before leaves that object behind."""
    _draft: ObjectId | None = None
    _size = 0
    forced = True  # fsspec closes one that could not be opened: there is nothing to write

    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(self.fs.client.read(self.path, end - start, start))

    def _initiate_upload(self) -> None:
        client: Client = self.fs.client
        if self.mode == "ab" and client.exists(self.path):
            self._draft = client.create()
            try:
                client.clone(self.path, self._draft, allow_exist=True)
                self._size = client.stat(self._draft).size
            except BaseException:
                self.fs._abandon(self._draft)
                raise

    def _upload_chunk(self, final: bool = False) -> bool:
        try:
            self._upload(final)
        except BaseException:
            # There is no other attempt then.
            if final and self._draft is not None:
                self.fs._abandon(self._draft)
            raise
        return True

    def _upload(self, final: bool) -> None:
        client: Client = self.fs.client
        data = self.buffer.getbuffer()
        try:
            if final and self._draft is None and self.autocommit:
                client.put(self.path, data)
                return
            if self._draft is None:
                self._draft = client.create()
            if data.nbytes:
                client.write(self._draft, data, self._size, repeatable=True)
                self._size += data.nbytes
        finally:
            data.release()
        if final and self.autocommit:
            self.commit()

    def commit(self) -> None:
        """The object has what was written."""
        if self._draft is not None:
            self.fs._place(self._draft, self.path)
            self._draft = None

    def discard(self) -> None:
        """Nothing has happened."""
        if self._draft is not None:
            self.fs.client.remove(self._draft)
            self._draft = None


def _time(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / 1e9, timezone.utc)
