#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of perftest, as the distribution built them, on the drop-in libraries."""
import sys

import pairs

# perftest sleeps for a second after its two ends have met: some pairs fit into that of others.
AT_ONCE = 4
# By operation: what connections it can have. XRC joins when the libraries offer it.
CONNECTIONS = {
    "write": ["RC", "UC"],
    "read": ["RC"],
    "send": ["RC", "UC", "UD"],
    "atomic": ["RC"],
}
# By operation and what is measured: the options it has, of those we want to see. ib_write_* has no
# events, and only what measures bandwidth has many queue pairs and both directions.
OPTIONS = {
    "write_bw": ["-q 16", "-b", "-a"],
    "write_lat": ["-a"],
    "read_bw": ["-e", "-q 16", "-b", "-a"],
    "read_lat": ["-e", "-a"],
    "send_bw": ["-e", "--use-srq", "-q 16", "-b", "-a", "-e -b", "--use-srq -q 16"],
    "send_lat": ["-e", "--use-srq", "-a"],
    "atomic_bw": ["-e", "-q 16", "-b"],
    "atomic_lat": ["-e"],
}


def impossible(connection, option):
    # perftest itself refuses these: an SRQ takes what RC or UD brings.
    return connection == "UC" and "--use-srq" in option


def names():
    for tool, options in OPTIONS.items():
        for connection in CONNECTIONS[tool.split("_")[0]]:
            for option in ["", *options]:
                if not impossible(connection, option):
                    yield f"ib_{tool} -c {connection} {option}".strip()


def command(name, gid):
    iterations = "5" if "-a" in name.split() else "100"
    return name.split() + ["-d", "verbena0", "-x", gid, "-F", "-n", iterations]


def main():
    arguments = pairs.arguments(__doc__)
    env = pairs.environment(arguments.libraries)
    gid = pairs.loopback_gid(env)
    cases = [(name, lambda name=name: pairs.run_pair(command(name, gid), env, "#bytes")) for name in names()]
    return pairs.run_cases(cases, arguments, AT_ONCE)


if __name__ == "__main__":
    sys.exit(main())
