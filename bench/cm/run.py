#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""What connections cost: rdma_cm beside plain TCP sockets, and libfabric and UCX on the device beside their own TCP.

Each row is measured in turns with its peer, and shows both medians and their ratio: more than 1 is better than the peer,
for rates and for times alike. The peers of the first rows are the kernel's TCP, which makes a connection in two packets
and without queues to set up; rdma_cm takes three messages, two look-ups and a queue pair at each end.
"""
import argparse
import json
import os
import pathlib
import platform
import random
import re
import statistics
import subprocess
import sys
import time

SECONDS = 300


def free_port():
    return str(random.randrange(15000, 19000))


class Connector:
    """bench/cm/connect.cc: a server, and clients one after the other."""

    def __init__(self, build, kind):
        self.program, self.kind, self.port = build / "tests/cm_connect", kind, free_port()
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(build / "lib/verbena")}

    def __enter__(self):
        self.server = self.start("serve", self.kind, self.port)
        self.server.stdout.readline()
        return self

    def __exit__(self, *_):
        self.end(self.server)

    def start(self, *arguments):
        return subprocess.Popen([self.program, *arguments], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                text=True)

    @staticmethod
    def end(process):
        """Closes its input; what it said meanwhile."""
        return process.communicate(timeout=SECONDS)[0]

    def call(self, count, at_once, held=0):
        """Connections a second, median microseconds, and for held ones the bytes of each at the client."""
        client = self.start("call", self.kind, "127.0.0.1", self.port, str(count), str(at_once), str(held))
        line = client.stdout.readline()
        if not line:
            raise SystemExit(f"{self.kind}: no connections")
        return client, [float(word) for word in line.split()]


def connections(build, count, at_once):
    """{kind: (a second, microseconds)} of one round."""
    figures = {}
    for kind in ("rdma", "tcp"):
        with Connector(build, kind) as connector:
            client, (seconds, microseconds, _) = connector.call(count, at_once)
            connector.end(client)
            figures[kind] = (count / seconds, microseconds)
    return figures


def memory(build, held):
    """Bytes of a connection that is held, at the client and at the server."""
    with Connector(build, "rdma") as connector:
        client, (_, _, at_client) = connector.call(held, 64, held)
        at_server = float(connector.end(connector.server))
        connector.end(client)
    return at_client, at_server


def on_core(end):
    """Keeps a server (0) or a client (1) on a core of its own, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", str(cores[end])] if len(cores) > 1 else []


def pair(server, client, env):
    """What a client says, its server having been started before."""
    server, client = on_core(0) + server, on_core(1) + client
    running = subprocess.Popen(server, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(50):  # the server listens soon
            time.sleep(0.1)
            done = subprocess.run(client, env=env, capture_output=True, text=True, timeout=SECONDS)
            if done.returncode == 0:
                return done.stdout
        raise SystemExit(f"{' '.join(client)}: {done.stdout}{done.stderr}")
    finally:
        running.kill()
        running.wait()


def libfabric(verbena, kind, size, count):
    port = free_port()
    env = {**os.environ, "FI_TCP_IFACE": "lo", "VERBENA_LINK": kind if kind != "tcp" else "auto"}
    common = [verbena, "run", "--", "fi_pingpong", "-p", "tcp" if kind == "tcp" else "verbs", "-e", "msg", "-I", str(count),
              "-S", str(size)]
    said = pair(common + ["-B", port], common + ["-P", port, "127.0.0.1"], env)
    fields = said.splitlines()[-1].split()
    return {"MB/s": float(fields[5]), "us": float(fields[6])}


def ucx(verbena, kind, size, count):
    port = free_port()
    env = {**os.environ, "UCX_WARN_UNUSED_ENV_VARS": "n"}
    if kind == "tcp":
        env |= {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}
    else:
        env |= {"UCX_TLS": "rc_verbs,ud_verbs:aux", "UCX_NET_DEVICES": "verbena0:1", "VERBENA_LINK": kind}
    test = "tag_bw" if size > 1000 else "tag_lat"
    common = [verbena, "run", "--address", "lo", "--", "ucx_perftest", "-p", port]
    said = pair(common, common + ["127.0.0.1", "-t", test, "-s", str(size), "-n", str(count)], env)
    # The last line; of some versions it begins with a word.
    fields = re.search(r"^(?:Final:)?([\s\d.]+)$", said.strip().splitlines()[-1]).group(1).split()
    return {"MB/s": float(fields[5]), "us": float(fields[3])}


def show(name, ours, theirs, unit, peer):
    mine, other = statistics.median(ours), statistics.median(theirs)
    share = mine / other if unit in ("/s", "MB/s") else other / mine
    print(f"  {name:44} {mine:10.1f} {unit:4}  {peer} {other:10.1f}   ratio {share:5.2f}", flush=True)
    return {"name": name, "ours": mine, "peer": peer, "theirs": other, "ratio": share, "rounds": len(ours)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement; the median is shown")
    parser.add_argument("--scale", type=float, default=1.0, help="more (or less, below 1) work in each measurement")
    parser.add_argument("--held", type=int, default=5000, help="connections held for the row on memory")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file, too")
    options = parser.parse_args()
    build = options.build.resolve()
    verbena = str(build / "bin/verbena")
    rows = []

    def scaled(count):
        return max(1, int(count * options.scale))

    print(f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}; medians of {options.rounds} rounds")
    print("\nConnections over loopback: rdma_cm with a queue pair each, against TCP sockets")
    for at_once in (1, 64):
        rounds = [connections(build, scaled(3000), at_once) for _ in range(options.rounds)]
        words = "one after the other" if at_once == 1 else f"{at_once} at once"
        rows.append(show(f"connections, {words}", [r["rdma"][0] for r in rounds], [r["tcp"][0] for r in rounds], "/s", "TCP"))
        rows.append(show("time to connect, median", [r["rdma"][1] for r in rounds], [r["tcp"][1] for r in rounds], "us", "TCP"))

    at_client, at_server = memory(build, options.held)
    print(f"\nMemory of each of {options.held} connections held: {at_client / 1024:.1f} KiB at the client,"
          f" {at_server / 1024:.1f} KiB at the server")
    rows.append({"name": f"{options.held} connections held, bytes each", "client": at_client, "server": at_server})

    print("\nlibfabric and UCX on the device, against the same on their own TCP (aim: more than 1)")
    print(f"  both over the loopback interface and its addresses, {'each end on a core of its own' if on_core(0) else 'not pinned'}")
    for name, measure in (("fi_pingpong msg", libfabric), ("ucx_perftest rc", ucx)):
        for size, count, unit in ((65536, scaled(3000), "MB/s"), (8, scaled(5000), "us")):
            figures = {kind: [] for kind in ("auto", "udp", "tcp")}
            for _ in range(options.rounds):
                for kind, found in figures.items():
                    found.append(measure(verbena, kind, size, count)[unit])
            for kind, words in (("auto", "shared memory"), ("udp", "sockets")):
                rows.append(show(f"{name}, {size} bytes, {words}", figures[kind], figures["tcp"], unit, "TCP"))
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
