#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""verbena:// in fsspec. Exits with 77 where there is no fsspec: skipped.

filesystem.py VERBENA
"""
import os
import pickle
import sys
import tempfile
import unittest

import support
import verbena
from support import Served, content

try:
    import fsspec
except ImportError:
    print("fsspec is not installed (python3-fsspec)")
    sys.exit(77)
try:
    import pandas
except ImportError:
    pandas = None
try:
    import dask.bytes as dask_bytes
except ImportError:
    dask_bytes = None


class FileSystem(Served):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fsspec.register_implementation("verbena", "verbena.fs.VerbenaFileSystem", clobber=True)
        cls.url = f"verbena://127.0.0.1:{cls.server.port}/"

    def setUp(self):
        self.fs = fsspec.filesystem("verbena", port=self.server.port)
        for info in self.fs.client.list():
            self.fs.client.remove(info.id)

    def test_urls(self):
        with fsspec.open(self.url + "a/b", "wb") as file:
            file.write(b"123")
        with fsspec.open(self.url + "a/b") as file:
            self.assertEqual(file.read(), b"123")
        with fsspec.open(self.url + "text", "w") as file:
            file.write("ä")
        self.assertEqual(self.fs.cat("text"), "ä".encode())
        fs, path = fsspec.core.url_to_fs(self.url + "a/b")
        self.assertEqual((path, fs.unstrip_protocol(path)), ("a/b", self.url + "a/b"))
        self.assertIs(fsspec.core.url_to_fs(self.url + "c")[0], fs)
        with fsspec.open(self.url + "z.gz", "wb", compression="gzip") as file:
            file.write(bytes(100_000))
        self.assertLess(self.fs.size("z.gz"), 1000)

    def test_directories(self):
        for name in ("a/1", "a/2", "a/b/3", "c"):
            self.fs.pipe(name, name.encode())
        self.assertEqual(self.fs.ls("", detail=False), ["a", "c"])
        self.assertEqual(self.fs.ls("a", detail=False), ["a/1", "a/2", "a/b"])
        self.assertEqual(self.fs.ls("c", detail=False), ["c"])
        self.assertEqual(self.fs.find("a"), ["a/1", "a/2", "a/b/3"])
        self.assertEqual(self.fs.glob("a/*"), ["a/1", "a/2", "a/b"])
        self.assertTrue(self.fs.isdir("a/b"))
        self.assertTrue(self.fs.isfile("a/1"))
        self.assertFalse(self.fs.exists("a/4"))
        self.assertEqual(self.fs.info("a/1")["size"], 3)
        self.assertEqual(self.fs.cat(["a/1", "c"]), {"a/1": b"a/1", "c": b"c"})
        with self.assertRaises(FileNotFoundError):
            self.fs.ls("none")
        self.fs.rm("a", recursive=True)
        self.assertEqual(self.fs.ls("", detail=False), ["c"])

    def test_names_that_are_no_paths(self):
        """What is listed is the object that its path means."""
        for name in ("/first", "x", "x/", "y/", "a//b", "/", "a/c"):
            self.fs.client.put(name, name.encode())
        self.assertEqual(self.fs.find(""), ["a/c", "x"])
        self.assertEqual(self.fs.ls("", detail=False), ["a", "x"])
        self.assertEqual(self.fs.ls("a", detail=False), ["a/c"])
        self.assertEqual(self.fs.cat(self.fs.find("")), {"a/c": b"a/c", "x": b"x"})
        self.fs.rm(self.fs.find(""))
        self.assertEqual([info.name for info in self.fs.client.list()], ["/", "/first", "a//b", "x/", "y/"])

    def test_refused(self):
        self.fs.pipe("d/a", b"1")
        for call in (lambda: self.fs.rm("none"), lambda: self.fs.rm(["d/a", "none"]), lambda: self.fs.open("none"),
                     lambda: self.fs.mv("none", "none"), lambda: self.fs.cp("none", "b")):
            with self.assertRaises(FileNotFoundError):
                call()
        for call in (lambda: self.fs.rm("d"), lambda: self.fs.rm("*"), lambda: self.fs.open("d")):
            with self.assertRaises(IsADirectoryError):
                call()
        self.fs.mv("d/a", "d/a")
        self.assertEqual(self.fs.cat_file("d/a"), b"1")

    def test_what_fails_leaves_nothing(self):
        self.fs.pipe("a", b"1")
        with self.assertRaises(FileNotFoundError):
            self.fs.cp_file("none", "a")
        block = content(4 << 20)
        with self.assertRaises(verbena.Full):
            with self.fs.open("a", "wb", block_size=len(block)) as file:
                for _ in range(40):
                    file.write(block)
        self.assertEqual(self.fs.cat_file("a"), b"1")
        self.assertEqual([info.name for info in self.fs.client.list()], ["a"])

    def test_changes(self):
        data = content(100_000)
        self.fs.pipe_file("a", data)
        self.fs.cp_file("a", "b")
        self.fs.mv("b", "c")
        self.assertEqual(self.fs.cat_file("c"), data)
        self.assertEqual(self.fs.cat_file("c", 10, 20), data[10:20])
        self.assertEqual(self.fs.cat_file("c", -5), data[-5:])
        before = self.fs.ukey("a")
        self.fs.pipe_file("a", b"new")
        self.assertNotEqual(self.fs.ukey("a"), before)
        self.fs.cp_file("c", "a")
        self.assertEqual(self.fs.cat_file("a"), data)
        self.assertEqual(self.fs.checksum("a"), self.fs.checksum("c"))
        self.assertGreaterEqual(self.fs.modified("a"), self.fs.created("a"))
        self.fs.touch("d")
        self.assertEqual(self.fs.size("d"), 0)
        with tempfile.TemporaryDirectory() as folder:
            self.fs.get("c", os.path.join(folder, "x"))
            self.fs.put(os.path.join(folder, "x"), "e")
        self.assertEqual(self.fs.cat_file("e"), data)
        # No nameless object is left.
        self.assertEqual([info.name for info in self.fs.client.list()], ["a", "c", "d", "e"])

    def test_long_files(self):
        """In blocks, and seen whole."""
        data = content(11 << 20)
        self.fs.pipe_file("a", b"old")
        with self.fs.open("a", "wb", block_size=1 << 20) as file:
            for begin in range(0, len(data), 500_000):
                file.write(data[begin:begin + 500_000])
                self.assertEqual(self.fs.cat_file("a"), b"old")
        self.assertEqual(self.fs.cat_file("a"), data)
        with self.fs.open("a", "ab") as file:
            self.assertEqual(file.tell(), len(data))
            file.write(b"end")
        with self.fs.open("a", "rb") as file:
            file.seek(len(data) - 2)
            self.assertEqual(file.read(), data[-2:] + b"end")
        with self.fs.open("new", "ab") as file:
            file.write(b"1")
        self.assertEqual(self.fs.cat_file("new"), b"1")

    def test_transactions(self):
        with self.fs.transaction:
            with self.fs.open("a", "wb") as file:
                file.write(b"1")
            self.assertFalse(self.fs.exists("a"))
        self.assertEqual(self.fs.cat_file("a"), b"1")
        with self.assertRaises(KeyError):
            with self.fs.transaction:
                with self.fs.open("a", "wb") as file:
                    file.write(b"2")
                raise KeyError
        self.assertEqual(self.fs.cat_file("a"), b"1")
        self.assertEqual(len(self.fs.client.list()), 1)

    def test_pickled(self):
        self.fs.pipe_file("a", b"1")
        again = pickle.loads(pickle.dumps(self.fs))
        self.assertEqual(again.cat_file("a"), b"1")

    @unittest.skipUnless(pandas, "pandas is not installed")
    def test_pandas(self):
        frame = pandas.DataFrame({"a": range(1000), "b": 0.5})
        frame.to_csv(self.url + "frame.csv", index=False)
        self.assertTrue(pandas.read_csv(self.url + "frame.csv").equals(frame))

    @unittest.skipUnless(dask_bytes, "Dask is not installed")
    def test_dask(self):
        """Blocks of several objects, by several threads."""
        lines = b"".join(b"%d\n" % number for number in range(20_000))
        for name in ("d/1", "d/2"):
            self.fs.pipe_file(name, lines)
        _, parts = dask_bytes.read_bytes(self.url + "d/*", delimiter=b"\n", blocksize=10_000)
        self.assertEqual(len(parts), 2)
        self.assertGreater(len(parts[0]), 5)
        for blocks in parts:
            self.assertEqual(b"".join(block.compute() for block in blocks), lines)


if __name__ == "__main__":
    support.main()
