#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store's commands over libfabric: tcp;ofi_rxm, and in a network namespace verbs;ofi_rxm on the built-in
device. Several fabrics at once, clients that say which one they want or take the best, and what is left in /dev/shm.

store_fabrics.py VERBENA
"""
import ctypes.util
import glob
import os
import signal
import subprocess
import sys
import time
import unittest

import support
from store import content
from store_served import Served

UNREACHABLE = 10
ADDRESS = "192.0.2.1"  # of the namespace
# libfabric's verbs provider does not use the loopback interface.
NETWORK = ("ip link set lo up && ip link add end0 type veth peer name end1 && ip link set end1 up && "
           f"ip addr add {ADDRESS}/24 dev end0 && ip link set end0 up && exec \"$@\"")


def need_libfabric():
    if ctypes.util.find_library("fabric") is None:
        raise unittest.SkipTest("libfabric is not installed")


def files_of(process):
    return glob.glob(f"/dev/shm/*verbena-ofi-{process}-*")


class OverLibfabric(Served):
    def setUp(self):
        need_libfabric()
        super().setUp()

    def there_and_back(self, *fabric):
        for size in (100, 30_000, 1_000_000):
            name = f"object {size}"
            self.expect(0, "put", *fabric, self.file("file", content(size)), name)
            self.expect(0, "cp", *fabric, name, "clone")
            self.expect(0, "verify", *fabric, "clone")
            self.expect(0, "get", *fabric, "clone", self.path(f"back {size}"))
            self.assertEqual(self.read(f"back {size}"), content(size))
            self.expect(0, "rm", *fabric, name, "clone")


class Tcp(OverLibfabric):
    OPTIONS = ("--fabric", "ofi")

    def test_there_and_back(self):
        self.there_and_back("--fabric", "ofi:tcp;ofi_rxm")
        self.there_and_back()  # by the best that both have
        self.assertEqual(self.stop(), 0)

    def test_another_is_refused(self):
        done = self.run_text("ls", "--fabric", "verbs")
        self.assertEqual(done.returncode, UNREACHABLE)
        self.assertIn("it has ofi:tcp;ofi_rxm", done.stderr)


class Several(OverLibfabric):
    OPTIONS = ("--fabric", "verbs", "--fabric", "ofi:tcp")

    def test_there_and_back(self):
        for fabric in ("verbs", "ofi:tcp"):
            with self.subTest(fabric=fabric):
                self.there_and_back("--fabric", fabric)
        self.there_and_back()
        self.assertEqual(self.stop(), 0)


@unittest.skipUnless(os.environ.get("VERBENA_UNSAFE_SHM"), "for experiments only: see docs/fabric.md")
class Shm(OverLibfabric):
    OPTIONS = ("--fabric", "ofi:shm")

    def client(self):
        """One that has connected, and waits for data."""
        client = subprocess.Popen([support.VERBENA, "put", "--server", self.address, "-", "x"], stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        give_up = time.monotonic() + support.SECONDS
        while time.monotonic() < give_up:
            with open(f"/proc/{client.pid}/maps", encoding="utf-8") as file:
                regions = [line for line in file if "verbena-ofi-" in line]
            # Its own, and the server's; nobody else needs their names.
            if len(regions) >= 2 and all("(deleted)" in line for line in regions):
                return client
            time.sleep(0.01)
        self.fail("the client does not connect")

    def test_nothing_is_left(self):
        server = self.server.pid
        for killed in ("client", "server"):
            with self.subTest(killed=killed):
                client = self.client()
                if killed == "client":
                    client.send_signal(signal.SIGKILL)
                    client.wait(support.SECONDS)
                    self.there_and_back()
                else:
                    self.assertEqual(self.stop(signal.SIGKILL), -signal.SIGKILL)
                    client.kill()
                    client.wait(support.SECONDS)
                self.assertEqual(files_of(client.pid) + files_of(server), [])

    def test_what_was_left_is_removed(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        paths = [f"/dev/shm/verbena-ofi-{process}-0-1" for process in (gone.pid, os.getpid())]
        for path in paths:
            with open(path, "wb"):
                self.addCleanup(lambda path=path: os.path.exists(path) and os.remove(path))
        self.expect(0, "ls")
        self.assertEqual([os.path.exists(path) for path in paths], [False, True])


@unittest.skipUnless(os.environ.get("FABRICS_NAMESPACE"), "runs in a namespace of its own")
class Verbs(OverLibfabric):
    OPTIONS = ("--fabric", "ofi:verbs;ofi_rxm")

    def start(self, *options):
        self.address = f"{ADDRESS}:0"
        super().start(*options)

    def test_there_and_back(self):
        self.there_and_back("--fabric", "ofi:verbs")
        self.there_and_back()
        self.assertEqual(self.stop(), 0)


@unittest.skipIf(os.environ.get("FABRICS_NAMESPACE"), "it is there")
class Namespace(unittest.TestCase):
    def test_verbs(self):
        need_libfabric()
        words = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "sh", "-c", NETWORK, "sh"]
        if support.call([*words, "true"]).returncode != 0:
            self.skipTest("this system has no network namespaces with interfaces for us")
        done = support.call([*words, sys.executable, __file__, support.VERBENA, "Verbs"],
                            env={**os.environ, "FABRICS_NAMESPACE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Ran 1 test", done.stderr)


if __name__ == "__main__":
    support.main()
