#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight pairs of programs at once on one host, on the drop-in libraries."""
import sys

import pairs

PERFTEST = ["ib_write_bw -c RC -q 16", "ib_read_bw -c RC", "ib_send_bw -c UD", "ib_send_lat -c RC -e",
            "ib_atomic_bw -c RC -b"]
EXAMPLES = ["ibv_rc_pingpong -e", "ibv_ud_pingpong", "ibv_srq_pingpong"]


def main():
    arguments = pairs.arguments(__doc__)
    env = pairs.environment(arguments.libraries)
    gid = pairs.loopback_gid(env)
    commands = {name: name.split() + ["-d", "verbena0", "-x", gid, "-F", "-n", "500"] for name in PERFTEST}
    commands |= {name: name.split() + ["-g", gid, "-n", "1000"] for name in EXAMPLES}
    cases = [(name, lambda command=command: pairs.run_pair(command, env)) for name, command in commands.items()]
    return pairs.run_cases(cases, arguments, at_once=len(cases))


if __name__ == "__main__":
    sys.exit(main())
