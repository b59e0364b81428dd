#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Objects as files.

files.py VERBENA
"""
import io
import os
import shutil
import tarfile

import support
import verbena
from support import Served, content


class Files(Served):
    def setUp(self):
        self.client = verbena.Client(port=self.server.port)
        self.addCleanup(self.client.close)
        for info in self.client.list():
            self.client.remove(info.id)

    def test_read(self):
        data = content(3_000_000)
        self.client.put("a", data)
        with self.client.open("a") as file:
            self.assertIsInstance(file, io.BufferedReader)
            self.assertEqual(file.read(10), data[:10])
            self.assertEqual(file.seek(-5, os.SEEK_END), len(data) - 5)
            self.assertEqual(file.read(), data[-5:])
            self.assertEqual(file.read(), b"")
            file.seek(7)
            file.seek(3, os.SEEK_CUR)
            into = bytearray(100)
            self.assertEqual(file.readinto(into), 100)
            self.assertEqual(into, data[10:110])
            self.assertEqual(file.tell(), 110)
            with self.assertRaises(io.UnsupportedOperation):
                file.write(b"x")
        with self.client.open("a", "rb", buffering=0) as raw:
            self.assertIsInstance(raw, verbena.ObjectFile)
            self.assertEqual(raw.read(), data)
        with self.assertRaises(ValueError):
            raw.read()

    def test_write(self):
        data = content(3_000_000)
        with self.client.open("a", "wb") as file:
            for begin in range(0, len(data), 70_001):
                file.write(data[begin:begin + 70_001])
        self.assertEqual(self.client.get("a"), data)
        with self.client.open("a", "r+b") as file:
            file.seek(100)
            file.write(b"xyz")
            file.seek(98)
            self.assertEqual(file.read(7), data[98:100] + b"xyz" + data[103:105])
            file.truncate(1000)
        self.assertEqual(self.client.stat("a").size, 1000)
        with self.client.open("a", "ab") as file:
            self.assertEqual(file.tell(), 1000)
            file.write(b"end")
            file.flush()
            file.raw.sync()
        self.assertEqual(bytes(self.client.get("a"))[-3:], b"end")
        with self.client.open("a", "wb"):
            pass
        self.assertEqual(self.client.stat("a").size, 0)
        with self.client.open("b", "xb") as file:
            file.write(b"1")
        with self.assertRaises(FileExistsError):
            self.client.open("b", "xb")
        with self.client.open(verbena.ObjectId(1, 2), "w+b") as file:
            file.write(b"by id")
        self.assertEqual(self.client.get(verbena.ObjectId(1, 2)), b"by id")

    def test_text(self):
        with self.client.open("a", "w", encoding="utf-8") as file:
            file.write("ä\n")
            print("b", file=file)
        self.assertEqual(self.client.get("a"), "ä\nb\n".encode())
        with self.client.open("a", "r") as file:
            self.assertEqual(list(file), ["ä\n", "b\n"])
        with self.client.open("a", "a+") as file:
            file.write("c")
            file.seek(0)
            self.assertEqual(file.read(), "ä\nb\nc")

    def test_renamed_meanwhile(self):
        self.client.put("a", b"123")
        with self.client.open("a", "rb", buffering=0) as file:
            self.client.rename("a", "b")
            self.client.put("a", b"other")
            self.assertEqual(file.read(), b"123")

    def test_wrong(self):
        with self.assertRaises(FileNotFoundError):
            self.client.open("none")
        self.client.put("a", b"1")
        for arguments in (("a", ""), ("a", "rw"), ("a", "rbt"), ("a", "r", 0), ("a", "rb", -1, "utf-8")):
            with self.assertRaises(ValueError):
                self.client.open(*arguments)
        with self.client.open("a") as file:
            for offset, whence in ((-1, 0), (-9, 1), (0, 7)):
                with self.assertRaises((ValueError, OSError)):
                    file.seek(offset, whence)

    def test_other_modules(self):
        """Whatever works with files does."""
        with self.client.open("t.tar", "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            for name in ("x", "y"):
                member = tarfile.TarInfo(name)
                member.size = 5000
                archive.addfile(member, io.BytesIO(content(5000, name)))
        with self.client.open("t.tar") as file, tarfile.open(fileobj=file) as archive:
            self.assertEqual(archive.extractfile("y").read(), content(5000, "y"))
        with self.client.open("t.tar") as source, self.client.open("copy", "wb") as destination:
            shutil.copyfileobj(source, destination)
        self.assertEqual(self.client.get("copy"), self.client.get("t.tar"))


if __name__ == "__main__":
    support.main()
