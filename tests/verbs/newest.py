#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the drop-in libraries to the newest rdma-core that Debian has in source.

newest.py DIRECTORY-OF-THE-LIBRARIES [--work DIRECTORY] [--source DIRECTORY] [--identity verbena|connectx] [WORDS...]

Fetches the source from the mirror that this machine's apt uses, builds its libraries and pyverbs (in --work, which
is used again for a week), and then:
- every public name and version that its libraries export is exported by ours;
- the structures that src/verbs/newer.h repeats are those of its headers (newer_abi.cc);
- its programs load on our libraries and run;
- no case of its test suite fails, and none that is in a pyverbs-must-pass list is skipped, under either identity.
With words: only cases of the suite whose names have one of them. Exit status 77: the source or a tool is not to be
had, and it says why.
"""
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

import symbols
from pyverbs_suite import HERE, SKIPPED, arguments, lines_of, run_and_judge

SUITE_SECONDS = 1200
WEEK = 7 * 24 * 3600
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
TOOLS = ("apt-get", "cmake", "ninja", "cython3", "c++", "pkg-config")
LIBRARIES = {"libibverbs": "libibverbs", "librdmacm": "librdmacm", "libmlx5": "libmlx5", "libefa": "libefa"}
PROGRAMS = ("ibv_devinfo", "ibv_devices", "ibv_rc_pingpong", "rping")


class Missing(Exception):
    """Something outside of this repository that is not to be had here."""


def run(command, seconds=600, **options):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, **options)
    except subprocess.TimeoutExpired as late:
        raise Missing(f"{' '.join(command[:6])} is not done after {seconds} s") from late
    if done.returncode != 0:
        raise Missing(f"{' '.join(command[:6])} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def mirror():
    """The Debian mirror of this machine's apt configuration."""
    shown = run(["apt-get", "indextargets", "--format", "$(REPO_URI)|$(ORIGIN)|$(LABEL)"])
    for line in shown.splitlines():
        uri, origin, label = line.split("|")
        if (origin, label) == ("Debian", "Debian") or (not origin and re.search(r"/debian/?$", uri)):
            return uri
    raise Missing("apt has no Debian mirror configured")


def fetch(work):
    """The source's tar file, checked against the archive's signed index."""
    lists, cache = os.path.join(work, "lists"), os.path.join(work, "cache")
    for directory in (lists, cache):
        os.makedirs(os.path.join(directory, "partial"), exist_ok=True)
    signed = f"[signed-by={KEYRING}] " if os.path.exists(KEYRING) else ""
    sources = os.path.join(work, "sources.list")
    with open(sources, "w", encoding="ascii") as file:
        file.write(f"deb-src {signed}{mirror()} sid main\n")
    apt = ["apt-get", "-q", "-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null",
           "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={cache}", "-o", "APT::Sandbox::User=",
           "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1"]
    run(apt + ["update"])
    run(apt + ["source", "--download-only", "--tar-only", "rdma-core"], cwd=work)
    found = [name for name in os.listdir(work) if re.fullmatch(r"rdma-core_.*\.orig\.tar\.\w+", name)]
    if not found:
        raise Missing("apt fetched no source of rdma-core")
    return os.path.join(work, max(found, key=lambda name: [int(n) for n in re.findall(r"\d+", name)]))


def unpacked(work):
    """The source's directory, fetched if there is none of this week."""
    source = os.path.join(work, "source")
    if os.path.isdir(source) and time.time() - os.stat(source).st_mtime < WEEK:
        return source
    for stale in ("source", "build", "unpacking"):
        shutil.rmtree(os.path.join(work, stale), ignore_errors=True)
    with tarfile.open(fetch(work)) as archive:
        top = archive.getnames()[0].split("/")[0]
        archive.extractall(os.path.join(work, "unpacking"))
    os.rename(os.path.join(work, "unpacking", top), source)
    os.rmdir(os.path.join(work, "unpacking"))
    os.utime(source)
    return source


def build(source, work):
    """Only what is needed of it: pyverbs with the libraries below it, and a few programs."""
    directory = os.path.join(work, "build")
    jobs = str(max(1, (os.cpu_count() or 2) // 2))
    if not os.path.exists(os.path.join(directory, "build.ninja")):
        run(["cmake", "-GNinja", "-S", source, "-B", directory, "-DNO_MAN_PAGES=1", "-DENABLE_RESOLVE_NEIGH=0",
             "-DCMAKE_BUILD_TYPE=Debug", "-DPYTHON_EXECUTABLE=/usr/bin/python3", "-DCYTHON_EXECUTABLE=/usr/bin/cython3"])
    run(["ninja", "-C", directory, "-j", jobs, "pyverbs/all", *PROGRAMS], seconds=3600)
    if not os.path.isdir(os.path.join(directory, "python/pyverbs/providers/mlx5")):
        raise Missing("pyverbs was not built; are python3-dev and cython3 there?")
    return directory


def check_names(ours, theirs):
    problems = []
    for name in LIBRARIES:
        wanted = {symbol for symbol in symbols.exports(f"{theirs}/{name}.so.1")[0] if "PRIVATE" not in symbol}
        default, _ = symbols.exports(f"{ours}/{name}.so.1")
        problems += [f"{name}: {symbol} is missing" for symbol in sorted(wanted - default)]
        print(f"{name}: {len(wanted)} names, {len(wanted - default)} missing")
    return problems


def check_structures(headers):
    """By the compiler."""
    done = subprocess.run(["c++", "-std=c++23", "-fsyntax-only", "-Wall", "-Werror", "-isystem", headers,
                           "-I", os.path.join(HERE, "../../src"), os.path.join(HERE, "newer_abi.cc")],
                          capture_output=True, text=True, check=False)
    print(f"structures: {'as' if done.returncode == 0 else 'not as'} the newest headers have them")
    return [] if done.returncode == 0 else [done.stderr]


def check_programs(ours, directory):
    """Those that need no peer run, the others load: BIND_NOW has every name looked up."""
    problems = []
    for program in PROGRAMS:
        needs_peer = program not in ("ibv_devinfo", "ibv_devices")
        command = [os.path.join(directory, program)] + (["--help"] if needs_peer else ["-v"] if program == "ibv_devinfo" else [])
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                              env={**os.environ, "LD_LIBRARY_PATH": ours, "LD_BIND_NOW": "1"})
        said = done.stdout + done.stderr
        good = "lookup error" not in said and (needs_peer or (done.returncode == 0 and "verbena0" in said))
        if program == "ibv_devinfo":
            good = good and re.search(r"effective_speed:\s+2\.5 Gbps", said)
        if not good:
            problems.append(f"{program} ended with {done.returncode}:\n{said}")
    print(f"programs: {len(PROGRAMS) - len(problems)} of {len(PROGRAMS)} load")
    return problems


def check_suite(source, directory, choice, identity):
    """Its cases are not all known: one that is new may be skipped, and none may fail."""
    choice.identity = identity
    known = set(lines_of("pyverbs-must-pass", identity)) | set(lines_of("newest-must-pass", identity))
    print(f"suite, identity {identity}:")
    return run_and_judge(os.path.join(source, "tests"), choice, lambda outcomes: known & set(outcomes), [("*", "")],
                         modules=os.path.join(directory, "python"), seconds=SUITE_SECONDS, quiet=True)


def main():
    parser = arguments()
    parser.add_argument("--work", type=os.path.abspath)
    parser.add_argument("--source", type=os.path.abspath)
    choice = parser.parse_intermixed_args()
    identities = [choice.identity] if "--identity" in sys.argv else ["verbena", "connectx"]
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as temporary:
        work = choice.work or temporary
        os.makedirs(work, exist_ok=True)
        try:
            source = choice.source or unpacked(work)
            directory = build(source, work)
        except Missing as reason:
            print(f"skipped: {reason}")
            return SKIPPED
        with open(os.path.join(source, "CMakeLists.txt"), encoding="utf-8") as lists:
            print("rdma-core", re.search(r'PACKAGE_VERSION "([^"]+)"', lists.read()).group(1))
        problems = check_names(choice.libraries, os.path.join(directory, "lib"))
        problems += check_structures(os.path.join(directory, "include"))
        problems += check_programs(choice.libraries, os.path.join(directory, "bin"))
        failed = [check_suite(source, directory, choice, identity) for identity in identities]
    print("\n".join(problems) or "names, structures and programs: ok")
    return 1 if problems or any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
