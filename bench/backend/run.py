#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Runs backend_bench, with a Ceph cluster of its own where that is wanted: see its --help."""
import os
import pathlib
import sys

WITH_CEPH = pathlib.Path(__file__).resolve().parents[2] / "tests/backend/with-ceph"


def main():
    words = sys.argv[2:]
    command = [str(pathlib.Path(sys.argv[1]) / "tests/backend_bench"), *words]
    helps = "-h" in words or "--help" in words
    if not helps and ("--only" not in words or "rados" in words):
        command.insert(0, str(WITH_CEPH))
    os.execv(command[0], command)


main()
