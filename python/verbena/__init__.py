# SPDX-License-Identifier: Apache-2.0
"""Objects of a Verbena store, over RDMA. See Client; verbena.fs is a file system for fsspec."""
from .client import Client, Info, Limits, ObjectId, ObjectKey, Ping, Transfer, crc32
from .errors import (Busy, Cancelled, Conflict, Corrupted, Damaged, Exists, Full, Internal, Invalid, MediumFailed,
                     NoDevice, NoMemory, NotFound, OutcomeUnknown, ReadOnly, Refused, TooLarge, TransferFailed,
                     Unreachable, Unsupported, VerbenaError)
from .file import ObjectFile

__version__ = "0.1.0"
__all__ = [
    "Client", "Info", "Limits", "ObjectFile", "ObjectId", "ObjectKey", "Ping", "Transfer", "crc32",
    "Busy", "Cancelled", "Conflict", "Corrupted", "Damaged", "Exists", "Full", "Internal", "Invalid", "MediumFailed",
    "NoDevice", "NoMemory", "NotFound", "OutcomeUnknown", "ReadOnly", "Refused", "TooLarge", "TransferFailed",
    "Unreachable", "Unsupported", "VerbenaError",
]
