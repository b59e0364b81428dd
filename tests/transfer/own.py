#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`verbena send` to `verbena receive`: all sizes, IPv4 and IPv6, over a bad link, silent ends, and what a killed receiver leaves.

own.py VERBENA
"""
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import faulty_link
from transfer_support import MIB, Receiver, TransferTest, content, support

SIZES = (0, 1, 10 * MIB - 1, 10 * MIB, 25 * MIB)
GIB = 1 << 30
IN_MEMORY = "/dev/shm"
ON_A_BAD_LINK = "TRANSFER_TEST_LINK"  # this process has a network namespace of its own
SEED = 1


class AllSizes(TransferTest):
    def test_all_sizes(self):
        paths = [self.file(f"file of {size}", content(size)) for size in SIZES]
        for host in ("127.0.0.1", "::1"):
            with self.subTest(host=host):
                receiver = self.receive("--overwrite", host=host)
                status, report = self.send(receiver, *paths)
                self.assertEqual((status, report["files"], report["bytes"]), (0, len(SIZES), sum(SIZES)), report)
                self.assertFalse(report["plain"])
                self.assertEqual(receiver.end(), 0)
                for size in SIZES:
                    self.assert_arrived(f"file of {size}", content(size))

    def test_names_are_shown_as_they_are(self):
        receiver = Receiver(self.to)
        self.addCleanup(receiver.end)
        status, report = self.send(receiver, self.file("Füße 写真", b"content"))
        self.assertEqual(status, 0, report)
        status, report = self.send(receiver, self.file("Füße 写真", b"content"))
        self.assertIn("'Füße 写真' is not stored", json.dumps(report, ensure_ascii=False))

    def test_wrong_timeouts(self):
        for seconds in ("4", "-1", "x", "1e9"):
            done = support.verbena("send", "--idle-timeout", seconds, __file__, "127.0.0.1:1")
            self.assertEqual(done.returncode, 2, done.stderr)


class Terminal(TransferTest):
    def start(self, *words):
        """The process, and its terminal."""
        child, terminal = pty.fork()
        if child == 0:
            os.execv(support.VERBENA, ["verbena", *words])
        return child, terminal

    def test_both_ends_show_progress_in_all_and_of_the_file(self):
        names = ("first file", "second file")
        paths = [self.file(name, content(6 * MIB)) for name in names]
        receiving, receiver = self.start("receive", "--once", "--listen", "127.0.0.1:0", self.to)
        ready = b""
        while not ready.endswith(b"\n"):
            ready += os.read(receiver, 1)
        port = ready.decode().strip().rpartition(":")[2]
        sending, sender = self.start("send", "--limit-rate", "3M", *paths, f"127.0.0.1:{port}")
        for child, terminal, whole, left in (
            (sending, sender, r"\rsending +\d+%  [\d.]+ MiB of 12.0 MiB  [\d.]+ \wiB/s  0:0\d left", ""),
            (receiving, receiver, r"\rreceiving  [\d.]+ MiB  [\d.]+ \wiB/s", "  0:0\\d left"),
        ):
            said = support.read_terminal(terminal)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, said)
            self.assertRegex(said, whole + r"  (first|second) file \d+%" + left)
            self.assertIn("\r\x1b[K", said)  # no line is left
        for name in names:
            self.assert_arrived(name, content(6 * MIB))


class Large(TransferTest):
    """1 GiB that is written in full: a pattern that every chunk has at another place."""

    def setUp(self):
        super().setUp()
        status = os.statvfs(IN_MEMORY) if os.access(IN_MEMORY, os.W_OK) else None
        if status is None or status.f_bavail * status.f_frsize < 3 * GIB:
            self.skipTest("there is no memory for two files of 1 GiB")
        folder = tempfile.TemporaryDirectory(prefix="verbena-transfer-", dir=IN_MEMORY)
        self.addCleanup(folder.cleanup)
        self.root, self.to = folder.name, os.path.join(folder.name, "to")
        os.mkdir(self.to)

    def test_one_gib(self):
        block = content(MIB + 4099)
        path = os.path.join(self.root, "large")
        with open(path, "wb") as file:
            while file.tell() < GIB:
                file.write(block[:min(len(block), GIB - file.tell())])
        receiver = self.receive()
        status, report = self.send(receiver, path)
        self.assertEqual((status, report["files"], report["bytes"], report["sent_bytes"]), (0, 1, GIB, GIB), report)
        self.assertEqual(subprocess.run(["cmp", path, os.path.join(self.to, "large")], check=False).returncode, 0)


class BadLink(TransferTest):
    def setUp(self):
        if ON_A_BAD_LINK not in os.environ:
            self.skipTest("it has a process of its own")
        super().setUp()

    def test_everything_arrives(self):
        link = faulty_link.FaultyLink(SEED, percent=0.5)
        self.addCleanup(link.close)
        small = {f"small {i}": content(300 * i, SEED) for i in range(100)}
        contents = {"large": content(12 * MIB + 1, SEED), **small}
        paths = [self.file(name, data) for name, data in contents.items()]
        for family, (ours, theirs) in faulty_link.ADDRESSES.items():
            with self.subTest(family=family):
                receiver = self.receive("--overwrite", host=theirs, preexec_fn=link.enter(1))
                done = support.verbena("send", "--json", *paths, receiver.to(), preexec_fn=link.enter(0))
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(json.loads(done.stdout)["files"], len(contents))
                self.assertEqual(receiver.end(), 0)
                for name, data in contents.items():
                    self.assert_arrived(name, data)
        print(f"seed {SEED}: {link.counts()}")
        for name, count in link.counts().items():
            self.assertGreater(count, 0, name)


class OnABadLink(unittest.TestCase):
    """Runs the tests above in a network namespace, if there can be one."""

    def test_in_a_namespace(self):
        if ON_A_BAD_LINK in os.environ:
            self.skipTest("this is it")
        words = ["unshare", "--user", "--map-root-user", "--net", "--"]
        if support.call([*words, "sh", "-c", "ip tuntap add t mode tun"]).returncode != 0:
            self.skipTest("this system has no network namespaces for us, or no tun devices")
        environment = {**os.environ, ON_A_BAD_LINK: "1"}
        done = support.call([*words, sys.executable, __file__, support.VERBENA, "BadLink"], env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("seed", done.stdout)


class Output(TransferTest):
    def receive_into(self, output):
        """The exit status of a receiver whose output goes there, and what it says."""
        process = subprocess.Popen(
            [support.VERBENA, "receive", "--once", "--listen", f"127.0.0.1:{self.port}", self.to],
            stdout=output, stderr=subprocess.PIPE, text=True)
        path = self.file(f"file of {self.port}", b"content")
        until = time.monotonic() + support.SECONDS
        while support.verbena("send", "-q", path, f"127.0.0.1:{self.port}").returncode != 0:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)
        _, said = process.communicate(timeout=support.SECONDS)
        return process.returncode, said

    def setUp(self):
        super().setUp()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def test_a_full_device_is_reported(self):
        with open("/dev/full", "w") as full:
            status, said = self.receive_into(full)
        self.assertEqual(status, 1)
        self.assertIn("cannot write to standard output", said)

    def test_a_reader_that_has_gone_is_no_failure(self):
        reader, writer = os.pipe()
        os.close(reader)
        status, said = self.receive_into(writer)
        os.close(writer)
        self.assertEqual(status, 0, said)


class Again(TransferTest):
    def test_right_after_a_killed_sender_nothing_is_left(self):
        """The receiver has not noticed that the first one is gone, or has noticed it meanwhile."""
        for seconds in (0, 0.3, 1):
            with self.subTest(seconds=seconds):
                path = self.file(f"file {seconds}", content(20 * MIB))
                receiver = self.receive()
                first = subprocess.Popen(
                    [support.VERBENA, "send", "-q", "--limit-rate", "10M", path, receiver.to()])
                while not any(name.endswith(".part") for name in self.names()):
                    time.sleep(0.01)
                time.sleep(0.3)
                first.kill()
                first.wait()
                time.sleep(seconds)
                status, report = self.send(receiver, path)
                self.assertEqual(status, 0, report)
                self.assertEqual(receiver.end(), 0)
                self.assert_arrived(f"file {seconds}", content(20 * MIB))
                self.assertEqual([name for name in self.names() if name.endswith(".part")], [])


class LeftOver(TransferTest):
    def test_what_a_killed_receiver_leaves_is_removed(self):
        """In the middle of a file of plain mode, or of small ones; what can be resumed stays."""
        receiver = self.receive()
        left = [".verbena-0123456789abcdef-0.part", "folder/.verbena-0123456789abcdef-1.part"]
        os.mkdir(os.path.join(self.to, "folder"))
        for name in left:
            self.file(f"to/{name}", b"left")
        sender = subprocess.Popen([support.VERBENA, "send", "-q", "--limit-rate", "2M", self.file("large", content(20 * MIB)), receiver.to()],
                                  stderr=subprocess.DEVNULL)
        while not any(len(name) == len(".verbena-0123456789abcdef.part") for name in self.names()):
            self.assertIsNone(sender.poll())
            time.sleep(0.01)
        receiver.process.send_signal(signal.SIGKILL)
        receiver.wait()
        sender.kill()
        sender.wait()
        resumable = [name for name in self.names() if name.startswith(".verbena-") and name != left[0]]
        self.assertEqual(len(resumable), 1)
        receiver = self.receive()
        deadline = time.monotonic() + support.SECONDS
        while any(os.path.exists(os.path.join(self.to, name)) for name in left):
            self.assertLess(time.monotonic(), deadline, self.names())
            time.sleep(0.01)
        self.assertEqual(self.names(), sorted([*resumable, "folder"]))
        self.assertEqual(receiver.end(), 0)
        receiver = self.receive("--keep-incomplete", "0")
        while resumable[0] in self.names():
            self.assertLess(time.monotonic(), deadline, self.names())
            time.sleep(0.01)
        self.assertEqual(receiver.end(), 0)


if __name__ == "__main__":
    support.main()
