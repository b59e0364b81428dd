#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""The device between two hosts, against TCP on the same link: two network namespaces joined by an emulated link.

Each row is a link (rate, round trip, buffer) and a kind of work. Ours and TCP have the link alone, one after the other; the ratio
is ours by TCP's: more than 1 is better. BBR is measured where packets get lost, with --bbr everywhere. "resent" is the share of packets
sent again, of TCP's too; "queue" is what packets found in the bottleneck's queue, mean and most, in BDPs. In rows with a flow
beside, two flows have the link at the same time: Jain's index of the two, and what the TCP flow gets of half of the link. A program of
ours polls, as perftest does, and has a core for itself; in rows "asleep" it sleeps until there is a completion, as iperf3 does. In rows
"secret" both ends tag their packets (verbena run --secret); the same row without it is beside them.

Aims: without loss 0.9 of cubic and at most 2 % resent; with loss ahead of cubic, with 1 % 0.7 of BBR; Jain's index of two of ours 0.9; a TCP
flow beside has 0.4 of its half; a link that marks (ECN) has at most 2 BDPs in its queue. The exit status is 1 if a row could not be measured.

A flow of ours is perftest on the drop-in libraries, over sockets, messages of 64 KiB. Links of 10 Gbit/s have an MTU of 9000, others 1500.

--full is about 1,000 rows, hours. It can be broken off, and done in parts:
  ./dev bench hosts --full --json all.json                 until Ctrl-C
  ./dev bench hosts --full --json all.json --resume        the rest
  ./dev bench hosts --full --json part2.json --part 2/4    on another machine: the 2nd row, the 6th, the 10th, ...
"""
import argparse
import dataclasses
import os
import pathlib
import platform
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/emulated_link"))
import flows  # noqa: E402
import hosts  # noqa: E402
import results  # noqa: E402
import rows  # noqa: E402

# IP, UDP, BTH and ICRC; few packets of a response have more.
AROUND_READ = 20 + 8 + 12 + 4
LATE_US = 1000  # a link that is later than that, on average, is not the one that was asked for


def available_controls():
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as file:
        return file.read().split()


def jain(first, second):
    return (first + second) ** 2 / (2 * (first**2 + second**2)) if first + second > 0 else 0


class Bench:
    def __init__(self, build, seconds):
        self.link_program, self.verbena, self.seconds = build / "tests/verbena_emulated_link", build / "bin/verbena", seconds

    @staticmethod
    def warm(row):
        """Seconds until a flow has its rate: slow start takes some tens of round trips."""
        return 1 if row.rtt_ms < 25 else 2

    def ours(self, row, number=0):
        return lambda link: flows.Ours(link, self.verbena, row, self.seconds, self.warm(row), 18515 + number)

    def tcp(self, row, control):
        return lambda link: flows.Tcp(link, control, self.seconds, self.warm(row))

    def run(self, row, *makers):
        """Runs flows at the same time on a new link: what they reached, and what the link counted meanwhile."""
        running = []
        with hosts.Hosts(self.link_program, "--run-time", "300s", *row.link_options()) as link:
            flows.prepare(link)
            try:
                for make in makers:
                    running.append(make(link))
                counters = self.watch(link, row)
                for flow in running:
                    flow.finish()
            finally:
                for flow in running:
                    flow.stop()
        return running, counters

    def watch(self, link, row):
        """Waits for traffic and until it is warm; then what the link counts while it is measured."""
        until = time.monotonic() + 20
        while link.counters()[0]["packets"] < 100 and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(self.warm(row))
        link.counters()
        began = time.monotonic()
        time.sleep(self.seconds)
        counters = link.counters()[0]
        return counters | {"bits_per_second": 8 * counters["bytes"] / (time.monotonic() - began)}


def rate_text(bits_per_second):
    return f"{bits_per_second / 1e9:6.2f} Gbit/s" if bits_per_second >= 1e9 else f"{bits_per_second / 1e6:6.1f} Mbit/s"


def queue_text(row, counters):
    return f"{counters['mean_queue_bytes'] / row.bdp_bytes:.2f}/{counters['max_queue_bytes'] / row.bdp_bytes:.2f}"


def resent_share(row, flow, counters):
    """The device counts what a requester sends again. What a responder does is seen on the link: more than the data needs."""
    if row.operation != "read":
        return flow.resent
    payload = 4096 if row.mtu > 4200 else 1024
    needed = flow.bits_per_second * (payload + AROUND_READ) / payload
    return max(0, 1 - needed / max(counters["bits_per_second"], 1))


def remark(counters, *running):
    """What makes a row worth less."""
    said = ""
    if overflow := sum(flow.overflow for flow in running):
        said += f"  ({overflow} packets found a full receive buffer)"
    if counters["dropped_before_link"]:
        said += f"  ({counters['dropped_before_link']} packets lost before the link)"
    if counters["mean_late_us"] > LATE_US:
        said += f"  (the link was {counters['mean_late_us']} us late)"
    return said


def missed_alone(row, found):
    """The aims of a row that it misses, in words."""
    flows_of = found["flows"]
    over_cubic = flows_of["cubic"]["ratio"]
    if row.loss == 0:
        missed = ["0.9 of cubic"] * (over_cubic < 0.9) + ["2 % resent"] * (flows_of["ours"]["resent"] > 0.02)
    else:
        missed = ["cubic"] * (over_cubic < 1)
        missed += ["0.7 of BBR"] * (row.loss == 1 and "bbr" in flows_of and flows_of["bbr"]["ratio"] < 0.7)
    return missed


def missed_together(row, found):
    missed = ["Jain 0.9"] * (row.beside == "ours" and found["jain"] < 0.9)
    missed += ["0.4 for TCP"] * (row.beside != "ours" and found["tcp_of_its_share"] < 0.4)
    return missed + ["2 BDP of queue"] * (row.ecn and found["link"]["max_queue_bytes"] > 2 * row.bdp_bytes)


def show(row, bits_per_second, resent, counters, rest, missed):
    print(f"  {row.name:54} {rate_text(bits_per_second)}  resent {100 * resent:5.1f} %  queue {queue_text(row, counters)}{rest}"
          + (f"  MISSED: {', '.join(missed)}" if missed else ""), flush=True)


def compare(bench, row, controls):
    """Prints a row in which flows have the link alone; its figures."""
    found = dataclasses.asdict(row) | {"name": row.name, "flows": {}}
    remarks = ""
    for name, make in {"ours": bench.ours(row), **{control: bench.tcp(row, control) for control in controls}}.items():
        (flow,), counters = bench.run(row, make)
        resent = resent_share(row, flow, counters) if name == "ours" else flow.resent
        found["flows"][name] = {"bits_per_second": flow.bits_per_second, "resent": resent, "overflow": flow.overflow, "link": counters}
        remarks += remark(counters, flow)
    mine = found["flows"]["ours"]
    rest = ""
    for control in controls:
        theirs = found["flows"][control]
        theirs["ratio"] = mine["bits_per_second"] / max(theirs["bits_per_second"], 1)
        rest += f"  {control} {rate_text(theirs['bits_per_second'])} {100 * theirs['resent']:.1f} %  ratio {theirs['ratio']:5.2f}"
    found["missed"] = missed_alone(row, found)
    show(row, mine["bits_per_second"], mine["resent"], mine["link"], rest + remarks, found["missed"])
    return found


def share(bench, row):
    """Prints a row in which two flows share the link; its figures."""
    alone = dataclasses.replace(row, beside="")
    other = bench.tcp(row, row.beside) if row.beside != "ours" else bench.ours(alone, 1)
    (mine, theirs), counters = bench.run(row, bench.ours(alone), other)
    found = dataclasses.asdict(row) | {"name": row.name, "ours": mine.bits_per_second, "beside_it": theirs.bits_per_second,
                                       "jain": jain(mine.bits_per_second, theirs.bits_per_second), "resent": mine.resent, "link": counters}
    rest = f"  {row.beside} {rate_text(theirs.bits_per_second)}  Jain {found['jain']:.2f}"
    if row.beside != "ours":
        found["tcp_of_its_share"] = theirs.bits_per_second / (row.bits_per_second / 2)
        rest += f"  TCP has {found['tcp_of_its_share']:.2f} of its share"
    found["missed"] = missed_together(row, found)
    show(row, mine.bits_per_second, mine.resent, counters, rest + remark(counters, mine, theirs), found["missed"])
    return found


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--only", action="append", default=[], metavar="PARTS",
                        help="only rows whose names have all of these, e.g. --only '1Gbit/s, 10 ms, loss'; may be repeated")
    parser.add_argument("--full", action="store_true", help="all links with all work: hours; with --only a part of it")
    parser.add_argument("--bbr", action="store_true", help="BBR in every row")
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement, after the flow has its rate")
    parser.add_argument("--part", type=part, metavar="K/N", help="of these rows the K-th, and then every N-th")
    parser.add_argument("--list", action="store_true", help="only the names of the rows; with --json FILE --resume of those that are left")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="write the figures to this file, too: a line for each row as it is done, all as one object at the end")
    parser.add_argument("--resume", action="store_true", help="leave out rows that are in the file of --json; those that failed are not")
    options = parser.parse_args()
    if options.resume and options.json is None:
        parser.error("--resume needs --json FILE")
    return options


def part(text):
    first, _, every = text.partition("/")
    if not (first.isdecimal() and every.isdecimal() and 1 <= int(first) <= int(every)):
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N with K from 1 to N")
    return int(first), int(every)


def has_all(name, wanted):
    """Whether each of the parts is in one part of the name, by whole words."""
    return all(any(f" {part} " in f" {has} " for has in name.split(", ")) for part in wanted.split(", "))


def chosen(options):
    every = rows.everything() if options.full else rows.selection()
    found = [row for row in every if not options.only or any(has_all(row.name, wanted) for wanted in options.only)]
    first, step = options.part or (1, 1)
    return found[first - 1::step]


def main():
    hosts.become_able()
    options = parse_options()
    wanted = chosen(options)
    if not wanted:
        print("No row has all of these; see --list.")
        return 2
    try:
        figures = results.Results(None if options.list and not options.resume else options.json, options.resume)
    except (results.Unusable, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    there = figures.names()
    to_measure = [row for row in wanted if row.name not in there]
    if options.list:
        print("\n".join(row.name for row in to_measure) or "All rows are in the file.")
        return 0
    has_bbr = "bbr" in available_controls()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}; {options.seconds} s each"
          + ("" if has_bbr else "; this kernel has no BBR: it is left out")
          + (f"; {len(wanted) - len(to_measure)} of {len(wanted)} rows are in {options.json}" if options.resume else ""), flush=True)
    bench = Bench(options.build.resolve(), options.seconds)
    failed = 0
    for row in to_measure:
        controls = ["cubic"] + ["bbr"] * (has_bbr and (options.bbr or row.loss > 0))
        try:
            figures.add(share(bench, row) if row.beside else compare(bench, row, controls))
        except flows.Failed as error:
            failed += 1
            print(f"  {row.name:52} failed: {error}", flush=True)
        except KeyboardInterrupt:
            print("  broken off" + (f"; --json {options.json} --resume goes on" if options.json else ""), flush=True)
            return 130
    figures.end()
    names = {row.name for row in wanted}
    print(f"{sum(row['name'] in names and not row['missed'] for row in figures.rows)} of {len(wanted)} rows meet their aims")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
