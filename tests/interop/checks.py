# SPDX-License-Identifier: Apache-2.0
"""The check groups: what Verbena and rxe must be able to do with each other."""
import random
import threading

import operations as do
from faults import Faults
from peer import (
    ERROR,
    FLUSHED,
    GUARD,
    LOCAL_LENGTH,
    LOCAL_QP_OPERATION,
    READY_TO_SEND,
    REMOTE_ACCESS,
    REMOTE_INVALID_REQUEST,
    REMOTE_OPERATION,
    RNR_RETRY_EXCEEDED,
    RXE,
    SOURCE,
    TARGET,
    VERBENA,
    Endpoint,
    Failed,
    OURS,
    Pair,
    expect,
)

MTUS = (256, 512, 1024, 2048, 4096)
QUICK = (1024, 4096)  # of these, the quick set has
FAMILIES = ("IPv4", "IPv6")
REQUESTERS = (VERBENA, RXE)
LARGE, LARGEST = 300_000, 1 << 20


def peer_of(name):
    return RXE if name == VERBENA else VERBENA


def around(mtu):
    """Sizes at which a message's packets change in number, kind or padding."""
    return (0, 1, 2, 3, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu - 3)


def reliable(family, mtu, requester):
    with Pair("RC", family, mtu=mtu) as pair:
        a, b = pair.ends(requester)
        for length in around(mtu):
            do.send(a, b, length)
            do.write(a, b, length)
            do.read(a, b, length)
        # The largest message takes its time: one of the three in each group, each of them with some MTU.
        turn = MTUS.index(mtu) + FAMILIES.index(family)
        for i, operation in enumerate((do.send, do.write, do.read)):
            operation(a, b, LARGEST if turn % 3 == i else LARGE)
        for length in (0, 1, mtu, mtu + 1, 10 * mtu + 1):
            do.send(a, b, length, imm=random.getrandbits(32))
            do.write(a, b, length, imm=random.getrandbits(32))
        do.atomics(a, b)
        mixed(a, b)


def mixed(a, b):
    """Reads, writes and atomics posted without waiting complete in the order they were posted."""
    data = a.fill(SOURCE, 20_000)
    b.expect_target(len(data))
    b.poke(SOURCE, bytes(8))
    posted = []
    for i in range(12):
        op = ("write", "fadd", "read")[i % 3]
        posted.append(op)
        if op == "fadd":
            a.ask("send", op=op, wr_id=i, off=TARGET, len=8, raddr=b.addr + SOURCE, rkey=b.rkey, cmp=1)
        else:
            # What was written is read back to where it came from.
            a.ask("send", op=op, wr_id=i, off=SOURCE, len=len(data), raddr=b.addr + TARGET, rkey=b.rkey)
    seen = a.complete(n=len(posted))
    expect([c["wr_id"] for c in seen], list(range(len(posted))), f"{a.name}: order of completions")
    b.check_target(data)
    expect(a.holds(SOURCE, data), True, f"{a.name}: reads back what it wrote")
    expect(b.peek(SOURCE, 8), posted.count("fadd").to_bytes(8, "little"), f"{b.name}: sum")


def unreliable(family, mtu, requester):
    with Pair("UC", family, mtu=mtu) as pair:
        a, b = pair.ends(requester)
        for length in around(mtu) + (20_000,):
            do.send(a, b, length)
            do.write(a, b, length, acknowledged=False)
        for length in (0, 1, mtu, mtu + 1):
            do.send(a, b, length, imm=random.getrandbits(32))
            do.write(a, b, length, imm=random.getrandbits(32))


def datagrams(family, requester):
    with Pair("UD", family) as pair:
        a, b = pair.ends(requester)
        for length in (0, 1, 2, 3, 255, 1000, 4095, 4096):
            do.datagram(a, b, length)
            do.datagram(a, b, length, imm=random.getrandbits(32))
        # A wrong Q_Key is dropped without a word, and what follows arrives.
        b.ask("recv", off=TARGET, len=4096)
        a.ask("send", op="send", off=SOURCE, len=100, qkey=0x22222222)
        a.complete()
        b.quiet(0.2)
        a.ask("send", op="send", off=SOURCE, len=99)
        a.complete()
        b.complete(len=do.GRH + 99, src_qp=a.qpn)


def counters():
    agent = Endpoint(VERBENA, OURS)
    try:
        return agent.ask("counters")
    finally:
        agent.close()


# So many sends fewer than packets are batches. Not a share of all packets: a window that losses in the
# guest made small lets packets go one at a time, and rightly.
SPARED_SENDS = 16
BATCH_TRIES = 5


def batches(family, mtu):
    """Our packets leave in GSO batches, as a requester's data and as a responder's."""

    def batched(work, packets):
        for _ in range(BATCH_TRIES):
            before = counters()
            work()
            after = counters()
            grown = {key: after[key] - before[key] for key in after}
            for problem in ("errors", "gso_refused"):
                expect(grown[problem], 0, f"{VERBENA}: {problem}")
            if grown["packets"] < packets:
                raise Failed(f"{grown['packets']} packets sent, {packets} needed")
            if grown["packets"] - grown["sends"] >= SPARED_SENDS:
                return
        raise Failed(f"{grown['packets']} packets in {grown['sends']} sends: these are no batches")

    with Pair("RC", family, mtu=mtu) as pair:
        ours, rxe = pair.ours, pair.rxe
        length, count = 32 * mtu, 32

        def writes():
            data = ours.fill(SOURCE, length)
            rxe.expect_target(length)
            ours.ask("send", op="write", n=count, off=SOURCE, len=length, raddr=rxe.addr + TARGET, rkey=rxe.rkey)
            ours.complete(n=count)
            rxe.check_target(data)

        batched(writes, count * length // mtu)
        batched(lambda: do.read(rxe, ours, 256 * mtu), 256)


def many(count):
    """Several queue pairs at once, of both families and all MTUs, busy in both directions."""

    def work(pair, seed):
        a, b = pair.ends(REQUESTERS[seed % 2])
        length = 10_000 + seed
        there, back = a.fill(SOURCE, length), b.fill(SOURCE, length)
        for end in (a, b):
            end.expect_target(length)
        for x, y in ((a, b), (b, a)):
            x.ask("send", op="write", n=8, off=SOURCE, len=length, raddr=y.addr + TARGET, rkey=y.rkey)
        for x, data in ((a, back), (b, there)):
            x.complete(n=8)
            x.check_target(data)
        do.read(a, b, 5 * length)
        do.send(b, a, 3 * length)
        do.atomics(a, b)

    def guarded(pair, seed):
        try:
            work(pair, seed)
        except Exception as problem:
            problems.append(problem)

    problems, pairs, threads = [], [], []
    try:
        for i in range(count):
            pairs.append(Pair("RC", FAMILIES[i // 2 % 2], mtu=MTUS[i % len(MTUS)]))
        for i, pair in enumerate(pairs):
            threads.append(threading.Thread(target=guarded, args=(pair, i)))
            threads[-1].start()
        for thread in threads:
            thread.join()
    finally:
        for pair in pairs:
            pair.__exit__()
    if problems:
        raise problems[0]


def receiver_not_ready(family, requester):
    # A SEND that nobody expects waits, and arrives once somebody does.
    with Pair("RC", family, rnr_timer=14, rnr_retry=7) as pair:
        a, b = pair.ends(requester)
        for length in (100, 10_000):
            data = a.fill(SOURCE, length)
            b.expect_target(length)
            a.ask("send", op="send", off=SOURCE, len=length)
            a.quiet(0.3)
            b.ask("recv", off=TARGET, len=length)
            a.complete()
            b.complete(len=length)
            b.check_target(data)
    # It does not wait for ever if it was told so.
    with Pair("RC", family, rnr_timer=14, rnr_retry=2) as pair:
        a, b = pair.ends(requester)
        a.ask("send", op="send", off=SOURCE, len=100)
        a.complete(status=RNR_RETRY_EXCEEDED)
        a.check_state(ERROR)
        b.check_state(READY_TO_SEND)


# What is asked, of whom, and what the requester is told: (name, WR, arguments of the responder's `open`, status).
# A WR's address is relative to the responder's memory, its key to the responder's key.
REFUSALS = (
    ("WRITE, wrong key", {"op": "write", "len": 100, "rkey": 0x100}, {}, REMOTE_ACCESS),
    ("WRITE of many packets, wrong key", {"op": "write", "len": 9000, "rkey": 0x100}, {}, REMOTE_ACCESS),
    ("READ, wrong key", {"op": "read", "len": 100, "rkey": 0x100}, {}, REMOTE_ACCESS),
    ("FETCH-ADD, wrong key", {"op": "fadd", "len": 8, "rkey": 0x100}, {}, REMOTE_ACCESS),
    ("WRITE, before the region", {"op": "write", "len": 100, "raddr": -TARGET - 1}, {}, REMOTE_ACCESS),
    ("WRITE, past the region", {"op": "write", "len": 9000, "raddr": TARGET - 200}, {}, REMOTE_ACCESS),
    ("READ, past the region", {"op": "read", "len": 9000, "raddr": TARGET - 200}, {}, REMOTE_ACCESS),
    ("CAS, not aligned", {"op": "cas", "len": 8, "raddr": 4}, {}, REMOTE_INVALID_REQUEST),
    ("WRITE, region is read only", {"op": "write", "len": 100}, {"mr_access": 1 | 4}, REMOTE_ACCESS),
    ("READ, region is write only", {"op": "read", "len": 100}, {"mr_access": 1 | 2}, REMOTE_ACCESS),
    ("FETCH-ADD, region has no atomics", {"op": "fadd", "len": 8}, {"mr_access": 7}, REMOTE_ACCESS),
    ("WRITE, not allowed on the queue pair", {"op": "write", "len": 100}, {"qp_access": 12}, REMOTE_INVALID_REQUEST),
    ("READ, not allowed on the queue pair", {"op": "read", "len": 100}, {"qp_access": 10}, REMOTE_INVALID_REQUEST),
    ("CAS, not allowed on the queue pair", {"op": "cas", "len": 8}, {"qp_access": 6}, REMOTE_INVALID_REQUEST),
)


def refusals(family, requester):
    for name, wr, opens, status in REFUSALS:
        if requester == RXE and name == "CAS, not aligned":
            continue  # rxe's own library does not let it be posted
        try:
            refusal(family, requester, wr, opens, status)
        except Failed as problem:
            raise Failed(f"{name}: {problem}") from None


def refusal(family, requester, wr, opens, status):
    """A request that may not be: nothing is written, and both queue pairs end in error."""
    with Pair("RC", family, opens={peer_of(requester): opens}, mtu=1024) as pair:
        a, b = pair.ends(requester)
        a.fill(SOURCE, wr["len"])
        b.expect_target(0)
        b.ask("recv", off=SOURCE, len=100)
        before = b.peek(TARGET, 9000)
        request = {**wr, "raddr": b.addr + TARGET + wr.get("raddr", 0), "rkey": b.rkey ^ wr.get("rkey", 0)}
        a.ask("send", off=SOURCE, **request)
        a.complete(status=status)
        a.check_state(ERROR)
        b.check_state(ERROR)
        expect(b.peek(TARGET, 9000), before, f"{b.name}: memory")
        # What waits behind it is flushed, at both ends.
        b.complete(status=FLUSHED)
        a.ask("send", op="send", off=SOURCE, len=1)
        a.complete(status=FLUSHED)


def too_long(family, requester):
    """A SEND longer than the receive it meets. rxe has words of its own for it, at both ends."""
    told, seen = {
        VERBENA: (REMOTE_INVALID_REQUEST, LOCAL_LENGTH),
        RXE: (REMOTE_OPERATION, LOCAL_QP_OPERATION),
    }[peer_of(requester)]
    for length in (1000, 9000):
        with Pair("RC", family, mtu=1024) as pair:
            a, b = pair.ends(requester)
            b.ask("recv", off=TARGET, len=500)
            b.poke(TARGET + 500, GUARD)
            a.ask("send", op="send", off=SOURCE, len=length)
            a.complete(status=told)
            b.complete(status=seen)
            a.check_state(ERROR)
            b.check_state(ERROR)
            expect(b.peek(TARGET + 500, len(GUARD)), GUARD, f"{b.name}: memory behind the receive")


def link_local(requester):
    with Pair("RC", "link-local", mtu=1024) as pair:
        a, b = pair.ends(requester)
        for length in (0, 1, 5000, LARGE):
            do.send(a, b, length)
            do.write(a, b, length)
            do.read(a, b, length)
        do.atomics(a, b)
    with Pair("UD", "link-local") as pair:
        do.datagram(*pair.ends(requester), 1000)


def lossy(family, requester, entering, leaving):
    """A transfer through a network that loses, repeats and reorders packets to the guest and from it."""
    with Faults(entering, leaving) as faults, Pair("RC", family, mtu=1024, timeout=16) as pair:
        a, b = pair.ends(requester)
        for length in (1, 5000, 100_000):
            do.send(a, b, length)
            do.write(a, b, length)
            do.read(a, b, length)
        do.write(a, b, LARGE)
        # Each atomic is done once, however often it was asked for.
        count = 60
        b.poke(SOURCE, bytes(8))
        a.ask("send", op="fadd", n=count, off=TARGET, len=8, raddr=b.addr + SOURCE, rkey=b.rkey, cmp=1)
        a.complete(n=count)
        expect(int.from_bytes(b.peek(SOURCE, 8), "little"), count, f"{b.name}: sum of {count} times 1")
        # Chance may have spared so few packets.
        rounds = 0
        while not faults.happened():
            rounds += 1
            if rounds == 50:
                raise Failed("netem loses nothing")
            do.write(a, b, 20_000)
            do.read(a, b, 20_000)


def clean():
    """Without faults on the way nothing we got was damaged, and nothing we sent was refused by the kernel."""
    seen = counters()
    for name in ("bad_icrc", "errors", "gso_refused"):
        expect(seen[name], 0, f"{VERBENA}: {name}")


# Every 40th packet, or every other such one, overtakes the 2 ms' worth of packets before it.
NETEM = "loss 1% duplicate 1% delay 2ms reorder 50% gap 40"


def groups():
    """(name, check, whether it belongs to the quick set) of each group, in the order to run them."""

    def to(requester):
        return f"{requester} to {peer_of(requester)}"

    for family in FAMILIES:
        for mtu in MTUS:
            for r in REQUESTERS:
                yield f"RC, {family}, MTU {mtu}, {to(r)}", lambda f=family, m=mtu, r=r: reliable(f, m, r), mtu in QUICK
        for mtu in MTUS:
            for r in REQUESTERS:
                yield (
                    f"UC, {family}, MTU {mtu}, {to(r)}",
                    lambda f=family, m=mtu, r=r: unreliable(f, m, r),
                    mtu in QUICK,
                )
        for r in REQUESTERS:
            yield f"UD, {family}, {to(r)}", lambda f=family, r=r: datagrams(f, r), True
        for mtu in (256, 1024, 4096):
            yield f"GSO batches, {family}, MTU {mtu}", lambda f=family, m=mtu: batches(f, m), mtu in QUICK
        for r in REQUESTERS:
            yield f"receiver not ready, {family}, {to(r)}", lambda f=family, r=r: receiver_not_ready(f, r), True
        for r in REQUESTERS:
            yield f"refusals, {family}, {to(r)}", lambda f=family, r=r: refusals(f, r), True
        for r in REQUESTERS:
            yield f"SEND too long, {family}, {to(r)}", lambda f=family, r=r: too_long(f, r), True
    for r in REQUESTERS:
        yield f"link-local addresses, {to(r)}", lambda r=r: link_local(r), True
    yield "10 queue pairs at once", lambda: many(10), True
    yield "nothing damaged", clean, True
    for family in FAMILIES:
        for r in REQUESTERS:
            for where, entering, leaving in (
                ("towards rxe", NETEM, None),
                ("towards verbena", None, NETEM),
                ("both ways", NETEM, NETEM),
            ):
                yield (
                    f"lossy {where}, {family}, {to(r)}",
                    lambda f=family, r=r, e=entering, g=leaving: lossy(f, r, e, g),
                    where == "both ways",
                )
    # The sender's IPv4 identification is hidden from us, which halves what our check of the ICRC can find.
    for r in REQUESTERS:
        yield (
            f"corruption both ways, IPv6, {to(r)}",
            lambda r=r: lossy("IPv6", r, "corrupt 1%", "corrupt 1%"),
            False,
        )
