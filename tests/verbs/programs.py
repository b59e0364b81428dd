#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs rdma-core's example programs, as the distribution built them, on the drop-in libraries."""
import sys

import pairs

PAIRS = [
    "ibv_rc_pingpong",
    "ibv_rc_pingpong -e",
    "ibv_rc_pingpong -c",
    "ibv_rc_pingpong -N",
    "ibv_rc_pingpong -N -e",
    "ibv_rc_pingpong -t",
    "ibv_rc_pingpong -o",
    "ibv_rc_pingpong -o -P",
    "ibv_rc_pingpong -j",
    "ibv_uc_pingpong",
    "ibv_uc_pingpong -e",
    "ibv_ud_pingpong",
    "ibv_ud_pingpong -e",
    "ibv_srq_pingpong",
    "ibv_srq_pingpong -e",
    "ibv_xsrq_pingpong",
    "ibv_xsrq_pingpong -e",
]


def last_word(name):
    return "success" if "xsrq" in name else "usec/iter"


def main():
    arguments = pairs.arguments(__doc__)
    env = pairs.environment(arguments.libraries)
    options = ["-g", pairs.loopback_gid(env), "-n", "200"]
    cases = [("ibv_devices", lambda: pairs.run_alone(["ibv_devices"], env, "verbena0")),
             ("ibv_devinfo -v", lambda: pairs.run_alone(["ibv_devinfo", "-v"], env, "PORT_ACTIVE")),
             # It watches until it is ended.
             ("ibv_asyncwatch", lambda: pairs.run_alone(["timeout", "0.5", "ibv_asyncwatch"], env,
                                                        "async event FD", ends_with=124))]
    cases += [(name, lambda name=name: pairs.run_pair(name.split() + options, env, last_word(name)))
              for name in PAIRS]
    return pairs.run_cases(cases, arguments)


if __name__ == "__main__":
    sys.exit(main())
