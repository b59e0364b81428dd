#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plain mode of `verbena send` and `verbena receive` against plain_peer, which shares no code with them.

plain.py VERBENA PLAIN_PEER
"""
import os
import subprocess
import sys
import time
import unittest

import transfer_support
from transfer_support import MIB, TransferTest, content, support

PEER = ""
DISCONNECTED = 3
SIZES = (0, 1, 10 * MIB - 1, 10 * MIB, 25 * MIB)
HOSTS = ("127.0.0.1", "::1")


class PlainPeer:
    """plain_peer as a receiver, ready."""

    def __init__(self, folder, count=1, mistake=None, host="127.0.0.1"):
        words = ["--mistake", mistake] if mistake else []
        self.process = subprocess.Popen([PEER, "receive", host, "0", folder, str(count), *words],
                                        stdout=subprocess.PIPE, text=True)
        self.host = host
        self.port = int(self.process.stdout.readline().split()[1])

    to = transfer_support.Receiver.to

    def wait(self):
        self.process.stdout.close()
        return self.process.wait(support.SECONDS)

    def end(self):
        if self.process.returncode is None:
            self.process.kill()
            self.wait()


class Plain(TransferTest):
    def peer_sends(self, receiver, path, name, mistake=None):
        """The peer's exit status."""
        words = ["--mistake", mistake] if mistake else []
        done = support.call([PEER, "send", receiver.host, str(receiver.port), path, name, *words])
        return done.returncode

    def peer_receives(self, **options):
        peer = PlainPeer(self.to, **options)
        self.addCleanup(peer.end)
        return peer


class PeerSends(Plain):
    def test_all_sizes(self):
        for host in HOSTS:
            receiver = self.receive(host=host)
            for size in SIZES:
                with self.subTest(host=host, size=size):
                    name = f"{size} from {host}".replace(":", "_")
                    path = self.file("source", content(size))
                    self.assertEqual(self.peer_sends(receiver, path, name), 0)
                    self.assert_arrived(name, content(size))
            self.assertEqual(receiver.end(), 0)
            self.assertEqual(receiver.lines[-1]["files"], len(SIZES))
            self.assertEqual(receiver.lines[-1]["failed"], 0)
            self.assertEqual(receiver.lines[-1]["broken"], 0)
            self.assertEqual(receiver.lines[-1]["bytes"], sum(SIZES))
        self.assertEqual(len(self.names()), len(HOSTS) * len(SIZES))

    def test_once(self):
        receiver = self.receive("--once")
        path = self.file("source", b"x" * 1000)
        self.assertEqual(self.peer_sends(receiver, path, "a"), 0)
        self.assertEqual(receiver.wait(), 0)
        self.assert_arrived("a", b"x" * 1000)

    def test_a_sender_that_does_not_wait_for_done(self):
        receiver = self.receive("--once")
        data = content(11 * MIB)
        self.assertEqual(self.peer_sends(receiver, self.file("source", data), "a", "hurry"), 0)
        self.assertEqual(receiver.wait(), 0)
        self.assert_arrived("a", data)
        self.assertEqual(self.names(), ["a"])

    def test_mistakes_end_that_transfer_only(self):
        receiver = self.receive()
        path = self.file("source", content(25 * MIB))
        mistakes = ("no-name", "long-immediate", "huge-immediate", "message", "early", "early-chunk")
        for mistake in mistakes:
            with self.subTest(mistake=mistake):
                self.assertEqual(self.peer_sends(receiver, path, "a", mistake), DISCONNECTED)
        self.assertEqual(self.peer_sends(receiver, path, "b"), 0)
        self.assert_arrived("b", content(25 * MIB))
        self.assertEqual(receiver.end(), 0)
        self.assertEqual(self.names(), ["b"])
        self.assertEqual(receiver.lines[-1]["broken"], len(mistakes))
        self.assertLessEqual(receiver.lines[-1]["failed"], len(mistakes))

    def test_names(self):
        outside = os.path.join(self.root, "outside")
        os.mkdir(outside)
        os.symlink(outside, os.path.join(self.to, "link"))
        self.file("to/there", b"old")
        receiver = self.receive()
        path = self.file("source", b"content")
        for name in ("", "/tmp/a", "..", "../a", "a/../../b", "a//b", "a/", ".", "a\nb", "\x1b[2J",
                     ".verbena-0.part", "link/a", "n" * 256, "d/" * 2000 + "a", "there", "link"):
            with self.subTest(name=name[:20]):
                self.assertEqual(self.peer_sends(receiver, path, name), DISCONNECTED)
        self.assertEqual(self.peer_sends(receiver, path, "n" * 255), 0)
        self.assertEqual(self.peer_sends(receiver, path, "d/e/a"), 0)
        self.assert_arrived("d/e/a", b"content")
        self.assertEqual(receiver.end(), 0)
        self.assertEqual(self.names(), sorted(["d", "link", "n" * 255, "there"]))
        self.assert_arrived("there", b"old")
        self.assertEqual(os.listdir(outside), [])

    def test_a_limit(self):
        receiver = self.receive("--max-size", "11M")
        self.assertEqual(self.peer_sends(receiver, self.file("source", content(25 * MIB)), "a"), DISCONNECTED)
        self.assertEqual(self.peer_sends(receiver, self.file("source", content(10 * MIB)), "b"), 0)
        self.assertEqual(receiver.end(), 0)
        self.assertEqual(self.names(), ["b"])

    def test_a_sender_that_leaves(self):
        receiver = self.receive("--once")
        path = self.file("source", content(25 * MIB))
        self.assertEqual(self.peer_sends(receiver, path, "a", "leave"), 0)
        self.assertEqual(receiver.wait(), 1)
        self.assertEqual(self.names(), [])

    def test_a_sender_that_vanishes(self):
        receiver = self.receive("--once")
        path = self.file("source", content(25 * MIB))
        self.assertEqual(self.peer_sends(receiver, path, "a", "vanish"), 0)
        self.assertEqual(receiver.wait(), 1)
        self.assertEqual(self.names(), [])

    def test_a_receiver_that_is_stopped(self):
        """In the middle of a file: nothing is left of it."""
        receiver = self.receive()
        fifo = os.path.join(self.root, "fifo")
        os.mkfifo(fifo)
        peer = subprocess.Popen([PEER, "send", receiver.host, str(receiver.port), fifo, "a"])
        with open(fifo, "wb") as file:
            file.write(b"x" * 70_000)  # more than the pipe holds: a chunk was read
            while not self.names():
                pass
            self.assertEqual(receiver.end(), 0)
        self.assertEqual(peer.wait(support.SECONDS), DISCONNECTED)
        self.assertEqual(self.names(), [])


class PeerReceives(Plain):
    def test_all_sizes(self):
        for host in HOSTS:
            for size in SIZES:
                with self.subTest(host=host, size=size):
                    name = f"{size} to {host}".replace(":", "_")
                    peer = self.peer_receives(host=host)
                    status, report = self.send(peer, self.file(name, content(size)))
                    self.assertEqual(status, 0, report)
                    self.assertEqual(peer.wait(), 0)
                    self.assertTrue(report["plain"])
                    self.assertEqual((report["files"], report["bytes"], report["sent_bytes"]), (1, size, size))
                    self.assert_arrived(name, content(size))

    def test_two_files(self):
        peer = self.peer_receives(count=2)
        paths = [self.file("a", content(11 * MIB)), self.file("b", b"b")]
        status, report = self.send(peer, *paths)
        self.assertEqual((status, report["files"]), (0, 2), report)
        self.assertEqual(peer.wait(), 0)
        self.assert_arrived("a", content(11 * MIB))
        self.assert_arrived("b", b"b")

    def test_mistakes_are_reported(self):
        path = self.file("a", content(25 * MIB))
        for mistake in ("leave", "early-done", "memory-again", "unknown", "short"):
            with self.subTest(mistake=mistake):
                peer = self.peer_receives(mistake=mistake)
                status, report = self.send(peer, path)
                self.assertNotEqual(status, 0)
                self.assertEqual((report["files"], report["failed"]), (0, 1), report)
                peer.wait()
                os.unlink(os.path.join(self.to, "a"))

    def test_the_rate_is_limited(self):
        """The second chunk waits for the first one's share."""
        peer = self.peer_receives()
        start = time.monotonic()
        status, report = self.send(peer, "--limit-rate", "8M", self.file("a", content(11 * MIB)))
        self.assertEqual((status, report["files"]), (0, 1), report)
        self.assertGreater(time.monotonic() - start, 1)
        self.assert_arrived("a", content(11 * MIB))

    def test_done_twice(self):
        """As the first program of this protocol has it."""
        peer = self.peer_receives(mistake="done-twice")
        status, report = self.send(peer, self.file("a", b"content"))
        self.assertEqual((status, report["files"]), (0, 1), report)
        self.assert_arrived("a", b"content")

    def test_a_name_that_is_too_long(self):
        """Receivers have room for 255 bytes and the zero, and the first one does not check."""
        folder = os.path.join(self.root, "f" * 200)
        os.mkdir(folder)
        self.file(f"{'f' * 200}/{'n' * 56}", b"content")
        peer = self.peer_receives()
        status, report = self.send(peer, "-r", folder)
        self.assertNotEqual(status, 0)
        self.assertEqual((report["files"], report["failed"]), (0, 1), report)
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    PEER = os.path.abspath(sys.argv.pop(2))
    support.main()
