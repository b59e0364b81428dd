#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""iSER: the target of tgt and the initiators of libiscsi.

iser.py DIRECTORY-OF-THE-LIBRARIES [--repeat N] [WORDS...]

iscsi-perf reads for two seconds. iscsi-test-cu writes, reads back and compares; the cases that tgt itself or libiscsi's
iSER transport do not pass are not among them. tgtd needs root, for its socket in /run/tgtd.
"""
import os
import random
import subprocess
import sys

from counted import Programs, arguments, free_port, missing, run_cases, skipped

TARGET = "iqn.2001-04.org.example:disk"
INITIATOR = "iqn.2001-04.org.example:initiator"
BYTES = 32 << 20
# Each writes and compares with what it reads.
COMPARED = "SCSI.CompareAndWrite.Simple,SCSI.CompareAndWrite.Miscompare,SCSI.WriteSame10.Simple,SCSI.WriteSame10.Check"


class Target(Programs):
    def __enter__(self):
        super().__enter__()
        os.makedirs("/run/tgtd", exist_ok=True)
        with open(self.path("disk"), "wb") as file:
            file.write(os.urandom(BYTES))
        port = free_port()
        self.control = str(random.randrange(100, 30000))
        self.url = f"iser://127.0.0.1:{port}/{TARGET}/1"
        self.daemon = self.start("tgtd", ["tgtd", "-f", "-C", self.control, "--iser", f"port={port},pool_sz_mb=64"])
        self.wait_for("tgtd", lambda: self.admin("--mode", "target", "--op", "show") == 0)
        for words in (("--mode", "target", "--op", "new", "--tid", "1", "--targetname", TARGET),
                      ("--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "--backing-store", self.path("disk")),
                      ("--mode", "target", "--op", "bind", "--tid", "1", "--initiator-address", "ALL"),
                      # An iSER login needs the name as well: tgt 1.0.85 answers "target not found" without it.
                      ("--mode", "target", "--op", "bind", "--tid", "1", "--initiator-name", INITIATOR)):
            if self.admin(*words):
                raise RuntimeError(f"tgtadm {words} failed:\n{self.text('tgtd.log')}")
        return self

    def admin(self, *words):
        return subprocess.run(["tgtadm", "-C", self.control, "--lld", "iser", *words], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=30).returncode


def perf(libraries):
    with Target(libraries) as target:
        problem = target.run("perf", ["iscsi-perf", "-i", INITIATOR, "-t", "2", "-b", "64", "-m", "8", target.url])
        said = target.text("perf.log")
        if problem or "finished." not in said:
            return problem or said
        # The target is ended by a signal and writes no counters: those of the initiator count.
        return target.lacks(BYTES, "received")


def compared(libraries):
    with Target(libraries) as target:
        problem = target.run("test", ["iscsi-test-cu", "--dataloss", "-i", INITIATOR, f"--test={COMPARED}", target.url])
        said = target.text("test.log")
        if problem or "FAILED" in said or "passed" not in said:
            return problem or said
        return target.lacks(1 << 16, "received")


def main():
    options = arguments(__doc__.splitlines()[0])
    if absent := missing("tgtd", "tgtadm", "iscsi-perf", "iscsi-test-cu"):
        return skipped(absent)
    if os.geteuid() != 0:
        print("skipped: tgtd needs root", file=sys.stderr)
        return 77
    return run_cases([("iser perf", lambda: perf(options.libraries)),
                      ("iser compared", lambda: compared(options.libraries))], options)


if __name__ == "__main__":
    sys.exit(main())
