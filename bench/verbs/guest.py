# SPDX-License-Identifier: Apache-2.0
"""The same programs inside the guest of scripts/rxe-guest: on the kernel's rxe, and on Verbena beside it."""
import os
import pathlib
import subprocess
import sys
import tempfile

import pairs

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCALE = 0.05  # emulated, hence slow
ROWS = [("ib_write_bw", 65536), ("ib_send_lat", 8)]
# How a program is started there, its device and GID, and the server's address. In the namespace there is loopback alone.
WAYS = {
    "rxe": ("", "rxe0", 1, "10.99.0.2"),
    "verbena": ("ip netns exec verbena env LD_LIBRARY_PATH=/verbena ", "verbena0", 0, "127.0.0.1"),
}
PREPARE = (
    "mkdir -p /verbena && cp -L /libraries/lib*.so.1 /verbena &&"
    " ip netns add verbena && ip netns exec verbena ip link set lo up"
)


def measure(libraries, rounds, show):
    """The rows, or none where there can be no guest."""
    with tempfile.NamedTemporaryFile("r") as out:
        command = [ROOT / "scripts/rxe-guest", sys.executable, "-B", __file__, str(rounds), out.name]
        environment = dict(os.environ, VERBENA_LIBRARIES=str(libraries))
        status = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode
        if status == 77:
            return []
        if status != 0:
            sys.exit(f"The guest's measurements failed (status {status}).")
        figures = [line.split() for line in out.read().splitlines()]
    rows = []
    for program, size in ROWS:
        ours = [float(f[3]) for f in figures if f[:3] == [program, str(size), "verbena"]]
        theirs = [float(f[3]) for f in figures if f[:3] == [program, str(size), "rxe"]]
        rows.append(show(f"{program} -s {size}", program, ours, theirs, "rxe   "))
    return rows


def measure_in(agent, way, program, size):
    before, device, index, address = WAYS[way]
    command = f"{before}timeout 100 {' '.join(pairs.arguments(program, size, SCALE))} -d {device} -x {index}"
    both = f"{{ {command} >/tmp/server 2>&1 & sleep 2; {command} {address}; wait; }}"
    return pairs.figure(program, agent.ask("run", command=both)["out"])


def main():
    """Beside the guest, in the namespace that scripts/rxe-guest made: guest.py ROUNDS FILE."""
    sys.path.insert(0, str(ROOT / "tests/interop"))
    from peer import GUEST, RXE, Endpoint  # pylint: disable=import-outside-toplevel

    agent = Endpoint(RXE, GUEST)
    agent.ask("run", command=PREPARE)
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for _ in range(int(sys.argv[1])):
            for program, size in ROWS:
                for way in WAYS:
                    print(program, size, way, measure_in(agent, way, program, size), file=out, flush=True)
    agent.close()


if __name__ == "__main__":
    main()
