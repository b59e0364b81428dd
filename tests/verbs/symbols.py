#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the drop-in libraries to the names and versions that programs are linked to.

symbols.py DIRECTORY-OF-THE-LIBRARIES

Each has what programs import (symbols/*.txt, gathered from the programs that docs/verbs-coverage.md is
about), what newer releases of rdma-core have (symbols/*-newer.txt, up to NEWEST), and where the distribution's
library is installed in the version whose headers we are compiled with, all default versions of that; and
nothing else. It needs no library that is not named here, and refuses calls in the
way the man pages say.
"""
import ctypes
import errno
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RELEASE = "44"  # of rdma-core
NEWEST = 65
# Of what is private to rdma-core, its own programs want two names, in the versions that there were.
# Our own libraries beside libibverbs have doors into it.
PRIVATE = {"libibverbs": {"verbena_connection_service@VERBENA_PRIVATE_2", "verbena_key_service@VERBENA_KEYS_1"} |
                         {f"{name}@IBVERBS_PRIVATE_{release}" for name in ("ibv_query_gid_type", "ibv_wr_opcode_str")
                          for release in (34, *range(57, NEWEST + 1))}}
# ISA-L is not to be had as a static library in Debian. The loader is for thread-local variables.
NEEDED = {"libibverbs": {"libisal.so.2"}, "librdmacm": {"libibverbs.so.1"}, "libmlx5": {"libibverbs.so.1"}}
NEEDED_BY_ALL = r"libc\.so\.6|libm\.so\.6|ld-linux-.*"


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def exports(path):
    """What a library defines, by NAME@VERSION, default versions apart from others."""
    default, other = set(), set()
    for line in readelf("--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[4] == "LOCAL" or fields[6] in ("UND", "Ndx"):
            continue
        name, _, version = fields[7].partition("@")
        if name != version and fields[6] != "ABS":  # those are the version nodes
            (default if version.startswith("@") else other).add(f"{name}@{version.lstrip('@')}")
    return default, other


def tag(dynamic, name):
    return set(re.findall(rf"\({name}\).*\[(.*)\]", dynamic))


def distribution_library(name):
    """The path of the distribution's library, if it is of the release that ours stands in for."""
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    for path in re.findall(rf"{name}\.so\.1 .*=> (\S+)", cache):
        real = os.path.realpath(path)
        if re.search(rf"\.so\.1\.\d+\.{RELEASE}\.", real) and "/verbena/" not in real:
            return real
    return None


def listed(name):
    """What programs import, and what newer releases have."""
    symbols = set()
    for path in (f"{HERE}/symbols/{name}.txt", f"{HERE}/symbols/{name}-newer.txt"):
        with open(path, encoding="ascii") as names:
            symbols |= {line.strip() for line in names}
    return symbols


def check_library(directory, name):
    path = f"{directory}/{name}.so.1"
    default, other = exports(path)
    dynamic = readelf("--dynamic", path)
    theirs = distribution_library(name)
    wanted = listed(name)
    private = PRIVATE.get(name, set())
    if theirs:
        wanted |= {symbol for symbol in exports(theirs)[0] if "PRIVATE" not in symbol}
        surplus = (default | other) - wanted - private
    else:
        print(f"{name}: rdma-core {RELEASE} is not installed: compared to what programs import alone")
        surplus = {symbol for symbol in default | other if not re.search(r"@(IBVERBS|RDMACM|MLX5|EFA)_", symbol)}
    needed = {library for library in tag(dynamic, "NEEDED")
              if not re.fullmatch(NEEDED_BY_ALL, library)} - NEEDED.get(name, set())
    problems = [f"{name}: {symbol} is missing" for symbol in sorted((wanted - default) | (private - default - other))]
    problems += [f"{name}: {symbol} is nobody's business" for symbol in sorted(surplus)]
    problems += [f"{name}: needs {library}" for library in sorted(needed)]
    if tag(dynamic, "SONAME") != {f"{name}.so.1"}:
        problems.append(f"{name}: is called {tag(dynamic, 'SONAME')}")
    if "NODELETE" not in dynamic:
        problems.append(f"{name}: can be unloaded, with threads of ours in it")
    if "STATIC_TLS" in dynamic:
        problems.append(f"{name}: has initial-exec thread-local variables, and may fail to load late")
    print(f"{name}: {len(default)} names, {len(wanted)} wanted")
    return problems


def check_refusals(directory):
    """One call of each way to say EOPNOTSUPP, through the C interface."""
    load = lambda name: ctypes.CDLL(f"{directory}/{name}.so.1", use_errno=True)
    rdmacm, mlx5, efa, hns = load("librdmacm"), load("libmlx5"), load("libefa"), load("libhns")
    calls = [("rdma_set_local_ece", rdmacm, ctypes.c_int, -1, True),
             ("repoll_create", rdmacm, ctypes.c_int, -1, True),
             ("mlx5dv_devx_obj_query", mlx5, ctypes.c_int, errno.EOPNOTSUPP, True),
             ("mlx5dv_devx_obj_create", mlx5, ctypes.c_void_p, None, True),
             ("mlx5dv_sched_node_create", mlx5, ctypes.c_void_p, None, True),
             ("mlx5dv_is_supported", mlx5, ctypes.c_bool, False, False),
             ("mlx5dv_reg_dmabuf_mr", mlx5, ctypes.c_void_p, None, True),
             ("mlx5dv_get_data_direct_sysfs_path", mlx5, ctypes.c_int, errno.ENODEV, False),
             ("efadv_query_ah", efa, ctypes.c_int, errno.EOPNOTSUPP, True),
             ("efadv_get_max_sq_depth", efa, ctypes.c_int, -errno.EOPNOTSUPP, False),
             ("hnsdv_create_qp", hns, ctypes.c_void_p, None, True),
             ("hnsdv_query_device", hns, ctypes.c_int, errno.EOPNOTSUPP, True),
             ("hnsdv_is_supported", hns, ctypes.c_bool, False, False)]
    problems = []
    for name, library, returned, wanted, by_errno in calls:
        function = library[name]
        function.restype = returned
        ctypes.set_errno(0)
        got = function(None, None, None, None, None, None)
        if got != wanted or by_errno != (ctypes.get_errno() == errno.EOPNOTSUPP):
            problems.append(f"{name} gives {got}, errno {ctypes.get_errno()}")
    rdmacm.rdma_event_str.restype = ctypes.c_char_p
    if rdmacm.rdma_event_str(9) != b"RDMA_CM_EVENT_ESTABLISHED":
        problems.append("rdma_event_str(9) is not RDMA_CM_EVENT_ESTABLISHED")
    return problems


def check_own(directory):
    """libverbena.so.1 has what its header declares, and beside the distribution's libibverbs says no."""
    path = f"{directory}/libverbena.so.1"
    default, other = exports(path)
    with open(f"{HERE}/../../include/verbena/indirect.h", encoding="ascii") as header:
        wanted = {f"{name}@VERBENA_1.0" for name in re.findall(r"(verbena_\w+)\(", header.read())}
    problems = [f"libverbena: {symbol}" for symbol in sorted((default | other) ^ wanted)]
    dynamic = readelf("--dynamic", path)
    problems += [f"libverbena: needs {library}" for library in tag(dynamic, "NEEDED")
                 if not re.fullmatch(NEEDED_BY_ALL, library)]
    if tag(dynamic, "SONAME") != {"libverbena.so.1"}:
        problems.append(f"libverbena: is called {tag(dynamic, 'SONAME')}")
    if shutil.which("cc"):
        as_c = subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c",
                               f"{HERE}/../../include/verbena/indirect.h"], capture_output=True, text=True, check=False)
        problems += [f"indirect.h as C: {as_c.stderr}"] if as_c.returncode else []
    theirs = distribution_library("libibverbs")
    # A process of its own: here ours is loaded.
    script = ("import ctypes, errno, sys\n"
              "if len(sys.argv) > 2: ctypes.CDLL(sys.argv[2])\n"
              "own = ctypes.CDLL(sys.argv[1], use_errno=True)\n"
              "own.verbena_create_indirect_mr.restype = ctypes.c_void_p\n"
              "room = ctypes.create_string_buffer(4096)\n"
              "made = own.verbena_create_indirect_mr(room, room)\n"
              "assert made is None and ctypes.get_errno() == errno.EOPNOTSUPP, (made, ctypes.get_errno())\n"
              "assert own.verbena_destroy_indirect_mr(room) == errno.EOPNOTSUPP\n")
    for beside in [[]] + ([[theirs]] if theirs else []):
        run = subprocess.run([sys.executable, "-c", script, path] + beside, capture_output=True, text=True,
                             check=False, env={**os.environ, "LD_LIBRARY_PATH": ""})
        if run.returncode != 0:
            problems.append(f"libverbena beside {beside}: {run.stderr}")
    return problems


def main():
    directory = os.path.abspath(sys.argv[1])
    problems = []
    for name in ("libibverbs", "librdmacm", "libmlx5", "libefa"):
        problems += check_library(directory, name)
    problems += check_refusals(directory)
    problems += check_own(directory)
    print("\n".join(problems) or "ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
