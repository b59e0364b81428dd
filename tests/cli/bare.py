#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A system that has the C library and nothing else: `verbena run` works there all the same.

bare.py VERBENA
"""
import glob
import os
import re
import shutil
import tempfile
import unittest

import support
from support import call, verbena

STORE = "libverbena-store.so"  # the store's commands may need more


def needed(path):
    listing = call(["readelf", "--dynamic", "--wide", path]).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", listing))


def is_c_library(name):
    return re.fullmatch(r"libc\.so\.6|libm\.so\.6|ld-linux[-\w]*\.so\.\d+", name) is not None


class Needs(unittest.TestCase):
    def setUp(self):
        support.need_program("readelf")

    def test_are_the_c_library(self):
        ours = {os.path.basename(path) for path in glob.glob(f"{support.libraries()}/lib*.so*")}
        self.assertIn("libibverbs.so.1", ours)
        for path in [support.VERBENA, *(f"{support.libraries()}/{name}" for name in sorted(ours - {STORE}))]:
            foreign = {name for name in needed(path) if name not in ours and not is_c_library(name)}
            self.assertEqual(foreign, set(), path)


class BareRoot(unittest.TestCase):
    """Commands in a root that has Verbena, the C library and a few programs that need no more."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        # In a mount namespace, so that /proc goes with the last process.
        self.words = ["unshare", "--mount"]
        if os.geteuid() != 0:
            self.words[1:1] = ["--user", "--map-root-user"]
        self.words += ["--", "sh", "-c", 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"', self.root]
        for name in ("proc", "bin", "lib/verbena", "tmp"):
            os.makedirs(os.path.join(self.root, name))
        shutil.copy(support.VERBENA, os.path.join(self.root, "bin"))
        for path in glob.glob(f"{support.libraries()}/lib*.so*"):
            shutil.copy(path, os.path.join(self.root, "lib/verbena"), follow_symlinks=False)
        for program in ("ibv_devinfo", "cat"):
            support.need_program(program)
            shutil.copy(shutil.which(program), os.path.join(self.root, "bin"))
        for line in call(["ldd", shutil.which("cat"), support.VERBENA]).stdout.splitlines():
            self.bring_library(line)
        if self.inside("cat", "/proc/version").returncode != 0:
            self.skipTest("this system has no namespaces for us")

    def bring_library(self, line):
        found = re.search(r"(?:(\S+) => )?(/\S+) \(0x", line)
        if found is None or not is_c_library(os.path.basename(found.group(2))):
            return
        # The loader has to be where programs say it is.
        place = self.root + (found.group(2) if found.group(1) is None else f"/lib/{found.group(1)}")
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if not os.path.exists(place):
            shutil.copy(found.group(2), place)

    def inside(self, *command):
        return call([*self.words, *command], env={"PATH": "/bin:/usr/bin:/usr/sbin:/sbin"})

    def test_runs_programs(self):
        done = self.inside("verbena", "run", "--address", "127.0.0.1", "--", "ibv_devinfo")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"hca_id:\s+verbena0")
        done = self.inside("verbena", "run", "--", "cat", "/sys/class/infiniband/verbena0/node_type")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "1: CA\n", ""))
        self.assertIn("verbena0", self.inside("verbena", "devices").stdout)
        self.assertIn("LD_PRELOAD", self.inside("verbena", "env").stdout)

    def test_shows_a_namespace(self):
        # The root is no mount point. Without /sys and /dev there is nothing to show the files over.
        view = ("verbena", "run", "--view", "namespace", "--")
        state = "/sys/class/infiniband/verbena0/ports/1/state"
        refused = self.inside(*view, "cat", state)
        self.assertEqual((refused.returncode, refused.stdout), (125, ""))
        os.mkdir(f"{self.root}/sys")
        os.mkdir(f"{self.root}/dev")
        if os.geteuid() != 0:
            self.skipTest("root alone may have mount namespaces in a chroot")
        # As systemd makes it: what is mounted in one mount namespace appears in the others.
        script = ('mount --make-rshared / && mount --rbind /proc "$0/proc" && chroot "$0" "$@" && cat /proc/self/mountinfo')
        shared = call(["unshare", "--mount", "sh", "-c", script, self.root, *view, "cat", state],
                      env={"PATH": "/bin:/usr/bin:/usr/sbin:/sbin"})
        self.assertEqual(shared.stderr, "")
        self.assertRegex(shared.stdout, r"^4: ACTIVE\n")
        self.assertIn(f"{self.root}/proc", shared.stdout)
        self.assertNotRegex(shared.stdout, f"{self.root}/(sys|dev)")
        self.assertEqual(self.inside(*view, "cat", state).stdout, "4: ACTIVE\n")
        self.assertEqual(os.listdir(f"{self.root}/sys"), [])

    def test_says_what_the_store_needs(self):
        help_text = self.inside("verbena", "--help").stdout
        self.assertEqual(help_text, verbena("--help").stdout)
        self.assertRegex(help_text, r"\n  put +\w+")
        done = self.inside("verbena", "ls", "--data", "/tmp")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^verbena ls: .*lib\w+\.so\.\d+: .*No such file.*\n$")


if __name__ == "__main__":
    support.main()
