#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Clients in processes that fork, and that end.

processes.py VERBENA
"""
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import support
import verbena
from support import Served, content
from verbena import Client


def length_of(port, name):
    with Client(port=port) as client:
        return len(client.get(name))


class Processes(Served):
    def setUp(self):
        self.client = Client(port=self.server.port)
        self.addCleanup(self.client.close)

    def run_program(self, *lines):
        """With a client `c`; what it prints."""
        begin = ("import os, sys, verbena", "c = verbena.Client(port=int(sys.argv[1]))")
        done = subprocess.run([sys.executable, "-c", "\n".join(begin + lines), str(self.server.port)],
                              capture_output=True, text=True, timeout=support.SECONDS, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def in_child(self, function):
        """How a child of fork ends: with 0 if the function returns."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                function()
                status = 0
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    # --- fork

    def test_a_child_cannot_use_it(self):
        def child():
            with self.assertRaises(verbena.Invalid):
                self.client.put("a", b"1")
            self.client.close()
            with Client(port=self.server.port) as own:
                own.put("own", b"1")

        number = self.client.register_range(self.client.create("range"), write=True)
        self.assertEqual(self.in_child(child), 0)
        self.assertEqual(bytes(self.client.get("own")), b"1")
        self.client.unregister_range(number)
        self.assertEqual(self.client.reconnects, 0)

    def test_a_child_closes_while_others_call(self):
        self.client.put("a", content(100_000))
        stop = threading.Event()

        def call():
            while not stop.is_set():
                self.client.get("a")

        threads = [threading.Thread(target=call) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                self.assertEqual(self.in_child(self.client.close), 0)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(self.client.reconnects, 0)

    def test_a_child_that_ends_leaves_the_session_alone(self):
        printed = self.run_program("c.register_range(c.create('ended'), write=True)",
                                   "if os.fork() == 0: sys.exit()",
                                   "os.wait()",
                                   "c.ping_pong()",
                                   "print(c.reconnects)")
        self.assertEqual(printed, "0\n")

    def test_exceptions_come_back_from_a_pool(self):
        again = pickle.loads(pickle.dumps(verbena.NotFound("no 'x'")))
        self.assertIs(type(again), verbena.NotFound)
        self.assertEqual(str(again), str(verbena.NotFound("no 'x'")))
        self.client.put("a", b"123")
        with multiprocessing.get_context("fork").Pool(1) as pool:
            self.assertEqual(pool.apply_async(length_of, (self.server.port, "a")).get(support.SECONDS), 3)
            with self.assertRaisesRegex(verbena.NotFound, "none"):
                pool.apply_async(length_of, (self.server.port, "none")).get(support.SECONDS)

    # --- what files have not yet written

    def test_files_are_flushed_at_the_end(self):
        self.run_program("file = c.open('text', 'w')", "file.write('1')",
                         "other = c.open('binary', 'wb')", "other.write(b'2')")
        self.assertEqual(bytes(self.client.get("text")), b"1")
        self.assertEqual(bytes(self.client.get("binary")), b"2")

    def test_files_are_flushed_when_the_client_is_closed(self):
        with Client(port=self.server.port) as client:
            file = client.open("closed", "w")
            file.write("123")
        self.assertEqual(bytes(self.client.get("closed")), b"123")
        file.close()
        client = Client(port=self.server.port)
        file = client.open("gone", "wb")
        file.write(b"123")
        client.remove("gone")
        with self.assertRaises(verbena.NotFound):
            client.close()
        self.assertTrue(client.closed)
        with self.assertRaises(verbena.Cancelled):
            file.close()


if __name__ == "__main__":
    support.main()
