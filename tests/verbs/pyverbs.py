#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs rdma-core's own test suite, as the distribution ships it, on the drop-in libraries.

pyverbs.py DIRECTORY-OF-THE-LIBRARIES [--identity verbena|connectx] [--part PREFIX] [WORDS...]

No case may fail, but for those in pyverbs-refused.txt, and those by EOPNOTSUPP alone. Those in
pyverbs-must-pass.txt and pyverbs-must-pass-IDENTITY.txt must pass: a skip is a failure. Every other skip must
have its reason in pyverbs-may-skip.txt or pyverbs-may-skip-IDENTITY.txt.
With a part: only cases whose names begin so. With words: only cases whose names have one of them, and no lists.

Not `/usr/bin/env python3`: the distribution's pyverbs belongs to the distribution's Python.
"""
import os
import subprocess
import sys

from pyverbs_suite import SKIPPED, arguments, lines_of, run_and_judge

SUITE = "/usr/share/doc/rdma-core/tests"


def main():
    choice = arguments().parse_intermixed_args()
    if not os.path.isdir(SUITE):
        print(f"skipped: there is no {SUITE} (package rdma-core, installed with its documentation)")
        return SKIPPED
    if subprocess.run([sys.executable, "-I", "-c", "import pyverbs"], check=False, capture_output=True).returncode != 0:
        print("skipped: there is no pyverbs (package python3-pyverbs)")
        return SKIPPED
    must_pass = {case for case in lines_of("pyverbs-must-pass", choice.identity) if case.startswith(choice.part)}
    may_skip = [line.split(None, 1) for line in lines_of("pyverbs-may-skip", choice.identity)]
    return run_and_judge(SUITE, choice, must_pass, may_skip)


if __name__ == "__main__":
    sys.exit(main())
