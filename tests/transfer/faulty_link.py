# SPDX-License-Identifier: Apache-2.0
"""Two hosts with a bad link between them: network namespaces whose packets pass through this process, which loses, repeats, delays and spoils some.

The same ones each time for one seed, as far as the packets are the same.
"""
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import threading

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
MTU = 4500
ADDRESSES = {"IPv4": ("10.98.0.1", "10.98.0.2"), "IPv6": ("fd98::1", "fd98::2")}
LIBC = ctypes.CDLL(None, use_errno=True)


def _call(function, *arguments):
    if function(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "network namespaces")


def _make_end(number):
    """A tun device of this namespace, with addresses."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"wire0", IFF_TUN | IFF_NO_PI))
    for words in ("link set lo up", f"link set wire0 mtu {MTU} up", f"addr add {ADDRESSES['IPv4'][number]}/24 dev wire0",
                  f"addr add {ADDRESSES['IPv6'][number]}/64 dev wire0 nodad"):
        subprocess.run(["ip", *words.split()], check=True)
    return fd


class FaultyLink:
    """To be made by a process that is alone in a network namespace of its own, where it may do everything."""

    def __init__(self, seed, percent):
        self.random, self.percent = random.Random(seed), percent
        self.lost = self.repeated = self.delayed = self.spoilt = self.passed = 0
        self.ends, self.spaces = [], []
        for number in (0, 1):
            if number:
                _call(LIBC.unshare, CLONE_NEWNET)
            self.ends.append(_make_end(number))
            self.spaces.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        self.waiting = {fd: None for fd in self.ends}
        self.stopping, self.stop_fd = os.pipe()
        self.thread = threading.Thread(target=self._relay, daemon=True)
        self.thread.start()

    def enter(self, number):
        """What a child of this process does before it becomes a program of that end."""
        return lambda: _call(LIBC.setns, self.spaces[number], CLONE_NEWNET)

    def close(self):
        os.close(self.stop_fd)
        self.thread.join()
        for fd in (*self.ends, *self.spaces, self.stopping):
            os.close(fd)

    def counts(self):
        return {name: getattr(self, name) for name in ("passed", "lost", "repeated", "delayed", "spoilt")}

    def _relay(self):
        other = {self.ends[0]: self.ends[1], self.ends[1]: self.ends[0]}
        while True:
            # What waits to be overtaken does not wait for ever.
            ready, _, _ = select.select([*self.ends, self.stopping], [], [], 0.005)
            if self.stopping in ready:
                return
            for fd in ready:
                for _ in range(64):
                    try:
                        packet = os.read(fd, 65536)
                    except BlockingIOError:
                        break
                    self._pass_on(packet, other[fd])
            for fd in self.ends if not ready else ():
                self._release(fd)

    def _send(self, packet, to):
        try:
            os.write(to, packet)
        except OSError:
            pass  # that end has no room, or is down: lost

    def _release(self, to):
        packet, self.waiting[to] = self.waiting[to], None
        if packet is not None:
            self._send(packet, to)

    def _pass_on(self, packet, to):
        draw = self.random.random() * 100 / self.percent
        if draw < 1:
            self.lost += 1
            return
        if draw < 2:
            self.repeated += 1
            self._send(packet, to)
        elif draw < 3 and self.waiting[to] is None:
            self.delayed += 1
            self.waiting[to] = packet
            return
        elif draw < 4:
            self.spoilt += 1
            spoilt = bytearray(packet)
            # Behind the headers of IP and UDP.
            spoilt[self.random.randrange(min(48, len(packet) - 1), len(packet))] ^= 1 << self.random.randrange(8)
            packet = bytes(spoilt)
        self.passed += 1
        self._send(packet, to)
        if self.waiting[to] is not None and self.random.random() < 0.3:
            self._release(to)
