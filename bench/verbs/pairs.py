# SPDX-License-Identifier: Apache-2.0
"""perftest between two processes of this machine, and the boundary's instruction counts."""
import os
import random
import subprocess
import sys
import time

SECONDS = 120
LOOPBACK = "::ffff:127.0.0.1"
ITERATIONS = {"ib_write_bw": 4000, "ib_read_bw": 4000, "ib_send_lat": 20000, "ib_write_lat": 20000}


def gid_index(environment):
    """Where the loopback address stands in the device's GID table."""
    text = subprocess.run(["ibv_devinfo", "-v"], env=environment, capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        if "GID[" in line and LOOPBACK in line:
            return line.split("[")[1].split("]")[0].strip()
    sys.exit(f"{LOOPBACK} is not among the device's GIDs:\n{text}")


def figure(program, text):
    """GB/s, or microseconds: perftest's one line of numbers."""
    for line in text.splitlines():
        words = line.split()
        if len(words) > 3 and words[0].isdigit() and words[1].isdigit():
            return float(words[4]) if program.endswith("_lat") else float(words[3]) / 8
    sys.exit(f"{program} printed no figures:\n{text}")


def arguments(program, size, scale):
    count = ITERATIONS[program]
    if size >= 1 << 20:
        count //= 4
    return [program, "-F", "-s", str(size), "-n", str(max(int(count * scale), 200))] + (
        [] if program.endswith("_lat") else ["-m", "4096", "--report_gbits"]
    )


def measure(program, size, libraries, scale):
    # Loopback alone: the port's MTU is then the 4096 of the device's own figures.
    environment = dict(os.environ, LD_LIBRARY_PATH=str(libraries), VERBENA_ADDRESSES="lo")
    command = arguments(program, size, scale)
    command += ["-x", gid_index(environment), "-p", str(random.randrange(20000, 26000))]
    server = subprocess.Popen(["taskset", "-c", "0"] + command, env=environment, stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            client = subprocess.run(
                ["taskset", "-c", "1"] + command + ["127.0.0.1"],
                env=environment, capture_output=True, text=True, timeout=SECONDS,
            )  # fmt: skip
            if client.returncode == 0 or server.poll() is not None:
                break
            time.sleep(0.05)  # the server does not listen yet
        server.wait(timeout=SECONDS)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    if client.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{client.stdout}{client.stderr}")
    return figure(program, client.stdout)


def show_boundary(program):
    rows = []
    text = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        name, through, without = line.rsplit(maxsplit=2)
        more = int(through) - int(without)
        print(f"  {name:34} {through:>8}          device {without:>8}   more {more:6}", flush=True)
        rows.append({"name": name, "ours": int(through), "peer": "device", "theirs": int(without), "more": more})
    return rows
