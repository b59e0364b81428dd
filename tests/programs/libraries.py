#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Libraries over verbs, by small programs of our own that compare all data: librpma, Gloo, and MPICH over UCX.

libraries.py DIRECTORY-OF-THE-LIBRARIES [--repeat N] [WORDS...]
"""
import os
import subprocess
import sys
import tempfile

from counted import HERE, Programs, arguments, environment, free_port, loopback_gid, missing, run_cases

RPMA_BYTES = 2 << 20  # written, and read back
GLOO_BYTES = 4 << 17


def compiled(directory, compiler, source, *libraries):
    program = os.path.join(directory, os.path.basename(source).split(".")[0] + "." + compiler)
    subprocess.run([compiler, "-O2", "-o", program, source, *libraries], check=True)
    return program


def rpma(libraries, program):
    with Programs(libraries) as programs:
        port = str(free_port())
        server = programs.start("server", [program, port])
        programs.wait_for("server", lambda: server.poll() is not None or "ready" in programs.text("server.log"))
        problem = programs.run("client", [program, port, "127.0.0.1"]) or programs.finish("server", server)
        return problem or programs.lacks(RPMA_BYTES)


def gloo(libraries, program, gid, ranks):
    with Programs(libraries) as programs:
        os.mkdir(programs.path("store"))
        processes = [programs.start(f"rank{rank}", [program, programs.path("store"), gid, str(rank), str(ranks)])
                     for rank in range(ranks)]
        for rank, process in enumerate(processes):
            if problem := programs.finish(f"rank{rank}", process):
                return problem
        return programs.lacks(GLOO_BYTES * ranks)


def mpich(libraries, program, ranks):
    with Programs(libraries) as programs:
        problem = programs.run("mpi", ["mpiexec.mpich", "-n", str(ranks), program],
                               UCX_TLS="rc_verbs,ud_verbs:aux,self", UCX_NET_DEVICES="verbena0:1")
        said = programs.text("mpi.log")
        payload = [int(line.split()[1]) for line in said.splitlines() if line.startswith("payload ")]
        if problem or len(payload) != ranks:
            return problem or said
        return programs.lacks(sum(payload))


def cases(libraries, directory):
    if os.path.exists("/usr/include/librpma.h"):
        program = compiled(directory, "gcc", os.path.join(HERE, "rpma_check.c"), "-lrpma", "-libverbs")
        yield "librpma", lambda: rpma(libraries, program)
    if os.path.exists("/usr/include/gloo/transport/ibverbs/device.h"):
        check = compiled(directory, "g++", os.path.join(HERE, "gloo_check.cc"), "-lgloo", "-libverbs")
        gid = loopback_gid(environment(libraries))
        for ranks in (2, 3):
            yield f"gloo {ranks}", lambda n=ranks: gloo(libraries, check, gid, n)
    if not missing("mpicc.mpich", "mpiexec.mpich"):
        source = os.path.join(os.path.dirname(HERE), "fabrics", "mpi_check.c")
        mpi = compiled(directory, "mpicc.mpich", source)
        for ranks in (2, 3):
            yield f"mpich {ranks}", lambda n=ranks: mpich(libraries, mpi, n)


def main():
    options = arguments(__doc__.splitlines()[0])
    with tempfile.TemporaryDirectory(prefix="verbena-libraries-") as directory:
        found = list(cases(options.libraries, directory))
        if not found:
            print("skipped: none of librpma, Gloo and MPICH is installed", file=sys.stderr)
            return 77
        return run_cases(found, options)


if __name__ == "__main__":
    sys.exit(main())
