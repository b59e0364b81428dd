# SPDX-License-Identifier: Apache-2.0
"""Two hosts joined by the emulated link (verbena_emulated_link --help), for tests and benchmarks that run programs on them."""
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading

SKIPPED = 77
CLONE_NEWNET = 0x40000000
IPV4 = ("198.18.0.1", "198.18.0.2")
IPV6 = ("2001:2::1", "2001:2::2")


def become_able():
    """Where we are not root: this program again, as root of a user namespace; exit status 77 where that is refused."""
    if os.geteuid() == 0:
        return
    words = ["unshare", "--user", "--map-root-user"]
    try:
        allowed = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        print("skipped: not root, and user namespaces are not allowed", file=sys.stderr)
        sys.exit(SKIPPED)
    os.execvp(words[0], [*words, sys.executable, "-B", *sys.argv])


class Hosts:
    """Exits with 77 where the system does not allow it."""

    def __init__(self, program, *options):
        self.link = subprocess.Popen([program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.link.stdout.readline()
        if not line:
            status = self.link.wait()
            if status == SKIPPED:
                sys.exit(SKIPPED)  # it said why
            raise RuntimeError(f"{program} ended with {status}")
        self.namespaces = json.loads(line)["namespaces"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def on(self, host, *words):
        """The words of a command that runs there."""
        return ["nsenter", f"--net={self.namespaces[host]}", "--", *words]

    def socket(self, host, family, kind, protocol=0):
        """A socket there: of a thread that enters the host and ends."""
        made = []

        def make():
            space = os.open(self.namespaces[host], os.O_RDONLY | os.O_CLOEXEC)
            if ctypes.CDLL(None).setns(space, CLONE_NEWNET) == 0:
                made.append(socket.socket(family, kind, protocol))
            os.close(space)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    def counters(self):
        """What happened on the link since the last time: that from host 0 to 1, and back."""
        self.link.stdin.write("\n")
        self.link.stdin.flush()
        return json.loads(self.link.stdout.readline())["directions"]

    def close(self):
        """What happened since the last time."""
        if self.link.stdin.closed:
            return None
        said, _ = self.link.communicate()
        return json.loads(said)["directions"]
