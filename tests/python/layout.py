#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The structures of verbena._library are those of <verbena/client.h>, member by member, as the compiler has them; and
so are statuses and flags.

layout.py INCLUDE
"""
import ctypes
import os
import subprocess
import sys
import tempfile
import unittest

from verbena import _library, errors

INCLUDE = ""
STRUCTURES = {"verbena_id": _library.Id, "verbena_object": _library.Object, "verbena_options": _library.Options,
              "verbena_limits": _library.Limits, "verbena_ping": _library.Ping, "verbena_info": _library.Info,
              "verbena_clone_options": _library.CloneOptions, "verbena_list_options": _library.ListOptions,
              "verbena_io_options": _library.IoOptions, "verbena_transfer": _library.Transfer}
FLAGS = {"VERBENA_IO_CRC": _library.IO_CRC, "VERBENA_IO_REPEATABLE": _library.IO_REPEATABLE,
         "VERBENA_IO_NEW": _library.IO_NEW, "VERBENA_IO_DURABLE": _library.IO_DURABLE}


class Layout(unittest.TestCase):
    def test_structures_and_flags(self):
        lines = ["#include <verbena/client.h>"]
        for name, structure in STRUCTURES.items():
            lines.append(f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(structure)}, "size of {name}");')
            for field in structure._fields_:
                offset = getattr(structure, field[0]).offset
                lines.append(f'_Static_assert(offsetof(struct {name}, {field[0]}) == {offset}, "{name}.{field[0]}");')
        for name, value in FLAGS.items():
            lines.append(f'_Static_assert({name} == {value}, "{name}");')
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "layout.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            done = subprocess.run(["cc", "-std=c11", "-fsyntax-only", f"-I{INCLUDE}", source], capture_output=True,
                                  text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_statuses(self):
        """Each has an exception of its own, with the library's word for it."""
        library = _library.library()
        for status in range(100):
            word = library.status_name(status).decode()
            if word in ("ok", "again", "unknown-status"):
                self.assertNotIn(status, errors.KINDS)
                continue
            self.assertEqual(errors.KINDS[status].word, word)
            self.assertEqual(errors.error_of(status, "text").strerror, "text")


if __name__ == "__main__":
    INCLUDE = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
