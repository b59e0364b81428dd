#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`verbena bench` on a store in a folder. What it measures is not looked at: only that it is consistent.

store_bench.py VERBENA
"""
import signal
import subprocess
import time

import support
from store import FULL, USAGE, StoreTest, content


class BenchTests:
    """On any store: a class that has one says where."""

    def test_counts_and_sizes(self):
        found = self.json("bench", "--size", "1,4K", "--size", "100000", "--count", "300", "--depth", "3", "--verify")
        self.assertEqual([run["size"] for run in found["runs"]], [1, 4096, 100_000])
        for run in found["runs"]:
            parts = [run["reads"], run["writes"]]
            self.assertEqual(sum(part["requests"] for part in parts), 300)
            for part in parts:
                self.assertGreater(part["requests"], 50)  # half of them, by chance
                self.assertEqual(part["bytes"], part["requests"] * run["size"])
                self.assertEqual(sum(count for _, count in part["histogram"]), part["requests"])
                times = part["latency_ns"]
                order = [times[name] for name in ("min", "p50", "p90", "p99", "p999", "max")]
                self.assertEqual(order, sorted(order))
                self.assertGreater(part["requests_per_second"], 0)

    def test_mix(self):
        for percent, none in ((0, "reads"), (100, "writes")):
            run = self.json("bench", "--size", "64", "--count", "100", "--reads", str(percent))["runs"][0]
            self.assertEqual(run[none]["requests"], 0)
            self.assertEqual(run["reads"]["requests"] + run["writes"]["requests"], 100)

    def test_clients_and_durable_writes(self):
        found = self.json("bench", "--size", "5000", "--count", "60", "--clients", "3", "--depth", "2", "--flush",
                          "--verify", "--span", "1M")
        self.assertEqual((found["clients"], found["depth"], found["flush"]), (3, 2, True))

    def test_ends_after_a_time(self):
        self.assertGreater(self.json("bench", "--size", "64", "--seconds", "0.1")["runs"][0]["reads"]["requests"], 0)

    def test_table(self):
        done = self.run_text("bench", "--size", "4K", "--count", "100")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split()[:2], ["SIZE", "REQUESTS"])
        self.assertEqual([line.split()[:3] for line in lines[1:]], [["4096", "B", "read"], ["4096", "B", "write"]])
        self.assertLessEqual(max(map(len, lines)), 110)

    def test_leaves_nothing(self):
        self.put(content(1000), "mine")
        before = self.json("ls")["objects"]
        self.expect(0, "bench", "--size", "4K", "--count", "50", "--quiet")
        self.assertEqual(self.json("ls")["objects"], before)
        self.assertEqual(self.get("mine"), content(1000))

    def test_is_interrupted(self):
        words = [support.VERBENA, "bench", *self.place_words(), "--size", "4K", "--seconds", "600"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=support.SECONDS)
            self.assertEqual(process.returncode, 128 + signal.SIGINT, said)
            self.assertIn("interrupted", said)
        self.assertEqual(self.names(), [])

    def test_says_what_is_wrong(self):
        for words, said in ((["--size", "0"], "--size: 0 is not a size of 1 byte to 16 MiB"),
                            (["--size", "4K,"], "--size: "), (["--size", "17M"], "--size: 17M is not"),
                            (["--depth", "0"], "--depth: '0' is not a number from 1 to 256"),
                            (["--clients", "x"], "--clients: 'x' is not a number"),
                            (["--clients", "100", "--depth", "3"], "more than 256 requests at once"),
                            (["--reads", "101"], "--reads: '101' is not a number from 0 to 100"),
                            (["--count", "0"], "--count: "), (["--seconds", "-1"], "--seconds: -1 is not a time"),
                            (["--span", "?"], "--span: ")):
            self.assertIn(said, self.expect(USAGE, "bench", *words))


class InFolder(BenchTests, StoreTest):
    def place_words(self):
        return ["--data", self.data]

    def test_kinds(self):
        self.expect(0, "bench", "--size", "4K", "--count", "50", "--kind", "staged", "--quiet")
        self.assertIn("no damage", support.verbena("scrub", self.data).stdout)

    def test_full_store(self):
        self.assertIn("are free", self.expect(FULL, "bench", "--size", "1M", "--count", "500", "--reads", "0", "--span", "200M",
                                              "--capacity", "24M"))


if __name__ == "__main__":
    support.main()
