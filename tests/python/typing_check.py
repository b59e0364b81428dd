#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mypy --strict finds nothing in the package and in the example that uses it. Exits with 77 where there is no mypy:
skipped.

typing_check.py FOLDER
"""
import shutil
import subprocess
import sys
import tempfile

if shutil.which("mypy") is None:
    print("mypy is not installed")
    sys.exit(77)
with tempfile.TemporaryDirectory() as cache:
    sys.exit(subprocess.run(["mypy", "--strict", "--cache-dir", cache, "verbena", "../examples/put_get.py"],
                            cwd=sys.argv[1], timeout=300, check=False).returncode)
