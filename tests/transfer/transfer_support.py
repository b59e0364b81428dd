# SPDX-License-Identifier: Apache-2.0
"""What the tests of `verbena send` and `verbena receive` share: a receiver, and folders for both ends."""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
import support  # noqa: E402

MIB = 1 << 20


def content(size, seed=1):
    return random.Random(seed * 1_000_003 + size).randbytes(size)


class Receiver:
    """`verbena receive`, ready; `lines` has all that it printed when it has ended."""

    def __init__(self, folder, *options, host="127.0.0.1", before=(), preexec_fn=None):
        listen = f"[{host}]:0" if ":" in host else f"{host}:0"
        # Without a pipe for errors, which nobody would read.
        self.process = subprocess.Popen(
            [*before, support.VERBENA, "receive", "--json", "--listen", listen, *options, folder],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=preexec_fn)
        self.lines = []
        first = self.process.stdout.readline()
        if not first:
            raise AssertionError("verbena receive has not started")
        self.port = json.loads(first)["port"]
        self.host = host

    def to(self):
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def next(self):
        """The next line; None: it has ended."""
        line = self.process.stdout.readline()
        if not line:
            return None
        self.lines.append(json.loads(line))
        return self.lines[-1]

    def wait(self):
        while self.next() is not None:
            pass
        self.process.stdout.close()
        return self.process.wait(support.SECONDS)

    def end(self):
        """Its exit status."""
        if self.process.returncode is not None:
            return self.process.returncode
        self.process.terminate()
        return self.wait()

    def kill(self):
        self.process.kill()
        self.wait()


class TransferTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="verbena-transfer-")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.to = os.path.join(self.root, "to")
        os.mkdir(self.to)

    def file(self, name, data):
        path = os.path.join(self.root, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def receive(self, *options, **more):
        receiver = Receiver(self.to, *options, **more)
        self.addCleanup(receiver.end)
        return receiver

    def send(self, receiver, *words):
        """The exit status, and what it reports."""
        done = support.verbena("send", "--json", *words, receiver.to())
        return done.returncode, json.loads(done.stdout)

    def arrived(self, name):
        with open(os.path.join(self.to, name), "rb") as file:
            return file.read()

    def assert_arrived(self, name, data):
        self.assertTrue(self.arrived(name) == data, f"{name} is not what was sent")

    def names(self):
        return sorted(os.listdir(self.to))
