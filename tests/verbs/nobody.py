#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The drop-in libraries for user nobody. As root, to become nobody; else skipped (77): then the other
tests are run by an ordinary user already."""
import os
import shutil
import sys
import tempfile

import pairs

BECOME = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--no-new-privs", "--"]
PAIRS = ["ibv_rc_pingpong", "ibv_ud_pingpong -e", "ib_write_bw", "ib_send_lat", "ib_atomic_bw"]


def command(name, gid):
    options = ["-g", gid] if name.startswith("ibv_") else ["-d", "verbena0", "-x", gid, "-F"]
    return name.split() + options + ["-n", "100"]


def main():
    arguments = pairs.arguments(__doc__)
    if os.geteuid() != 0:
        print("nobody.py: skipped: to become user nobody takes root.")
        return 77
    # Where nobody can read them: the build may lie in somebody's home.
    with tempfile.TemporaryDirectory(prefix="verbena-nobody-") as copy:
        os.chmod(copy, 0o755)
        for name in os.listdir(arguments.libraries):
            shutil.copy(f"{arguments.libraries}/{name}", copy, follow_symlinks=False)
        env = pairs.environment(copy)
        gid = pairs.loopback_gid(env)
        cases = [("ibv_devinfo -v", lambda: pairs.run_alone(BECOME + ["ibv_devinfo", "-v"], env, "verbena0"))]
        cases += [(name, lambda name=name: pairs.run_pair(BECOME + command(name, gid), env)) for name in PAIRS]
        return pairs.run_cases(cases, arguments, at_once=4)


if __name__ == "__main__":
    sys.exit(main())
