# SPDX-License-Identifier: Apache-2.0
"""Exceptions, one for each kind of failure. Where Python has one for the same, they are that as well."""
from __future__ import annotations

import errno


class VerbenaError(OSError):
    """A request failed. `status` is that of <verbena/client.h>, `word` its name."""
    status = 0
    word = ""
    code = errno.EIO

    def __init__(self, message: str = "") -> None:
        super().__init__(self.code, message or self.word)

    def __reduce__(self) -> tuple[type[VerbenaError], tuple[str]]:
        # An OSError is pickled with its number, which __init__ does not take: a multiprocessing.Pool would hang.
        return type(self), (str(self.strerror),)


class NotFound(VerbenaError, FileNotFoundError):
    """There is no such object."""
    status, word, code = 1, "not-found", errno.ENOENT


class Exists(VerbenaError, FileExistsError):
    """The name or id is in use."""
    status, word, code = 2, "exists", errno.EEXIST


class Invalid(VerbenaError, ValueError):
    """An argument is not valid."""
    status, word, code = 3, "invalid", errno.EINVAL


class Full(VerbenaError):
    """The store has no space."""
    status, word, code = 4, "full", errno.ENOSPC


class NoMemory(VerbenaError, MemoryError):
    """The server, or this process, has no memory."""
    status, word, code = 5, "no-memory", errno.ENOMEM


class Damaged(VerbenaError):
    """Stored data does not match its checksum; the text has the place."""
    status, word = 6, "damaged"


class Conflict(VerbenaError):
    """Another client has registered the range."""
    status, word, code = 7, "conflict", errno.EBUSY


class ReadOnly(VerbenaError):
    """The store can only be read."""
    status, word, code = 8, "read-only", errno.EROFS


class MediumFailed(VerbenaError):
    """The medium of the store failed."""
    status, word = 9, "io"


class Unsupported(VerbenaError):
    """The server or the library does not know the request."""
    status, word, code = 10, "unsupported", errno.EOPNOTSUPP


class TooLarge(VerbenaError):
    """A limit of the session."""
    status, word, code = 11, "too-large", errno.E2BIG


class Corrupted(VerbenaError):
    """Data arrived wrong, again and again; or it does not have the CRC that was given with it."""
    status, word, code = 12, "corrupted", errno.EBADMSG


class TransferFailed(VerbenaError):
    """RDMA to or from this process failed."""
    status, word = 13, "transfer"


class Busy(VerbenaError, BlockingIOError):
    """Try again later."""
    status, word, code = 15, "busy", errno.EAGAIN


class Internal(VerbenaError):
    """An error of the server or the library."""
    status, word = 16, "internal"


class Unreachable(VerbenaError, ConnectionError):
    """No answer in time. Nothing was changed."""
    status, word, code = 32, "unreachable", errno.EHOSTUNREACH


class OutcomeUnknown(VerbenaError, ConnectionError):
    """No answer. The change was made once, or not at all."""
    status, word, code = 33, "unknown", errno.ECONNRESET


class Refused(VerbenaError, PermissionError):
    """The server does not accept this client: its secret, its version."""
    status, word, code = 34, "refused", errno.EACCES


class Cancelled(VerbenaError):
    """The client was closed."""
    status, word, code = 35, "cancelled", errno.ECANCELED


class NoDevice(VerbenaError):
    """No RDMA device, or its libraries cannot be loaded."""
    status, word, code = 36, "no-device", errno.ENODEV


KINDS: dict[int, type[VerbenaError]] = {
    kind.status: kind
    for kind in (NotFound, Exists, Invalid, Full, NoMemory, Damaged, Conflict, ReadOnly, MediumFailed, Unsupported,
                 TooLarge, Corrupted, TransferFailed, Busy, Internal, Unreachable, OutcomeUnknown, Refused, Cancelled,
                 NoDevice)
}


def error_of(status: int, message: str) -> VerbenaError:
    return KINDS.get(status, Internal)(message)
