#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""The Python package beside redis-py, one caller, one request after the other: `verbena serve` on the built-in device and Redis
without persistence, both in memory on this host, in turns.

Each row shows the medians of ours and of the peer, and their ratio: more than 1 is faster than the peer. put and get are of whole
objects, as Redis has them (SET, GET); write and readinto are in place, beside the same. Ours verifies a CRC of all data at both
ends, and gives a memoryview; redis-py gives bytes, and has hiredis to parse answers.
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SECONDS = 60
KEYS = [f"bench/{i}" for i in range(32)]


def machine():
    part = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "CPU part"):
            part = value.strip()
    return (f"{part}, {os.cpu_count()} cores, Linux {platform.release()} {platform.machine()}, "
            f"Python {platform.python_version()}")


@contextlib.contextmanager
def background(*words, **options):
    process = subprocess.Popen([str(word) for word in words], **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=SECONDS)


@contextlib.contextmanager
def verbena_client(build):
    """Of a server of its own."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    os.environ["VERBENA_CLIENT_LIBRARY"] = str(next(build.glob("**/libverbena-client.so.1")))
    import verbena  # pylint: disable=import-outside-toplevel

    with background(build / "bin/verbena", "serve", "--memory", "1G", "--listen", "127.0.0.1:0", "--quiet",
                    stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        with verbena.Client("127.0.0.1", port) as client:
            yield client


@contextlib.contextmanager
def redis_clients(folder):
    """By name: over TCP on loopback, and through a unix socket."""
    import redis  # pylint: disable=import-outside-toplevel

    path = folder / "redis.sock"
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    with background("redis-server", "--port", port, "--bind", "127.0.0.1", "--unixsocket", path, "--save", "",
                    "--appendonly", "no", "--dir", folder, stdout=subprocess.DEVNULL):
        clients = {"redis-py, TCP": redis.Redis("127.0.0.1", port), "redis-py, unix socket": redis.Redis(unix_socket_path=str(path))}
        for client in clients.values():
            until = time.monotonic() + SECONDS
            while True:
                try:
                    client.ping()
                    break
                except redis.ConnectionError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.05)
        yield clients


def rate(work, seconds):
    """Calls per second; `work` gets a key."""
    count = 0
    begin = time.perf_counter()
    until = begin + seconds
    while (now := time.perf_counter()) < until:
        work(KEYS[count % len(KEYS)])
        count += 1
    return count / (now - begin)


def operations(client, peers, size):
    """(what we do, what each peer does) by name. The content is there, and was compared, before time runs."""
    data = os.urandom(size)
    buffer = bytearray(size)
    for key in KEYS:
        client.put(key, data)
        assert client.get(key) == data
        for peer in peers.values():
            peer.set(key, data)
            assert peer.get(key) == data
    sets = {name: lambda key, p=peer: p.set(key, data) for name, peer in peers.items()}
    gets = {name: lambda key, p=peer: p.get(key) for name, peer in peers.items()}
    return {
        "put": (lambda key: client.put(key, data), sets),
        "get": (client.get, gets),
        "write": (lambda key: client.write(key, data), sets),
        "readinto": (lambda key: client.readinto(key, buffer), gets),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5, help="of each measurement; the median counts")
    parser.add_argument("--seconds", type=float, default=0.5, help="that each takes")
    parser.add_argument("--json", help="also write all rows to this file")
    options = parser.parse_args()
    print(machine())
    rows = []
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="verbena-bench-")))
        client = stack.enter_context(verbena_client(options.build.resolve()))
        peers = stack.enter_context(redis_clients(folder))
        for size in (4096, 1 << 20):
            print(f"\n{size} bytes")
            for name, (ours, theirs) in operations(client, peers, size).items():
                mine, others = [], {peer: [] for peer in theirs}
                for _ in range(options.rounds):
                    mine.append(rate(ours, options.seconds))
                    for peer, work in theirs.items():
                        others[peer].append(rate(work, options.seconds))
                for peer, values in others.items():
                    a, b = statistics.median(mine), statistics.median(values)
                    print(f"  {name:<10} {a:9.0f} /s {b:9.0f} /s {peer:<22} ratio {a / b:5.2f}", flush=True)
                    rows.append({"bytes": size, "name": name, "peer": peer, "ours_per_s": a, "theirs_per_s": b, "ratio": a / b})
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2))


if __name__ == "__main__":
    sys.exit(main())
