#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""File transfer on loopback, in memory (tmpfs) at both ends: `verbena send` beside plain TCP (socat), rsync and scp, in turns.

Each row shows the medians of ours and of the peer, and their ratio: more than 1 is faster than the peer. rsync and scp run without
compression; rsync through its own daemon, without a shell; scp through an sshd of this program's own. TCP has no checksum of the file,
and makes no directory: many files go through it as one tar archive.
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SECONDS = 120


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, timeout=SECONDS, stdout=subprocess.DEVNULL, **options)


def free_port():
    return random.randrange(15000, 30000)


@contextlib.contextmanager
def background(*words, **options):
    process = subprocess.Popen([str(word) for word in words], **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=SECONDS)


class Bench:
    def __init__(self, build, root):
        self.verbena, self.libraries, self.root = build / "bin/verbena", build / "lib/verbena", root
        self.to = root / "to"

    def clear(self):
        shutil.rmtree(self.to, ignore_errors=True)
        self.to.mkdir()

    def ours(self, source, *options):
        port = free_port()
        with background(self.verbena, "receive", "--quiet", "--listen", f"127.0.0.1:{port}", self.to,
                        stdout=subprocess.PIPE, text=True) as receiver:
            receiver.stdout.readline()
            start = time.monotonic()
            run(self.verbena, "send", "--quiet", "-r", *options, source, f"127.0.0.1:{port}")
            return time.monotonic() - start

    def tcp(self, source):
        port = free_port()
        many = source.is_dir()
        take = f"tar -C {self.to} -xf -" if many else f"cat > {self.to}/{source.name}"
        give = f"tar -C {source.parent} -cf - {source.name}" if many else f"cat {source}"
        with background("socat", "-u", "-b", "1048576", f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr", f"SYSTEM:{take}") as receiver:
            time.sleep(0.3)
            start = time.monotonic()
            run("sh", "-c", f"{give} | socat -u -b 1048576 - TCP:127.0.0.1:{port}")
            receiver.wait(timeout=SECONDS)
            return time.monotonic() - start

    def rsync(self, source):
        port = free_port()
        settings = self.root / "rsyncd.conf"
        settings.write_text(f"use chroot = no\nuid = {os.getuid()}\ngid = {os.getgid()}\n[to]\npath = {self.to}\nread only = no\n")
        with background("rsync", "--daemon", "--no-detach", "--address", "127.0.0.1", "--port", port, "--config", settings):
            time.sleep(0.3)
            start = time.monotonic()
            run("rsync", "-a", "--whole-file", source, f"rsync://127.0.0.1:{port}/to/")
            return time.monotonic() - start

    def scp(self, source):
        port, keys = free_port(), self.root / "keys"
        if not keys.exists():
            keys.mkdir(mode=0o700)
            for key in ("host", "user"):
                run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / key)
            (keys / "authorized").write_text((keys / "user.pub").read_text())
        server = ["/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-h", keys / "host", "-p", port, "-o", "ListenAddress=127.0.0.1", "-o",
                  f"AuthorizedKeysFile={keys}/authorized", "-o", "StrictModes=no", "-o", "PidFile=none", "-o", "UsePAM=no", "-o", "PermitRootLogin=yes",
                  "-o", "Subsystem=sftp internal-sftp"]
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        with background(*server, stderr=subprocess.DEVNULL):
            time.sleep(0.5)
            start = time.monotonic()
            run("scp", "-q", "-r", "-P", port, "-i", keys / "user", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
                "IdentitiesOnly=yes", source, f"127.0.0.1:{self.to}/", stderr=subprocess.DEVNULL)
            return time.monotonic() - start

    def device(self, size):
        """Seconds for so many bytes by ib_write_bw, on the same device."""
        port, environment = free_port(), {**os.environ, "LD_LIBRARY_PATH": str(self.libraries)}
        words = ["ib_write_bw", "-F", "-s", "1048576", "-n", str(max(100, size >> 20)), "-p", str(port)]
        with background(*words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            for _ in range(100):
                time.sleep(0.1)
                done = subprocess.run([*words, "127.0.0.1"], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
                rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["1048576"]]
                if rows:
                    return size / (float(rows[0][3]) * (1 << 20))
        raise SystemExit("ib_write_bw does not run")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement; the median counts")
    parser.add_argument("--size", type=int, default=1 << 30, help="bytes of the large file")
    parser.add_argument("--files", type=int, default=10_000, help="files of 4 KiB")
    parser.add_argument("--json", help="also write all rows to this file")
    options = parser.parse_args()
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="verbena-bench-", dir=folder) as name:
        root = pathlib.Path(name)
        bench = Bench(options.build.resolve(), root)
        large, many = root / "large", root / "many"
        block = os.urandom(1 << 20)
        with large.open("wb") as file:
            for _ in range(options.size >> 20):
                file.write(block)
        many.mkdir()
        for i in range(options.files):
            (many / f"file {i}").write_bytes(block[i % 256:i % 256 + 4096])
        peers = {"plain TCP": (bench.tcp, 0.9), "rsync": (bench.rsync, 1.5), "scp": (bench.scp, 1.5)}
        print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}")
        rows = []

        def compare(what, ours, peer, theirs, aim):
            figures = {"ours": [], "theirs": []}
            for _ in range(options.rounds):
                for key, work in (("ours", ours), ("theirs", theirs)):
                    bench.clear()
                    figures[key].append(work())
            mine, other = statistics.median(figures["ours"]), statistics.median(figures["theirs"])
            ratio = other / mine
            goal = "" if aim is None else f"aim >= {aim} {'met' if ratio >= aim else 'missed'}"
            print(f"  {what:<34} {mine:7.2f} s   {other:7.2f} s {peer:<16} ratio {ratio:5.2f}  {goal}", flush=True)
            rows.append({"what": what, "peer": peer, "ours_s": mine, "theirs_s": other, "ratio": ratio})

        for what, source in ((f"a file of {options.size >> 20} MiB", large), (f"{options.files} files of 4 KiB", many)):
            for peer, (work, aim) in peers.items():
                compare(what, lambda s=source: bench.ours(s), peer, lambda s=source, w=work: w(s), aim)
        compare("a file, all slots", lambda: bench.ours(large), "one slot", lambda: bench.ours(large, "--window", "1"), None)
        compare("a file, one connection", lambda: bench.ours(large), "two connections", lambda: bench.ours(large, "--streams", "2"), None)
        compare("a file", lambda: bench.ours(large), "ib_write_bw", lambda: bench.device(options.size), None)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    sys.exit(main())
