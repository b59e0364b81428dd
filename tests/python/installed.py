#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The package as `cmake --install` leaves it: it finds its library, fsspec finds it, and the example runs with it. Exits
with 77 where there is no fsspec: skipped.

installed.py BUILD
"""
import os
import subprocess
import sys
import tempfile

try:
    import fsspec  # noqa: F401  # pylint: disable=unused-import
except ImportError:
    print("fsspec is not installed (python3-fsspec)")
    sys.exit(77)

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/put_get.py")
SAID = """\
put 13 bytes, CRC be444409
read "chunk"
got Hello, chunk
and goodbye
          13 greeting
"""
PROGRAM = """
import fsspec, verbena
assert verbena.__file__.startswith({prefix!r}), verbena.__file__
with fsspec.open("verbena://127.0.0.1:{port}/a", "wb") as file:
    file.write(b"installed")
with verbena.Client(port={port}) as client:
    print(bytes(client.get("a")).decode())
"""


def run(arguments, folders):
    return subprocess.run(["/usr/bin/python3", *arguments], env=dict(os.environ, PYTHONPATH=folders), capture_output=True,
                          text=True, timeout=120, check=False)


def check(port, prefix, folders):
    done = run(["-c", PROGRAM.format(prefix=prefix, port=port)], folders)
    assert (done.returncode, done.stdout) == (0, "installed\n"), done
    done = run([EXAMPLE, "127.0.0.1", str(port)], folders)
    assert (done.returncode, done.stdout, done.stderr) == (0, SAID, ""), done
    # A failure is one line.
    done = run([EXAMPLE, "127.0.0.1", "0"], folders)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "put_get: invalid: 0 is not a port\n"), done


def main(build):
    for name in list(os.environ):
        if name.startswith("VERBENA_") or name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH"):
            del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="verbena-python-") as prefix:
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], stdout=subprocess.DEVNULL, timeout=120,
                       check=True)
        folders = os.path.join(prefix, "lib/python3/dist-packages")
        server = subprocess.Popen([os.path.join(prefix, "bin/verbena"), "serve", "--memory", "64M", "--listen",
                                   "127.0.0.1:0", "--quiet"], stdout=subprocess.PIPE, text=True)
        try:
            port = int(server.stdout.readline().rsplit(":", 1)[1])
            check(port, prefix, folders)
        finally:
            server.terminate()
            server.communicate(timeout=60)
        version = next(name for name in os.listdir(folders) if name.endswith(".dist-info"))
        # Both say the same.
        with open(os.path.join(folders, "verbena/__init__.py"), encoding="utf-8") as file:
            assert f'__version__ = "{version.split("-")[1][:-len(".dist")]}"' in file.read(), version


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
