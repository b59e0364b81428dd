# SPDX-License-Identifier: Apache-2.0
"""The store: `verbena serve` at one end, its clients at the other; one of them in the guest on rxe, through the system's libraries.

What clients wrote is compared at both ends: read back by a client, and taken out of the store's files by the server's end
when the server has ended.
"""
import json
import pathlib

from commands import Ends, listen, other
from peer import PATIENCE_S, RXE, VERBENA, Failed, expect

CHUNK = 4048  # bytes of data in one
# Around one and two chunks, a page, and what goes with a message (32 KiB); then several requests by RDMA.
SIZES = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 4095, 4096, 4097, 2 * CHUNK, 2 * CHUNK + 1, 32_768, 32_769, 70_000)
# (offset, bytes) of the large object: across chunks and pages, by message and by RDMA.
RANGES = ((CHUNK - 1, 2), (4095, 4098), (8095, 100_003))
USAGE, NO_SUCH_OBJECT, EXISTS = 2, 3, 8  # exit statuses
SERVE_S = 300  # after which a server that nobody ends is ended


class Served:
    """`verbena serve` by one end, of files in its folder; to be used in a `with`."""

    def __init__(self, end, at, options):
        self._end = end
        # --foreground: else it passes SIGTERM on twice, and the second ends a server at once.
        serve = f"timeout --foreground {SERVE_S} VERBENA serve DEVICE --data WORK/store --capacity 400M --listen {at} --json {options}"
        self._serve = f"{{ {serve} & echo $! >WORK/pid; wait $!; echo $? >WORK/status; }} >WORK/said 2>&1 </dev/null &"

    def _wait_until(self, condition):
        self._end.must(f"for i in {{1..{10 * PATIENCE_S}}}; do {condition} && exit; sleep 0.1; done; cat WORK/said; exit 1")

    def __enter__(self):
        self._end.must(self._serve)
        self._wait_until("[[ $(<WORK/said) == *ready* ]]")

    def __exit__(self, kind, *_):
        self._end.must("kill $(cat WORK/pid)")
        self._wait_until("test -s WORK/status")
        status, said = self._end.must("cat WORK/status"), self._end.must("cat WORK/said")
        if kind is None:
            expect(status.strip(), "0", f"exit status of verbena serve, which said\n{said}")
            counts = json.loads(said.splitlines()[-1])
            expect((counts["bad_messages"], counts["failed_handshakes"]), (0, 0), f"messages and handshakes refused by {counts}")


class Client:
    """Commands of the end that does not serve."""

    def __init__(self, end, options):
        self.end = end
        self._options = options

    def run(self, command, arguments):
        return self.end.run(f"VERBENA {command} DEVICE {self._options} {arguments}")

    def __call__(self, command, arguments):
        status, text = self.run(command, arguments)
        if status != 0:
            raise Failed(f"verbena {command} {arguments}: exit status {status}\n{text}")
        return text

    def refused(self, status, command, arguments, words=""):
        seen, text = self.run(command, arguments)
        if seen != status or words not in text:
            raise Failed(f"verbena {command} {arguments}: exit status {seen}, not {status}, or not {words!r}:\n{text}")

    def same(self, seen, wanted):
        """Removes what was seen: the guest has its files in memory."""
        self.end.must(f"[[ $(sha256sum <WORK/{seen}) == $(sha256sum <WORK/{wanted}) ]] && rm WORK/{seen}")


def sums(end, folder):
    """Of all files in it, by name."""
    return end.must(f"cd WORK/{folder} && LC_ALL=C && sha256sum *")


def whole_objects(client):
    client("put", "-q -r WORK/from set")
    client("put", "-q WORK/large large")
    client("get", "-q -r set WORK/to")
    client("get", "-q large WORK/again")
    client.same("again", "large")
    expect(sums(client.end, "to"), sums(client.end, "from"), "what was read back")
    client("verify", "set/0 set/4048 large")


def ranges(client, size):
    for offset, length in (*RANGES, (size - 1, 4096)):  # the last one: more than there is
        client.end.must(f"tail -c +{offset + 1} WORK/large | head -c {length} >WORK/wanted")
        client("get", f"-q --offset {offset} --length {length} large WORK/piece")
        client.same("piece", "wanted")


def clones(client):
    """A clone is the same, and changes alone; so does a clone of a range, which begins and ends within chunks."""
    client("cp", "large clone")
    client("put", "-q --offset 4040 WORK/from/4097 clone")
    client("put", "-q --append WORK/from/70000 clone")
    client.end.must("cp WORK/large WORK/clone")
    client.end.must("dd if=WORK/from/4097 of=WORK/clone bs=4040 seek=1 conv=notrunc status=none")
    client.end.must("cat WORK/from/70000 >>WORK/clone")
    client("get", "-q clone WORK/piece")
    client.same("piece", "clone")
    client("get", "-q large WORK/again")
    client.same("again", "large")
    client("cp", "--range 4047:100003 large part")
    client("get", "-q part WORK/piece")
    client.end.must("tail -c +4048 WORK/large | head -c 100003 >WORK/wanted")
    client.same("piece", "wanted")


def refusals(client, size):
    client.refused(USAGE, "get", f"-q --offset {size + 1} large WORK/none", "past the end")
    client.refused(USAGE, "cp", f"--range {size - 1}:2 large none", "outside the object")
    client.refused(NO_SUCH_OBJECT, "get", "-q none WORK/none")
    client.refused(EXISTS, "put", "-q --new WORK/from/1 large")
    client.end.must("test ! -e WORK/none")


def load(client):
    """Many requests at once, by several connections; all that is read is compared."""
    client("bench", "-q --verify --size 4K,48K --clients 2 --depth 8 --count 200 --span 1M")


def check_store(server, client):
    """The server's end has in its files what the client has."""
    server.must("VERBENA scrub WORK/store")
    server.must("VERBENA get -q --data WORK/store -r set WORK/kept")
    expect(sums(server, "kept"), sums(client, "from"), "what the server's files have")
    for name in ("large", "clone"):
        kept = server.must(f"VERBENA get -q --data WORK/store {name} - | sha256sum")
        expect(kept, client.must(f"sha256sum <WORK/{name}"), f"{name} in the server's files")


def store(libraries, family, server, size, secret):
    with Ends(libraries) as ends:
        at = listen(family, server)
        word = "--secret-file WORK/secret" if secret else ""
        for end in ends.both.values():
            end.must("echo interoperation >WORK/secret")
        client = Client(ends.both[other(server)], f"--server {at} {word}")
        for count in SIZES:
            client.end.must(f"head -c {count} /dev/urandom >WORK/from/{count}")
        client.end.must(f"head -c {size} /dev/urandom >WORK/large")
        with Served(ends.both[server], at, word):
            whole_objects(client)
            ranges(client, size)
            clones(client)
            refusals(client, size)
            load(client)
        check_store(ends.both[server], client.end)


def groups(libraries):
    libraries = pathlib.Path(libraries).resolve()
    for server in (VERBENA, RXE):
        for family, size, secret in (("IPv4", 5_000_000, True), ("IPv6", 64 << 20, False)):
            yield (
                f"store, {family}, served by {server}, {size >> 20} MiB",
                lambda s=server, f=family, n=size, k=secret: store(libraries, f, s, n, k),
                family == "IPv4",
            )
