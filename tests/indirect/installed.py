#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libverbena as it is installed, with another prefix than it was built for, in a tree that was moved afterwards: a program
is linked with it by pkg-config, and runs with the system's libibverbs and on the device.

installed.py SOURCE BUILD
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SECONDS = 60
SOURCE = BUILD = ""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Moved(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name in list(os.environ):
            if name.startswith(("VERBENA_", "PKG_CONFIG")) or name in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
                del os.environ[name]
        work = os.path.realpath(tempfile.mkdtemp(prefix="verbena-libverbena-"))
        cls.addClassCleanup(shutil.rmtree, work)
        first = os.path.join(work, "first")
        for folder in ("cli", "preload", "verbs", "indirect"):
            run("cmake", "--install", os.path.join(BUILD, "src", folder), "--prefix", first)
        cls.prefix = os.path.join(work, "moved")
        os.rename(first, cls.prefix)
        found, = glob.glob(os.path.join(cls.prefix, "**", "libverbena.pc"), recursive=True)
        cls.environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(found))
        cls.program = os.path.join(work, "two_pieces")
        cls.flags = cls.pkg_config("--cflags", "--libs")
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", os.path.join(SOURCE, "tests/indirect/two_pieces.c"),
            *cls.flags.split(), "-o", cls.program)
        cls.libraries = os.path.realpath(cls.pkg_config("--variable=libdir").strip())

    @classmethod
    def pkg_config(cls, *what):
        return run("pkg-config", *what, "libverbena", env=cls.environment)

    def test_all_paths_are_in_the_moved_tree(self):
        theirs = run("pkg-config", "--cflags", "--libs", "libibverbs").split()
        paths = [flag[2:] for flag in self.flags.split() if flag[:2] in ("-I", "-L") and flag not in theirs]
        self.assertEqual(len(paths), 2, self.flags)
        paths += [self.pkg_config(f"--variable={name}").strip() for name in ("prefix", "libdir", "includedir")]
        for path in map(os.path.realpath, paths):
            self.assertTrue(os.path.isdir(path), path)
            self.assertEqual(os.path.commonpath([path, self.prefix]), self.prefix)

    def test_no_drop_in_library_is_beside_it(self):
        """-L would have the linker take it."""
        self.assertEqual(sorted(os.listdir(self.libraries)),
                         sorted(["libverbena.so", "libverbena.so.1", "libverbena.so.1.0.0", "pkgconfig", "verbena"]))

    def test_with_the_libibverbs_of_the_system(self):
        environment = dict(os.environ, LD_LIBRARY_PATH=self.libraries)
        used = dict(re.findall(r"(lib\w+)\.so\S* => (\S+)", run("ldd", self.program, env=environment)))
        self.assertEqual(os.path.dirname(os.path.realpath(used["libverbena"])), self.libraries)
        self.assertFalse(os.path.realpath(used["libibverbs"]).startswith(self.prefix), used)
        self.assertEqual(run(self.program, env=environment), "not on this device\n")

    def test_on_the_device(self):
        self.assertEqual(run(os.path.join(self.prefix, "bin", "verbena"), "run", "--", self.program),
                         "registered on verbena0\n")

    def test_version(self):
        with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as file:
            version = re.search(r"project\(verbena VERSION ([0-9.]+)", file.read())[1]
        self.assertEqual(self.pkg_config("--modversion").strip(), version)


if __name__ == "__main__":
    SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main(verbosity=2)
