# SPDX-License-Identifier: Apache-2.0
"""What is measured: links, work on them, and which of the many are measured when nothing else is asked for."""
import dataclasses
import itertools


@dataclasses.dataclass(frozen=True)
class Row:
    rate: str = "1G"
    rtt_ms: float = 10
    buffer_bdp: float = 1
    loss: float = 0  # percent, each way
    reorder: float = 0  # percent delayed by a tenth of the round trip
    jitter_ms: float = 0
    ecn: bool = False  # the link marks from a quarter of a BDP on
    operation: str = "write"
    qps: int = 1
    sleeps: bool = False  # the programs, until there is a completion; SEND alone, which perftest can so
    secret: bool = False  # both ends have it: packets are tagged
    beside: str = ""  # "cubic" or "ours": another flow at the same time

    @property
    def bits_per_second(self):
        return float(self.rate[:-1]) * {"M": 1e6, "G": 1e9}[self.rate[-1]]

    @property
    def bdp_bytes(self):
        return self.bits_per_second / 8 * self.rtt_ms / 1000

    @property
    def queue_bytes(self):
        # A switch has room for some packets, however short the path is.
        return int(max(self.buffer_bdp * self.bdp_bytes, 16 * self.mtu))

    @property
    def mtu(self):
        return 9000 if self.bits_per_second > 2e9 else 1500

    @property
    def name(self):
        words = [f"{self.rate}bit/s", f"{self.rtt_ms:g} ms", f"{self.buffer_bdp:g} BDP", self.operation.upper(),
                 f"{self.qps} QP{'s' * (self.qps > 1)}"]
        words += [f"loss {self.loss:g} %"] * (self.loss > 0)
        words += [f"reorder {self.reorder:g} %"] * (self.reorder > 0)
        words += [f"jitter {self.jitter_ms:g} ms"] * (self.jitter_ms > 0)
        words += ["ECN"] * self.ecn
        words += ["asleep"] * self.sleeps
        words += ["secret"] * self.secret
        words += [f"beside {self.beside}"] * bool(self.beside)
        return ", ".join(words)

    def link_options(self):
        """Of verbena_emulated_link."""
        options = ["--rate", self.rate, "--delay", f"{self.rtt_ms * 500:g}us", "--queue", str(self.queue_bytes), "--mtu", str(self.mtu)]
        options += ["--loss", f"{self.loss:g}", "--jitter", f"{self.jitter_ms:g}ms"]
        options += ["--reorder", f"{self.reorder:g}", "--reorder-by", f"{self.rtt_ms * 100:g}us"]
        if self.ecn:
            options += ["--mark", str(max(int(self.bdp_bytes / 4), 4 * self.mtu))]
        return options


def selection():
    """Some minutes: the purpose's rows, those in which the processor is not the bound, then each kind of trouble on one link, then sharing."""
    slow = [Row("100M", rtt, operation=operation) for rtt, operation in itertools.product((0.1, 1, 50), ("write", "read", "send"))]
    return [
        Row("100M", 10, qps=8),
        *slow,
        Row("100M", 0.1, operation="send", sleeps=True),
        Row("1G", 10),
        Row("1G", 10, secret=True),
        Row("1G", 50),
        Row("10G", 0.1),
        Row("10G", 0.1, secret=True),
        Row("1G", 0.1),
        Row("10G", 0.1, operation="send", sleeps=True),
        Row("1G", 0.1, operation="send", sleeps=True),
        Row("1G", 1, operation="read"),
        Row("1G", 1, operation="send", qps=8),
        Row("1G", 10, qps=64),
        Row("1G", 10, buffer_bdp=0.25, qps=8),
        Row("1G", 10, buffer_bdp=4, qps=8),
        Row("1G", 10, loss=0.1),
        Row("1G", 10, loss=1),
        Row("1G", 10, loss=5),
        Row("1G", 10, loss=1, operation="read"),
        Row("1G", 10, reorder=1),
        Row("1G", 10, jitter_ms=1),
        Row("1G", 10, beside="ours"),
        Row("1G", 10, beside="cubic"),
        Row("100M", 10, qps=8, beside="cubic"),
        Row("1G", 10, qps=64, ecn=True, beside="cubic"),
    ]


def everything():
    """All links with all work on them, then troubles and sharing on each link: hours."""
    links = list(itertools.product(("100M", "1G", "10G"), (0.1, 1, 10, 50)))
    work = list(itertools.product(("write", "read", "send"), (1, 8, 64)))
    rows = [Row(rate, rtt, buffer, operation=operation, qps=qps)
            for (rate, rtt), buffer, (operation, qps) in itertools.product(links, (0.25, 1, 4), work)]
    for (rate, rtt), (operation, qps) in itertools.product(links, work):
        rows += [Row(rate, rtt, loss=loss, operation=operation, qps=qps) for loss in (0.1, 1, 5)]
        rows += [Row(rate, rtt, reorder=1, operation=operation, qps=qps), Row(rate, rtt, ecn=True, operation=operation, qps=qps),
                 Row(rate, rtt, jitter_ms=rtt / 10, operation=operation, qps=qps)]
    for (rate, rtt), ecn in itertools.product(links, (False, True)):
        rows.append(Row(rate, rtt, ecn=ecn, beside="ours"))
        rows += [Row(rate, rtt, ecn=ecn, qps=qps, beside="cubic") for qps in (1, 8, 64)]
    return rows
