# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs on the drop-in libraries: alone, or a server and a client over loopback.

What the tests beside this file share. A case is a name and a function that gives None, or what is wrong.
"""
import argparse
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import sys
import time

SECONDS = 120  # a program that takes longer hangs


def environment(libraries):
    return {**os.environ, "LD_LIBRARY_PATH": os.path.abspath(libraries)}


def loopback_gid(env):
    """The index of 127.0.0.1 in the device's GID table."""
    shown = subprocess.run(["ibv_devinfo", "-v"], env=env, capture_output=True, text=True, timeout=SECONDS).stdout
    found = re.search(r"GID\[ *(\d+)\]:\s*::ffff:127\.0\.0\.1\b", shown)
    if not found:
        raise SystemExit(f"ibv_devinfo shows no GID for 127.0.0.1:\n{shown}")
    return found.group(1)


def listens(port):
    """Whether something listens on this TCP port."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[3] == "0A" and fields[1].endswith(wanted):
                    return True
    return False


def free_port():
    # Below the kernel's own choices, which clients' ends take.
    while listens(port := random.randrange(20000, 30000)):
        pass
    return port


def where(pids):
    """Where programs that did not end are, for whoever has to find out why."""
    if not shutil.which("gdb"):
        return "With gdb installed, it would say here where they are.\n"
    return "".join(subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace 16"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout for pid in pids)


class Pair:
    """One program twice: as a server, then, once that listens, as a client. Leaves no process."""

    def __init__(self, command, env):
        self.port = free_port()
        command = command + ["-p", str(self.port)]
        self.commands = [command, command + ["127.0.0.1"]]
        self.env = env
        self.ends = []
        self.until = time.monotonic() + SECONDS

    def __enter__(self):
        self._start()
        while not listens(self.port) and self.ends[0].poll() is None and time.monotonic() < self.until:
            time.sleep(0.01)
        self._start()
        return self

    def _start(self):
        self.ends.append(subprocess.Popen(self.commands[len(self.ends)], env=self.env, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))

    def __exit__(self, *_):
        for end in self.ends:
            if end.poll() is None:
                end.kill()
            end.communicate()

    def problem(self, wanted=""):
        """Waits for both to end; None if they did so well and the client said what is wanted."""
        texts, bad = [], False
        for who, end in reversed(list(zip(("server", "client"), self.ends))):
            try:
                text, _ = end.communicate(timeout=max(0.1, self.until - time.monotonic()))
                status = f"exit status {end.returncode}"
                bad |= end.returncode != 0 or (who == "client" and wanted not in text)
            except subprocess.TimeoutExpired:
                if not any("not done" in text for text in texts):
                    texts.append(where([end.pid for end in self.ends if end.poll() is None]))
                end.kill()
                text, _ = end.communicate()
                status = f"not done after {SECONDS} s"
                bad = True
            texts.append(f"{who}: {status}:\n{text}")
        return "".join(texts) if bad else None


def run_pair(command, env, wanted=""):
    with Pair(command, env) as pair:
        return pair.problem(wanted)


def run_alone(command, env, wanted, ends_with=0):
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
    text = done.stdout + done.stderr
    if done.returncode != ends_with or wanted not in text:
        return f"exit status {done.returncode}, without '{wanted}':\n{text}"
    return None


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("libraries", help="the directory of libibverbs.so.1 and those beside it")
    parser.add_argument("words", nargs="*", help="only the cases whose names have all of them")
    parser.add_argument("--all", action="store_true", help="also the cases that take too long for every test run")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run each case N times")
    return parser.parse_args()


def run_cases(cases, arguments, at_once=1):
    """Runs them, some at once, and prints a line for each; the exit status."""

    def run(case):
        name, function = case
        began = time.monotonic()
        for count in range(arguments.repeat):
            problem = function()
            if problem:
                break
        seconds = time.monotonic() - began
        print(f"{'FAILED' if problem else 'ok':8}{name:44}{seconds:6.1f} s" + f" x{count + 1}" * (count > 0), flush=True)
        return f"{name}, time {count + 1}:\n{problem}" if problem else None

    chosen = [case for case in cases if all(word in case[0].split() for word in arguments.words)]
    if not chosen:
        print(f"No case has all of these words: {' '.join(arguments.words)}", file=sys.stderr)
        return 2
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        problems = [problem for problem in pool.map(run, chosen) if problem]
    for problem in problems:
        print(f"\n{problem}")
    print(f"{len(chosen)} cases, {len(problems)} failed")
    return 1 if problems else 0
