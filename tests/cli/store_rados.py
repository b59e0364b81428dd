#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`verbena serve --backend rados:POOL`: a server that is a cache for a pool of a real Ceph cluster, whose directory is in
VERBENA_TEST_CEPH (tests/backend/with-ceph).

store_rados.py VERBENA
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import support
from store import IN_USE, StoreTest, content
from store_served import Served

CEPH = os.environ.get("VERBENA_TEST_CEPH", "")


class InFrontOfAPool(Served):
    """Each test has a namespace of its own."""
    OPTIONS = ("--flush-after", "1000")

    def setUp(self):
        StoreTest.setUp(self)
        self.server, self.address = None, "127.0.0.1:0"
        self.tier = f"rados:test/{self.id().rsplit('.', 1)[-1]}?conf={CEPH}/ceph.conf&timeout=4&lease=6"

    def serve(self, *options):
        self.start("--backend", self.tier, *options)

    def behind(self, name):
        return self.json("stat", name)["objects"][0]["behind"]

    def test_there_and_back(self):
        self.serve()
        objects = {f"sizes/{size}": content(size) for size in (0, 1, 4047, 4048, 4049, 300_000, (9 << 20) + 7)}
        for name, data in objects.items():
            self.put(data, name)
        self.expect(0, "flush")
        self.expect(0, "evict")
        self.assertEqual(self.behind("sizes/300000")["cached_bytes"], 0)
        for name, data in objects.items():
            self.assertEqual(self.get(name), data)
        self.put(content(500_000), "sizes/300000")
        objects["sizes/300000"] = content(500_000)
        self.expect(0, "cp", "sizes/9437191", "clone")
        objects["clone"] = objects["sizes/9437191"]
        self.expect(0, "rm", "sizes/1")
        del objects["sizes/1"]
        self.assertEqual(self.stop(), 0)
        # From the pool alone.
        self.data = self.path("another")
        self.serve()
        for name, data in objects.items():
            self.assertEqual(self.get(name), data)
        self.assertNotEqual(self.run_raw("get", "sizes/1", "-").returncode, 0)

    def daemons(self, kind):
        files = sorted(pathlib.Path(CEPH, "run").glob(f"{kind}*.pid"))
        return [int(file.read_text(encoding="ascii")) for file in files]

    def stopped(self, kind):
        """Daemons that do not answer, until it is left."""
        @contextlib.contextmanager
        def context():
            pids = self.daemons(kind)
            try:
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
                yield
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
        return context()

    def flush_when_it_can_be(self):
        """After the cluster was away: it needs a while to be itself again."""
        until = time.monotonic() + 2 * support.SECONDS
        while self.run_text("flush").returncode != 0:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.5)

    def test_a_cluster_that_does_not_answer(self):
        self.serve()
        self.put(content(1_000_000), "behind")
        self.expect(0, "flush")
        self.expect(0, "evict")
        self.put(content(2_000_000), "here")
        with self.stopped("osd"):
            begun = time.monotonic()
            failed = self.run_text("flush", "here")
            self.assertNotEqual(failed.returncode, 0)
            self.assertIn("does not answer", failed.stderr)
            self.assertNotEqual(self.run_raw("get", "behind", "-").returncode, 0)
            # One that ends while the server waits for it.
            impatient = subprocess.Popen([support.VERBENA, "get", "behind", "-", "--server", self.address], stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
            time.sleep(0.5)
            impatient.kill()
            impatient.wait()
            self.assertLess(time.monotonic() - begun, support.SECONDS)
            # What is here is here, and can be changed.
            self.assertEqual(self.get("here"), content(2_000_000))
            self.put(content(3_000_000), "here")
            self.assertFalse(self.behind("here")["flushed"])
        self.flush_when_it_can_be()
        self.assertTrue(self.behind("here")["flushed"])
        self.expect(0, "evict")
        self.assertEqual(self.get("here"), content(3_000_000))
        self.assertEqual(self.get("behind"), content(1_000_000))

    def ceph(self, *words):
        done = support.call(["ceph", "-c", f"{CEPH}/ceph.conf", *words])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def set_full_at(self, ratio):
        for name, share in (("nearfull", 0.8), ("backfillfull", 0.9), ("full", 1)):
            self.ceph("osd", f"set-{name}-ratio", f"{ratio * share:.6f}")

    def test_a_cluster_that_is_full(self):
        self.serve()
        self.put(content(1_000_000), "first")
        self.expect(0, "flush")
        self.addCleanup(self.set_full_at, 0.95)
        self.set_full_at(0.0001)
        until = time.monotonic() + 2 * support.SECONDS
        failed, count = None, 0
        while failed is None:
            self.assertLess(time.monotonic(), until, "the cluster never noticed that it is full")
            self.put(content(100_000 + count), f"more {count}")
            done = self.run_text("flush")
            failed = done if done.returncode != 0 else None
            count += failed is None
            time.sleep(0.5)
        self.assertIn("No space left", failed.stderr)
        self.assertFalse(self.behind(f"more {count}")["flushed"])
        self.assertEqual(self.get(f"more {count}"), content(100_000 + count))
        self.set_full_at(0.95)
        self.flush_when_it_can_be()
        self.expect(0, "evict")
        self.assertEqual(self.get("first"), content(1_000_000))
        for i in range(count + 1):
            self.assertEqual(self.get(f"more {i}"), content(100_000 + i))

    def check_without_an_osd(self, end, bring_back):
        """An OSD goes in the middle of flushes and comes back in the middle of others."""
        self.serve()
        objects = {}
        pid = self.daemons("osd.0")[0]
        for i in range(12):
            objects[f"o{i}"] = content((3 << 20) + i)
            self.put(objects[f"o{i}"], f"o{i}")
            if i == 4:
                os.kill(pid, end)  # in the middle of the next one
            if i == 7:
                self.expect(0, "evict")
                self.assertEqual(self.get("o0"), objects["o0"])  # from the other copy
            if i == 8:
                done = support.call([os.path.join(os.path.dirname(__file__), "../backend/ceph-cluster"), bring_back, CEPH, "0"])
                self.assertEqual(done.returncode, 0, done.stderr)
            self.flush_when_it_can_be()
            self.assertTrue(self.behind(f"o{i}")["flushed"])
        self.expect(0, "evict")
        for name, data in objects.items():
            self.assertEqual(self.get(name), data)

    def test_an_osd_that_ends_and_comes_back(self):
        self.check_without_an_osd(signal.SIGTERM, "again")

    def test_an_osd_that_is_killed_and_replaced(self):
        self.check_without_an_osd(signal.SIGKILL, "replace")
        self.wait_for_all_copies()

    def wait_for_all_copies(self):
        """Before another test takes an OSD that has the only one."""
        until = time.monotonic() + 2 * support.SECONDS
        pool = json.loads(self.ceph("osd", "dump", "--format", "json"))["pools"][0]
        for number in range(pool["pg_num"]):
            group = f"{pool['pool']}.{number:x}"
            while json.loads(self.ceph("tell", group, "query"))["state"] != "active+clean":
                self.assertLess(time.monotonic(), until, group)
                time.sleep(0.5)

    def test_a_monitor_that_is_away_for_a_while(self):
        self.serve()
        self.put(content(1_000_000), "x")
        with self.stopped("mon"):
            time.sleep(20)
            self.run_text("flush")  # may work or not: the map of the cluster is known
            self.assertEqual(self.get("x"), content(1_000_000))
        self.flush_when_it_can_be()
        self.expect(0, "evict")
        self.assertEqual(self.get("x"), content(1_000_000))

    def test_a_kill_and_a_second_server(self):
        self.serve()
        self.put(content(1_000_000), "x")
        self.expect(0, "flush")
        self.put(content(2_000_000), "x")
        other = support.verbena("serve", "--memory", "16M", "--listen", "127.0.0.1:0", "--backend", self.tier)
        self.assertEqual(other.returncode, IN_USE, other.stderr)
        self.stop(signal.SIGKILL)
        # The lease ends by itself, some time after its owner.
        until = time.monotonic() + 2 * support.SECONDS
        while True:
            server = subprocess.Popen(
                [support.VERBENA, "serve", "--data", self.data, "--listen", "127.0.0.1:0", "--quiet", *self.OPTIONS,
                 "--backend", self.tier], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            line = server.stdout.readline().split()
            if line:
                break
            said = server.communicate()[1]
            self.assertEqual(server.returncode, IN_USE, said)
            self.assertLess(time.monotonic(), until)
            time.sleep(1)
        self.server, self.address = server, line[1]
        self.addCleanup(self.stop)
        self.assertEqual(self.get("x"), content(2_000_000))
        self.assertFalse(self.behind("x")["flushed"])
        self.expect(0, "flush")
        self.assertTrue(self.behind("x")["flushed"])


if __name__ == "__main__":
    support.main()
