#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""verbena.Client against a server.

client.py VERBENA
"""
import array
import ctypes.util
import gc
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import support
import verbena
from support import Served, Server, content
from verbena import Client, ObjectId


class Clients(Served):
    def setUp(self):
        self.client = Client(port=self.server.port)
        self.addCleanup(self.client.close)
        for info in self.client.list():
            self.client.remove(info.id)

    def test_there_and_back(self):
        for size in (0, 1, 4048, 32_768, 32_769, 1 << 20, (17 << 20) + 3):
            with self.subTest(size=size):
                data = content(size)
                done = self.client.put("a", data)
                self.assertEqual((done.bytes, done.crc), (size, verbena.crc32(data)))
                self.assertEqual(self.client.get("a"), data)
                self.assertEqual(self.client.read("a"), data)
                self.assertEqual(self.client.read("a", 10, 3), data[3:13])
                self.assertEqual(self.client.stored_crc("a"), done.crc)

    def test_memory_is_not_copied(self):
        """Any buffer goes in; what comes out lives as long as somebody has it."""
        data = content(100_000)
        for given in (data, bytearray(data), memoryview(data)[:], array.array("I", data), memoryview(data).cast("H")):
            self.client.put("a", given)
            got = self.client.get("a")
            self.assertIsInstance(got, memoryview)
            self.assertEqual(got, data)
        part = self.client.get("a")[5:10]
        gc.collect()
        self.assertEqual(part, data[5:10])
        into = bytearray(50)
        self.assertEqual(self.client.readinto("a", memoryview(into)[10:20], 7), 10)
        self.assertEqual(into, bytes(10) + data[7:17] + bytes(30))
        with self.assertRaises(BufferError):
            self.client.readinto("a", data)
        with self.assertRaises(BufferError):
            self.client.put("a", memoryview(data)[::2])
        with self.assertRaises(TypeError):
            self.client.put("a", "text")
        into.append(0)  # no buffer is held any more

    def test_objects(self):
        made = self.client.create("a", ObjectId(3, 4))
        self.assertEqual(made, ObjectId(3, 4))
        self.client.write("a", b"0123456789", 2)
        self.client.truncate(made, 8)
        info = self.client.stat("a")
        self.assertEqual((info.name, info.id, info.size), ("a", made, 8))
        self.assertGreater(info.modified_ns, 0)
        self.client.clone("a", "b", offset=2, length=3)
        self.assertEqual(self.client.get("b"), b"012")
        with self.assertRaises(verbena.Exists):
            self.client.clone("a", "b")
        self.client.clone("a", "b", offset=2, to_offset=3, allow_exist=True)
        self.assertEqual(self.client.get("b"), b"012012345")
        self.client.rename("b", "c")
        self.assertEqual([each.name for each in self.client.list()], ["a", "c"])
        self.assertEqual([each.name for each in self.client.list("c")], ["c"])
        self.assertEqual([each.name for each in self.client.list(limit=1)], ["a"])
        self.assertEqual([each.name for each in self.client.list(after=info)], ["c"])
        self.client.replace("a", "c")
        self.assertEqual(self.client.get("a"), b"012012345")
        self.assertTrue(self.client.exists("a"))
        self.assertFalse(self.client.exists("c"))
        self.client.flush()
        self.client.flush("a", 1, 2)
        self.client.remove("a")
        self.assertEqual(self.client.list(), [])

    def test_names(self):
        for name in ("ä/ö", "a b", "x" * 1000):
            self.client.put(name, b"1")
            self.assertEqual(self.client.list(name)[0].name, name)
        for name in ("", "x" * 1001, "a\0b"):
            with self.assertRaises(verbena.Invalid):
                self.client.put(name, b"1")

    def test_numbers(self):
        class Index:
            def __index__(self):
                return 2

        made = self.client.create("a", ObjectId(0, 2))
        self.client.write(made, b"123")
        self.assertEqual(bytes(self.client.read("a", offset=Index())), b"3")
        for wrong in (ObjectId(1 << 64, 2), ObjectId(0, (1 << 64) + 2), ObjectId(-1, 2)):
            with self.assertRaises(verbena.Invalid):
                self.client.remove(wrong)
        for wrong in (b"\0\2", None, 5, (0, 2, 3), [0, 2]):
            with self.assertRaises(TypeError):
                self.client.remove(wrong)
        for call in (lambda: self.client.put("b", b"1", crc=1 << 32), lambda: self.client.ping_pong(-1),
                     lambda: self.client.unregister_range(-1), lambda: self.client.create("b", ObjectId(1 << 64, 9))):
            with self.assertRaises(verbena.Invalid):
                call()
        with self.assertRaises(TypeError):
            self.client.read("a", 1, 1.5)
        self.assertEqual([info.name for info in self.client.list()], ["a"])

    def test_errors(self):
        with self.assertRaises(FileNotFoundError) as caught:
            self.client.get("none")
        self.assertIsInstance(caught.exception, verbena.NotFound)
        self.assertEqual(caught.exception.word, "not-found")
        self.assertTrue(caught.exception.strerror)
        self.client.put("a", b"1", new=True, durable=True)
        with self.assertRaises(FileExistsError):
            self.client.put("a", b"2", new=True)
        with self.assertRaises(verbena.Corrupted):
            self.client.put("a", b"2", crc=verbena.crc32(b"3"))
        self.client.write("a", b"2", crc=verbena.crc32(b"2"))
        for call in (lambda: self.client.read("a", 1, -1), lambda: self.client.truncate("a", 1 << 64),
                     lambda: Client(port=0), lambda: Client(timeout=0)):
            with self.assertRaises(ValueError):
                call()

    def test_ranges(self):
        self.client.put("a", bytes(100))
        with Client(port=self.server.port) as other:
            mine = self.client.register_range("a", 0, 50, write=True)
            with self.assertRaises(verbena.Conflict):
                other.register_range("a", 49, 1)
            self.client.unregister_range(mine)
            other.register_range("a", 49, 1)

    def test_connection(self):
        self.assertTrue(self.client.provider.startswith("verbs, "))
        self.assertEqual(self.client.limits.io_bytes, 16 << 20)
        self.assertEqual(self.client.reconnects, 0)
        self.client.set_passive_wait(True)
        ping = self.client.ping_pong(5, 100, 100_000)
        self.assertLessEqual(ping.rdma_min_ns, ping.rdma_max_ns)
        with Client(port=self.server.port, passive_wait=True) as other:
            self.assertFalse(other.closed)
        self.assertTrue(other.closed)
        self.assertIn("closed", repr(other))
        other.close()
        for call in (lambda: other.get("a"), lambda: other.provider, lambda: other.limits):
            with self.assertRaises(verbena.Cancelled):
                call()

    def test_threads(self):
        failures = []

        def work(number):
            for size in range(0, 60_000, 6_000):
                data = content(size, number)
                self.client.put(f"object {number}", data)
                if self.client.get(f"object {number}") != data:
                    failures.append((number, size))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


    def test_closed_by_another_thread(self):
        client = Client(port=self.server.port)
        client.put("a", content(1_000_000))
        ended = []

        def work():
            try:
                while True:
                    client.get("a")
            except verbena.Cancelled:
                ended.append(True)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        client.get("a")
        client.close()
        for thread in threads:
            thread.join()
        self.assertEqual(len(ended), 4)

    def test_left_open(self):
        """A program may end with clients that are open, and threads that use them."""
        program = ("import sys, threading, time, verbena\n"
                   "client = verbena.Client(port=int(sys.argv[1]))\n"
                   "client.put('left', bytes(1000))\n"
                   "def work():\n"
                   "    while True: client.get('left')\n"
                   "threading.Thread(target=work, daemon=True).start()\n"
                   "time.sleep(0.1)\n"
                   "kept = client.get('left')\n")
        done = subprocess.run([sys.executable, "-c", program, str(self.server.port)], capture_output=True, text=True,
                              timeout=support.SECONDS, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Servers(unittest.TestCase):
    def test_secret(self):
        with tempfile.NamedTemporaryFile() as file:
            os.chmod(file.name, 0o600)
            file.write(b"sesame")
            file.flush()
            server = Server("--secret-file", file.name)
            self.addCleanup(server.stop)
            for secret in ("sesame", b"sesame"):
                Client(port=server.port, secret=secret).close()
            for secret in (None, "other"):
                with self.assertRaises(PermissionError) as caught:
                    Client(port=server.port, secret=secret)
                self.assertIsInstance(caught.exception, verbena.Refused)

    @unittest.skipUnless(ctypes.util.find_library("fabric"), "libfabric is not installed")
    def test_fabrics(self):
        server = Server("--fabric", "verbs", "--fabric", "ofi:tcp")
        self.addCleanup(server.stop)
        data = content(1_000_000)
        for fabric, name in (("verbs", "verbs, "), ("ofi:tcp", "libfabric, tcp"), (None, "verbs, ")):
            with self.subTest(fabric=fabric), Client(port=server.port, fabric=fabric) as client:
                self.assertTrue(client.provider.startswith(name), client.provider)
                for object_name in ("small", "large"):
                    given = data if object_name == "large" else data[:100]
                    done = client.put(object_name, given)
                    self.assertEqual((done.bytes, done.crc), (len(given), verbena.crc32(given)))
                    self.assertEqual(client.get(object_name), given)
        only = Server("--fabric", "ofi:tcp")
        self.addCleanup(only.stop)
        with self.assertRaises(verbena.Refused) as caught:
            Client(port=only.port, fabric="verbs")
        self.assertIn("it has ofi:tcp;ofi_rxm", caught.exception.strerror)
        with self.assertRaises(verbena.NoDevice) as caught:
            Client(port=server.port, fabric="ofi:no_such_provider")
        self.assertIn("no_such_provider", caught.exception.strerror)

    def test_wrong_fabrics(self):
        """Before anything is looked for."""
        for fabric in ("tcp", "Verbs", "ofi:", " "):
            with self.assertRaises(ValueError) as caught:
                Client(port=1, fabric=fabric)
            self.assertIsInstance(caught.exception, verbena.Invalid)
            self.assertEqual(caught.exception.strerror, f"'{fabric}' is not one of: verbs, ofi, ofi:PROVIDER")

    def test_a_killed_server(self):
        server = Server()
        self.addCleanup(server.stop)
        client = Client(port=server.port, timeout=0.5)
        self.addCleanup(client.close)
        server.kill()
        with self.assertRaises(verbena.Unreachable):
            client.stat("a")
        with self.assertRaises(ConnectionError):
            client.create("a")
        with self.assertRaises(verbena.Unreachable):
            Client(port=server.port, timeout=0.1)


if __name__ == "__main__":
    support.main()
