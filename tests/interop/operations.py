# SPDX-License-Identifier: Apache-2.0
"""One operation each, checked at both ends: `a` asks, `b` answers."""
import ipaddress
import random
import struct

from peer import PATIENCE_S, RXE, SOURCE, TARGET, WC_OPCODE, WC_RECV, WC_RECV_WRITE_IMM, WITH_IMM, expect

GRH = 40  # before the data of a datagram


def send(a, b, length, imm=None):
    op = "send" if imm is None else "send_imm"
    data = a.fill(SOURCE, length)
    b.expect_target(length)
    b.ask("recv", off=TARGET, len=length)
    a.ask("send", op=op, off=SOURCE, len=length, imm=imm)
    a.complete(op=WC_OPCODE[op])
    check_receive(b, WC_RECV, length, imm)
    b.check_target(data)


def write(a, b, length, imm=None, acknowledged=True):
    op = "write" if imm is None else "write_imm"
    data = a.fill(SOURCE, length)
    b.expect_target(length)
    if imm is not None:
        b.ask("recv", off=0, len=0)
    a.ask("send", op=op, off=SOURCE, len=length, imm=imm, raddr=b.addr + TARGET, rkey=b.rkey)
    a.complete(op=WC_OPCODE[op])
    if imm is not None:
        check_receive(b, WC_RECV_WRITE_IMM, length, imm)
    b.check_target(data, within_s=0 if acknowledged or imm is not None else PATIENCE_S)


def check_receive(b, op, length, imm):
    completion = b.complete(op=op, len=length)[0]
    expect(bool(completion["flags"] & WITH_IMM), imm is not None, f"{b.name}: immediate in {completion}")
    if imm is not None:
        expect(completion["imm"], imm, f"{b.name}: immediate")


def read(a, b, length):
    data = b.fill(SOURCE, length)
    a.expect_target(length)
    a.ask("send", op="read", off=TARGET, len=length, raddr=b.addr + SOURCE, rkey=b.rkey)
    a.complete(op=WC_OPCODE["read"])
    a.check_target(data)


def atomic(a, b, op, before, after, **operands):
    """The word at `b` goes from `before` to `after`, and `a` is told `before`."""
    word = struct.Struct("<Q")
    b.poke(TARGET, word.pack(before))
    b.expect_target(word.size)
    a.expect_target(word.size)
    a.ask("send", op=op, off=TARGET, len=word.size, raddr=b.addr + TARGET, rkey=b.rkey, **operands)
    a.complete(op=WC_OPCODE[op])
    a.check_target(word.pack(before))
    b.check_target(word.pack(after))


def atomics(a, b):
    word, other = random.getrandbits(64), random.getrandbits(64)
    atomic(a, b, "cas", word, other, cmp=word, swap=other)
    atomic(a, b, "cas", word, word, cmp=word ^ 1, swap=other)
    atomic(a, b, "fadd", word, (word + other) % 2**64, cmp=other)


def datagram(a, b, length, imm=None):
    """A UD SEND; its receiver is also told where it came from."""
    op = "send" if imm is None else "send_imm"
    data = a.fill(SOURCE, length)
    b.expect_target(GRH + length)
    b.ask("recv", off=TARGET, len=GRH + length)
    a.ask("send", op=op, off=SOURCE, len=length, imm=imm)
    a.complete(op=WC_OPCODE[op])
    check_receive(b, WC_RECV, GRH + length, imm)
    b.check_target(b.peek(TARGET, GRH) + data)
    check_grh(a, b, b.peek(TARGET, GRH))


def check_grh(a, b, grh):
    """The receive begins with an IPv6 header. Of IPv4 rxe puts the header into the last 20 of these 40 bytes,
    as NICs do; we keep the shape of IPv6, with mapped addresses."""
    source, destination = (ipaddress.IPv6Address(gid).packed for gid in (a.gid, b.gid))
    if b.name == RXE and ipaddress.IPv6Address(a.gid).ipv4_mapped:
        expect((grh[20] >> 4, grh[32:36], grh[36:40]), (4, source[12:], destination[12:]), f"{b.name}: GRH")
    else:
        expect((grh[0] >> 4, grh[8:24], grh[24:40]), (6, source, destination), f"{b.name}: GRH")
