#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One end of a pair of programs is killed in the midst of its traffic: the other does what it does on hardware, and
nothing of ours is left. Each case has namespaces of its own, which takes root or unprivileged user namespaces;
skipped (77) without."""
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import pairs

# What the survivor does. Reports: its request runs out of retries, it says so and ends badly. Hangs up: it waits for
# the other's report on TCP, sees the end of that, and ends badly. Waits: nothing will ever come, and nothing on the
# wire says so (or: nothing tells a sender of datagrams that nobody listens). By turns: whichever of the two
# has the ball when the other dies reports, or waits.
REPORTS, HANGS_UP, WAITS, BY_TURNS = "reports", "hangs up", "waits", "by turns"
# Program: when its server is killed, the client ...; when its client is killed, the server ...
OUTCOMES = {
    "ib_write_bw -c RC": (REPORTS, HANGS_UP),
    "ib_read_bw -c RC": (REPORTS, HANGS_UP),
    "ib_atomic_bw -c RC": (REPORTS, HANGS_UP),
    "ib_read_lat -c RC": (REPORTS, HANGS_UP),
    "ib_send_bw -c RC": (REPORTS, WAITS),
    "ib_send_bw -c UC": (WAITS, WAITS),
    "ib_send_bw -c UD": (WAITS, WAITS),
    "ib_write_bw -c UC": (WAITS, HANGS_UP),
    "ib_write_lat -c RC": (BY_TURNS, BY_TURNS),
    "ib_send_lat -c RC": (BY_TURNS, BY_TURNS),
    "ibv_rc_pingpong": (BY_TURNS, BY_TURNS),
    "ibv_rc_pingpong -e": (BY_TURNS, BY_TURNS),
    "ibv_srq_pingpong": (BY_TURNS, BY_TURNS),
    "ibv_uc_pingpong": (WAITS, WAITS),
    "ibv_ud_pingpong": (WAITS, WAITS),
}
# In every test run; the others with --all.
QUICK = ["ib_write_bw -c RC", "ib_send_bw -c RC", "ib_send_bw -c UD", "ibv_rc_pingpong", "ibv_srq_pingpong"]
ENDS = ("server", "client")
WAITING_SECONDS = 3  # a survivor that is there after so long waits; retries run out in less
PACKETS = 200        # so many, and the traffic is in full swing
NAMESPACES = ["unshare", "--net", "--mount", "--ipc", "--pid", "--fork", "--mount-proc"]
PORTS = {4791, *range(14791, 14795)}
EMPTY = ("/tmp", "/var/tmp", "/dev/shm")  # directories with nothing in them at the beginning


def set_up(libraries):
    """Inside the namespaces: loopback, empty directories, and the libraries where those do not hide them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = struct.pack("16sH14x", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, flags)  # SIOCSIFFLAGS
    subprocess.run(["mount", "--bind", libraries, "/mnt"], check=True)
    for directory in EMPTY:
        subprocess.run(["mount", "-t", "tmpfs", "none", directory], check=True)
    return pairs.environment("/mnt")


def packets(env):
    """What all processes of the host have received, through sockets or shared memory."""
    counter = "/sys/class/infiniband/verbena0/ports/1/counters/port_rcv_packets"
    read = subprocess.run(["cat", counter], env={**env, "LD_PRELOAD": "/mnt/libverbena-paths.so"},
                          capture_output=True, text=True, timeout=pairs.SECONDS)
    return int(read.stdout or 0)


def left_behind():
    found = [f"{directory}/{name}" for directory in EMPTY for name in os.listdir(directory)]
    found += [f"process {pid}" for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
    for table in ("/proc/net/udp", "/proc/net/udp6"):
        with open(table, encoding="ascii") as lines:
            ports = {int(line.split()[1].rpartition(":")[2], 16) for line in list(lines)[1:]}
            found += [f"UDP port {port}" for port in ports & PORTS]
    with open("/proc/net/unix", encoding="ascii") as lines:
        found += [line.split()[-1] for line in lines if "@" in line]
    return found


def outcome(survivor, wanted):
    """What it did, and what it said."""
    # A slow machine is no reason to wait.
    seconds = pairs.SECONDS if wanted in (REPORTS, HANGS_UP) else WAITING_SECONDS
    try:
        text, _ = survivor.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return WAITS, ""
    if survivor.returncode > 0 and re.search(r"[Ff]ailed status .*\b12\b", text):
        return REPORTS, text
    if survivor.returncode > 0 and "ouldn't read" in text:
        return HANGS_UP, text
    return f"exit status {survivor.returncode}", text


def kill_one(name, killed, libraries):
    """The whole case, inside its namespaces."""
    env = set_up(libraries)
    gid = pairs.loopback_gid(env)
    wanted = OUTCOMES[name][killed]
    options = ["-g", gid, "-n", "100000000"] if name.startswith("ibv_") else ["-d", "verbena0", "-x", gid, "-F", "-D", "60"]
    with pairs.Pair(name.split() + options, env) as pair:
        while packets(env) < PACKETS:
            if any(end.poll() is not None for end in pair.ends) or time.monotonic() > pair.until:
                return f"no traffic:\n{pair.problem()}"
            time.sleep(0.01)
        pair.ends[killed].send_signal(signal.SIGKILL)
        got, text = outcome(pair.ends[1 - killed], wanted)
    if got != wanted and not (wanted == BY_TURNS and got in (REPORTS, WAITS)):
        return f"the {ENDS[1 - killed]} {got}, where it should be: {wanted}\n{text}"
    until = time.monotonic() + 2  # the kernel takes its time to bury the dead
    while (found := left_behind()) and time.monotonic() < until:
        time.sleep(0.05)
    return f"left behind: {', '.join(found)}" if found else None


def run_inside(name, killed, libraries):
    done = subprocess.run(NAMESPACES + [sys.executable, os.path.abspath(__file__), "--inside", name, str(killed), libraries],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * pairs.SECONDS)
    return None if done.returncode == 0 else done.stdout + done.stderr


def main():
    if sys.argv[1:2] == ["--inside"]:
        problem = kill_one(sys.argv[2], int(sys.argv[3]), sys.argv[4])
        print(problem or "")
        return 1 if problem else 0
    arguments = pairs.arguments(__doc__)
    if os.geteuid() != 0:
        NAMESPACES.insert(1, "--map-root-user")
    if subprocess.run(NAMESPACES + ["true"], capture_output=True).returncode != 0:
        print("kills.py: skipped: this user may not make namespaces.")
        return 77
    libraries = os.path.abspath(arguments.libraries)
    cases = [(f"{name}: {end} killed", lambda name=name, killed=killed: run_inside(name, killed, libraries))
             for name in OUTCOMES if arguments.all or name in QUICK for killed, end in enumerate(ENDS)]
    return pairs.run_cases(cases, arguments, at_once=4)


if __name__ == "__main__":
    sys.exit(main())
