# SPDX-License-Identifier: Apache-2.0
"""The files of a store: directories, media, and where a chunk is."""
import os
import re

import chunks
from errors import NoStore

_NAME = re.compile(r"blocks\.(\d+)of(\d+)\.(\d{3})\Z")
_PROBED = 16  # chunks of each block that are looked at for the place of a file


class _File:
    def __init__(self, path, index):
        self.name, self.index = os.path.basename(path), index
        self.file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self.file).st_size
        self.begin = 0  # in the medium, in bytes

    def read(self, offset):
        """The chunk at an offset in this file, or None if it is not there or cannot be read."""
        try:
            raw = os.pread(self.file, chunks.SIZE, offset)
        except OSError:
            return None
        return raw if len(raw) == chunks.SIZE else None


class Medium:
    """The blocks files of one directory."""

    def __init__(self, folder):
        self.folder = folder
        names = sorted(filter(None, map(_NAME.match, os.listdir(folder))), key=lambda name: name[3])
        if not names:
            raise NoStore(f"{folder}: no blocks files")
        self.number, self.count = int(names[0][1]), int(names[0][2])
        if any((int(name[1]), int(name[2])) != (self.number, self.count) for name in names):
            raise NoStore(f"{folder}: files of more than one medium")
        self.files = [_File(os.path.join(folder, name[0]), int(name[3])) for name in names]
        if self.files[0].index != 0:
            raise NoStore(f"{folder}: the first file is missing")

    def settle(self, chunks_per_block, tag):
        """Finds out where each file begins, by the ids of its chunks; the names of files that are missing or too short."""
        block = chunks_per_block * chunks.SIZE
        lost, end, index = [], 0, 0
        for file in self.files:
            lost += [f"file {missing:03}: missing" for missing in range(index, file.index)]
            begin = self._place_of(file, chunks_per_block, tag) if file.index else 0
            file.begin = end if begin is None else begin
            if file.begin > end and file.index == index:
                lost.append(f"file {index - 1:03}: cut off")
            if file.size % block:
                lost.append(f"file {file.index:03}: cut off")
            end, index = file.begin + -(-file.size // block) * block, file.index + 1
        return sorted(set(lost))

    def _place_of(self, file, chunks_per_block, tag):
        block = chunks_per_block * chunks.SIZE
        for offset in range(0, file.size, block):
            for i in range(_PROBED):
                raw = file.read(offset + i * chunks.SIZE)
                if raw is None or not any(raw[chunks.DATA:chunks.DATA + 8]):
                    continue
                chunk = chunks.Chunk(raw)
                number, place = divmod(chunk.id, chunks_per_block)
                if chunk.why_not(store=tag) is None and place == i and number % self.count == self.number:
                    return number // self.count * block - offset
        return None

    def read(self, offset):
        for file in self.files:
            if file.begin <= offset < file.begin + file.size:
                return file.read(offset - file.begin)
        return None


class Folders:
    """All media of a store in directories, in any order."""

    def __init__(self, folders):
        found = {}
        for folder in folders:
            medium = Medium(folder)
            if medium.number in found or medium.count != len(folders) or medium.number >= medium.count:
                raise NoStore(f"{folder}: medium {medium.number} of {medium.count}, but {len(folders)} directories")
            found[medium.number] = medium
        self._media = [found[number] for number in range(len(folders))]
        self.media = len(folders)

    def close(self):
        for medium in self._media:
            for file in medium.files:
                os.close(file.file)

    def settle(self, chunks_per_block, tag):
        return [f"{medium.folder} {lost}" for medium in self._media for lost in medium.settle(chunks_per_block, tag)]

    def raw(self, number, chunks_per_block):
        """The bytes of a chunk, or None if the store does not have it."""
        block, place = divmod(number, chunks_per_block)
        block_of_medium, medium = divmod(block, self.media)
        return self._media[medium].read((block_of_medium * chunks_per_block + place) * chunks.SIZE)


class Listed:
    """A store as a list of numbers and chunks: tests/golden/store/*/whole-store.chunks. Its other chunks are zeros."""

    media = 1

    def __init__(self, path):
        with open(path, "rb") as file:
            entries = file.read()
        step = 8 + chunks.SIZE
        self._chunks = {int.from_bytes(entries[at:at + 8], "big"): entries[at + 8:at + step]
                        for at in range(0, len(entries), step)}

    def close(self):
        pass

    def settle(self, _chunks_per_block, _tag):
        return []

    def raw(self, number, _chunks_per_block):
        return self._chunks.get(number, bytes(chunks.SIZE))
