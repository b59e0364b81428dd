#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""verbena:// in fsspec, and pandas and Dask on it, which ./dev test installs. Exits with 77 where there is no fsspec:
skipped.

filesystem.py VERBENA
"""
import ctypes.util
import os
import pickle
import shutil
import sys
import tempfile
import unittest

import support
import verbena
from support import Served, Server, content

try:
    import fsspec
except ImportError:
    print("fsspec is not installed (python3-fsspec)")
    sys.exit(77)
try:
    import dask.bag
    import dask.bytes
    import dask.dataframe
    import pandas
except ImportError:
    # Where ./dev test installs packages, that they are missing is a mistake.
    if shutil.which("dpkg-query"):
        raise
    pandas = None


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

    def test_options(self):
        """They reach the client, from URLs too."""
        for fabric in ("tcp", "ofi:"):
            with self.assertRaises(verbena.Invalid) as caught:
                fsspec.filesystem("verbena", port=self.server.port, fabric=fabric).ls("")
            self.assertIn(f"'{fabric}' is not one of: verbs, ofi, ofi:PROVIDER", caught.exception.strerror)
        with self.assertRaises(verbena.Refused):
            fsspec.open(self.url + "a", secret="other").open()

    @unittest.skipUnless(ctypes.util.find_library("fabric"), "libfabric is not installed")
    def test_over_libfabric(self):
        server = Server("--fabric", "ofi:tcp")
        self.addCleanup(server.stop)
        data = content(1_000_000)
        fs = fsspec.filesystem("verbena", port=server.port, fabric="ofi:tcp")
        self.addCleanup(lambda: fs.client.close())
        fs.pipe_file("a", data)
        self.assertEqual(fs.cat_file("a"), data)
        self.assertTrue(fs.client.provider.startswith("libfabric, tcp"), fs.client.provider)


@unittest.skipUnless(pandas, "pandas and Dask are not installed")
class Frames(Served):
    """What uses fsspec, by URLs alone."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fsspec.register_implementation("verbena", "verbena.fs.VerbenaFileSystem", clobber=True)
        cls.url = f"verbena://127.0.0.1:{cls.server.port}/"
        cls.fs = fsspec.filesystem("verbena", port=cls.server.port)
        cls.frame = pandas.DataFrame({"a": range(20_000), "b": 0.5, "c": [f"Zeile {i % 7} ä" for i in range(20_000)]})

    def test_pandas(self):
        """Each format that pandas writes without further packages."""
        for name, write, read, options in (
                ("csv", "to_csv", pandas.read_csv, {"index": False}),
                ("csv.gz", "to_csv", pandas.read_csv, {"index": False}),
                ("json", "to_json", pandas.read_json, {}),
                ("pickle", "to_pickle", pandas.read_pickle, {})):
            with self.subTest(name=name):
                getattr(self.frame, write)(self.url + "frame." + name, **options)
                self.assertTrue(read(self.url + "frame." + name).equals(self.frame))
        head = pandas.read_csv(self.url + "frame.csv", nrows=10)
        self.assertTrue(head.equals(self.frame.head(10)))
        with self.assertRaises(FileNotFoundError):
            pandas.read_csv(self.url + "none.csv")

    def test_pandas_with_a_secret(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("sesame")
            file.flush()
            server = Server("--secret-file", file.name)
        self.addCleanup(server.stop)
        url = f"verbena://127.0.0.1:{server.port}/frame.csv"
        options = {"secret": "sesame"}
        self.frame.to_csv(url, index=False, storage_options=options)
        self.assertTrue(pandas.read_csv(url, storage_options=options).equals(self.frame))
        with self.assertRaises(PermissionError):
            pandas.read_csv(url)

    def test_dask_bytes(self):
        """Blocks of several objects, by several threads."""
        lines = b"".join(b"%d\n" % number for number in range(20_000))
        for name in ("d/1", "d/2"):
            self.fs.pipe_file(name, lines)
        _, parts = dask.bytes.read_bytes(self.url + "d/*", delimiter=b"\n", blocksize=10_000)
        self.assertEqual(len(parts), 2)
        self.assertGreater(len(parts[0]), 5)
        for blocks in parts:
            self.assertEqual(b"".join(block.compute() for block in blocks), lines)

    def test_dask_text(self):
        """Read and written by processes, each with a connection of its own."""
        self.fs.pipe_file("numbers/1", b"".join(b"%d\n" % number for number in range(5000)))
        self.fs.pipe_file("numbers/2", b"".join(b"%d\n" % number for number in range(5000, 9000)))
        numbers = dask.bag.read_text(self.url + "numbers/*", blocksize=5000).map(int)
        self.assertGreater(numbers.npartitions, 5)
        with dask.config.set(scheduler="processes", num_workers=2):
            self.assertEqual(numbers.sum().compute(), sum(range(9000)))
            numbers.map(str).to_textfiles(self.url + "copies/*")
        names = self.fs.glob("copies/*")
        self.assertEqual(len(names), numbers.npartitions)
        words = b"\n".join(self.fs.cat_file(name) for name in sorted(names)).split()
        self.assertEqual([int(word) for word in words], list(range(9000)))

    def test_dask_frames(self):
        """A frame of several objects, in blocks: read, computed with, written, and read by pandas."""
        half = len(self.frame) // 2
        self.frame[:half].to_csv(self.url + "frames/1.csv", index=False)
        self.frame[half:].to_csv(self.url + "frames/2.csv", index=False)
        frame = dask.dataframe.read_csv(self.url + "frames/*.csv", blocksize=50_000)
        self.assertGreater(frame.npartitions, 4)
        sums = frame.groupby("c").a.sum().compute()
        self.assertTrue(sums.sort_index().equals(self.frame.groupby("c").a.sum()))
        frame.to_csv(self.url + "out/*.csv", index=False)
        names = sorted(self.fs.glob("out/*.csv"))
        self.assertEqual(len(names), frame.npartitions)
        parts = [pandas.read_csv(self.url + name) for name in names]
        self.assertTrue(pandas.concat(parts, ignore_index=True).equals(self.frame))


if __name__ == "__main__":
    support.main()
