#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of an rdma-core test suite on the drop-in libraries and judges what came of them: what pyverbs.py
(the distribution's suite) and newest.py (the newest source's) share.

pyverbs_suite.py --inside DIRECTORY PART [WORDS...]: the cases themselves, in a process of their own.
"""
import argparse
import fnmatch
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 240
HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77


def unpack(suite, into):
    os.mkdir(into)
    for name in os.listdir(suite):
        source = os.path.join(suite, name)
        if name.endswith(".gz"):
            with gzip.open(source) as packed, open(os.path.join(into, name[:-3]), "wb") as plain:
                shutil.copyfileobj(packed, plain)
        elif name.endswith(".py"):
            shutil.copy(source, os.path.join(into, name))


# Needs the DC transport, which one of its two processes finds out; the other waits for it for 15 seconds, and the
# time they take decides whether the suite says skipped or failed. By name it can be run.
LEFT_OUT = {"tests.test_mlx5_rdmacm.Mlx5CMTestCase.test_rdmacm_async_traffic_dc_external_qp"}


def run_inside(directory, part, words):
    """In a process of its own, with our libraries: runs the cases, writes what came of each."""
    import unittest

    # Instead of this script's own directory, in which `pyverbs` is this script.
    sys.path[:1] = [directory, os.path.join(directory, "tests")]
    sys.argv[1:] = []
    from args_parser import parser
    parser.parse_args()

    class Results(unittest.TestResult):
        def __init__(self):
            super().__init__()
            self.outcomes = {}

        def startTest(self, test):
            super().startTest(test)
            self.outcomes[test.id()] = ["unfinished", ""]
            self.save()

        def note(self, test, outcome, text=""):
            # The first that went wrong counts: a skip or failure is not undone by what follows.
            if self.outcomes.get(test.id(), ["unfinished"])[0] in ("unfinished", "passed"):
                self.outcomes[test.id()] = [outcome, text]

        def addSuccess(self, test):
            self.note(test, "passed")

        def addSkip(self, test, reason):
            self.note(test, "skipped", reason)

        def addFailure(self, test, err):
            self.note(test, "failed", self._exc_info_to_string(err, test))

        def addError(self, test, err):
            self.note(test, "failed", self._exc_info_to_string(err, test))

        def addSubTest(self, test, subtest, err):
            if err is not None:
                self.note(test, "failed", self._exc_info_to_string(err, test))

        def save(self):
            with open(os.path.join(directory, "outcomes"), "w", encoding="utf-8") as file:
                json.dump(self.outcomes, file)

    def cases(suite):
        for item in suite:
            if isinstance(item, unittest.TestSuite):
                yield from cases(item)
            elif item.id() in LEFT_OUT and not words:
                continue
            elif item.id().startswith(part) and (not words or any(word in item.id() for word in words)):
                yield item

    import tests
    results = Results()
    unittest.TestSuite(cases(unittest.defaultTestLoader.loadTestsFromModule(tests))).run(results)
    results.save()


def add_rdma_tool(directory, env):
    """Newer suites ask `rdma link` for the device's interface before they look into /sys, and take it for given that
    there is an answer. Where the kernel has no RDMA, there is none; then it is that of a kernel without a device."""
    try:
        works = subprocess.run(["rdma", "link", "show", "-j"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        works = False
    if works:
        return
    tool = os.path.join(directory, "bin", "rdma")
    os.mkdir(os.path.dirname(tool))
    with open(tool, "w", encoding="ascii") as script:
        script.write("#!/bin/sh\necho '[]'\n")
    os.chmod(tool, 0o755)
    env["PATH"] = os.path.dirname(tool) + ":" + env["PATH"]


def run_suite(libraries, directory, choice, modules=None, seconds=SECONDS):
    """Gives the outcomes by case, and why the run as a whole went wrong, if it did. `modules`: where pyverbs is, unless
    it is the distribution's."""
    # With what `verbena run` shows of /sys: the connection manager's cases look there for the device's interface.
    env = dict(os.environ, LD_LIBRARY_PATH=libraries, LD_PRELOAD=os.path.join(libraries, "libverbena-paths.so"),
               VERBENA_IDENTITY=choice.identity)
    if modules:
        env["PYTHONPATH"] = modules
    add_rdma_tool(directory, env)
    command = [sys.executable, os.path.abspath(__file__), "--inside", directory, choice.part] + choice.words
    run = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           start_new_session=True)
    problem = None
    try:
        output, _ = run.communicate(timeout=seconds)
        if run.returncode != 0:
            problem = f"the run ended with status {run.returncode}:\n{output}"
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        problem = f"not done after {seconds} s"
    outcomes = {}
    if os.path.exists(os.path.join(directory, "outcomes")):
        with open(os.path.join(directory, "outcomes"), encoding="utf-8") as file:
            outcomes = json.load(file)
    return outcomes, problem


def lines_of(name, identity):
    """Of the list, and of the one for this identity."""
    lines = []
    for path in (os.path.join(HERE, f"{name}.txt"), os.path.join(HERE, f"{name}-{identity}.txt")):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                lines += [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    return lines


def mark_refused(outcomes, patterns):
    """Turns a failure of a case that may be refused into that, if EOPNOTSUPP is what it ended with."""
    for case, (outcome, text) in outcomes.items():
        if (outcome == "failed" and any(fnmatch.fnmatch(case, pattern) for pattern, _ in patterns)
                and "Errno: 95," in text.rstrip().splitlines()[-1]):
            outcomes[case] = ["refused", text]


def judge(outcomes, must_pass, may_skip):
    """What is wrong, a text each; and what is only worth a note."""
    wrong, notes = [], []
    for case in sorted(set(must_pass) - set(outcomes)):
        wrong.append(f"{case} must pass and is not in the suite")
    for case, (outcome, text) in sorted(outcomes.items()):
        if outcome == "passed":
            if case not in must_pass:
                notes.append(f"{case} passes and is in no list of those that must")
        elif outcome not in ("skipped", "refused"):
            wrong.append(f"{case} {outcome}:\n{text}")
        elif case in must_pass:
            wrong.append(f"{case} must pass and was {outcome}: {text}")
        elif outcome == "skipped" and not any(fnmatch.fnmatch(case, pattern) for pattern, _ in may_skip):
            wrong.append(f"{case} was skipped, and no pyverbs-may-skip list has a reason why: {text}")
    return wrong, notes


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("libraries", type=os.path.abspath)
    parser.add_argument("--identity", choices=["verbena", "connectx"], default="verbena")
    parser.add_argument("--part", default="")
    parser.add_argument("words", nargs="*")
    return parser


def run_and_judge(suite, choice, must_pass, may_skip, modules=None, seconds=SECONDS, quiet=False):
    """Runs the suite of a directory: 0 or 1, and tells what there is to tell. `must_pass`: cases, or what gives them from
    the outcomes. Quiet: without a word on what passes and is in no list."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        unpack(suite, os.path.join(directory, "tests"))
        outcomes, problem = run_suite(choice.libraries, directory, choice, modules, seconds)
    if choice.words:
        must_pass, may_skip = set(), [("*", "")]
    elif callable(must_pass):
        must_pass = must_pass(outcomes)
    mark_refused(outcomes, [line.split(None, 1) for line in lines_of("pyverbs-refused", choice.identity)])
    wrong, notes = judge(outcomes, must_pass, may_skip)
    if problem:
        wrong.append(problem)
    if choice.words:
        notes = [f"{case}: {' '.join(outcome)}" for case, outcome in sorted(outcomes.items())]
    for text in ([] if quiet and not choice.words else notes) + wrong:
        print(text)
    counts = {}
    for outcome, _ in outcomes.values():
        counts[outcome] = counts.get(outcome, 0) + 1
    print(f"{len(outcomes)} cases: " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())) +
          f"; {time.monotonic() - began:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    run_inside(sys.argv[2], sys.argv[3], sys.argv[4:])
