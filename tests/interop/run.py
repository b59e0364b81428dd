#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Verbena against the kernel's rdma_rxe. To be run by scripts/rxe-guest, which ./dev interop does.

run.py AGENT LIBRARIES [--all | WORDS...]   The verbena_agent to test, and the folder of the drop-in libraries. Runs
                                            the quick set of groups; with --all, all; with words, those of all
                                            whose names have every word.
run.py --names [--all | WORDS...]           Prints the groups that this would run. Needs no guest.
"""
import itertools
import socket
import subprocess
import sys
import time

import checks
import commands
import connections
import programs
import store
from peer import GUEST, OURS, Failed


def start_agent(program):
    """Our agent; it ends when we do."""
    agent = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", program, str(OURS[1])], stdout=subprocess.PIPE, text=True
    )
    if agent.stdout.readline() != "ready\n":
        sys.exit(f"{program} did not start.")
    return agent


def guest_is_up():
    try:
        socket.create_connection(GUEST, timeout=10).close()
        return True
    except OSError:
        return False


def effort(before):
    """What our transport did about loss, real or supposed, since `before`."""
    try:
        after = checks.counters()
    except (Failed, OSError):
        return "its agent is gone"
    shown = {"kRetransmittedPackets": "again", "kTailProbe": "probes", "kGoBack": "back", "kTimeout": "timeouts"}
    grown = {text: after[name] - before[name] for name, text in shown.items()}
    sent = after["kPacketsSent"] - before["kPacketsSent"]
    return ", ".join([f"sent {sent:5}"] + [f"{text} {count}" for text, count in grown.items() if count])


def run(name, check):
    """Gives whether the group passed."""
    before = checks.counters()
    start = time.monotonic()
    problem = None
    try:
        check()
    except (Failed, OSError) as error:
        problem = error
    took = time.monotonic() - start
    print(f"{'FAILED' if problem else 'ok    '}  {name:48} {took:6.1f} s  {effort(before)}", flush=True)
    if problem:
        print(f"        {problem}")
        try:
            seen = checks.counters()
            print("        counters:", ", ".join(f"{key} {value}" for key, value in seen.items() if value), flush=True)
        except (Failed, OSError):
            pass
    return problem is None


def choose(libraries, words):
    """(name, check) of each group that the words ask for, which there must be."""
    everything = bool(words)
    if words == ["--all"]:
        words = []
    words = [word.lower() for word in words]
    chosen = [
        (name, check)
        for name, check, quick in itertools.chain(
            checks.groups(),
            programs.groups(libraries),
            connections.groups(libraries),
            commands.groups(libraries),
            store.groups(libraries),
        )
        if (quick or everything) and all(word in name.lower() for word in words)
    ]
    if not chosen:
        print(f"There is no group whose name has: {' '.join(words)}", file=sys.stderr)
        sys.exit(2)
    return chosen


def main():
    if sys.argv[1:2] == ["--names"]:
        for name, _ in choose("", sys.argv[2:]):
            print(name)
        return 0
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    chosen = choose(sys.argv[2], sys.argv[3:])
    if not guest_is_up():
        sys.exit("There is no guest here to test against. ./dev interop boots one.")
    agent = start_agent(sys.argv[1])
    start = time.monotonic()
    passed = failed = 0
    for name, check in chosen:
        if run(name, check):
            passed += 1
        else:
            failed += 1
        if failed and not guest_is_up():
            print("The guest is gone, and the rest was not run. Its console is in build/interop/console.log.")
            break
        if agent.poll() is not None:
            print(f"verbena_agent ended with {agent.returncode}, and the rest was not run.")
            failed = max(failed, 1)
            break
    agent.kill()
    print(f"{passed} passed, {failed} failed, in {time.monotonic() - start:.0f} s")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
