#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of perftest, as the distribution built them, on the drop-in libraries."""
import sys

import pairs

# perftest sleeps for a second after its two ends have met: some pairs fit into that of others.
AT_ONCE = 4
# By operation: what connections it can have.
CONNECTIONS = {
    "write": ["RC", "UC", "XRC"],
    "read": ["RC", "XRC"],
    "send": ["RC", "UC", "UD", "XRC"],
    "atomic": ["RC", "XRC"],
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


# perftest measures the processor's clock for a fifth of a second at each size, so a run over all sizes takes
# 5 to 10 s: these are in every test run, the others with --all.
ALL_SIZES = ["ib_write_bw -c RC -a", "ib_read_bw -c RC -a", "ib_send_bw -c RC -a", "ib_send_bw -c UD -a"]


# Also through sockets alone: both ends of the others run on this host, and exchange what they send in memory.
OVER_UDP = ["ib_write_bw -c RC -q 16", "ib_write_lat -c RC", "ib_read_bw -c RC -b", "ib_send_bw -c RC -e -b",
            "ib_send_lat -c RC -e", "ib_send_bw -c UC", "ib_send_lat -c UD", "ib_atomic_lat -c RC"]


def impossible(connection, option):
    # perftest refuses an SRQ below UC. Datagrams to 16 queue pairs overrun an SRQ, which perftest makes
    # as deep as for one, and are dropped as by any device; then its server waits for ever.
    return "--use-srq" in option and (connection == "UC" or connection == "UD" and "-q" in option)


def names(every):
    for tool, options in OPTIONS.items():
        for connection in CONNECTIONS[tool.split("_")[0]]:
            for option in ["", *options]:
                name = f"ib_{tool} -c {connection} {option}".strip()
                if not impossible(connection, option) and (every or option != "-a" or name in ALL_SIZES):
                    yield name


def command(name, gid):
    iterations = "5" if "-a" in name.split() else "100"
    return name.split() + ["-d", "verbena0", "-x", gid, "-F", "-n", iterations]


def main():
    arguments = pairs.arguments(__doc__)
    env = pairs.environment(arguments.libraries)
    gid = pairs.loopback_gid(env)

    def case(name, its_env, suffix=""):
        return name + suffix, lambda: pairs.run_pair(command(name, gid), its_env, "#bytes")

    cases = [case(name, env) for name in names(arguments.all)]
    cases += [case(name, {**env, "VERBENA_LINK": "udp"}, " over UDP") for name in OVER_UDP]
    cases.sort(key=lambda case: "-a" not in case[0].split())  # the long ones first, for the others to run beside
    return pairs.run_cases(cases, arguments, AT_ONCE)


if __name__ == "__main__":
    sys.exit(main())
