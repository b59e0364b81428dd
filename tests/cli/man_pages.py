#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man pages of the commands, as they are installed, compared with the help of each command.

man_pages.py VERBENA BUILD
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import support
from support import call, need_program, verbena

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = ""


def commands_of_help():
    return re.findall(r"^  ([a-z]+) +[A-Z]", verbena("--help").stdout, re.MULTILINE)


def options_of_help(*command):
    """All names of each option: -h, --help, ..."""
    text = verbena(*command, "--help").stdout
    found = re.findall(r"^  (-[\w,-]+)", text[text.index("\nOptions:"):], re.MULTILINE)
    return [name for names in found for name in names.split(",")]


def plain(line):
    """A line without its font macro and escapes."""
    macro = re.match(r"\.([BI]|[BIR]{2}) (.*)", line)
    if macro:
        words = [quoted or word for quoted, word in re.findall(r'"([^"]*)"|(\S+)', macro[2])]
        line = (" " if len(macro[1]) == 1 else "").join(words)
    return re.sub(r"\\f[BIRP]|\\[&:]", "", line).replace("\\-", "-")


class Page:
    """A page's sections, each a list of entries (paragraphs, or lines of the synopsis), each a list of lines."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.sections = {}
        entries = []
        for line in lines:
            if line.startswith(".SH "):
                entries = self.sections[line[4:]] = [[]]
            elif line in (".TP", ".PP", ".br") or line.startswith(".SS "):
                entries.append([])
            elif entries and (not line.startswith(".") or re.match(r"\.([BI]|[BIR]{2}) ", line)):
                entries[-1].append(plain(line))

    def entries(self, *sections):
        return [entry for section in sections for entry in self.sections.get(section, []) if entry]

    def options(self, *sections):
        """What has an entry of its own: the names of its first line."""
        return {name for entry in self.entries(*sections) for name in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", entry[0])
                if entry[0].startswith("-")}

    def about(self, command):
        """What the page says of the options of a command: in its own lines, and in those for all that the page is about."""
        synopsis = [entry for entry in self.entries("SYNOPSIS") if re.match(rf"verbena {command}\b", " ".join(entry))]
        own = [entry for entry in self.entries("DESCRIPTION", "COMMANDS") if command in re.split(r", ", entry[0])]
        options = self.entries("OPTIONS", "OPTIONS OF BOTH", f"OPTIONS OF {command.upper()}")
        return "\n".join(line for entry in synopsis + own + options for line in entry)


class ManPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = commands_of_help()
        assert len(cls.commands) > 20
        work = tempfile.mkdtemp(prefix="verbena-man-")
        cls.addClassCleanup(shutil.rmtree, work)
        for folder in ("cli", "store_cli"):
            subprocess.run(["cmake", "--install", os.path.join(BUILD, "src", folder), "--prefix", work], check=True,
                           capture_output=True, timeout=support.SECONDS)
        cls.man = os.path.join(work, "share", "man")

    def path_of(self, command):
        """The page of a command: its own, or the one that it is a link to."""
        path = os.path.join(self.man, "man1", f"verbena-{command}.1")
        self.assertTrue(os.path.exists(path), f"no man page for verbena {command}")
        with open(path, encoding="utf-8") as file:
            link = re.fullmatch(r"\.so (man1/\S+)\n", file.read())
        return os.path.join(self.man, link[1]) if link else path

    def test_each_command_has_one(self):
        for command in self.commands:
            with self.subTest(command):
                page = Page(self.path_of(command))
                names = " ".join(page.entries("NAME")[0]).split(" - ")[0].split(", ")
                self.assertIn(f"verbena-{command}", names)
                synopsis = [" ".join(entry) for entry in page.entries("SYNOPSIS")]
                self.assertTrue(any(re.match(rf"verbena {command}\b", line) for line in synopsis), synopsis)

    def test_it_has_each_option_of_the_help(self):
        for command in self.commands:
            text = Page(self.path_of(command)).about(command)
            for option in options_of_help(command):
                with self.subTest(command, option=option):
                    self.assertRegex(text, rf"(?<![\w-]){re.escape(option)}(?![\w-])")

    def test_it_has_no_option_that_the_help_has_not(self):
        known = {}
        for command in self.commands:
            known.setdefault(self.path_of(command), set(options_of_help())).update(options_of_help(command))
        for path, options in known.items():
            page = Page(path)
            described = page.options(*(name for name in page.sections if name.startswith("OPTIONS")))
            self.assertGreater(len(described), 1, path)
            self.assertLessEqual(described, options, path)

    def test_the_first_page_names_each_command(self):
        page = Page(os.path.join(self.man, "man1", "verbena.1"))
        synopsis = " ".join(line for entry in page.entries("SYNOPSIS") for line in entry)
        described = [word for entry in page.entries("DESCRIPTION") for word in entry[0].split(", ")]
        for command in self.commands:
            with self.subTest(command):
                self.assertRegex(synopsis, rf"\b{command}\b")
                self.assertEqual(described.count(command), 1)
        self.assertLessEqual(set(options_of_help()), page.options("OPTIONS"))

    def test_man_finds_no_mistake(self):
        need_program("man")
        folder = os.path.join(ROOT, "man")
        for name in sorted(os.listdir(folder)):
            with self.subTest(name):
                done = call(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", os.path.join(folder, name)])
                self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(2))
    support.main()
