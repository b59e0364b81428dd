# SPDX-License-Identifier: Apache-2.0
"""What the tests of the `verbena` command share: running it, bounded in time."""
import os
import shutil
import subprocess
import sys
import unittest

SECONDS = 60
VERBENA = ""


def main():
    """The first argument is the command; unittest gets the others."""
    global VERBENA
    VERBENA = os.path.abspath(sys.argv.pop(1))
    # What a user's shell may have set is not to be seen here.
    for name in list(os.environ):
        if name.startswith("VERBENA_") or name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "ASAN_OPTIONS"):
            del os.environ[name]
    unittest.main(module="__main__", verbosity=2)


def call(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, **options)


def call_raw(command, **options):
    """The same with bytes."""
    return subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, **options)


def verbena(*arguments, **options):
    return call([VERBENA, *arguments], **options)


def libraries():
    return os.path.join(os.path.dirname(os.path.dirname(VERBENA)), "lib", "verbena")


def read_terminal(terminal):
    """All that is written to it, until nobody has its other side any more."""
    said = b""
    try:
        while piece := os.read(terminal, 10_000):
            said += piece
    except OSError:
        pass  # how a terminal says that the other side is gone
    os.close(terminal)
    return said.decode()


def need_program(name):
    if shutil.which(name) is None:
        raise unittest.SkipTest(f"{name} is not installed")


def as_nobody():
    """The words before a command that make it nobody's."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("becoming another user takes root")
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    if call([*words, VERBENA, "--version"]).returncode != 0:
        raise unittest.SkipTest("nobody cannot reach the build's directory")
    return words


def own_namespaces():
    """The words before a command that give it a user and a mount namespace, as root in there."""
    words = ["unshare", "--user", "--map-root-user", "--mount", "--"]
    if call([*words, "true"]).returncode != 0:
        raise unittest.SkipTest("this system has no user namespaces for us")
    return words
