#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the distribution's programs that use rsockets on the drop-in libraries, and looks at the device's counters
whether their bytes went over it."""
import filecmp
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "verbs"))
import pairs  # noqa: E402

# So long a peer's sudden end may take to be noticed.
NOTICED = 10
# So long a server may take to listen.
LISTENS = 20


def start(command, env, **options):
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            **options)


def stop(process):
    if process.poll() is None:
        process.kill()
    return process.communicate()[0]


def finish(process, who):
    """None, or what is wrong with its end."""
    try:
        text, _ = process.communicate(timeout=pairs.SECONDS)
    except subprocess.TimeoutExpired:
        places = pairs.where([process.pid])
        return f"{who}: not done after {pairs.SECONDS} s:\n{stop(process)}{places}"
    return None if process.returncode == 0 else f"{who}: exit status {process.returncode}:\n{text}"


def carried(path):
    """The bytes that the devices of all processes with this file of counters have sent and received."""
    if not os.path.exists(path):
        return 0
    with open(path, encoding="utf-8") as lines:
        all_of_it = [json.loads(line) for line in lines]
    return sum(one["sent"]["bytes"] + one["received"]["bytes"] for one in all_of_it)


def connect(command, env, server):
    """Runs a client until it is not refused any more: what an RDMA port is used for cannot be seen from outside, and not
    every client says why it ended. The server ends with the first that gets through to it."""
    until = time.monotonic() + LISTENS
    while True:
        client = start(command, env)
        try:
            text, _ = client.communicate(timeout=pairs.SECONDS)
        except subprocess.TimeoutExpired:
            places = pairs.where([client.pid, server.pid])
            return f"client: not done after {pairs.SECONDS} s:\n{stop(client)}{places}"
        if client.returncode == 0:
            return None
        if server.poll() is not None or time.monotonic() > until:
            return f"client: exit status {client.returncode}:\n{text}"
        time.sleep(0.05)


def run_stream(env, program, words, least):
    """Both ends of rstream or riostream, with the same options; `least` bytes must have crossed the device."""
    port = str(pairs.free_port())
    with tempfile.TemporaryDirectory() as folder:
        counters = os.path.join(folder, "counters")
        env = {**env, "VERBENA_COUNTERS": counters}
        command = [program, "-p", port] + words.split()
        server = start(command, env)
        problem = connect(command + ["-s", "127.0.0.1"], env, server)
        problem = problem or finish(server, "server")
        stop(server)
        if not problem and carried(counters) < least:
            problem = f"the device carried {carried(counters)} bytes of at least {least}"
        return problem


def run_copy(env):
    port = str(pairs.free_port())
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
        with open(source, "wb") as file:
            file.write(os.urandom(20_000_000))
        server = start(["rcopy", "-p", port], env)
        problem = connect(["rcopy", source, f"127.0.0.1:{target}", "-p", port], env, server)
        stop(server)
        if not problem and not filecmp.cmp(source, target, shallow=False):
            problem = "the copy differs"
        return problem


def run_kill(env, which):
    """One end is killed while both are busy; the other one notices."""
    port = str(pairs.free_port())
    command = ["stdbuf", "-oL", "rstream", "-p", port, "-S", "64", "-C", "1", "-I", "100000000"]
    server = start(command, env)
    until = time.monotonic() + pairs.SECONDS
    client = start(command + ["-s", "127.0.0.1"], env)
    while time.monotonic() < until:  # until it stays connected
        time.sleep(0.5)
        if client.poll() is None:
            break
        stop(client)
        client = start(command + ["-s", "127.0.0.1"], env)
    time.sleep(0.5)
    killed, other = (server, client) if which == "server" else (client, server)
    killed.kill()
    try:
        text, _ = other.communicate(timeout=NOTICED)
        problem = None if "reset" in text else f"said something else than that the connection was reset:\n{text}"
    except subprocess.TimeoutExpired:
        problem = f"not noticed in {NOTICED} s:\n{pairs.where([other.pid])}"
    stop(killed)
    stop(other)
    return problem


def main():
    arguments = pairs.arguments(__doc__)
    env = pairs.environment(arguments.libraries)
    cases = []
    custom = "-S 5000 -C 1000 -I 5 -T v"
    for program in ("rstream", "riostream"):
        for way in ("", "-T a", "-T b", "-T n"):
            cases.append((f"{program} {way}".strip(), lambda program=program, way=way: run_stream(env, program, f"{custom} {way}", 40_000_000)))
    for words in ("-T r", "-i 0", "-B 8192", "-k 1"):
        cases.append((f"rstream {words}", lambda words=words: run_stream(env, "rstream", f"{custom} {words}", 40_000_000)))
    cases.append(("rstream small", lambda: run_stream(env, "rstream", "-S 1 -C 1000 -I 3 -T v", 6000)))
    cases.append(("rstream all sizes", lambda: run_stream(env, "rstream", "-S all -I 20 -C 20", 1_000_000)))
    cases.append(("rcopy", lambda: run_copy(env)))
    for which in ("server", "client"):
        cases.append((f"kill {which}", lambda which=which: run_kill(env, which)))
    return pairs.run_cases(cases, arguments, 2)


if __name__ == "__main__":
    sys.exit(main())
