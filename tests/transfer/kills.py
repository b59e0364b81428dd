#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`verbena send` and `verbena receive` ended at any moment, and on a full disk.

kills.py VERBENA [--kills COUNT] [--seed SEED]
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import time

from transfer_support import MIB, Receiver, TransferTest, content, support

KILLS = 10
SEED = 1
FULL, UNREACHABLE = 5, 10
CHUNK = MIB
LARGE = 24 * MIB + 1000
SMALL_FILES = 20


class Killed(TransferTest):
    def setUp(self):
        super().setUp()
        self.contents = {"large": content(LARGE, SEED)}
        for i in range(SMALL_FILES):
            self.contents[f"small {i}"] = content(1000 * i, SEED)
        for name, data in self.contents.items():
            self.file(name, data)

    def paths(self, names):
        return [os.path.join(self.root, name) for name in sorted(names)]

    def start_sending(self, receiver):
        # At a rate, so that it does not matter how quick the machine is: half a second for all.
        return subprocess.Popen([support.VERBENA, "send", "-q", "--limit-rate", "50M",
                                 *self.paths(set(self.contents) - self.there()), receiver.to()], stderr=subprocess.DEVNULL)

    def there(self):
        """Files that have arrived: they are whole."""
        found = [name for name in self.names() if not name.startswith(".verbena-")]
        for name in found:
            self.assert_arrived(name, self.contents[name])
        return set(found)

    def parts(self):
        """Of the large file, under a temporary name."""
        paths = [os.path.join(self.to, name) for name in self.names() if name.startswith(".verbena-")]
        return [path for path in paths if os.path.getsize(path) == LARGE]

    def bytes_there(self):
        """Of the large file, in chunks that are as they should be."""
        parts = self.parts()
        self.assertLessEqual(len(parts), 1)
        if not parts:
            return 0
        with open(parts[0], "rb") as file:
            part, whole = file.read(), self.contents["large"]
        same = [at for at in range(0, LARGE, CHUNK) if part[at:at + CHUNK] == whole[at:at + CHUNK]]
        return sum(min(CHUNK, LARGE - at) for at in same)

    def end_one(self, draw, wanted):
        """Ends one of the two at some moment."""
        receiver = self.receive()
        sender = self.start_sending(receiver)
        time.sleep(draw.random() * 0.7)
        of_sender = draw.random() < 0.5
        if of_sender:
            sender.send_signal(wanted)
        else:
            receiver.process.send_signal(wanted)
            receiver.wait()
        status = sender.wait(support.SECONDS)
        self.assertIn(status, (0, -wanted, 128 + wanted) if of_sender else (0, UNREACHABLE))
        # It is the same when it has not been told yet that the sender is gone.
        receiver.end()
        return status

    def complete(self):
        """The next attempt sends what is not there, and only that."""
        left = set(self.contents) - self.there()
        if not left:
            return 0
        same = self.bytes_there() if "large" in left else 0
        receiver = self.receive()
        status, report = self.send(receiver, *self.paths(left))
        self.assertEqual((status, report["files"]), (0, len(left)), report)
        self.assertEqual(report["skipped_bytes"], same)
        total = sum(len(self.contents[name]) for name in left)
        self.assertLess(report["sent_bytes"], total - same + 10_000)
        self.assertEqual(receiver.end(), 0)
        self.assertEqual(self.there(), set(self.contents))
        self.assertEqual(self.parts(), [])
        return same

    def rounds(self, wanted, count):
        draw = random.Random(SEED)
        resumed = 0
        for number in range(count):
            with self.subTest(seed=SEED, round=number):
                for name in self.names():
                    os.unlink(os.path.join(self.to, name))
                self.end_one(draw, wanted)
                resumed += self.complete() > 0
        return resumed

    def test_sigkill(self):
        self.assertGreater(self.rounds(signal.SIGKILL, KILLS), 0)

    def test_sigterm(self):
        self.assertGreater(self.rounds(signal.SIGTERM, max(KILLS // 2, 5)), 0)

    def test_several_kills_of_one_transfer(self):
        draw = random.Random(SEED)
        for _ in range(3):
            if self.there() != set(self.contents):
                self.end_one(draw, signal.SIGKILL)
        self.complete()


class FullDisk(TransferTest):
    def receive_on_small_disk(self, *options):
        mount = 'mount -t tmpfs -o size=8m none "$0" && exec "$@"'
        before = [*support.own_namespaces(), "sh", "-c", mount, self.to]
        receiver = Receiver(self.to, *options, before=before)
        self.addCleanup(receiver.end)
        # As the receiver sees it.
        self.to = f"/proc/{receiver.process.pid}/root{self.to}"
        return receiver

    def await_room(self, wanted):
        """The receiver closes a file that it has removed when its last write has failed."""
        deadline = time.monotonic() + support.SECONDS
        while os.statvfs(self.to).f_bavail * os.statvfs(self.to).f_frsize < wanted:
            self.assertLess(time.monotonic(), deadline, "the disk stays full")
            time.sleep(0.01)

    def test_the_sender_is_told(self):
        receiver = self.receive_on_small_disk()
        large, fits = self.file("large", content(25 * MIB)), self.file("fits", content(3 * MIB))
        small = [self.file(f"small {i:03}", content(200_000, i)) for i in range(45)]
        status, report = self.send(receiver, large)
        self.assertEqual((status, report["files"], report["failed"]), (FULL, 0, 1), report)
        self.assertEqual(self.names(), [])
        self.await_room(6 * MIB)
        status, report = self.send(receiver, fits)
        self.assertEqual((status, report["files"]), (0, 1), report)
        self.assert_arrived("fits", content(3 * MIB))
        status, report = self.send(receiver, *small)
        self.assertEqual(status, FULL, report)
        self.assertEqual(report["files"] + report["failed"], len(small))
        arrived = [name for name in self.names() if name != "fits"]
        self.assertEqual(len(arrived), report["files"])
        for name in arrived:
            self.assert_arrived(name, content(200_000, int(name.split()[1])))
        receiver.end()
        self.assertEqual(receiver.lines[-1]["failed"], 1 + report["failed"])

    def test_once_fails(self):
        receiver = self.receive_on_small_disk("--once")
        status, _ = self.send(receiver, self.file("large", content(25 * MIB)))
        self.assertEqual(status, FULL)
        self.assertEqual(receiver.wait(), 1)


def take_arguments():
    global KILLS, SEED
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=SEED)
    chosen, sys.argv[2:] = parser.parse_known_args(sys.argv[2:])
    KILLS, SEED = chosen.kills, chosen.seed


if __name__ == "__main__":
    take_arguments()
    support.main()
