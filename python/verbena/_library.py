# SPDX-License-Identifier: Apache-2.0
"""libverbena-client.so.1 by ctypes: its structures, its calls, and memory of Python objects without a copy."""
from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_int, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path
from types import TracebackType
from typing import Any

SONAME = "libverbena-client.so.1"


class Sized(ctypes.Structure):
    """A structure that begins with its size."""

    def __init__(self, **members: Any) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **members)


class Id(ctypes.Structure):
    _fields_ = [("high", c_uint64), ("low", c_uint64)]


class Object(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("id", Id)]


class Options(Sized):
    _fields_ = [("size", c_size_t), ("host", c_char_p), ("secret", c_char_p), ("secret_bytes", c_size_t),
                ("device", c_char_p), ("libraries", c_char_p), ("timeout_ms", c_uint32), ("port", c_uint16),
                ("passive_wait", c_uint16), ("fabric", c_char_p)]


class Limits(Sized):
    _fields_ = [("size", c_size_t), ("io_bytes", c_uint64), ("inline_bytes", c_uint32), ("window", c_uint32)]


class Ping(Sized):
    _fields_ = [("size", c_size_t), ("eager_min_ns", c_uint64), ("eager_mean_ns", c_uint64), ("eager_max_ns", c_uint64),
                ("rdma_min_ns", c_uint64), ("rdma_mean_ns", c_uint64), ("rdma_max_ns", c_uint64)]


class Info(Sized):
    _fields_ = [("size", c_size_t), ("id", Id), ("bytes", c_uint64), ("chunks", c_uint64), ("segments", c_uint64),
                ("created_ns", c_uint64), ("modified_ns", c_uint64), ("name", c_char * 1008)]


class CloneOptions(Sized):
    _fields_ = [("size", c_size_t), ("from_offset", c_uint64), ("length", c_uint64), ("to_offset", c_uint64),
                ("allow_exist", c_int), ("name", c_char_p)]


class ListOptions(Sized):
    _fields_ = [("size", c_size_t), ("prefix", c_char_p), ("after_name", c_char_p), ("after_id", Id),
                ("limit", c_uint64)]


class IoOptions(Sized):
    _fields_ = [("size", c_size_t), ("flags", c_uint32), ("crc", c_uint32)]


class Transfer(Sized):
    _fields_ = [("size", c_size_t), ("bytes", c_uint64), ("object", Id), ("crc", c_uint32)]


IO_CRC = 1 << 0
IO_REPEATABLE = 1 << 1
IO_NEW = 1 << 3
IO_DURABLE = 1 << 4

_CALLS: dict[str, tuple[Any, list[Any]]] = {
    "client_version": (c_uint32, []),
    "status_name": (c_char_p, [c_int]),
    "last_error": (c_char_p, []),
    "connect": (c_int, [POINTER(Options), POINTER(c_void_p)]),
    "disconnect": (None, [c_void_p]),
    "get_limits": (c_int, [c_void_p, POINTER(Limits)]),
    "get_reconnects": (c_int, [c_void_p, POINTER(c_uint64)]),
    "provider_name": (c_char_p, [c_void_p]),
    "set_passive_wait": (c_int, [c_void_p, c_int]),
    "ping_pong": (c_int, [c_void_p, c_uint32, c_size_t, c_size_t, POINTER(Ping)]),
    "create": (c_int, [c_void_p, c_char_p, POINTER(Id)]),
    "remove": (c_int, [c_void_p, Object]),
    "rename": (c_int, [c_void_p, Object, c_char_p]),
    "truncate": (c_int, [c_void_p, Object, c_uint64]),
    "replace": (c_int, [c_void_p, Object, Object]),
    "stat": (c_int, [c_void_p, Object, POINTER(Info)]),
    "clone": (c_int, [c_void_p, Object, Object, POINTER(CloneOptions), POINTER(Id)]),
    "flush": (c_int, [c_void_p, Object, c_uint64, c_uint64]),
    "flush_all": (c_int, [c_void_p]),
    "register_range": (c_int, [c_void_p, Object, c_uint64, c_uint64, c_int, POINTER(c_uint64)]),
    "unregister_range": (c_int, [c_void_p, c_uint64]),
    "list_objects": (c_int, [c_void_p, POINTER(ListOptions), POINTER(c_void_p)]),
    "list_count": (c_size_t, [c_void_p]),
    "list_entry": (c_int, [c_void_p, c_size_t, POINTER(Info)]),
    "list_free": (None, [c_void_p]),
    "read": (c_int, [c_void_p, Object, c_uint64, c_void_p, c_size_t, POINTER(IoOptions), POINTER(Transfer)]),
    "write": (c_int, [c_void_p, Object, c_uint64, c_void_p, c_size_t, POINTER(IoOptions), POINTER(Transfer)]),
    "put": (c_int, [c_void_p, Object, c_void_p, c_size_t, POINTER(IoOptions), POINTER(Transfer)]),
    "get": (c_int, [c_void_p, Object, POINTER(c_void_p), POINTER(c_size_t), POINTER(Transfer)]),
    "free": (None, [c_void_p]),
    "stored_crc": (c_int, [c_void_p, Object, c_uint64, c_uint64, POINTER(c_uint32), POINTER(c_uint64)]),
    "crc32": (c_uint32, [c_void_p, c_size_t]),
}


class Library:
    """The calls, without `verbena_` before their names. ctypes lets other threads run meanwhile."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        for name, (result, arguments) in _CALLS.items():
            call = getattr(library, "verbena_" + name)
            call.restype = result
            call.argtypes = arguments
            setattr(self, name, call)

    def __getattr__(self, name: str) -> Any:  # for type checkers: set above
        raise AttributeError(name)


def _path() -> str:
    """$VERBENA_CLIENT_LIBRARY; the one of the prefix that this package is installed in; the system's."""
    chosen = os.environ.get("VERBENA_CLIENT_LIBRARY")
    if chosen:
        return chosen
    for folder in Path(__file__).resolve().parents:
        for place in (folder / SONAME, folder / "lib" / SONAME):
            if place.exists():
                return str(place)
    return SONAME


_loaded: Library | None = None


def library() -> Library:
    """Loaded when it is first needed."""
    global _loaded
    if _loaded is None:
        _loaded = Library(_path())
    return _loaded


class _PyBuffer(ctypes.Structure):
    """Python's Py_buffer, part of its stable ABI."""
    _fields_ = [("buf", c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", c_int), ("ndim", c_int), ("format", c_char_p),
                ("shape", POINTER(ctypes.c_ssize_t)), ("strides", POINTER(ctypes.c_ssize_t)),
                ("suboffsets", POINTER(ctypes.c_ssize_t)), ("internal", c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, POINTER(_PyBuffer), c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [POINTER(_PyBuffer)]
_release_buffer.restype = None


class Memory:
    """The memory of an object that has the buffer protocol, as long as the context lasts. BufferError: it is not in one
    piece, or cannot be written to."""

    def __init__(self, data: Any, writable: bool = False) -> None:
        self._view = _PyBuffer()
        _get_buffer(data, ctypes.byref(self._view), 1 if writable else 0)
        self.address: int | None = self._view.buf
        self.size: int = self._view.len

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        _release_buffer(ctypes.byref(self._view))
