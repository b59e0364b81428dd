# SPDX-License-Identifier: Apache-2.0
"""Programs that connect by rdma_cm, and those that use rsockets: one end here on the drop-in libraries, the other in the guest on the kernel's.

The agent of the other checks is a member of this host all the while: messages from the guest reach it as often as the program
they are for, and must be passed on.
"""
import pathlib

from peer import RXE, VERBENA
from programs import Here, There, talk

ADDRESS = {"IPv4": {VERBENA: "10.99.0.1", RXE: "10.99.0.2"}, "IPv6": {VERBENA: "fd99::1", RXE: "fd99::2"}}
GROUP = "239.99.0.7"
PORT = 7471
# perftest 4.5 looks its server up among IPv4 addresses alone, and the kernel's rdma_cm joins no IPv6 groups on RoCE.
IPV4_ONLY = ("ib_write_bw -R", "mckey")

# What a server and a client are given; SERVER is its address, OWN that of the end itself.
PROGRAMS = {
    "rping": ("rping -s -a SERVER -p PORT -C 10 -S 3000 -V", "rping -c -a SERVER -p PORT -C 10 -S 3000 -V"),
    "ucmatose": ("ucmatose -b SERVER -p PORT -c 20 -C 3", "ucmatose -s SERVER -p PORT -c 20 -C 3"),
    "udaddy": ("udaddy -b SERVER -c 3 -C 5", "udaddy -s SERVER -c 3 -C 5"),
    "ib_write_bw -R": (
        "ib_write_bw -R -p PORT -n 50 -s 65536 -F",
        "ib_write_bw -R -p PORT -n 50 -s 65536 -F SERVER",
    ),
    # rsockets: transfers of all sizes, both ways
    "rstream": (
        "rstream -b SERVER -p PORT -S all -I 50 -C 50 -T v",
        "rstream -s SERVER -p PORT -S all -I 50 -C 50 -T v",
    ),
    "mckey": ("mckey -m GROUP -b OWN -C 5", "mckey -s -m GROUP -b OWN -C 5"),
}


def pair(program, family, server, here):
    ends = {VERBENA: here, RXE: There()}
    addresses = ADDRESS[family]

    def command(role, who):
        words = {"SERVER": addresses[server], "OWN": addresses[who], "GROUP": GROUP, "PORT": str(PORT)}
        text = PROGRAMS[program][role]
        for name, value in words.items():
            text = text.replace(name, value)
        return text

    client = RXE if server == VERBENA else VERBENA
    # One that multicast is sent to would miss some of it.
    delay_s = 3 if program == "mckey" and server == RXE else 0.5
    talk(ends, server, command(0, server), command(1, client), delay_s)


def groups(libraries):
    here = Here(pathlib.Path(libraries).resolve())
    for program in PROGRAMS:
        for family in ("IPv4",) if program in IPV4_ONLY else ADDRESS:
            for server in (VERBENA, RXE):
                yield (
                    f"{program}, {family}, served by {server}",
                    lambda p=program, f=family, s=server: pair(p, f, s, here),
                    True,
                )
