# SPDX-License-Identifier: Apache-2.0
"""Programs under `verbena run`, with the device's counters to show that their data went through it.

What the tests of this folder share, over tests/verbs/pairs.py.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "verbs"))
from pairs import SECONDS, arguments, environment, free_port, loopback_gid, run_cases  # noqa: E402, F401


class Programs:
    """Starts programs on the device, in a directory that is removed with them. Leaves no process."""

    def __init__(self, libraries):
        # The command is beside the libraries, in the build as where it is installed.
        self.verbena = os.path.join(os.path.abspath(libraries), "../../bin/verbena")
        self.until = time.monotonic() + SECONDS
        self.running = []

    def __enter__(self):
        self.holder = tempfile.TemporaryDirectory(prefix="verbena-programs-")
        self.directory = self.holder.name
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        self.holder.cleanup()

    def path(self, name):
        return os.path.join(self.directory, name)

    def text(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def start(self, name, command, **variables):
        """In the background; its output goes to NAME.log."""
        with open(self.path(name + ".log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen([self.verbena, "run", "--counters", self.path("counters"), "--", *command],
                                       env={**os.environ, **variables}, cwd=self.directory, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=subprocess.STDOUT)
        self.running.append(process)
        return process

    def finish(self, name, process):
        """None if it ended with 0 in time, else what is wrong."""
        try:
            status = process.wait(timeout=max(0.1, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return f"{name}: not done after {SECONDS} s:\n{self.text(name + '.log')}"
        return f"{name}: exit status {status}:\n{self.text(name + '.log')}" if status else None

    def run(self, name, command, **variables):
        return self.finish(name, self.start(name, command, **variables))

    def wait_for(self, what, condition):
        while not condition():
            if time.monotonic() > self.until:
                raise TimeoutError(f"{what}: not after {SECONDS} s")
            time.sleep(0.05)

    def lacks(self, payload, way="sent"):
        """What is wrong if that many bytes did not go through the device; else None."""
        with open(self.path("counters"), encoding="utf-8") as lines:
            counted = [json.loads(line)[way]["bytes"] for line in lines]
        return None if sum(counted) >= payload else f"of {payload} bytes of payload the device {way} only {counted}"


def missing(*names):
    return [name for name in names if shutil.which(name) is None]


def skipped(names):
    print(f"skipped: not installed: {', '.join(names)}", file=sys.stderr)
    return 77
