# SPDX-License-Identifier: Apache-2.0
"""Queue pairs of the two devices, driven through their agents, and what every check does with them.

An endpoint's memory has two halves: data is sent from SOURCE and arrives at TARGET, between two guards that nothing
may touch.
"""
import hashlib
import ipaddress
import json
import random
import socket
import time

GUEST = ("10.99.0.2", 7000)
OURS = ("127.0.0.1", 7001)
VERBENA, RXE = "verbena", "rxe"

SOURCE = 64
HALF = 0x110000  # 1 MiB, and room around it
TARGET = HALF + 64
GUARD = bytes(range(0xA0, 0xB0))

# Statuses, opcodes and flags of completions, and the error state, as <infiniband/verbs.h> numbers them.
SUCCESS, LOCAL_LENGTH, LOCAL_QP_OPERATION, FLUSHED = 0, 1, 2, 5
REMOTE_INVALID_REQUEST, REMOTE_ACCESS, REMOTE_OPERATION, RNR_RETRY_EXCEEDED = 9, 10, 11, 13
WC_OPCODE = {"send": 0, "send_imm": 0, "write": 1, "write_imm": 1, "read": 2, "cas": 3, "fadd": 4}
WC_RECV, WC_RECV_WRITE_IMM = 128, 129
WITH_IMM = 2
READY_TO_SEND, ERROR = 3, 6

LARGE = 16_384  # bytes that the guest makes and compares by itself
PATIENCE_S = 30  # the guest is emulated: slow, and slower on a busy machine


class Failed(Exception):
    """What was seen is not what the standard says."""


def expect(seen, wanted, what):
    if seen != wanted:
        raise Failed(f"{what}: {seen!r} instead of {wanted!r}")


class Endpoint:
    """One queue pair of one of the devices."""

    def __init__(self, name, address):
        self.name = name
        self._connection = socket.create_connection(address, timeout=3 * PATIENCE_S)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._connection.makefile("rw")

    def close(self):
        self._stream.close()
        self._connection.close()

    def ask(self, do, **request):
        self._stream.write(json.dumps({"do": do, **request}) + "\n")
        self._stream.flush()
        line = self._stream.readline()
        if not line:
            raise Failed(f"{self.name}: its agent is gone (asked to {do})")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(f"{self.name}: {do}: {answer['error']}")
        return answer

    def open(self, **request):
        answer = self.ask("open", mr_len=2 * HALF, **request)
        self.qpn, self.psn, self.gid = answer["qpn"], answer["psn"], answer["gid"]
        self.addr, self.rkey = answer["addr"], answer["rkey"]
        self.poke(TARGET - len(GUARD), GUARD)

    def connect(self, peer, **attributes):
        gid = ipaddress.IPv6Address(peer.gid).exploded
        self.ask("connect", qpn=peer.qpn, psn=peer.psn, gid=gid, **attributes)

    def poke(self, off, data):
        self.ask("poke", off=off, hex=data.hex())

    def peek(self, off, length):
        return bytes.fromhex(self.ask("peek", off=off, len=length)["hex"])

    def fill(self, off, length):
        """Puts random bytes at `off`, and gives them."""
        if length < LARGE or self.name == VERBENA:
            data = random.randbytes(length)
            self.poke(off, data)
        else:
            seed = random.getrandbits(64)
            data = random.Random(seed).randbytes(length)
            self.ask("fill", off=off, len=length, seed=seed)
        return data

    def holds(self, off, data):
        """Whether this is what lies at `off`."""
        if len(data) < LARGE or self.name == VERBENA:
            return self.peek(off, len(data)) == data
        return self.ask("digest", off=off, len=len(data))["sha256"] == hashlib.sha256(data).hexdigest()

    def expect_target(self, length):
        """Puts a guard where `length` bytes at TARGET will end."""
        self.poke(TARGET + length, GUARD)

    def check_target(self, data, within_s=0):
        """The data is at TARGET, whole, and nothing beyond it."""
        wanted = GUARD + data + GUARD
        end = time.monotonic() + within_s
        while not self.holds(TARGET - len(GUARD), wanted):
            if time.monotonic() > end:
                seen = self.peek(TARGET - len(GUARD), len(wanted))
                wrong = [i for i in range(len(wanted)) if seen[i] != wanted[i]]
                raise Failed(
                    f"{self.name}: {len(wrong)} of {len(data)} bytes are wrong, the first at {wrong[0] - len(GUARD)}"
                    if wrong
                    else f"{self.name}: {len(data)} bytes were not there in time"
                )
            time.sleep(0.02)

    def complete(self, n=1, status=SUCCESS, within_s=PATIENCE_S, **fields):
        """`n` completions, each with this status and these fields."""
        seen = self.ask("poll", n=n, timeout=within_s)["wc"]
        if len(seen) < n:
            raise Failed(f"{self.name}: {len(seen)} of {n} completions within {within_s} s")
        for completion in seen:
            expect(completion["status"], status, f"{self.name}: status of {completion}")
            for field, value in fields.items():
                expect(completion[field], value, f"{self.name}: '{field}' of {completion}")
        return seen

    def quiet(self, for_s):
        """No completion comes."""
        seen = self.ask("poll", n=1, timeout=for_s)["wc"]
        if seen:
            raise Failed(f"{self.name}: a completion out of nothing: {seen[0]}")

    def check_state(self, state):
        """The queue pair gets into `state`."""
        end = time.monotonic() + PATIENCE_S
        while (seen := self.ask("state")["state"]) != state and time.monotonic() < end:
            time.sleep(0.02)
        expect(seen, state, f"{self.name}: state")


def link_local():
    """The link-local address of our end of the bridge."""
    with open("/proc/net/if_inet6") as table:
        for line in table:
            address, _, _, _, _, interface = line.split()
            if interface == "br0" and address.startswith("fe80"):
                return str(ipaddress.IPv6Address(bytes.fromhex(address)))
    raise Failed("br0 has no link-local address")


class Pair:
    """A queue pair of ours and one of rxe's, connected; to be used in a `with`.

    family: "IPv4", "IPv6" or "link-local". opens: further arguments of `open`, by the name of the endpoint.
    """

    def __init__(self, kind, family, opens=None, **attributes):
        address, gid = {
            "IPv4": ("::ffff:10.99.0.1", 1),
            "IPv6": ("fd99::1", 2),
            "link-local": (link_local(), 0),
        }[family]
        opens = opens or {}
        # A second's patience where nothing is lost: a slow guest is not a lossy one.
        attributes.setdefault("timeout", 18)
        self.ours, self.rxe = Endpoint(VERBENA, OURS), Endpoint(RXE, GUEST)
        self.ours.open(qpt=kind, address=address, psn=random.getrandbits(24), **opens.get(VERBENA, {}))
        self.rxe.open(qpt=kind, gid=gid, **opens.get(RXE, {}))
        self.ours.connect(self.rxe, **attributes)
        self.rxe.connect(self.ours, **attributes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ours.close()
        self.rxe.close()

    def ends(self, requester):
        """The two endpoints, `requester` first."""
        return (self.ours, self.rxe) if requester == VERBENA else (self.rxe, self.ours)
