#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fio's rdma engine: write, read and send, with the buffers of both ends compared.

fio.py DIRECTORY-OF-THE-LIBRARIES [--repeat N] [WORDS...]

fio keeps its buffers in files here (mem=mmapshared), so that the data at the receiving end can be looked at. Jobs are
threads: those that are processes end without writing the device's counters.
"""
import os
import sys

from counted import Programs, arguments, free_port, missing, run_cases, skipped

BLOCK = 64 << 10
TOTAL = 16 << 20
PATTERN = bytes.fromhex("55667788")


def blocks(file, count):
    data = os.pread(file.fileno(), count * BLOCK, 0)
    return {data[i:i + BLOCK] for i in range(0, len(data), BLOCK)}


def fio(libraries, verb):
    with Programs(libraries) as programs:
        # fio connects without retries for a receiver that is not ready, so every message must find its buffer: docs/programs.md.
        in_flight, depth = 16, TOTAL // BLOCK if verb == "send" else 16
        wanted = os.urandom(BLOCK) if verb == "read" else PATTERN * (BLOCK // 4)
        files = []
        for name in ("server", "client"):
            with open(programs.path(name + ".memory"), "wb") as file:
                file.write(wanted * depth if name == "server" and verb == "read" else bytes(depth * BLOCK))
            files.append(open(programs.path(name + ".memory"), "rb"))  # fio removes the names
        port = free_port()
        common = ["--thread", "--ioengine=rdma", f"--port={port}", f"--bs={BLOCK}", f"--size={TOTAL}"]
        server = programs.start("server", ["fio", *common, "--name=server", "--rw=read", f"--iodepth={depth}",
                                           f"--mem=mmapshared:{programs.path('server.memory')}"])
        programs.wait_for("server", lambda: "waiting for connection" in programs.text("server.log"))
        problem = programs.run("client", ["fio", *common, "--name=client", "--rw=write", f"--iodepth={in_flight}",
                                          "--hostname=127.0.0.1", f"--verb={verb}", "--buffer_pattern=0x55667788",
                                          f"--mem=mmapshared:{programs.path('client.memory')}"])
        problem = problem or programs.finish("server", server)
        if not problem and blocks(files[verb == "read"], in_flight) != {wanted}:
            problem = "the data that arrived is not what was sent"
        for file in files:
            file.close()
        return problem or programs.lacks(TOTAL)


def main():
    options = arguments(__doc__.splitlines()[0])
    if absent := missing("fio"):
        return skipped(absent)
    return run_cases([(f"fio {verb}", lambda v=verb: fio(options.libraries, v)) for verb in ("write", "read", "send")],
                     options)


if __name__ == "__main__":
    sys.exit(main())
