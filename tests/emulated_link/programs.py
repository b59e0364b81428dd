#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""The device on two hosts, across the emulated link: programs that verify what arrives, with and without loss.

programs.py EMULATED_LINK VERBENA
"""
import collections
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib

import hosts

LINK = VERBENA = ""
CAPTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "captures", "cm-rping.pcap")
SECONDS = 120
LOSSES = ("0", "1")  # percent


def udp_over_ipv6(source, destination, payload):
    """To the device's port, with all headers."""
    ends = b"".join(socket.inet_pton(socket.AF_INET6, end) for end in (source, destination))
    length = 8 + len(payload)
    ports = struct.pack("!HHH", 50_000, 4791, length)
    words = ends + struct.pack("!II", length, socket.IPPROTO_UDP) + ports + payload
    total = sum(struct.unpack(f"!{len(words) // 2}H", words))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF or 0xFFFF
    return struct.pack("!IHBB", 6 << 28, length, socket.IPPROTO_UDP, 64) + ends + ports + struct.pack("!H", checksum) + payload


class ForgedRequests:
    """Requests for connections (REQ) to rping's port as Linux sends them, from hosts that are not there."""

    def __init__(self, capture):
        with open(capture, "rb") as file:
            file.seek(24)  # the capture's own header
            length = struct.unpack("<8xI4x", file.read(16))[0]
            self.packet = bytearray(file.read(length)[14:-4])  # from IP on, without ICRC

    def make(self, number, destination):
        source = socket.inet_aton(f"198.18.{number // 200 % 200 + 1}.{number % 200 + 1}")
        packet = self.packet
        packet[4:6] = struct.pack("!H", number % 65535 + 1)
        packet[12:20] = source + socket.inet_aton(destination)
        packet[20:22] = struct.pack("!H", 0xC000 + number % 0x4000)
        mad = 48
        request = mad + 24
        packet[mad + 8:mad + 16] = struct.pack("!Q", number + 1)  # transaction
        packet[request:request + 4] = struct.pack("!I", number + 1)  # communication id
        packet[request + 33:request + 35] = struct.pack("!H", number % 65521 + 17)  # queue pair
        for at, address in ((52 + 16, source), (52 + 32, socket.inet_aton(destination))):  # the path's ends
            packet[request + at:request + at + 4] = address
        masked = bytearray(packet)
        for at in (1, 8, 10, 11, 26, 27, 32):  # class, hops, checksums, the BTH's reserved byte
            masked[at] = 0xFF
        return bytes(packet) + struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))


class ProgramsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="verbena-hosts-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def join(self, loss="0", mtu="1500", carries="0", tells="0"):
        link = hosts.Hosts(LINK, "--rate", "200M", "--delay", "500us", "--queue", "200000", "--loss", loss, "--mtu", mtu, "--seed", "3",
                           "--carries", carries, "--tells", tells)
        self.addCleanup(link.close)
        return link

    def start(self, link, host, *words, stderr=subprocess.STDOUT):
        process = subprocess.Popen(link.on(host, VERBENA, *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=stderr, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def assert_ends_well(self, process):
        said, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, said)

    def assert_crossed(self, link, loss):
        """The packets of the device were on the link, and some of them were lost if they had to be."""
        counters = link.counters()
        for direction in counters:
            self.assertGreater(direction["packets"], 100)
        self.assertEqual(sum(direction["lost"] for direction in counters) > 0, loss != "0")

    def test_rping_verifies_what_it_reads_and_writes(self):
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed")
        for loss in LOSSES:
            for address in (hosts.IPV4[1], hosts.IPV6[1]):
                with self.subTest(loss=loss, address=address):
                    link = self.join(loss)
                    common = ["run", "--", "rping", "-V", "-C", "50", "-S", "20000", "-a", address]
                    server = self.start(link, 1, *common, "-s")
                    self.connect(link, server, *common, "-c")
                    self.assert_ends_well(server)
                    self.assert_crossed(link, loss)

    def test_fi_pingpong_serves_at_an_address_that_others_reach(self):
        if shutil.which("fi_pingpong") is None:
            self.skipTest("fi_pingpong is not installed")
        link = self.join()
        ping = ["run", "--", "fi_pingpong", "-p", "verbs", "-e", "msg", "-I", "20", "-S", "20000", "-c"]
        server = self.start(link, 1, *ping)
        self.connect(link, server, *ping, hosts.IPV4[1], until_listens="Connection refused")
        self.assert_ends_well(server)
        self.assert_crossed(link, "0")

    def test_the_mtu_option_holds_for_rdma_cm(self):
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed")
        for mtu, options in ((4096, []), (512, ["--mtu", "512"])):
            with self.subTest(mtu=mtu):
                link = self.join(mtu="9000")
                ping = ["--", "rping", "-V", "-C", "5", "-S", "20000", "-a", hosts.IPV4[1]]
                server = self.start(link, 1, "run", *ping, "-s")
                self.connect(link, server, "run", *options, *ping, "-c")
                self.assert_ends_well(server)
                for direction in link.counters():
                    self.assertGreater(direction["max_packet_bytes"], mtu)
                    self.assertLess(direction["max_packet_bytes"], mtu + 128)

    def test_a_listener_whose_interface_carries_less_says_so(self):
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed")
        link = self.join(mtu="9000")
        ping = ["run", "--", "rping", "-C", "5", "-a", hosts.IPV4[1]]
        server = self.start(link, 1, *ping, "-s")
        self.assert_ends_well(subprocess.Popen(link.on(1, "ip", "link", "set", "wire0", "mtu", "1500"), stdout=subprocess.PIPE))
        # The client may come before its server listens; then it is not the server that fails.
        until = time.monotonic() + SECONDS
        while server.poll() is None and time.monotonic() < until:
            self.start(link, 0, *ping, "-c").communicate(timeout=SECONDS)
        said, _ = server.communicate(timeout=SECONDS)
        self.assertIn("a path MTU of 4096 was refused", said)
        self.assertIn("--mtu 1024", said)

    def assert_ping_says(self, link, size, words, during=lambda client: None):
        """rping with data of this size, of which its client or its server says all these words before it fails."""
        ping = [VERBENA, "run", "--", "rping", "-S", str(size), "-a", hosts.IPV4[1]]
        path = os.path.join(self.folder, "said")
        until = time.monotonic() + SECONDS
        with open(path, "w", encoding="utf-8") as file:
            def start(host, *options):
                process = subprocess.Popen(link.on(host, *ping, *options), stdin=subprocess.DEVNULL, stdout=file, stderr=file)
                self.addCleanup(process.wait)
                self.addCleanup(process.kill)
                return process

            start(1, "-s")
            self.wait_for_listener(link)
            client = start(0, "-c")
            during(client)
            said = ""
            while not all(word in said for word in words):
                self.assertLess(time.monotonic(), until, said)
                if client.poll() is not None and "REJECTED" in said:
                    client = start(0, "-c")  # it came before the server listened
                    during(client)
                time.sleep(0.05)
                with open(path, encoding="utf-8") as written:
                    said = written.read()

    def test_a_way_that_loses_large_packets_without_a_word_is_named(self):
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed")
        link = self.join(carries="1000")
        self.assert_ping_says(link, 5000, [f"packets with 1024 bytes of data from {hosts.IPV4[0]} do not arrive", "--mtu 512"])

    def test_a_way_that_carries_less_than_the_interface_and_says_so_is_named(self):
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed")
        link = self.join(carries="1000", tells="1")
        self.assert_ping_says(link, 5000, [f"to {hosts.IPV4[1]} are not sent: the way there now carries IP packets of 1000 bytes",
                                           "--mtu 512"])

    def test_an_interface_that_carries_less_than_before_is_named(self):
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed")
        link = self.join(mtu="9000")

        def change(client):
            while client.poll() is None and link.counters()[0]["max_packet_bytes"] < 4096:
                time.sleep(0.02)
            for host in (0, 1):
                subprocess.run(link.on(host, "ip", "link", "set", "wire0", "mtu", "1500"), check=True)

        self.assert_ping_says(link, 20000, ["the way there now carries IP packets of 1500 bytes", "--mtu 1024"], change)

    def connect(self, link, server, *words, until_listens="REJECTED"):
        """Runs a client until its server listens; nothing tells when it does."""
        until = time.monotonic() + SECONDS
        while True:
            client = self.start(link, 0, *words)
            said, _ = client.communicate(timeout=SECONDS)
            if client.returncode == 0:
                return
            early = until_listens in said and server.poll() is None and time.monotonic() < until
            self.assertTrue(early, said)

    def secret(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return path

    def test_both_ends_have_a_secret(self):
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed")
        secret = self.secret("secret", "one that both have\n")
        for address in (hosts.IPV4[1], hosts.IPV6[1]):
            with self.subTest(address=address):
                link = self.join("1")
                common = ["run", "--secret", secret, "--", "rping", "-V", "-C", "50", "-S", "20000", "-a", address]
                server = self.start(link, 1, *common, "-s")
                self.connect(link, server, *common, "-c")
                self.assert_ends_well(server)
                self.assert_crossed(link, "1")

    def test_who_has_another_secret_or_none_is_not_heard(self):
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed")
        link = self.join()
        secret = self.secret("secret", "one")
        counted = os.path.join(self.folder, "counters")
        ping = ["--", "rping", "-V", "-C", "5", "-S", "2000", "-a", hosts.IPV4[1]]
        server = self.start(link, 1, "run", "--counters", counted, "--secret", secret, *ping, "-s")
        self.wait_for_listener(link)
        for options in ([], ["--secret", self.secret("other", "another")]):
            with self.subTest(options=options):
                before = self.datagrams_read(link)
                client = self.start(link, 0, "run", *options, *ping, "-c")
                until = time.monotonic() + SECONDS
                while self.datagrams_read(link) == before and time.monotonic() < until:
                    time.sleep(0.05)
                # It asks again and again, for longer than one wants to wait.
                self.assertIsNone(client.poll())
                self.assertIsNone(server.poll())
                client.kill()
        self.connect(link, server, "run", "--secret", secret, *ping, "-c")
        said, _ = server.communicate(timeout=SECONDS)
        self.assertEqual(server.returncode, 0, said)
        self.assertEqual(said.count("Both ends need the same --secret"), 1, said)
        self.assertIn("no tag that was made with this process's secret", said)
        with open(counted, encoding="utf-8") as file:
            self.assertGreater(json.loads(file.readline())["received"]["wrong tags"], 0)

    def test_who_has_no_secret_says_so_when_tags_come(self):
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed")
        link = self.join()
        ping = ["--", "rping", "-C", "5", "-a", hosts.IPV4[1]]
        server = self.start(link, 1, "run", *ping, "-s")
        self.wait_for_listener(link)
        self.start(link, 0, "run", "--secret", self.secret("secret", "one"), *ping, "-c")
        line = server.stdout.readline()
        while line and "carry a tag" not in line:
            line = server.stdout.readline()
        self.assertIn(f"packets from {hosts.IPV4[0]} were dropped", line)
        self.assertIn("Both ends need the same --secret", line)

    def test_who_claims_the_address_of_the_receiver_is_not_heard(self):
        """No tag is asked for where a packet is from this host; IPv6 takes such packets from others as well."""
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed")
        link = self.join()
        self.start(link, 1, "run", "--", "rping", "-a", hosts.IPV6[1], "-s")
        self.wait_for_listener(link)
        before = self.datagrams_read_ipv6(link)
        with link.socket(0, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW) as forger:
            for source in [hosts.IPV6[1]] * 5 + [hosts.IPV6[0]]:
                forger.sendto(udp_over_ipv6(source, hosts.IPV6[1], bytes(64)), (hosts.IPV6[1], 0))
        until = time.monotonic() + SECONDS
        while self.datagrams_read_ipv6(link) == before and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(self.datagrams_read_ipv6(link), before + 1)

    def test_a_flood_of_requests_keeps_nobody_out_and_is_not_made_larger(self):
        if shutil.which("rping") is None:
            self.skipTest("rping is not installed")
        link = self.join()
        server = self.start(link, 1, "run", "--", "rping", "-P", "-a", hosts.IPV4[1], "-s")
        self.wait_for_listener(link)
        # What is for those who are not there goes to the link, and no further.
        subprocess.run(link.on(1, "ip", "route", "add", "198.18.0.0/16", "dev", "wire0"), check=True)
        requests = ForgedRequests(CAPTURE)
        over = threading.Event()
        sent = 0

        def flood():
            nonlocal sent
            with link.socket(0, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as forger:
                while not over.is_set() and sent < 20_000:
                    forger.sendto(requests.make(sent, hosts.IPV4[1]), (hosts.IPV4[1], 0))
                    sent += 1
                    time.sleep(0.0005)

        flooding = threading.Thread(target=flood)
        flooding.start()
        try:
            answered = 0
            until = time.monotonic() + SECONDS
            while answered < 100 and time.monotonic() < until:
                time.sleep(0.02)
                answered += link.counters()[1]["packets"]
            self.assertGreaterEqual(answered, 100, "the forged requests are not taken")
            before = sent
            towards, back = collections.Counter(), collections.Counter()
            for _ in range(10):
                self.connect(link, server, "run", "--", "rping", "-C", "1", "-a", hosts.IPV4[1], "-c")
                for total, counters in zip((towards, back), link.counters()):
                    total.update(packets=counters["packets"])
        finally:
            over.set()
            flooding.join()
        self.assertGreater(sent - before, 100)
        self.assertIsNone(server.poll())
        self.assertLess(back["packets"], 3 * towards["packets"])

    @staticmethod
    def datagrams_read(link):
        """By the device of the second host."""
        snmp = subprocess.run(link.on(1, "cat", "/proc/net/snmp"), capture_output=True, text=True, check=True).stdout
        return int([line.split()[1] for line in snmp.splitlines() if line.startswith("Udp:")][1])

    @staticmethod
    def datagrams_read_ipv6(link):
        snmp = subprocess.run(link.on(1, "cat", "/proc/net/snmp6"), capture_output=True, text=True, check=True).stdout
        return int(next(line.split()[1] for line in snmp.splitlines() if line.startswith("Udp6InDatagrams")))

    def wait_for_listener(self, link):
        """Until the server's end of the device is there."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            sockets = subprocess.run(link.on(1, "ss", "-lun"), capture_output=True, text=True, check=True).stdout
            if ":4791" in sockets:
                return
            time.sleep(0.05)
        self.fail("the device was not opened")

    def test_marks_are_answered_and_keep_the_queue_short(self):
        """The queue would hold twenty round trips' worth; nothing has to be lost for the sender to know that it is long."""
        if shutil.which("ib_write_bw") is None:
            self.skipTest("perftest is not installed")
        for operation in ("write", "read"):
            with self.subTest(operation=operation):
                link = hosts.Hosts(LINK, "--rate", "100M", "--delay", "2ms", "--queue", "1000000", "--mark", "20000")
                self.addCleanup(link.close)
                files = [os.path.join(self.folder, f"{operation}{end}") for end in ("client", "server")]
                # Packets may be marked (ECT) because the program says so.
                perftest = [f"ib_{operation}_bw", "-F", "-s", "65536", "-n", "300", "-t", "64", "--tclass", "2"]
                client, server = (["run", "--address", "wire0", "--counters", file, "--", *perftest] for file in files)
                serving = self.start(link, 1, *server)
                self.connect(link, serving, *client, hosts.IPV4[1], until_listens="Couldn't connect")
                self.assert_ends_well(serving)
                towards, back = link.counters() if operation == "write" else reversed(link.counters())
                self.assertGreater(towards["marked"], 0)
                self.assertEqual((towards["dropped"], back["dropped"]), (0, 0))
                self.assertLess(towards["max_queue_bytes"], 500_000)
                sender, receiver = self.transport_counters(files)
                if operation == "read":
                    self.assertGreater(sender["packets received that met congestion (CE)"], 0)
                    self.assertEqual(sender["congestion notifications sent"], 0)
                else:
                    self.assertGreater(receiver["packets received that met congestion (CE)"], 0)
                    self.assertGreater(receiver["congestion notifications sent"], 0)
                    self.assertGreater(sender["congestion notifications heeded"], 0)

    @staticmethod
    def transport_counters(files):
        """Of all processes of each file; what is not named is 0."""
        found = []
        for file in files:
            found.append(collections.Counter())
            with open(file, encoding="utf-8") as lines:
                for line in lines:
                    found[-1].update(json.loads(line)["transport"])
        return found

    def test_files_arrive_as_they_were_sent(self):
        content = random.Random(1).randbytes(3 << 20)
        path = os.path.join(self.folder, "sent")
        with open(path, "wb") as file:
            file.write(content)
        for loss in LOSSES:
            with self.subTest(loss=loss):
                link = self.join(loss)
                to = tempfile.mkdtemp(dir=self.folder)
                receiver = self.start(link, 1, "receive", "--json", "--once", "--listen", f"{hosts.IPV4[1]}:0", to,
                                      stderr=subprocess.DEVNULL)  # a warning: nobody has to know a secret
                port = json.loads(receiver.stdout.readline())["port"]
                self.assert_ends_well(self.start(link, 0, "send", "--json", path, f"{hosts.IPV4[1]}:{port}"))
                self.assert_ends_well(receiver)
                with open(os.path.join(to, "sent"), "rb") as file:
                    self.assertTrue(file.read() == content, "the file is not what was sent")
                self.assert_crossed(link, loss)


def main():
    global LINK, VERBENA
    hosts.become_able()
    LINK, VERBENA = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    # What a user's shell may have set is not to be seen here.
    for name in [name for name in os.environ if name.startswith("VERBENA_")]:
        del os.environ[name]
    hosts.Hosts(LINK).close()  # exits where it is not allowed
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
