#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Live migration of QEMU over rdma:, with the guest's memory compared.

qemu.py DIRECTORY-OF-THE-LIBRARIES [--repeat N] [WORDS...]

The guest has no operating system: its boot sector counts in 512 KiB of memory without end, so that pages become dirty
while they move. The target starts paused; source and target then have the same memory.
"""
import hashlib
import json
import socket
import sys
import time

from counted import Programs, arguments, free_port, missing, run_cases, skipped

PROGRAM = "qemu-system-x86_64"
MEMORY = 64 << 20
#         mov ax, 0x1000; mov es, ax; xor di, di
#   loop: inc word [es:di]; add di, 2; jnz loop
#         mov ax, es; add ax, 0x1000; cmp ax, 0x9000; jne set; mov ax, 0x1000
#   set:  mov es, ax; jmp loop
BOOT = bytes.fromhex("b80010 8ec0 31ff 26ff05 83c702 75f8 8cc0 050010 3d0090 7503 b80010 8ec0 ebe7")


class Monitor:
    """QMP over a socket in the file system."""

    def __init__(self, programs, path):
        self.socket = socket.socket(socket.AF_UNIX)
        programs.wait_for(path, lambda: self.socket.connect_ex(path) == 0)
        self.file = self.socket.makefile("rw")
        self.file.readline()
        self("qmp_capabilities")

    def __call__(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            answer = json.loads(self.file.readline())
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]

    def close(self):
        self("quit")
        self.file.close()
        self.socket.close()


def migrate(libraries, pin):
    with Programs(libraries) as programs:
        with open(programs.path("boot"), "wb") as file:
            file.write(BOOT.ljust(510, b"\0") + b"\x55\xaa" + bytes(1474560 - 512))
        uri = f"rdma:127.0.0.1:{free_port()}"
        processes, monitors = [], []
        for name, more in (("source", []), ("target", ["-S", "-incoming", uri])):
            processes.append(programs.start(name, [
                PROGRAM, "-accel", "tcg", "-machine", "pc", "-m", str(MEMORY >> 20), "-nodefaults", "-display", "none",
                "-drive", f"if=floppy,format=raw,readonly=on,file={programs.path('boot')}", "-boot", "a",
                "-qmp", f"unix:{programs.path(name)},server,nowait", *more]))
            monitors.append(Monitor(programs, programs.path(name)))
        time.sleep(2)  # for the boot sector to run
        for monitor in monitors:
            monitor("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": pin}])
        monitors[0]("migrate", uri=uri)
        programs.wait_for("migration", lambda: monitors[0]("query-migrate").get("status") in ("completed", "failed"))
        ended = monitors[0]("query-migrate")
        if ended["status"] != "completed":
            return f"{ended}\n{programs.text('source.log')}{programs.text('target.log')}"
        sums = []
        for name, monitor in zip(("source", "target"), monitors):
            monitor("pmemsave", val=0, size=MEMORY, filename=programs.path("memory"))
            with open(programs.path("memory"), "rb") as file:
                data = file.read()
            sums.append(hashlib.sha256(data).hexdigest())
            if not any(data[0x10000:0x20000]):
                return f"the guest of the {name} has not counted"
        if sums[0] != sums[1]:
            return "source and target have different memory"
        for monitor in monitors:
            monitor.close()
        for name, process in zip(("source", "target"), processes):
            if problem := programs.finish(name, process):
                return problem
        return programs.lacks(ended["ram"]["normal-bytes"])


def main():
    options = arguments(__doc__.splitlines()[0])
    if absent := missing(PROGRAM):
        return skipped(absent)
    return run_cases([("qemu migration", lambda: migrate(options.libraries, False)),
                      ("qemu migration pinned", lambda: migrate(options.libraries, True))], options)


if __name__ == "__main__":
    sys.exit(main())
