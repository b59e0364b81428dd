#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`verbena serve --backend s3:BUCKET`: a server that is a cache for a bucket of a real S3 service, whose address is in
VERBENA_TEST_S3 and the directory of the cluster behind it in VERBENA_TEST_CEPH (tests/backend/with-s3).

store_s3.py VERBENA
"""
import os
import pathlib
import signal
import time

import support
from store import IN_USE, StoreTest, content
from store_served import Served

SERVICE = os.environ.get("VERBENA_TEST_S3", "")
SERVICE_TLS = os.environ.get("VERBENA_TEST_S3_TLS", "")
CEPH = os.environ.get("VERBENA_TEST_CEPH", "")


class InFrontOfABucket(Served):
    """Each test has a prefix of its own."""
    OPTIONS = ("--flush-after", "1000")

    def setUp(self):
        StoreTest.setUp(self)
        self.server, self.address = None, "127.0.0.1:0"
        self.tier = f"s3:test/{self.id().rsplit('.', 1)[-1]}?endpoint={SERVICE}&timeout=3&lease=20"

    def serve(self, *options):
        self.start("--backend", self.tier, *options)

    def behind(self, name):
        return self.json("stat", name)["objects"][0]["behind"]

    def test_there_and_back(self):
        self.serve()
        objects = {f"sizes/{size}": content(size) for size in (0, 1, 4048, 4049, 300_000, (9 << 20) + 7)}
        for name, data in objects.items():
            self.put(data, name)
        self.expect(0, "flush")
        self.expect(0, "evict")
        self.assertEqual(self.behind("sizes/300000")["cached_bytes"], 0)
        for name, data in objects.items():
            self.assertEqual(self.get(name), data)
        self.put(content(500_000), "sizes/300000")
        objects["sizes/300000"] = content(500_000)
        self.expect(0, "rm", "sizes/1")
        del objects["sizes/1"]
        other = support.verbena("serve", "--memory", "16M", "--listen", "127.0.0.1:0", "--backend", self.tier)
        self.assertEqual(other.returncode, IN_USE, other.stderr)
        self.assertEqual(self.stop(), 0)
        # From the bucket alone.
        self.data = self.path("another")
        self.serve()
        for name, data in objects.items():
            self.assertEqual(self.get(name), data)
        self.assertNotEqual(self.run_raw("get", "sizes/1", "-").returncode, 0)

    def test_a_service_that_does_not_answer(self):
        self.serve()
        self.put(content(1_000_000), "behind")
        self.expect(0, "flush")
        self.expect(0, "evict")
        self.put(content(2_000_000), "here")
        pid = int(pathlib.Path(CEPH, "run", "rgw.a.pid").read_text(encoding="ascii"))
        os.kill(pid, signal.SIGSTOP)
        try:
            self.assertNotEqual(self.run_text("flush", "here").returncode, 0)
            self.assertNotEqual(self.run_raw("get", "behind", "-").returncode, 0)
            # What is here is here, and can be changed.
            self.assertEqual(self.get("here"), content(2_000_000))
            self.put(content(3_000_000), "here")
            self.assertFalse(self.behind("here")["flushed"])
        finally:
            os.kill(pid, signal.SIGCONT)
        # If the lease was over meanwhile, it is renewed first.
        until = time.monotonic() + 2 * support.SECONDS
        while self.run_text("flush").returncode != 0:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.5)
        self.assertTrue(self.behind("here")["flushed"])
        self.expect(0, "evict")
        self.assertEqual(self.get("here"), content(3_000_000))
        self.assertEqual(self.get("behind"), content(1_000_000))

    def test_the_secret_is_not_shown(self):
        """Neither to other users of the machine nor in messages."""
        self.serve()
        self.put(content(5000), "object")
        self.expect(0, "flush")
        shown = [pathlib.Path("/proc", str(self.server.pid), "cmdline").read_text(encoding="utf-8"),
                 self.run_text("stat", "object").stdout]
        other = support.verbena("serve", "--memory", "16M", "--listen", "127.0.0.1:0", "--backend", self.tier)
        self.assertEqual(other.returncode, IN_USE, other.stderr)
        shown += [other.stdout, other.stderr]
        server, self.server = self.server, None
        server.terminate()
        shown += server.communicate(timeout=support.SECONDS)
        for text in shown:
            self.assertNotIn(os.environ["AWS_SECRET_ACCESS_KEY"], text)

    def refused(self, tier, **environment):
        result = support.call([support.VERBENA, "serve", "--memory", "16M", "--listen", "127.0.0.1:0", "--backend", tier],
                              env={**os.environ, **environment})
        self.assertNotEqual(result.returncode, 0)
        return result.stderr

    def test_what_is_wrong_is_named(self):
        self.assertIn("refuses the key", self.refused(self.tier, AWS_SECRET_ACCESS_KEY="wrong"))
        self.assertIn("no such bucket", self.refused(self.tier.replace("s3:test/", "s3:missing/")))
        self.assertIn("certificate", self.refused(self.tier.replace(SERVICE, SERVICE_TLS)))


if __name__ == "__main__":
    support.main()
