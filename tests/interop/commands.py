# SPDX-License-Identifier: Apache-2.0
"""Verbena's own commands: one end here on the built-in device, the other in the guest on rxe, through the system's libraries."""
import pathlib
import shutil
import tempfile

from connections import ADDRESS
from peer import RXE, VERBENA, Failed, expect
from programs import Here, There, talk

PORT = 12345
# Made in the guest and here. Two chunks of plain mode, and what goes with a message.
CONTENT = {"empty": 0, "one": 1, "middle": 70_000, "large": 11_000_000}
SENT_PACKETS = "/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"


class End:
    """Runs shell commands, in which VERBENA is our program, DEVICE what chooses the device, WORK a folder."""

    def __init__(self, runner, build, device, work):
        self._runner = runner
        self._words = {
            "VERBENA": f"{build}/bin/verbena",
            "PEER": f"{build}/tests/plain_peer",
            "DEVICE": device,
            "WORK": work,
        }

    def run(self, command):
        for name, value in self._words.items():
            command = command.replace(name, value)
        return self._runner.run(f"bash -c '{command}'")

    def must(self, command):
        status, text = self.run(command)
        if status != 0:
            raise Failed(f"{command}: exit status {status}\n{text}")
        return text


class Ends:
    """Both, each with an empty folder; to be used in a `with`."""

    def __init__(self, libraries):
        self._here = tempfile.mkdtemp(prefix="verbena-interop-")
        self.both = {
            VERBENA: End(Here(libraries), libraries.parent.parent, "", self._here),
            RXE: End(There(), "/build", "--device rxe0", "/tmp/work"),
        }

    def __enter__(self):
        for end in self.both.values():
            end.must("mkdir -p WORK/from WORK/to")
        self._sent = self._packets()
        return self

    def __exit__(self, kind, *_):
        shutil.rmtree(self._here, ignore_errors=True)
        self.both[RXE].run("rm -rf WORK")
        if kind is None and self._packets() - self._sent < 100:
            raise Failed("the data did not go over rxe")

    def _packets(self):
        return int(self.both[RXE].must(f"cat {SENT_PACKETS}"))

    def make(self, who):
        """The files of CONTENT in WORK/from. Their checksums."""
        for name, size in CONTENT.items():
            self.both[who].must(f"head -c {size} /dev/urandom >WORK/from/{name}")
        return self.sums(who, "from")

    def sums(self, who, folder):
        return self.both[who].must(f"cd WORK/{folder} && sha256sum {' '.join(CONTENT)}")


def other(who):
    return RXE if who == VERBENA else VERBENA


def listen(family, who):
    address = ADDRESS[family][who]
    return f"[{address}]:{PORT}" if ":" in address else f"{address}:{PORT}"


def send(libraries, family, receiver):
    with Ends(libraries) as ends:
        sums = ends.make(other(receiver))
        at = listen(family, receiver)
        talk(
            ends.both,
            receiver,
            f"VERBENA receive DEVICE --once --json --listen {at} WORK/to",
            f"cd WORK/from && VERBENA send DEVICE --json {' '.join(CONTENT)} {at}",
        )
        expect(ends.sums(receiver, "to"), sums, "what arrived")


def send_plain(libraries, family, receiver, peer):
    """`peer` is the end whose program is the independent one of tests/transfer."""
    with Ends(libraries) as ends:
        sums = ends.make(other(receiver))
        at, address = listen(family, receiver), ADDRESS[family][receiver]
        serve = f"VERBENA receive DEVICE --json --once --listen {at} WORK/to"
        for name in CONTENT:
            ask = f"VERBENA send DEVICE --json WORK/from/{name} {at}"
            if peer == receiver:
                serve = f"PEER receive {address} {PORT} WORK/to 1"
            else:
                ask = f"PEER send {address} {PORT} WORK/from/{name} {name}"
            talk(ends.both, receiver, serve, ask)
        expect(ends.sums(receiver, "to"), sums, "what arrived")


def groups(libraries):
    libraries = pathlib.Path(libraries).resolve()
    for who in (VERBENA, RXE):
        for family in ADDRESS:
            yield f"verbena send, {family}, received by {who}", lambda f=family, w=who: send(libraries, f, w), True
        for peer in (VERBENA, RXE):
            yield (
                f"plain transfer, received by {who}, ours on {other(peer)}",
                lambda w=who, p=peer: send_plain(libraries, "IPv4", w, p),
                True,
            )
