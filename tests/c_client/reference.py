#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of the libraries, compared with their headers: calls, structures, constants; and the links to the pages, as they
are installed.

reference.py SOURCE BUILD
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SECONDS = 60
SOURCE = BUILD = ""
INIT = "VERBENA_DEFINE_INIT"


def text_of(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def squeezed(text):
    return re.sub(r"\s", "", text)


class Header:
    def __init__(self, name):
        text = re.sub(r"/\*.*?\*/", "", text_of("include", "verbena", name), flags=re.DOTALL)
        self.structs = {name: self.members(body)
                        for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.MULTILINE | re.DOTALL)}
        self.enums = {name: {each.split("=")[0].strip() for each in body.split(",") if each.strip()}
                      for name, body in re.findall(r"^enum (\w+) \{(.*?)\};", text, re.MULTILINE | re.DOTALL)}
        removed = set(re.findall(r"^#undef (\w+)", text, re.MULTILINE))
        self.macros = set(re.findall(r"^#define (VERBENA_\w+)[ (].", text, re.MULTILINE)) - removed
        # Declarations as they are, of calls that the header defines as well.
        self.calls = {name: declared for declared, name in
                      re.findall(r"^(?:static inline )?([a-z][\w ]*[ *]+(verbena_\w+)\([^)]*\))", text, re.MULTILINE)}
        for name in re.findall(rf"^{INIT}\((\w+)\)", text, re.MULTILINE):
            self.calls[f"{name}_init"] = f"struct {name} {name}_init(void)"

    @staticmethod
    def members(body):
        names = set()
        for declared in body.split(";"):
            function = re.search(r"\(\*(\w+)\)", declared)
            if function:
                names.add(function[1])
            elif declared.strip():
                names.update(re.findall(r"(\w+)(?:\[\w+\])?\s*(?:,|$)", declared))
        return names


class Page:
    def __init__(self, name):
        self.sections = {}
        for section in re.split(r"^\.SH ", text_of("man", name), flags=re.MULTILINE)[1:]:
            title, body = section.split("\n", 1)
            self.sections[title] = body.replace("\\-", "-")

    def parts(self):
        """The parts (.SS) of all sections, and of those that have none the section itself, by name."""
        for title, body in self.sections.items():
            for part in re.split(r"^\.SS ", f"{title}\n{body}", flags=re.MULTILINE):
                yield part.split("\n", 1)

    def tags(self, part):
        """What is described in a part: of each entry, the first line."""
        found = set()
        for title, body in self.parts():
            if title == part:
                for line in re.findall(r"^\.TP\n\.(?:[BI]|[BIR]{2}) (.*)", body, re.MULTILINE):
                    found.update(re.findall(r"\w+", line))
        return found

    def prototypes(self):
        lines = re.findall(r"^\.BI? (.*)", self.sections["SYNOPSIS"], re.MULTILINE)
        words = ["".join(quoted or word for quoted, word in re.findall(r'"([^"]*)"|(\S+)', line)) for line in lines]
        return set(re.findall(r"[^;>]+(?=;)", squeezed("".join(words))))

    def described(self):
        return "\n".join(body for title, body in self.sections.items() if title not in ("NAME", "SYNOPSIS"))


class Reference:
    """The tests of one page; HEADER, FOLDER and PAGE are its own."""
    HEADER = FOLDER = PAGE = ""
    ELSEWHERE = {}  # the section of an enumeration that has no part of its own

    @classmethod
    def setUpClass(cls):
        cls.header = Header(cls.HEADER)
        cls.page = Page(cls.PAGE)

    def test_calls(self):
        """Each has its declaration in the synopsis, and is mentioned behind it."""
        self.assertEqual(self.page.prototypes(), {squeezed(declared) for declared in self.header.calls.values()})
        for name in self.header.calls:
            with self.subTest(name):
                self.assertRegex(self.page.described(), rf"\b{name} ?\(")

    def test_structures(self):
        for name, members in self.header.structs.items():
            with self.subTest(name):
                self.assertEqual(self.page.tags(f"struct {name}"), members)

    def test_enumerations(self):
        for name, constants in self.header.enums.items():
            with self.subTest(name):
                self.assertEqual(self.page.tags(self.ELSEWHERE.get(name, f"enum {name}")), constants)
                self.assertIn(f"enum {name}", self.page.described())

    def test_macros(self):
        tags = {tag for title, _ in self.page.parts() for tag in self.page.tags(title)}
        self.assertLessEqual(self.header.macros, tags)

    def test_links(self):
        with tempfile.TemporaryDirectory(prefix="verbena-reference-") as place:
            subprocess.run(["cmake", "--install", os.path.join(BUILD, "src", self.FOLDER), "--prefix", place], check=True,
                           capture_output=True, timeout=SECONDS)
            folder = os.path.join(place, "share", "man", "man3")
            found = set(os.listdir(folder))
            self.assertEqual(found, {self.PAGE, *(f"{name}.3" for name in [*self.header.calls, *self.header.structs])})
            for name in found - {self.PAGE}:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    self.assertEqual(file.read(), f".so man3/{self.PAGE}\n")

    def test_man_finds_no_mistake(self):
        if shutil.which("man") is None:
            self.skipTest("man is not installed")
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", os.path.join(SOURCE, "man", self.PAGE)],
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.stderr, "")


class Client(Reference, unittest.TestCase):
    HEADER, FOLDER, PAGE = "client.h", "c_client", "verbena-client.3"
    ELSEWHERE = {"verbena_status": "ERRORS"}

    def test_the_header_is_read(self):
        """What all comparisons are made with."""
        self.assertEqual(len(self.header.structs), 12)
        self.assertEqual(self.header.structs["verbena_io_options"], {"size", "flags", "crc"})
        self.assertLess({"eager_min_ns", "eager_mean_ns"}, self.header.structs["verbena_ping"])
        self.assertLess({"callback", "queue", "buffer"}, self.header.structs["verbena_request"])
        self.assertEqual(set(self.header.enums),
                         {"verbena_status", "verbena_access", "verbena_io_flags", "verbena_operation"})
        self.assertLess({"VERBENA_OK", "VERBENA_AGAIN"}, self.header.enums["verbena_status"])
        self.assertEqual(self.header.macros, {"VERBENA_CLIENT_VERSION"})
        self.assertLess({"verbena_name", "verbena_by_id", "verbena_request_init", "verbena_submit"}, set(self.header.calls))


class Indirect(Reference, unittest.TestCase):
    HEADER, FOLDER, PAGE = "indirect.h", "indirect", "verbena-indirect.3"

    def test_the_header_is_read(self):
        self.assertEqual(len(self.header.calls), 6)
        self.assertEqual(self.header.structs["verbena_indirect_mr"], {"lkey", "rkey"})
        self.assertIn("access_flags", self.header.structs["verbena_indirect_reg"])


if __name__ == "__main__":
    SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main(verbosity=2)
