# SPDX-License-Identifier: Apache-2.0
"""What sends across an emulated link: perftest on the device, and TCP by iperf3. Data goes from host 0 to host 1."""
import json
import os
import re
import subprocess
import tempfile
import time

import hosts

MESSAGE = 65536
MORE_SECONDS = 60  # of a flow that does not end
TCP_BUFFER = 256 << 20  # never what bounds TCP


class Failed(Exception):
    """A flow that gave no result."""


def start(link, host, words, **options):
    return subprocess.Popen(link.on(host, *map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **options)


def wait_for_listener(link, host, port):
    for _ in range(200):
        shown = subprocess.run(link.on(host, "ss", "-Hltn", f"sport = :{port}"), capture_output=True, text=True, check=False)
        if shown.stdout.strip():
            return
        time.sleep(0.02)
    raise Failed(f"nobody listens on port {port}")


def prepare(link):
    """TCP as good as it can be: buffers for any path, and no memory of flows before."""
    for host in (0, 1):
        for setting in (f"net.ipv4.tcp_rmem=4096 131072 {TCP_BUFFER}", f"net.ipv4.tcp_wmem=4096 65536 {TCP_BUFFER}",
                        "net.ipv4.tcp_no_metrics_save=1", "net.ipv4.tcp_ecn=1"):
            subprocess.run(link.on(host, "sysctl", "-qw", setting), check=False, stderr=subprocess.DEVNULL)


class Flow:
    """A server and a client. finish() waits for them; then `bits_per_second` and `resent` (a share) are there."""

    def __init__(self, seconds, warm):
        self.seconds, self.warm = seconds, warm
        self.ends = []
        self.bits_per_second = self.resent = 0
        self.overflow = 0  # packets that found a socket's receive buffer full

    def run(self, link, server_host, server, client, port, **options):
        self.ends.append(start(link, server_host, server, **options))
        wait_for_listener(link, server_host, port)
        self.ends.append(start(link, 1 - server_host, client, **options))

    def finish(self):
        """What the client said, then the server."""
        try:
            said = [end.communicate(timeout=self.seconds + 2 * self.warm + MORE_SECONDS)[0] for end in reversed(self.ends)]
        except subprocess.TimeoutExpired as error:
            raise Failed("not done in time") from error
        finally:
            self.stop()
        return said

    def stop(self):
        for end in self.ends:
            if end.poll() is None:
                end.kill()
            end.communicate()


class Tcp(Flow):
    def __init__(self, link, control, seconds, warm, port=5201):
        super().__init__(seconds, warm)
        # The server, too, is not to wait for ever.
        self.run(link, 1, ["timeout", seconds + warm + MORE_SECONDS, "iperf3", "-s", "-1", "-p", port],
                 ["iperf3", "-c", hosts.IPV4[1], "-p", port, "-C", control, "-O", warm, "-t", seconds, "-J"], port)

    def finish(self):
        said = super().finish()
        try:
            end = json.loads(said[0])["end"]
            self.bits_per_second = end["sum_received"]["bits_per_second"]
            segments = end["sum_sent"]["bytes"] / 1448
            self.resent = end["sum_sent"]["retransmits"] / max(segments, 1)
        except (ValueError, KeyError) as error:
            raise Failed(f"iperf3: {said[0][-300:]}") from error


class Ours(Flow):
    """perftest on the device, its messages under way enough for any path."""

    def __init__(self, link, verbena, row, seconds, warm, port=18515):
        super().__init__(seconds, warm)
        under_way = 4 * (row.bdp_bytes + row.queue_bytes)
        depth = int(min(max(under_way / MESSAGE / row.qps, 128), 4096))
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-bench-")
        self.files = [os.path.join(self.folder.name, name) for name in ("client", "server")]
        perftest = [f"ib_{row.operation}_bw", "-F", "-N", "-s", MESSAGE, "-q", row.qps, "-t", depth, "-u", 18, "-p", port, "--report_gbits"]
        # It sleeps only where it counts messages, not seconds; of seconds it leaves out the margin at both ends.
        messages = int(row.bits_per_second / 8 / MESSAGE * (seconds + warm))
        perftest += ["-e", "-n", messages] if row.sleeps else ["-D", seconds + 2 * warm, "-f", warm]
        self.sleeps = row.sleeps
        perftest += ["-o", 128] if row.operation == "read" else []
        perftest += ["-r", depth] if row.operation == "send" else []
        secret = ["--secret", self._secret()] if row.secret else []
        client, server = ([verbena, "run", "--link", "udp", "--address", "wire0", *secret, "--counters", file, "--", *perftest]
                          for file in self.files)
        # Who reads gets the data.
        self.server_host = 0 if row.operation == "read" else 1
        self.run(link, self.server_host, server, [*client, hosts.IPV4[self.server_host]], port)

    def _secret(self):
        """A file that nobody else can read, or the device warns."""
        path = os.path.join(self.folder.name, "secret")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write("that both ends of a row have\n")
        return path

    def finish(self):
        try:
            said = super().finish()
            found = re.search(rf"^\s*{MESSAGE}\s+(\d+)\s+[\d.]+\s+[\d.]+\s+([\d.]+)", said[0], re.MULTILINE)
            if not found:
                raise Failed(f"perftest: {said[0][-300:]}{said[1][-300:]}")
            # Its own figure of bits has two digits, that of millions of messages has six.
            messages = float(found.group(2)) * 1e6 if self.sleeps else int(found.group(1)) / self.seconds
            self.bits_per_second = messages * MESSAGE * 8
            self._read_counters()
        finally:
            self.folder.cleanup()

    def _read_counters(self):
        sent = again = 0
        for file in self.files:
            with open(file, encoding="utf-8") as lines:
                for counters in map(json.loads, lines):
                    transport = counters["transport"]
                    sent += transport.get("packets sent", 0) - transport.get("ACKs sent", 0)
                    again += transport.get("packets sent again", 0)
                    self.overflow += counters["received"]["overflow"]
        self.resent = again / max(sent, 1)
