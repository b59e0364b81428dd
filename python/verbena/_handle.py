# SPDX-License-Identifier: Apache-2.0
"""A client of the library that several threads use, and one of them closes."""
from __future__ import annotations

import ctypes
import threading
from typing import Any

from ._library import Library
from .errors import Cancelled


class Handle:
    """The library must not be used after verbena_disconnect(): closing waits for the calls that are under way."""

    def __init__(self, library: Library, client: ctypes.c_void_p) -> None:
        self._library = library
        self._client: ctypes.c_void_p | None = client
        self._calls = 0
        self._changed = threading.Condition()

    def call(self, name: str, *arguments: Any) -> Any:
        """verbena_<name>(client, ...)"""
        with self._changed:
            client = self._client
            if client is None:
                raise Cancelled("the client is closed")
            self._calls += 1
        try:
            return getattr(self._library, name)(client, *arguments)
        finally:
            with self._changed:
                self._calls -= 1
                if self._client is None:
                    self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            client, self._client = self._client, None
            while self._calls:
                self._changed.wait()
        if client is not None:
            self._library.disconnect(client)

    def close_if_idle(self) -> None:
        """When the client is collected, or the program ends: then threads may be left that are in a call."""
        with self._changed:
            if self._calls:
                return
            client, self._client = self._client, None
        if client is not None:
            self._library.disconnect(client)

    @property
    def closed(self) -> bool:
        return self._client is None
