#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the distribution's programs that connect through rdma_cm on the drop-in libraries."""
import os
import re
import subprocess
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "verbs"))
import pairs  # noqa: E402

# perftest and mckey sleep for a second or five after their two ends have met: some pairs fit into that of others.
AT_ONCE = 4
# How the programs say that nobody listens yet. What an RDMA port is used for cannot be seen from outside.
REFUSED = re.compile(r"REJECTED|UNREACHABLE|refused|CM event")
QPERF = ("rc_bi_bw rc_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat "
         "rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add").split()
PERFTEST = [f"ib_{operation}_{measured} -R" for operation in ("write", "read", "send", "atomic") for measured in ("bw", "lat")]
PERFTEST += ["ib_send_bw -R -c UD", "ib_send_lat -R -c UD", "ib_send_bw -R -e", "ib_send_lat -R -e", "ib_write_bw -R -q 4"]


class Server:
    """A program in the background. It is given time to end by itself, or none if it is endless."""

    def __init__(self, command, env, endless=False):
        self.command, self.env, self.endless = command, env, endless

    def __enter__(self):
        self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self.until = time.monotonic() + pairs.SECONDS
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def await_line(self, wanted):
        """Until it has said this; it must not hold its output back."""
        for line in self.process.stdout:
            if wanted in line:
                return

    def run_client(self, command, wanted):
        """Runs it until it is not refused any more; None if it ended well and said what is wanted."""
        while True:
            done = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True)
            try:
                text, _ = done.communicate(timeout=pairs.SECONDS)
            except subprocess.TimeoutExpired:
                places = pairs.where([done.pid]) + self._where()
                done.kill()
                return f"client: not done after {pairs.SECONDS} s:\n{done.communicate()[0]}{self._said()}{places}"
            refused = REFUSED.search(text)
            if done.returncode == 0 and wanted in text and not refused:
                return None
            if not refused or self.process.poll() is not None or time.monotonic() > self.until:
                self.until = time.monotonic() + 1
                return f"client: exit status {done.returncode}:\n{text}{self.problem()}"
            time.sleep(0.05)

    def start_client(self, command, first):
        """Starts it, and waits until it has said something; gives what waits for its end, as run_client() does."""
        client = subprocess.Popen(["stdbuf", "-oL"] + command, env=self.env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        for line in client.stdout:
            said.append(line)
            if first in line:
                break

        def finish(wanted):
            try:
                text = "".join(said) + client.communicate(timeout=pairs.SECONDS)[0]
            except subprocess.TimeoutExpired:
                client.kill()
                places = self._where()
                return f"client: not done after {pairs.SECONDS} s:\n{client.communicate()[0]}{self._said()}{places}"
            if client.returncode == 0 and wanted in text:
                return None
            return f"client: exit status {client.returncode}:\n{text}{self._said()}"

        return finish

    def _where(self):
        return pairs.where([self.process.pid]) if self.process.poll() is None else ""

    def _said(self):
        """Ends it; gives what it said until then."""
        self.process.kill()
        return f"server said:\n{self.process.communicate()[0]}"

    def problem(self, wanted=""):
        """Waits for its end; None if that was well, and it said what is wanted."""
        if self.endless:
            return None if self.process.poll() is None else f"server: ended with {self.process.returncode}:\n{self._said()}"
        try:
            text, _ = self.process.communicate(timeout=max(1, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            places = self._where()
            return f"server: not done after {pairs.SECONDS} s:\n{places}{self._said()}"
        if self.process.returncode != 0 or wanted not in text:
            return f"server: exit status {self.process.returncode}:\n{text}"
        return None


def run_pair(env, server, client, wanted, server_wanted="", endless=False):
    """The port is the word PORT in both commands; udaddy has none to choose."""
    port = str(pairs.free_port())
    put = lambda command: [port if word == "PORT" else word for word in command.split()]
    with Server(put(server), env, endless) as running:
        return running.run_client(put(client), wanted) or running.problem(server_wanted)


def run_persistent(env):
    """One rping server, and clients at the same time, each of which connects when the one before has: rping keeps one
    request, and loses it when the next comes before it was looked at."""
    port = str(pairs.free_port())
    command = ["rping", "-a", "127.0.0.1", "-p", port]
    with Server(command + ["-s", "-P"], env, endless=True) as running:
        problem = running.run_client(command + ["-c", "-C", "20", "-v", "-V"], "rdma-ping-19")
        clients = [] if problem else [running.start_client(command + ["-c", "-C", "300", "-v", "-V"], "rdma-ping-0") for _ in range(4)]
        return problem or next(filter(None, [client("rdma-ping-299") for client in clients]), None) or running.problem()


def run_group(env):
    """One that hears a group, and one that speaks to it once the other has joined."""
    command = ["mckey", "-m", f"239.{os.getpid() % 250}.7.7", "-b", "127.0.0.1"]
    with Server(["stdbuf", "-oL"] + command, env) as running:
        running.await_line("receiving data transfers")
        return running.run_client(command + ["-s"], "return status 0") or running.problem("return status 0")


def run_qperf(env, test):
    port = str(pairs.free_port())
    with Server(["qperf", "-lp", port], env, endless=True) as running:
        while not pairs.listens(int(port)) and running.process.poll() is None:
            time.sleep(0.01)
        return running.run_client(["qperf", "-lp", port, "-t", "1", "-cm1", "127.0.0.1", test], test) or running.problem()


def main():
    arguments = pairs.arguments(__doc__)
    env = pairs.environment(arguments.libraries)
    cases = []

    def add(name, *commands, **options):
        cases.append((name, lambda: run_pair(env, *commands, **options)))

    for name, address in (("rping", "127.0.0.1"), ("rping IPv6", "::1")):
        rping = f"rping -a {address} -p PORT -C 50 -v -V"
        add(name, f"{rping} -s", f"{rping} -c", "rdma-ping-49", "rdma-ping-49")
    cases.append(("rping -P", lambda: run_persistent(env)))
    for name, count in (("ucmatose", 1), ("ucmatose -c 100", 100)):
        ucmatose = f"ucmatose -p PORT -c {count}"
        add(name, ucmatose, f"{ucmatose} -s 127.0.0.1", "return status 0", "return status 0")
    add("udaddy", "udaddy", "udaddy -s 127.0.0.1", "return status 0", "return status 0")
    add("rdma_client", "rdma_server -p PORT", "rdma_client -p PORT -s 127.0.0.1", "end 0", "end 0")
    for kind in ("r", "x"):
        add(f"rdma_xclient -c {kind}", f"rdma_xserver -p PORT -c {kind}", f"rdma_xclient -p PORT -c {kind} -s 127.0.0.1",
            "end 0", "end 0")
    add("cmtime -c 200", "cmtime -p PORT -c 200", "cmtime -p PORT -c 200 -s 127.0.0.1", "disconnect", endless=True)
    cases.append(("mckey", lambda: run_group(env)))
    for name in PERFTEST:
        add(name, f"{name} -F -n 100 -p PORT", f"{name} -F -n 100 -p PORT 127.0.0.1", "#bytes")
    cases += [(f"qperf -cm1 {test}", lambda test=test: run_qperf(env, test)) for test in QPERF]
    return pairs.run_cases(cases, arguments, AT_ONCE)


if __name__ == "__main__":
    sys.exit(main())
