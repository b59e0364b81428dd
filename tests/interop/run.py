#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Verbena against the kernel's rdma_rxe. To be run by scripts/rxe-guest, which ./dev interop does.

run.py AGENT [WORDS...]   AGENT is the verbena_agent to test. With words: only the groups whose names have them all.
"""
import socket
import subprocess
import sys
import time

import checks
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


def run(name, check):
    """Gives whether the group passed."""
    start = time.monotonic()
    problem = None
    try:
        check()
    except (Failed, OSError) as error:
        problem = error
    print(f"{'FAILED' if problem else 'ok    '}  {name:48} {time.monotonic() - start:6.1f} s", flush=True)
    if problem:
        print(f"        {problem}")
        try:
            seen = checks.counters()
            print("        counters:", ", ".join(f"{key} {value}" for key, value in seen.items() if value), flush=True)
        except (Failed, OSError):
            pass
    return problem is None


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    words = [word.lower() for word in sys.argv[2:]]
    chosen = [(name, check) for name, check in checks.groups() if all(word in name.lower() for word in words)]
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
