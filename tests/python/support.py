# SPDX-License-Identifier: Apache-2.0
"""A server for each test case, in memory, on the built-in device."""
import hashlib
import os
import subprocess
import sys
import unittest

SECONDS = 60
VERBENA = ""


def main():
    """The first argument is the command `verbena`; unittest gets the others."""
    global VERBENA
    sys.modules["support"] = sys.modules.get("support", sys.modules[__name__])
    VERBENA = sys.modules["support"].VERBENA = os.path.abspath(sys.argv.pop(1))
    for name in list(os.environ):
        if name.startswith("VERBENA_") and name != "VERBENA_CLIENT_LIBRARY" or name in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
            del os.environ[name]
    unittest.main(module="__main__", verbosity=2)


def content(size, seed=1):
    """Bytes that do not repeat."""
    return hashlib.shake_128(str(seed).encode()).digest(size)


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([VERBENA, "serve", "--memory", "128M", "--listen", "127.0.0.1:0", "--quiet",
                                         *options], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=SECONDS)

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=SECONDS)


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)
