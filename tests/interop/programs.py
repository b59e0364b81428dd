# SPDX-License-Identifier: Apache-2.0
"""Programs of rdma-core and perftest: one end here on the drop-in libraries, the other in the guest on rxe."""
import os
import pathlib
import subprocess
import threading
import time

from peer import GUEST, PATIENCE_S, RXE, VERBENA, Endpoint, Failed

ADDRESS = {VERBENA: "10.99.0.1", RXE: "10.99.0.2"}
PORT = 18515
SECONDS = 2 * PATIENCE_S
# Until the server listens (0A), IPv4 or IPv6. To connect and see would take the client's place.
LISTENING = (
    "timeout 20 bash -c 'until [[ $(cat /proc/net/tcp /proc/net/tcp6) =~"
    f" :{PORT:04X}\\ [0-9A-F:]*\\ 0A ]]; do sleep 0.05; done'"
)

# What both ends are given beside their device and address, and the words that say it went well.
PROGRAMS = {
    "ibv_rc_pingpong": ("-n 100 -c", "usec/iter"),
    "ibv_ud_pingpong": ("-n 100", "usec/iter"),
    "ib_write_bw": ("-n 50 -s 65536 -F", "65536"),
}


class Here:
    """Runs a program on the drop-in libraries."""

    def __init__(self, libraries):
        self._environment = dict(os.environ, LD_LIBRARY_PATH=str(libraries))

    def run(self, command):
        try:
            done = subprocess.run(
                command, shell=True, env=self._environment, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return 124, f"not done after {SECONDS} s"
        return done.returncode, done.stdout + done.stderr

    def device(self):
        """The device's name, and the index of our address among its GIDs."""
        _, text = self.run("ibv_devinfo -v")
        name = next(line.split()[-1] for line in text.splitlines() if "hca_id" in line)
        wanted = "::ffff:" + ADDRESS[VERBENA]
        for line in text.splitlines():
            if "GID[" in line and wanted in line:
                return name, int(line.split("[")[1].split("]")[0])
        raise Failed(f"{wanted} is not among our GIDs:\n{text}")


class There:
    """Runs a program in the guest."""

    def run(self, command):
        agent = Endpoint(RXE, GUEST)
        try:
            # The status as words, for the agent takes any other for its own failure.
            out = agent.ask("run", command=f"timeout {SECONDS} {command} 2>&1; echo status $?")["out"]
        finally:
            agent.close()
        text, _, status = out.rpartition("status ")
        return int(status), text

    def device(self):
        return "rxe0", 1


def arguments(program, device, index):
    gid = f"-x {index}" if program.startswith("ib_") else f"-g {index}"
    return f"{program} -d {device} {gid} -p {PORT} {PROGRAMS[program][0]}"


def pair(program, server, here):
    there = There()
    ends = {VERBENA: here, RXE: there}
    client = RXE if server == VERBENA else VERBENA
    results = {}

    def serve():
        results[server] = ends[server].run(arguments(program, *ends[server].device()))

    thread = threading.Thread(target=serve)
    thread.start()
    ends[server].run(LISTENING)
    results[client] = ends[client].run(f"{arguments(program, *ends[client].device())} {ADDRESS[server]}")
    thread.join()
    for who, (status, text) in results.items():
        if status != 0 or PROGRAMS[program][1] not in text:
            role = "server" if who == server else "client"
            raise Failed(f"{program}, {role} on {who}: exit status {status}\n{text}")


def talk(ends, server, serve, ask, delay_s=0.5):
    """`serve` is run by the end `server`, `ask` by the other; both must succeed. What `ask` printed."""
    client = RXE if server == VERBENA else VERBENA
    results = {}

    def run_server():
        results[server] = ends[server].run(serve)

    thread = threading.Thread(target=run_server)
    thread.start()
    until = time.monotonic() + SECONDS / 2
    time.sleep(delay_s)
    while True:  # a server that does not listen yet refuses
        results[client] = ends[client].run(ask)
        if results[client][0] == 0 or time.monotonic() > until or not thread.is_alive():
            break
        time.sleep(0.5)
    thread.join()
    if any(status for status, _ in results.values()):
        said = (f"on {who}: exit status {status}\n{text}" for who, (status, text) in results.items())
        raise Failed("".join(said))
    return results[client][1]


def groups(libraries):
    here = Here(pathlib.Path(libraries).resolve())
    for program in PROGRAMS:
        for server in (VERBENA, RXE):
            yield f"{program}, served by {server}", lambda p=program, s=server: pair(p, s, here), True
