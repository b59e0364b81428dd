#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The libraries that most RDMA programs are written to, from the distribution's packages, on the device.

fabrics.py DIRECTORY-OF-THE-LIBRARIES [--all] [--repeat N] [WORDS...]

libfabric's verbs provider (fi_info, fi_pingpong), UCX's verbs transports (ucx_info, ucx_perftest) and Open MPI over
UCX. Each runs with its other transports forbidden, and the device's own counters show that the payload went
through it.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "verbs"))
from pairs import Pair, SECONDS, arguments, run_cases  # noqa: E402

NEEDED = ("fi_info", "fi_pingpong", "ucx_info", "ucx_perftest", "mpirun", "mpicc")
# RC alone does not connect: UCX finds the way by datagrams.
UCX = {"rc": "rc_verbs,ud_verbs:aux", "ud": "ud_verbs"}
PORT = {"verbena": "verbena0:1", "connectx": "mlx5_0:1"}


class Counted:
    """A command under `verbena run`, whose counters can be read when it has ended."""

    def __init__(self, verbena, **variables):
        self.file = tempfile.NamedTemporaryFile(prefix="verbena-counters-")
        self.prefix = [verbena, "run", "--counters", self.file.name, "--"]
        self.env = {**os.environ, **variables}

    def sent(self):
        with open(self.file.name, encoding="utf-8") as lines:
            return [json.loads(line)["sent"]["bytes"] for line in lines]

    def lacks(self, payload):
        """What is wrong if that much did not go through the device; else None."""
        if sum(self.sent()) >= payload:
            return None
        return f"of {payload} bytes of payload the device sent only {self.sent()}"


def alone(verbena, command, wanted, unwanted=(), **variables):
    counted = Counted(verbena, **variables)
    done = subprocess.run(counted.prefix + command, env=counted.env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=SECONDS)
    missing = [word for word in wanted if word not in done.stdout]
    surplus = [word for word in unwanted if word in done.stdout]
    if done.returncode or missing or surplus:
        return f"exit status {done.returncode}, without {missing}, with {surplus}:\n{done.stdout}{done.stderr}"
    return None


def pair(verbena, server, client, payload, wanted="", **variables):
    """A server and a client; PORT in their arguments is the port of their TCP connection."""
    counted = Counted(verbena, **variables)
    with Pair_with(counted, server, client) as ends:
        return ends.problem(wanted) or counted.lacks(payload)


class Pair_with(Pair):
    def __init__(self, counted, server, client):
        super().__init__([], counted.env)
        self.commands = [counted.prefix + [word.replace("PORT", str(self.port)) for word in command]
                         for command in (server, client)]


def fi_pingpong(verbena, provider, endpoint):
    common = ["fi_pingpong", "-p", provider, "-e", endpoint, "-I", "20", "-S", "all"]
    # All sizes up to 1 MiB (dgram: to its MTU), both ways.
    payload = 20 * 2 * (1 << 20) if endpoint != "dgram" else 20 * 1024
    return pair(verbena, common + ["-B", "PORT"], common + ["-P", "PORT", "127.0.0.1"], payload)


class TwoHosts:
    """Two network namespaces, connected by a pair of interfaces."""

    def __init__(self):
        self.names = [f"verbena-{os.getpid()}-{end}" for end in "ab"]

    def __enter__(self):
        for name in self.names:
            self.ip("netns", "add", name)
        self.ip("link", "add", "veth0", "netns", self.names[0], "type", "veth", "peer", "name", "veth0", "netns",
                self.names[1])
        for number, name in enumerate(self.names, 1):
            self.ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "veth0")
            for interface in ("lo", "veth0"):
                self.ip("-n", name, "link", "set", interface, "up")
        return [["ip", "netns", "exec", name] for name in self.names]

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)


def fi_pingpong_between_hosts(verbena, endpoint):
    """The server names no address: it must be one that the other host can reach."""
    common = [verbena, "run", "--", "fi_pingpong", "-p", "verbs", "-e", endpoint, "-I", "20", "-S", "1024"]
    with TwoHosts() as (server, client):
        serving = subprocess.Popen(server + common, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        try:
            until = time.monotonic() + SECONDS
            while ":47592" not in subprocess.run(server + ["ss", "-ltn"], capture_output=True, text=True).stdout:
                if serving.poll() is not None or time.monotonic() > until:
                    return "the server does not listen"
                time.sleep(0.05)
            done = subprocess.run(client + common + ["10.77.0.1"], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=SECONDS)
            if done.returncode:
                return f"the client's exit status {done.returncode}:\n{done.stdout}{done.stderr}"
            said = serving.communicate(timeout=SECONDS)[0]
            return f"the server's exit status {serving.returncode}:\n{said}" if serving.returncode else None
        finally:
            serving.kill()
            serving.wait()


def ucx_perftest(verbena, transport, test, size, count, identity="verbena"):
    common = ["ucx_perftest", "-p", "PORT"]
    client = ["ucx_perftest", "127.0.0.1", "-p", "PORT", "-t", test, "-s", str(size), "-n", str(count)]
    if not test.startswith(("tag", "ucp")):  # one transport, without UCX's protocols
        client += ["-d", PORT[identity], "-x", f"{transport}_verbs"]
    return pair(verbena, common, client, size * count, "Final:", UCX_TLS=UCX[transport],
                UCX_NET_DEVICES=PORT[identity], VERBENA_IDENTITY=identity)


def mpi(verbena, program, ranks):
    counted = Counted(verbena, UCX_TLS=UCX["rc"] + ",self", UCX_NET_DEVICES="verbena0:1")
    command = ["mpirun", "--oversubscribe", "-np", str(ranks), "--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "self"]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    done = subprocess.run(counted.prefix + command + [program], env=counted.env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=SECONDS)
    payload = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("payload ")]
    if done.returncode or len(payload) != ranks or "latency" not in done.stdout:
        return f"exit status {done.returncode}:\n{done.stdout}{done.stderr}"
    return counted.lacks(sum(payload))


def has_network():
    """Whether there is an interface beside loopback, which libfabric's verbs provider does not use."""
    shown = subprocess.run(["ip", "-o", "addr", "show", "up", "scope", "global"], capture_output=True, text=True).stdout
    return bool(shown.strip())


def cases(verbena, program):
    listing = ["provider: verbs", "FI_EP_MSG", "FI_EP_DGRAM", "verbena0"]
    if has_network():
        yield "fi_info", lambda: alone(verbena, ["fi_info", "-p", "verbs"], listing)
        for provider, endpoint in (("verbs", "msg"), ("verbs", "dgram"), ("verbs;ofi_rxm", "rdm")):
            yield f"fi_pingpong {endpoint}", lambda p=provider, e=endpoint: fi_pingpong(verbena, p, e)
    else:
        print("libfabric is left out: there is no network interface but loopback, which its verbs provider does not use")
    if os.geteuid() == 0 and shutil.which("ss") is not None:
        for endpoint in ("msg", "dgram"):
            yield (f"fi_pingpong between hosts {endpoint}",
                   lambda e=endpoint: fi_pingpong_between_hosts(verbena, e))
    # UCX opens the device with DEVX and asks by commands of it; refused, it takes the transports over verbs.
    for identity, port in PORT.items():
        yield f"ucx_info {identity}", lambda i=identity, p=port: alone(
            verbena, ["ucx_info", "-d"], ["rc_verbs", "ud_verbs", p], unwanted=["rc_mlx5", "ud_mlx5", "dc_mlx5"],
            VERBENA_IDENTITY=i)
    for transport in UCX:
        yield (f"ucx_perftest connectx {transport} tag_bw",
               lambda t=transport: ucx_perftest(verbena, t, "tag_bw", 65536, 100, "connectx"))
    for transport in UCX:
        for test, size, count in (("tag_lat", 8, 500), ("tag_bw", 65536, 300), ("ucp_put_bw", 65536, 300),
                                  ("ucp_get", 65536, 100), ("ucp_am_bw", 4096, 500), ("am_lat", 8, 500)):
            yield (f"ucx_perftest {transport} {test}",
                   lambda t=transport, test=test, s=size, n=count: ucx_perftest(verbena, t, test, s, n))
    for ranks in (2, 4):
        yield f"mpi {ranks}", lambda n=ranks: mpi(verbena, program, n)


def main():
    options = arguments(__doc__.splitlines()[0])
    # The command lies beside them, in the build as where it is installed.
    verbena = os.path.join(os.path.abspath(options.libraries), "../../bin/verbena")
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory(prefix="verbena-fabrics-") as directory:
        program = os.path.join(directory, "mpi_check")
        subprocess.run(["mpicc", "-O2", "-o", program, os.path.join(HERE, "mpi_check.c")], check=True)
        return run_cases(list(cases(verbena, program)), options)


if __name__ == "__main__":
    sys.exit(main())
