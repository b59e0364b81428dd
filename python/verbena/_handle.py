# SPDX-License-Identifier: Apache-2.0
"""A client of the library that several threads use, and one of them closes."""
from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable
from typing import Any

from ._library import Library
from .errors import Cancelled, Invalid


class Handle:
    """The library must not be used after verbena_disconnect(): closing waits for the calls that are under way. A child
    of fork has a copy, whose lock another thread may have held: it does not touch it."""

    def __init__(self, library: Library, client: ctypes.c_void_p) -> None:
        self._library = library
        self._client: ctypes.c_void_p | None = client
        self._process = os.getpid()
        self._calls = 0
        self._changed = threading.Condition()

    def call(self, name: str, *arguments: Any) -> Any:
        """verbena_<name>(client, ...)"""
        if self._inherited():
            raise Invalid("a child of fork cannot use its parent's client")
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

    def flush(self, files: Iterable[Any]) -> None:
        """All of them, also if one fails."""
        if self._inherited() or self.closed:
            return
        failed: BaseException | None = None
        for file in list(files):
            try:
                if not file.closed:
                    file.flush()
            except BaseException as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def close(self) -> None:
        if self._inherited():
            self._client = None
            return
        with self._changed:
            client, self._client = self._client, None
            try:
                while self._calls:
                    self._changed.wait()
            except BaseException:  # KeyboardInterrupt: it can be closed later
                self._client = client
                raise
        if client is not None:
            self._library.disconnect(client)

    def close_if_idle(self) -> None:
        """When the client is collected, or the program ends: then threads may be left that are in a call."""
        if self._inherited():
            return
        with self._changed:
            if self._calls:
                return
            client, self._client = self._client, None
        if client is not None:
            self._library.disconnect(client)

    def _inherited(self) -> bool:
        return os.getpid() != self._process

    @property
    def closed(self) -> bool:
        return self._client is None
