#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""What the drop-in libraries cost: perftest on them beside the device's own figures, and inside a guest beside rxe.

Each row is measured in turns with its peer, and shows both medians and their ratio: more than 1 is better than the peer,
for bandwidths and for latencies alike. Both ends of a pair run on a core of their own, as those of `./dev bench device` do.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

import guest
import pairs

# perftest's program, its size and MTU, and the row of the device's benchmark that does the same.
ROWS = [
    ("ib_write_bw", 65536, "WRITE of 64 KiB, MTU 4096"),
    ("ib_write_bw", 1048576, "WRITE of 1024 KiB, MTU 4096"),
    ("ib_read_bw", 65536, "READ of 64 KiB, MTU 4096"),
    ("ib_read_bw", 1048576, "READ of 1024 KiB, MTU 4096"),
    ("ib_send_lat", 8, "SEND, polling, each completed, median"),
    ("ib_write_lat", 8, "WRITE, spinning, each completed, median"),
]


def device_figures(build, scale):
    """{row: figure} of one round of the device's own benchmark."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [build / "tests/device_bench", "--alone", "--rounds", "1", "--scale", str(scale)]
        command += ["--only", "bandwidth", "latency", "--json", file.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = json.load(open(file.name, encoding="utf-8"))["rows"]
    figures = {}
    for row in rows:
        figures.setdefault(row["name"], row["ours"])
    return figures


def ratio(program, ours, theirs):
    return theirs / ours if program.endswith("_lat") else ours / theirs


def show(name, program, ours, theirs, what):
    unit = "us  " if program.endswith("_lat") else "GB/s"
    mine, other = statistics.median(ours), statistics.median(theirs)
    share = ratio(program, mine, other)
    print(f"  {name:34} {mine:8.2f} {unit}   {what} {other:8.2f}   ratio {share:5.2f}", flush=True)
    return {"name": name, "ours": mine, "peer": what, "theirs": other, "ratio": share, "rounds": len(ours)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement; the median is shown")
    parser.add_argument("--scale", type=float, default=1.0, help="more (or less, below 1) work in each measurement")
    parser.add_argument("--no-guest", action="store_true", help="leave out what runs inside the guest")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file, too")
    options = parser.parse_args()
    build = options.build.resolve()
    libraries = build / "lib/verbena"
    rows = []

    print(f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}; medians of {options.rounds} rounds")
    print("\nperftest on the drop-in libraries, against the device's own benchmark (aim: 0.85 or more)")
    ours = {row: [] for row in ROWS}
    theirs = {row: [] for row in ROWS}
    for _ in range(options.rounds):
        own = device_figures(build, options.scale)
        for row in ROWS:
            program, size, name = row
            theirs[row].append(own[name])
            ours[row].append(pairs.measure(program, size, libraries, options.scale))
    for row in ROWS:
        program, size, name = row
        rows.append(show(f"{program} -s {size}", program, ours[row], theirs[row], "device"))

    print("\nInstructions of a call, through the drop-in library and without it")
    rows += pairs.show_boundary(build / "tests/verbs_boundary")

    if not options.no_guest:
        print("\nperftest inside the guest: on Verbena in a network namespace, against rxe (aim: 1.0 or more)")
        rows += guest.measure(libraries, options.rounds, show)
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
