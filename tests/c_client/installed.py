#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The client's library as it is installed: what it exports and needs, and the examples, built outside of the source tree
by pkg-config and by CMake, and run against an installed server.

installed.py SOURCE BUILD
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SECONDS = 120
SOURCE = BUILD = ""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name in list(os.environ):
            if name.startswith("VERBENA_") or name in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
                del os.environ[name]
        cls.work = tempfile.mkdtemp(prefix="verbena-installed-")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.prefix = os.path.join(cls.work, "prefix")
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.library = os.path.join(cls.prefix, "lib", "libverbena-client.so.1")
        server = subprocess.Popen([os.path.join(cls.prefix, "bin", "verbena"), "serve", "--memory", "64M", "--listen",
                                   "127.0.0.1:0", "--quiet"], stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(server.stdout.close)
        cls.addClassCleanup(server.wait, SECONDS)
        cls.addClassCleanup(server.terminate)
        cls.port = server.stdout.readline().rsplit(":", 1)[1].strip()

    def check_examples(self, put_get, list_objects):
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(self.prefix, "lib"))
        said = run(put_get, "127.0.0.1", self.port, env=environment)
        self.assertEqual(said, 'put 13 bytes, CRC be444409\nread "chunk"\ngot Hello, chunk\n')
        said = run(list_objects, "127.0.0.1", self.port, "gree", env=environment)
        self.assertEqual(said.split(), ["13", "greeting"])

    def test_pkg_config(self):
        environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(self.prefix, "lib", "pkgconfig"))
        flags = run("pkg-config", "--cflags", "--libs", "verbena-client", env=environment).split()
        self.assertEqual(run("pkg-config", "--modversion", "verbena-client", env=environment).strip(), "1.0.0")
        programs = []
        for compiler, standard, name in (("cc", "c11", "put_get.c"), ("c++", "c++20", "list_objects.cpp")):
            programs.append(os.path.join(self.work, name.split(".", maxsplit=1)[0]))
            run(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                os.path.join(SOURCE, "examples", name), *flags, "-o", programs[-1])
        self.check_examples(*programs)

    def test_cmake(self):
        build = os.path.join(self.work, "cmake")
        run("cmake", "-S", os.path.join(SOURCE, "tests/c_client/outside"), "-B", build, f"-DEXAMPLES={SOURCE}/examples",
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        self.check_examples(os.path.join(build, "put_get"), os.path.join(build, "list_objects"))

    def test_header(self):
        """It needs nothing before it, in older C++ either."""
        for compiler, language, standard in (("cc", "c", "c11"), ("c++", "c++", "c++11"), ("c++", "c++", "c++23")):
            run(compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                "-fsyntax-only", os.path.join(self.prefix, "include/verbena/client.h"))

    def test_symbols(self):
        """It exports what the header declares, under one version, and nothing else."""
        with open(os.path.join(self.prefix, "include/verbena/client.h"), encoding="utf-8") as file:
            header = file.read()
        declared = set(re.findall(r"^(?!static)[a-z][\w ]*[ *]+(verbena_\w+)\(", header, re.MULTILINE))
        self.assertIn("verbena_connect", declared)
        exported = set()
        for line in run("nm", "-D", "--defined-only", "--with-symbol-versions", self.library).splitlines():
            kind, name = line.split()[1:3]
            if kind == "A":
                self.assertEqual(name.rstrip("@"), "VERBENA_CLIENT_1")
                continue
            self.assertEqual(kind, "T", line)
            self.assertTrue(name.endswith("@@VERBENA_CLIENT_1"), line)
            exported.add(name.split("@")[0])
        self.assertEqual(exported, declared)
        for name in declared:
            self.assertTrue(os.path.exists(os.path.join(self.prefix, "share/man/man3", name + ".3")), name)

    def test_needs(self):
        """Not what the store needs of the system."""
        needed = set(re.findall(r"\(NEEDED\).*\[(\w[^.]*)\.", run("readelf", "-dW", self.library)))
        self.assertLessEqual(needed, {"libc", "libm", "libgcc_s", "libstdc++", "libfmt", "libcrypto", "ld-linux-aarch64",
                                      "ld-linux-x86-64"})
        self.assertNotIn("RUNPATH", run("readelf", "-dW", self.library))

    def test_man_page(self):
        """It has each of them, and no mistake that man can find."""
        page = os.path.join(self.prefix, "share/man/man3/verbena-client.3")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        for name in re.findall(r"^    (verbena_\w+);$", self.map(), re.MULTILINE):
            self.assertIn(name, text)
        if shutil.which("man"):
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], capture_output=True,
                                  text=True, timeout=SECONDS, check=False)
            self.assertEqual(done.stderr, "")

    @staticmethod
    def map():
        with open(os.path.join(SOURCE, "src/c_client/libverbena-client.map"), encoding="utf-8") as file:
            return file.read()


if __name__ == "__main__":
    SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main(verbosity=2)
