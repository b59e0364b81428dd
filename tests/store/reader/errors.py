# SPDX-License-Identifier: Apache-2.0
"""Why a store cannot be read at all."""


class NoStore(Exception):
    """There is nothing here that could be read as a store."""


class Unusable(Exception):
    """What everything else is found by is lost. `reason` is version, superblock, contradict, media, table or log."""

    def __init__(self, reason, what=""):
        super().__init__(f"{reason}: {what}" if what else reason)
        self.reason = reason
