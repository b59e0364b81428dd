#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The systemd units, the configuration that comes with them, and the page that describes it.

service.py VERBENA BUILD
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import support
from support import call, need_program, verbena

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = ""
# Options of the command alone.
NO_SETTINGS = {"help", "config", "ready_fd", "json", "quiet"}


def settings():
    options = re.findall(r"^  (?:-[a-z],)?--([a-z-]+)", verbena("serve", "--help").stdout, re.MULTILINE)
    return {option.replace("-", "_") for option in options} - NO_SETTINGS


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


class Configuration(unittest.TestCase):
    def test_page_has_every_setting(self):
        described = re.findall(r'^\.BR ([a-z_]+) " \(', text_of("man", "verbena.toml.5"), re.MULTILINE)
        self.assertEqual(len(described), len(set(described)))
        self.assertEqual(set(described), settings())

    def test_page_has_no_default_that_the_help_has_not(self):
        text = text_of("man", "verbena.toml.5")
        for key, default in re.findall(r"--([a-z-]+) [A-Z]+\s[^-]*?\(default ([0-9]+[A-Z]?)[)]",
                                       verbena("serve", "--help").stdout):
            entry = text.split(f".BR {key.replace('-', '_')} ", 1)[1].split("\n.TP", 1)[0]
            self.assertIn(f"The default is {default}", entry)

    def test_example_is_read(self):
        with tempfile.TemporaryDirectory() as place:
            example = text_of("systemd", "verbena.toml").replace("/var/lib/verbena", place).replace(":7471", ":0")
            path = os.path.join(place, "verbena.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(example)
            os.mkdir(os.path.join(place, "store"))
            with subprocess.Popen([support.VERBENA, "serve", "--config", path, "--data", os.path.join(place, "store"),
                                   "--quiet"], stdout=subprocess.PIPE, text=True) as server:
                line = server.stdout.readline()
                server.terminate()
                self.assertEqual(server.wait(support.SECONDS), 0)
            self.assertRegex(line, r"^ready 127\.0\.0\.1:")

    def test_example_has_only_settings(self):
        keys = re.findall(r"^(?:# )?([a-z_]+) = ", text_of("systemd", "verbena.toml"), re.MULTILINE)
        self.assertLessEqual(set(keys), settings())
        self.assertEqual(keys[0], "data")


class Signals(unittest.TestCase):
    def serve(self, *words):
        server = subprocess.Popen([*words, support.VERBENA, "serve", "--memory", "64M", "--listen", "127.0.0.1:0"],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        for line in server.stdout:
            if line.startswith("ready "):
                return server
        self.fail("the server has not started")

    def test_those_that_come_together_end_it_in_order(self):
        """As timeout(1) sends them: to the command, and to the process group."""
        for number in range(10):
            server = self.serve()
            server.send_signal(signal.SIGTERM)
            time.sleep(number * 0.0003)  # it must be running for both to be delivered
            server.send_signal(signal.SIGTERM)
            said, _ = server.communicate(timeout=support.SECONDS)
            self.assertEqual(server.returncode, 0)
            self.assertIn("ended after", said)

    def test_nohup(self):
        server = self.serve("nohup")
        server.send_signal(signal.SIGHUP)
        with self.assertRaises(subprocess.TimeoutExpired):
            server.wait(0.5)
        server.terminate()
        self.assertEqual(server.wait(support.SECONDS), 0)


class Units(unittest.TestCase):
    def test_are_valid(self):
        need_program("systemd-analyze")
        for unit in ("system", "user"):
            with open(os.path.join(BUILD, "src/store_cli", unit, "verbena-serve.service"), encoding="utf-8") as file:
                text = file.read()
            self.assertNotIn("@CMAKE", text)
            with tempfile.TemporaryDirectory() as place:
                path = os.path.join(place, "verbena-serve.service")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(re.sub(r"^ExecStart=\S+", f"ExecStart={support.VERBENA}", text, flags=re.MULTILINE))
                # Pages are looked for on this machine, where they are not.
                words = ["systemd-analyze", "verify", "--man=no", *(["--user"] if unit == "user" else []), path]
                done = call(words, env={**os.environ, "XDG_RUNTIME_DIR": place})
                said = [line for line in done.stderr.splitlines() if "verbena" in line]
                self.assertEqual((done.returncode, said), (0, []), done.stderr)

    def test_system_unit_is_confined(self):
        need_program("systemd-analyze")
        path = os.path.join(BUILD, "src/store_cli/system/verbena-serve.service")
        done = call(["systemd-analyze", "security", "--offline=yes", "--threshold=25", path])
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr)


if __name__ == "__main__":
    BUILD = sys.argv.pop(2)
    support.main()
