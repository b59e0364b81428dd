#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs rdma-core's example programs, as the distribution built them, on the drop-in libraries.

programs.py DIRECTORY-OF-THE-LIBRARIES
"""
import os
import random
import subprocess
import sys
import time

SECONDS = 60
PAIRS = [
    ["ibv_rc_pingpong"],
    ["ibv_rc_pingpong", "-e"],
    ["ibv_rc_pingpong", "-c"],
    ["ibv_rc_pingpong", "-N"],
    ["ibv_rc_pingpong", "-N", "-e"],
    ["ibv_uc_pingpong"],
    ["ibv_uc_pingpong", "-e"],
    ["ibv_ud_pingpong"],
    ["ibv_ud_pingpong", "-e"],
    ["ibv_srq_pingpong"],
    ["ibv_srq_pingpong", "-e"],
    ["ibv_xsrq_pingpong"],
    ["ibv_xsrq_pingpong", "-e"],
]


def environment(libraries):
    env = dict(os.environ)
    env["LD_LIBRARY_PATH"] = libraries
    return env


def run_alone(command, env, wanted):
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SECONDS)
    text = done.stdout + done.stderr
    if done.returncode != 0 or wanted not in text:
        return f"exit status {done.returncode}, without '{wanted}':\n{text}"
    return None


def run_pair(command, env):
    """A server and a client on loopback; both must say how long they took, and end well."""
    port = str(random.randrange(20000, 30000))
    command = command + ["-g", "0", "-n", "200", "-p", port]
    server = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        client = None
        # Until the server listens.
        for _ in range(200):
            client = subprocess.run(command + ["127.0.0.1"], env=env, capture_output=True, text=True,
                                    timeout=SECONDS)
            if "Couldn't connect" not in client.stdout + client.stderr or server.poll() is not None:
                break
            time.sleep(0.05)
        output, _ = server.communicate(timeout=SECONDS)
        for who, status, text in (("server", server.returncode, output),
                                  ("client", client.returncode, client.stdout + client.stderr)):
            if status != 0 or ("usec/iter" not in text and "success" not in text):
                return f"{who}: exit status {status}:\n{text}"
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    return None


def main():
    libraries = os.path.abspath(sys.argv[1])
    env = environment(libraries)
    failures = 0
    cases = [(["ibv_devices"], lambda: run_alone(["ibv_devices"], env, "verbena0")),
             (["ibv_devinfo", "-v"], lambda: run_alone(["ibv_devinfo", "-v"], env, "PORT_ACTIVE"))]
    cases += [(pair, lambda pair=pair: run_pair(pair, env)) for pair in PAIRS]
    for name, run in cases:
        began = time.monotonic()
        problem = run()
        print(f"{'FAILED' if problem else 'ok':8}{' '.join(name):30}{time.monotonic() - began:6.1f} s", flush=True)
        if problem:
            failures += 1
            print(problem)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
