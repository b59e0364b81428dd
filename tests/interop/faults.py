# SPDX-License-Identifier: Apache-2.0
"""Faults between the two devices, made by the guest's kernel (netem). RoCE packets are led through one
intermediate device for each direction, which loses, repeats, delays or damages them; the agents' TCP is spared."""
import json

from peer import GUEST, RXE, Endpoint

DEVICES = {"entering": "ingress", "leaving": "egress"}


class Faults:
    """To be used in a `with`. `entering` and `leaving`: what befalls packets to the guest and from it, in netem's
    words, or None."""

    def __init__(self, entering, leaving):
        self._rules = {"entering": entering, "leaving": leaving}
        self._guest = Endpoint(RXE, GUEST)

    def _run(self, command):
        return self._guest.ask("run", command=command)["out"]

    def __enter__(self):
        self._clear()  # in case somebody was interrupted
        commands = ["tc qdisc add dev eth0 clsact"]
        for device, direction in self._used():
            commands += [
                f"ip link add {device} mtu 4500 type ifb",
                f"ip link set {device} up",
                f"tc qdisc add dev {device} root netem limit 10000 {self._rules[device]}",
            ]
            commands += [
                f"tc filter add dev eth0 {direction} protocol {protocol} flower ip_proto udp dst_port 4791 "
                f"action mirred egress redirect dev {device}"
                for protocol in ("ip", "ipv6")
            ]
        self._run(" && ".join(commands))
        return self

    def __exit__(self, *_):
        self._clear()
        self._guest.close()

    def _clear(self):
        commands = ["tc qdisc del dev eth0 clsact"] + [f"ip link del {device}" for device in DEVICES]
        self._run(f"({'; '.join(commands)}) 2>/dev/null || true")

    def _used(self):
        return [(device, direction) for device, direction in DEVICES.items() if self._rules[device]]

    def happened(self):
        """Whether packets passed, and were lost where they should be."""
        for device, _ in self._used():
            seen = json.loads(self._run(f"tc -s -j qdisc show dev {device}"))[0]
            if seen["packets"] == 0 or ("loss" in self._rules[device] and seen["drops"] == 0):
                return False
        return True
