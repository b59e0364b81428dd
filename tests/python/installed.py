#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The package as `cmake --install` leaves it: it finds its library, and fsspec finds it. Exits with 77 where there is no
fsspec: skipped.

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

PROGRAM = """
import fsspec, verbena
assert verbena.__file__.startswith({prefix!r}), verbena.__file__
with fsspec.open("verbena://127.0.0.1:{port}/a", "wb") as file:
    file.write(b"installed")
with verbena.Client(port={port}) as client:
    print(bytes(client.get("a")).decode())
"""


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
            done = subprocess.run(["/usr/bin/python3", "-c", PROGRAM.format(prefix=prefix, port=port)], text=True,
                                  env=dict(os.environ, PYTHONPATH=folders), stdout=subprocess.PIPE, timeout=120,
                                  check=True)
            assert done.stdout == "installed\n", done.stdout
        finally:
            server.terminate()
            server.communicate(timeout=60)
        version = next(name for name in os.listdir(folders) if name.endswith(".dist-info"))
        # Both say the same.
        with open(os.path.join(folders, "verbena/__init__.py"), encoding="utf-8") as file:
            assert f'__version__ = "{version.split("-")[1][:-len(".dist")]}"' in file.read(), version


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
