#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Real packets through the emulated link: none is lost, changed or overtaken unless that is asked for, and the counters are right.

traffic.py EMULATED_LINK
"""
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

import hosts

LINK = ""
SECONDS = 60
PORT = 4000
PAYLOAD = 1000
AT_ONCE = 50  # fits a socket's buffer
ECT, CE = 2, 3
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_MTU = 10, 2, 14  # not in every Python
# What the kernel itself may send on a new interface: group memberships, router solicitations.
OWN_PACKETS = 40


def datagram(number):
    return struct.pack("!I", number) + bytes(number % 251 for _ in range(PAYLOAD - 4))


class LinkTest(unittest.TestCase):
    def join(self, *options):
        link = hosts.Hosts(LINK, "--seed", "1", "--run-time", f"{SECONDS}s", *options)
        self.addCleanup(link.close)
        return link

    def datagram_sockets(self, link, family=socket.AF_INET):
        """One of host 0, connected to one of host 1."""
        addresses = hosts.IPV4 if family == socket.AF_INET else hosts.IPV6
        out, into = (link.socket(host, family, socket.SOCK_DGRAM) for host in (0, 1))
        for each in (out, into):
            each.settimeout(SECONDS)
            self.addCleanup(each.close)
        into.bind((addresses[1], PORT))
        out.connect((addresses[1], PORT))
        return out, into

    def settle(self, link, entered):
        """Waits until so many packets have entered towards host 1 and none is under way; the counters until then."""
        total = {}
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            for name, value in link.counters()[0].items():
                total[name] = max(total.get(name, 0), value) if "max" in name or "mean" in name else total.get(name, 0) + value
            if total["packets"] >= entered and total["packets"] == total["left"] + total["lost"] + total["dropped"] + total["too_large"]:
                self.assertEqual((total["dropped_before_link"], total["refused_by_host"]), (0, 0))
                return total
            time.sleep(0.02)
        self.fail(f"packets are still under way: {total}")


def receive_all(into):
    """What has arrived."""
    into.setblocking(False)
    got = []
    try:
        while True:
            got.append(into.recv(65536))
    except BlockingIOError:
        into.settimeout(SECONDS)
        return got


class Whole(LinkTest):
    def test_datagrams_arrive_in_order(self):
        for options in (("--rate", "1G", "--delay", "100us"), ("--delay", "1ms", "--mtu", "9000")):
            for family in (socket.AF_INET, socket.AF_INET6):
                with self.subTest(options=options, family=family):
                    link = self.join(*options)
                    out, into = self.datagram_sockets(link, family)
                    for first in range(0, 1000, AT_ONCE):
                        for number in range(first, first + AT_ONCE):
                            out.send(datagram(number))
                        for number in range(first, first + AT_ONCE):
                            self.assertEqual(into.recv(65536), datagram(number))
                    counters = self.settle(link, 1000)
                    self.assertEqual([counters[name] for name in ("lost", "dropped", "marked", "reordered")], [0] * 4)
                    self.assertLessEqual(counters["packets"], 1000 + OWN_PACKETS)

    def test_tcp_in_both_directions_at_once(self):
        link = self.join("--rate", "1G", "--delay", "200us", "--queue", "1000000")
        listener, caller = (link.socket(host, socket.AF_INET, socket.SOCK_STREAM) for host in (1, 0))
        with listener, caller:
            listener.bind((hosts.IPV4[1], PORT))
            listener.listen()
            caller.settimeout(SECONDS)
            caller.connect((hosts.IPV4[1], PORT))
            accepted, _ = listener.accept()
            accepted.settimeout(SECONDS)
            contents = [os.urandom(4 << 20) for _ in range(2)]
            ends = ((caller, contents[0]), (accepted, contents[1]))
            senders = [threading.Thread(target=end.sendall, args=(content,)) for end, content in ends]
            for sender in senders:
                sender.start()
            arrived = [b"", b""]
            readers = [threading.Thread(target=self.read, args=(end, arrived, i)) for i, (end, _) in enumerate(reversed(ends))]
            for thread in readers:
                thread.start()
            for thread in (*senders, *readers):
                thread.join()
            accepted.close()
            self.assertTrue(arrived == contents, "not what was sent")

    @staticmethod
    def read(end, arrived, index):
        while len(arrived[index]) < 4 << 20:
            arrived[index] += end.recv(1 << 20)


class Faults(LinkTest):
    def test_the_share_that_is_to_be_lost_is_lost(self):
        link = self.join("--loss", "10")
        out, into = self.datagram_sockets(link)
        got = []
        lost = entered = 0
        for first in range(0, 2000, AT_ONCE):
            for number in range(first, first + AT_ONCE):
                out.send(datagram(number))
            counters = self.settle(link, AT_ONCE)
            lost, entered = lost + counters["lost"], entered + counters["packets"]
            got += receive_all(into)
        numbers = [struct.unpack("!I", one[:4])[0] for one in got]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertTrue(all(one == datagram(number) for one, number in zip(got, numbers)))
        # Five standard deviations of 2000 draws.
        self.assertLess(abs(2000 - len(got) - 200), 67)
        self.assertLessEqual(2000 - len(got), lost)
        self.assertLessEqual(lost, 2000 - len(got) + entered - 2000)

    def test_reordered_packets_are_overtaken_and_none_is_lost(self):
        link = self.join("--reorder", "10", "--reorder-by", "200ms")
        out, into = self.datagram_sockets(link)
        for number in range(AT_ONCE):
            out.send(datagram(number))
        numbers = [struct.unpack("!I", into.recv(65536)[:4])[0] for _ in range(AT_ONCE)]
        self.assertEqual(sorted(numbers), list(range(AT_ONCE)))
        self.assertNotEqual(numbers, sorted(numbers))
        self.assertGreater(self.settle(link, 0)["reordered"], 0)

    def test_the_queue_holds_what_it_may_and_drops_the_rest(self):
        queue = 10_500
        link = self.join("--rate", "1M", "--queue", str(queue))
        out, into = self.datagram_sockets(link)
        for number in range(200):  # 1.6 s of the link's time
            out.send(datagram(number))
        counters = self.settle(link, 200)
        self.assertLessEqual(counters["max_queue_bytes"], queue)
        self.assertGreater(counters["max_queue_bytes"], queue - 2 * PAYLOAD)
        self.assertGreater(counters["dropped"], 0)
        self.assertGreater(counters["mean_queue_bytes"], 0)
        self.assertAlmostEqual(200 - len(receive_all(into)), counters["dropped"], delta=OWN_PACKETS)

    def test_packets_that_are_too_large_vanish_and_their_sender_is_told_if_it_is_to_be(self):
        for tells in (False, True):
            with self.subTest(tells=tells):
                link = self.join("--carries", "1000", *(["--tells", "1"] if tells else []))
                out, into = self.datagram_sockets(link)
                out.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
                out.send(bytes(972))
                self.assertEqual(len(into.recv(65536)), 972)
                out.send(bytes(973))
                self.assertGreaterEqual(self.settle(link, 2)["too_large"], 1)
                self.assertEqual(out.getsockopt(socket.IPPROTO_IP, IP_MTU), 1000 if tells else 1500)

    def test_marks_arrive_with_packets_that_can_have_them(self):
        for family, level, tos, wanted in ((socket.AF_INET, socket.IPPROTO_IP, socket.IP_TOS, socket.IP_RECVTOS),
                                           (socket.AF_INET6, socket.IPPROTO_IPV6, socket.IPV6_TCLASS, socket.IPV6_RECVTCLASS)):
            for ecn in (ECT, 0):
                with self.subTest(family=family, ecn=ecn):
                    link = self.join("--rate", "1M", "--mark", "3000")
                    out, into = self.datagram_sockets(link, family)
                    out.setsockopt(level, tos, ecn)
                    into.setsockopt(level, wanted, 1)
                    for number in range(AT_ONCE):
                        out.send(datagram(number))
                    seen = [into.recvmsg(65536, 256)[1][0][2][0] & CE for _ in range(AT_ONCE)]
                    counters = self.settle(link, AT_ONCE)
                    self.assertEqual(seen.count(CE), counters["marked"])
                    if ecn == ECT:
                        self.assertEqual(seen[0], ECT)
                        self.assertGreater(counters["marked"], 0)
                    else:
                        self.assertEqual(seen, [0] * AT_ONCE)


class Ending(LinkTest):
    def test_when_its_input_ends_it_reports(self):
        link = self.join()
        self.assertEqual(len(link.close()), 2)
        self.assertEqual(link.link.returncode, 0)

    def test_when_its_time_is_over(self):
        with hosts.Hosts(LINK, "--run-time", "50ms") as link:
            self.assertEqual(link.link.wait(SECONDS), 0)
            self.assertEqual(len(link.close()), 2)

    def test_when_its_parent_is_killed(self):
        script = "import subprocess, sys; subprocess.run([sys.argv[1]], stdin=0)"
        read, write = os.pipe()  # its input stays open
        parent = subprocess.Popen([sys.executable, "-c", script, LINK], stdin=read, stdout=subprocess.PIPE, text=True)
        pid = json.loads(parent.stdout.readline())["namespaces"][0].split("/")[2]
        parent.kill()
        parent.communicate()
        until = time.monotonic() + SECONDS
        while os.path.exists(f"/proc/{pid}/ns/net") and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(os.path.exists(f"/proc/{pid}/ns/net"))
        os.close(read)
        os.close(write)

    def test_wrong_options(self):
        for words in (["--loss", "many"], ["--what"]):
            self.assertEqual(subprocess.run([LINK, *words], capture_output=True, check=False).returncode, 2)


def main():
    global LINK
    hosts.become_able()
    LINK = os.path.abspath(sys.argv.pop(1))
    hosts.Hosts(LINK).close()  # exits where it is not allowed
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
