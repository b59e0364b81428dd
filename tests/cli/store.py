#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The `verbena` command on a store in a folder: put, get, ls, stat, rm, cp, mv, inspect, scrub, salvage.

store.py VERBENA
"""
import fcntl
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest

import support
from support import call

CHUNK = 4048
# What verbena-store(1) says.
NOT_DONE, USAGE, NO_OBJECT, DAMAGED, FULL, IN_USE, NO_STORE, EXISTS = 1, 2, 3, 4, 5, 6, 7, 8


def content(size, seed=1):
    return random.Random(seed).randbytes(size)


class StoreTest(unittest.TestCase):
    """A folder with room for a store and for files, and commands on it."""

    @classmethod
    def setUpClass(cls):
        # Under AddressSanitizer, looking for leaks takes seconds on some machines; unit tests have it.
        os.environ["ASAN_OPTIONS"] = "detect_leaks=0"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name
        self.data = self.path("store")

    def path(self, name):
        return os.path.join(self.place, name)

    def file(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run_raw(self, command, *arguments, **options):
        return subprocess.run([support.VERBENA, command, "--data", self.data, *arguments], capture_output=True,
                              timeout=support.SECONDS, check=False, **options)

    def run_text(self, command, *arguments, **options):
        return call([support.VERBENA, command, "--data", self.data, *arguments], **options)

    def expect(self, status, command, *arguments, **options):
        """Runs it; its standard error, if it exits so."""
        done = self.run_text(command, *arguments, **options)
        self.assertEqual(done.returncode, status, (command, arguments, done.stderr))
        return done.stderr

    def json(self, command, *arguments, status=0, **options):
        done = self.run_text(command, "--json", *arguments, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    def put(self, data, name, *arguments, status=0):
        done = self.run_raw("put", *arguments, "--", "-", name, input=data)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr.decode()

    def get(self, name, *arguments):
        done = self.run_raw("get", *arguments, "--", name, "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def names(self):
        return [entry["name"] for entry in self.json("ls")["objects"]]

    def store_files(self, data=None):
        data = data or self.data
        return [os.path.join(data, name) for name in sorted(os.listdir(data)) if name.startswith("blocks.")]

    def damage(self, bytes_of_object, flip_at):
        """Flips a bit of the stored bytes that are like these."""
        for path in self.store_files():
            with open(path, "r+b") as file:
                at = file.read().find(bytes_of_object)
                if at >= 0:
                    file.seek(at + flip_at)
                    byte = file.read(1)[0]
                    file.seek(at + flip_at)
                    file.write(bytes([byte ^ 1]))
                    return
        self.fail("those bytes are in no file")


class RoundTrips(StoreTest):
    SIZES = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 4096, 3 * CHUNK, 100_000, 1024 * CHUNK, 1024 * CHUNK + 1, 9_000_001)

    def test_of_files_and_pipes(self):
        for size in self.SIZES:
            data = content(size, size)
            source = self.file("source", data)
            self.expect(0, "put", "--quiet", source, f"file {size}")
            self.expect(0, "get", f"file {size}", self.path("target"))
            self.assertEqual(self.read("target"), data)
            self.put(data, f"pipe {size}")
            self.assertEqual(self.get(f"pipe {size}"), data)
        self.assertEqual(len(self.names()), 2 * len(self.SIZES))
        self.assertIn("no damage", call([support.VERBENA, "scrub", self.data]).stdout)

    def test_of_files_in_the_working_directory(self):
        data = content(10_000)
        self.file("source", data)
        self.expect(0, "put", "source", "a", cwd=self.place)
        for _ in ("new", "replaced"):
            self.expect(0, "get", "a", "target", cwd=self.place)
            self.assertEqual(self.read("target"), data)
        self.expect(0, "get", "-r", "", ".", cwd=self.place)
        self.assertEqual(self.read("a"), data)

    def test_of_pipes_that_come_in_small_pieces(self):
        data = content(300_000)
        with subprocess.Popen([support.VERBENA, "put", "--data", self.data, "-", "a"], stdin=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as process:
            for at in range(0, len(data), 7001):
                process.stdin.write(data[at:at + 7001])
                process.stdin.flush()
            process.stdin.close()
            self.assertEqual(process.wait(support.SECONDS), 0)
        self.assertEqual(self.get("a"), data)

    def test_of_parts(self):
        data = bytearray(content(50_000))
        self.put(data, "a")
        self.put(b"x" * 10_000, "a", "--offset", "5000")
        data[5000:15_000] = b"x" * 10_000
        self.put(b"end", "a", "--append")
        data += b"end"
        self.assertEqual(self.get("a"), data)
        self.assertEqual(self.get("a", "--offset", "4K", "--length", "10K"), data[4096:4096 + 10_240])
        self.assertEqual(self.get("a", "--offset", "49999"), data[49_999:])
        self.assertEqual(self.get("a", "--offset", str(len(data))), b"")
        self.expect(USAGE, "get", "--offset", str(len(data) + 1), "a", "-")
        self.put(b"y", "hole", "--offset", "10000")
        self.assertEqual(self.get("hole"), bytes(10_000) + b"y")
        self.put(b"first", "appended", "--append")
        self.assertEqual(self.get("appended"), b"first")

    def test_over_several_folders(self):
        data = content(20_000_000)
        folders = ["--data", self.path("one"), "--data", self.path("two")]
        done = subprocess.run([support.VERBENA, "put", *folders, "-", "a"], input=data, capture_output=True, check=True)
        self.assertIn(b"created a new store in", done.stderr)
        self.assertTrue(self.store_files(self.path("one")) and self.store_files(self.path("two")))
        back = [folders[2], folders[3], folders[0], folders[1]]  # in any order
        done = subprocess.run([support.VERBENA, "get", *back, "a", "-"], capture_output=True, check=True)
        self.assertEqual(done.stdout, data)
        self.assertIn("no damage", call([support.VERBENA, "scrub", folders[1], folders[3]]).stdout)
        self.assertIn("give all of them", call([support.VERBENA, "ls", "--data", folders[1]]).stderr)
        env = {**os.environ, "VERBENA_DATA": f"{folders[1]}:{folders[3]}"}
        self.assertIn("19.1 MiB", call([support.VERBENA, "ls"], env=env).stdout)

    def test_staged_and_each_piece_synced(self):
        data = content(3_000_000)
        self.put(data, "a", "--kind", "staged", "--sync", "each")
        self.put(data, "b", "--sync", "each")
        self.assertEqual(self.get("a"), data)
        self.assertEqual(self.get("b"), data)


class Objects(StoreTest):
    HOSTILE = ("a b", " ", "-", "--", "--json", "-x", ".", "..", "../../etc/passwd", "/", "[a]", "[a,b]", "%s%n", "$(false)",
               "*", "'", '"', "\\", "käse/größe", "日本語", "🦀", "{}", "1:", ":1", "1:2:3", "0x:1", "-1:1", "x" * 1000)
    REFUSED = ("", "a\nb", "\x1b[2J", "x" * 1001, "0:0", "18446744073709551616:1", "0xffffffffffffffff:1")

    def test_of_any_name(self):
        for name in self.HOSTILE:
            self.put(name.encode(), name)
        self.assertEqual(sorted(self.names()), sorted(self.HOSTILE))
        for name in self.HOSTILE:
            self.assertEqual(self.get(name), name.encode())
        shown = self.json("stat", "--", *self.HOSTILE)["objects"]
        self.assertEqual([entry["name"] for entry in shown], list(self.HOSTILE))
        self.expect(0, "rm", "--", *self.HOSTILE)
        self.assertEqual(self.names(), [])

    def test_that_cannot_be(self):
        self.put(b"", "a")
        for name in self.REFUSED:
            self.put(b"", name, status=USAGE)
            for command in (["get", "--", name, "-"], ["stat", "--", name], ["rm", "--", name], ["cp", "--", "a", name]):
                self.expect(USAGE, *command)
        raw = self.run_raw("put", "/dev/null", b"\xff")
        self.assertEqual(raw.returncode, USAGE)
        self.assertIn(b"\\xff", raw.stderr)
        self.assertEqual(self.names(), ["a"])

    def test_by_number(self):
        self.put(b"one", "7:42")
        self.put(b"two", "0x10:0xff", "--name", "two")
        self.assertEqual(self.get("0x7:0x2A"), b"one")
        self.assertEqual(self.get("two"), b"two")
        listed = self.json("ls")["objects"]
        self.assertEqual([(entry["id"], entry["name"], entry["size"]) for entry in listed], [("7:42", None, 3), ("16:255", "two", 3)])
        self.assertIn("another object has the name", self.put(b"x", "9:9", "--name", "two", status=EXISTS))
        self.put(b"three", "16:255", "--name", "three")
        self.assertEqual(self.get("three"), b"three")
        self.put(b"", "a", "--name", "b", status=USAGE)
        self.put(b"", "1:1", "--name", "2:2", status=USAGE)

    def test_are_replaced(self):
        self.put(b"long and old", "a")
        before = self.json("stat", "a")["objects"][0]
        self.put(b"new", "a")
        after = self.json("stat", "a")["objects"][0]
        self.assertEqual(self.get("a"), b"new")
        self.assertEqual((after["id"], after["created"]), (before["id"], before["created"]))
        self.put(b"newer", "a", "--new", status=EXISTS)
        self.assertEqual(self.get("a"), b"new")

    def test_are_listed(self):
        for name in ("b/2", "a", "b/1", "c"):
            self.put(b"x" * 20_000, name)
        self.assertEqual(self.names(), ["a", "b/1", "b/2", "c"])
        self.assertEqual([entry["name"] for entry in self.json("ls", "b/")["objects"]], ["b/1", "b/2"])
        self.assertRegex(self.run_text("ls", "b/1").stdout, r"^ +SIZE  MODIFIED +OBJECT\n  19.5 KiB  [-\d]+ [:\d]+  b/1\n$")
        self.assertRegex(self.run_text("ls", "--bytes", "--quiet", "b/1").stdout, r"^ +20000  [-\d]+ [:\d]+  b/1\n$")
        self.assertEqual(self.run_text("ls", "none").stdout, "")
        self.assertEqual(self.json("ls", "none"), {"objects": [], "errors": []})

    def test_are_cloned_and_renamed(self):
        data = content(100_000)
        self.put(data, "a")
        self.expect(0, "cp", "a", "b")
        self.put(b"new", "a")
        self.assertEqual(self.get("b"), data)
        self.assertIn("--replace", self.expect(EXISTS, "cp", "a", "b"))
        self.expect(0, "cp", "--replace", "a", "b")
        self.assertEqual(self.get("b"), b"new")
        self.put(data, "a")
        self.expect(0, "cp", "--range", "1000:5000", "--into", "--to", "2", "a", "b")
        self.assertEqual(self.get("b"), b"ne" + data[1000:6000])
        self.expect(0, "cp", "--range", "99000:", "a", "3:4", "--name", "tail")
        self.assertEqual(self.get("tail"), data[99_000:])
        self.expect(USAGE, "cp", "--range", "99000:1001", "a", "c")
        self.expect(USAGE, "cp", "--range", "x", "a", "c")
        self.expect(NO_OBJECT, "cp", "none", "c")
        self.expect(0, "mv", "a", "z")
        self.expect(EXISTS, "mv", "z", "b")
        self.expect(0, "mv", "tail", "--no-name")
        self.expect(USAGE, "mv", "z")
        self.assertEqual(self.names(), [None, "b", "z"])

    def test_share_what_they_have_in_common(self):
        self.put(content(1_000_000), "a")
        used = self.space()["used_chunks"]
        self.expect(0, "cp", "a", "b")
        self.assertEqual(self.space()["used_chunks"], used)
        segments = self.json("stat", "--segments", "b")["objects"][0]["segment_list"]
        self.assertTrue(segments and all(segment["shared"] for segment in segments))
        self.assertEqual(sum(segment["size"] for segment in segments), 1_000_000)

    def space(self):
        return json.loads(support.verbena("inspect", "--json", self.data).stdout)["space"]

    def test_that_are_not_there(self):
        self.put(b"", "a")
        self.expect(NO_OBJECT, "get", "none", self.path("target"))
        self.assertFalse(os.path.exists(self.path("target")))
        self.expect(NO_OBJECT, "mv", "none", "b")
        self.assertIn("none: no such object", self.expect(NO_OBJECT, "stat", "none", "a"))
        found = self.json("rm", "none", "a", status=NO_OBJECT)
        self.assertEqual([entry["name"] for entry in found["removed"]], ["a"])
        self.assertEqual([(error["code"], error["object"]) for error in found["errors"]], [("not-found", "none")])
        self.expect(0, "rm", "--force", "none")


class Refusals(StoreTest):
    def test_of_command_lines(self):
        for arguments in (["put"], ["put", "x"], ["get", "a"], ["rm"], ["ls", "--nothing"], ["put", "/dev/null", "a", "b"],
                          ["put", "--offset", "x", "/dev/null", "a"], ["put", "--offset", "1", "--append", "/dev/null", "a"],
                          ["put", "--kind", "x", "/dev/null", "a"], ["put", "--sync", "x", "/dev/null", "a"],
                          ["put", "--capacity", "x", "/dev/null", "a"], ["put", "--capacity", "1M", "/dev/null", "a"],
                          ["ls", "--wait", "-1"], ["ls", "--wait", "nan"], ["get", "--length", "-1", "a", "-"]):
            self.assertNotEqual(self.expect(USAGE, *arguments), "")
        for command in ("put", "get"):
            done = support.verbena(command, "/dev/null", "a")
            self.assertEqual(done.returncode, USAGE)
            self.assertIn("--data", done.stderr)
        for command in ("scrub", "inspect", "salvage"):
            self.assertEqual(support.verbena(command).returncode, USAGE)
        self.assertFalse(os.path.exists(self.data))

    def test_where_there_is_no_store(self):
        for command in (["get", "a", "-"], ["ls"], ["stat", "a"], ["rm", "a"], ["cp", "a", "b"], ["mv", "a", "b"]):
            self.assertIn("`verbena put` creates one", self.expect(NO_STORE, *command))
        for command in ("scrub", "inspect"):
            self.assertEqual(support.verbena(command, self.data).returncode, NO_STORE)
        self.assertEqual(support.verbena("salvage", self.data, self.path("new")).returncode, NO_STORE)
        self.assertEqual(os.listdir(self.place), [])
        self.data = self.place
        self.file("mine", b"")
        self.assertIn("does not exist or is empty", self.put(b"", "a", status=NO_STORE))
        self.assertEqual(os.listdir(self.place), ["mine"])

    def test_of_files_that_cannot_be_read(self):
        self.expect(NOT_DONE, "put", self.path("none"), "a")
        self.expect(NOT_DONE, "put", self.place, "a")
        self.assertIn("standard input", self.expect(NOT_DONE, "put", "-", "a", preexec_fn=lambda: os.close(0)))
        self.assertFalse(os.path.exists(self.data))

    def test_of_files_that_cannot_be_written(self):
        self.put(b"abc", "a")
        for target in (self.place, self.path("none/x"), "/dev/full", "/proc/x", ""):
            self.assertNotEqual(self.expect(NOT_DONE, "get", "a", target), "")
        with open("/dev/full", "w", encoding="utf-8") as full:
            for arguments in (["get", "a", "-"], ["ls"], ["ls", "--json"], ["stat", "a"]):
                done = subprocess.run([support.VERBENA, arguments[0], "--data", self.data, *arguments[1:]], stdout=full,
                                      stderr=subprocess.PIPE, timeout=support.SECONDS, check=False)
                self.assertEqual(done.returncode, NOT_DONE, arguments)
                self.assertIn(b"No space left", done.stderr)
        for arguments in (["get", "a", "-"], ["ls"]):
            done = self.run_text(*arguments, preexec_fn=lambda: os.close(1))
            self.assertEqual(done.returncode, NOT_DONE, arguments)
            self.assertIn("Bad file descriptor", done.stderr)

    def test_of_pipes_that_nobody_reads(self):
        self.put(content(3_000_000), "a")
        with subprocess.Popen([support.VERBENA, "get", "--data", self.data, "a", "-"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            self.assertEqual(len(process.stdout.read(10)), 10)
            process.stdout.close()
            said = process.stderr.read()
            self.assertEqual(process.wait(support.SECONDS), NOT_DONE)
            self.assertIn(b"Broken pipe", said)
            self.assertIn(b"bytes were written, all verified", said)
            # Those that were read, and what the pipe held.
            self.assertGreaterEqual(int(re.search(rb"(\d+) of 3000000 bytes", said).group(1)), 4096)

    def test_where_somebody_may_not_write(self):
        words = support.as_nobody()
        self.put(b"abc", "a")
        os.chmod(self.place, 0o755)
        done = call([*words, support.VERBENA, "ls", "--data", self.data])
        self.assertEqual(done.returncode, NOT_DONE)
        self.assertIn("Permission denied", done.stderr)
        done = call([*words, support.VERBENA, "put", "--data", self.path("other"), "/dev/null", "a"])
        self.assertEqual(done.returncode, NOT_DONE)
        self.assertIn("Permission denied", done.stderr)
        os.mkdir(self.path("own"))
        shutil.chown(self.path("own"), 65534, 65534)
        own = ["--data", self.path("own/store")]
        self.assertEqual(call([*words, support.VERBENA, "put", *own, "-", "a"], input="mine").returncode, 0)
        self.assertEqual(call([*words, support.VERBENA, "get", *own, "a", "-"]).stdout, "mine")

    def test_of_a_store_in_use(self):
        self.put(b"old", "a")
        # As a command that writes has it: those are too short to be met at it.
        with open(os.path.join(self.data, "lock"), "r+", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            for command in (["get", "a", "-"], ["ls"], ["rm", "a"], ["put", "/dev/null", "b"]):
                self.assertIn(f"process {os.getpid()}", self.expect(IN_USE, *command, "--wait", "0"))
            self.assertEqual(self.json("ls", "--wait", "0.1", status=IN_USE)["errors"][0]["code"], "in-use")
            self.assertEqual(support.verbena("inspect", "--wait", "0", self.data).returncode, IN_USE)
            self.assertIn("no damage", support.verbena("scrub", self.data).stdout)
        self.assertEqual(self.get("a"), b"old")

    def test_of_nobody_who_waits(self):
        """Four at once, on a store that the first of them makes."""
        puts = [subprocess.Popen([support.VERBENA, "put", "--data", self.data, "--wait", "50", "/dev/null", f"{i}"],
                                 stderr=subprocess.PIPE) for i in range(4)]
        said = [process.communicate(timeout=support.SECONDS)[1] for process in puts]
        self.assertEqual([process.returncode for process in puts], [0] * 4, said)
        self.assertEqual(self.names(), ["0", "1", "2", "3"])

    def test_of_more_than_there_is_room_for(self):
        small = ["--capacity", "64M"]
        data = content(20_000_000)
        self.put(data, "a", *small)
        said = self.put(content(60_000_000), "b", *small, status=FULL)
        self.assertIn("b: the store is full", said)
        self.put(content(60_000_000), "a", *small, status=FULL)
        self.assertEqual(self.names(), ["a"])
        self.assertEqual(self.get("a"), data)
        self.put(data, "b", *small)
        self.expect(0, "rm", "b")
        self.put(data, "c", *small)
        self.assertEqual(self.get("c"), data)


class FullDisks(StoreTest):
    """Small file systems in memory, mounted for one shell alone."""

    def shell(self, size, script):
        os.makedirs(self.path("disk"), exist_ok=True)
        begin = f'set -e; mount -t tmpfs -o size={size} none "$0/disk"; cd "$0"; set +e\n'
        words = [*support.own_namespaces(), "sh", "-c", begin + script, self.place, support.VERBENA]
        done = call(words)
        return done.stdout, done.stderr

    def test_of_a_file(self):
        self.put(content(3_000_000), "a")
        out, said = self.shell("1m", '"$1" get --data store a disk/target; echo $?; ls -A disk')
        self.assertEqual(out, f"{NOT_DONE}\n")
        self.assertIn("disk/target: cannot be written: No space left on device", said)

    def test_of_a_store(self):
        self.file("small", content(20_000_000))
        self.file("large", content(60_000_000))
        out, said = self.shell("80m", """
            "$1" put --data disk/store small a; echo $?
            "$1" put --data disk/store large b; echo $?
            "$1" put --data disk/store large a; echo $?
            "$1" get --data disk/store a - | cmp - small; echo $?
            "$1" put --data disk/store small c; echo $?
            "$1" scrub --quiet disk/store; echo $?""")
        self.assertEqual(out.split(), ["0", f"{FULL}", f"{FULL}", "0", "0", "0"], said)
        out, said = self.shell("10m", '"$1" put --data disk/store small a; echo $?')
        self.assertEqual(out, f"{FULL}\n", said)


class Damage(StoreTest):
    def setUp(self):
        super().setUp()
        self.bytes = content(100_000)
        self.put(self.bytes, "a")
        self.put(b"well", "b")
        self.id = self.json("stat", "a")["objects"][0]["id"]
        self.at = 3 * CHUNK
        self.damage(self.bytes[self.at:self.at + CHUNK], 100)

    def test_never_reaches_a_file(self):
        self.file("target", b"before")
        said = self.expect(DAMAGED, "get", "a", self.path("target"))
        self.assertRegex(said, rf"a: object {self.id} is damaged at offset {self.at} .*CRC is 0x\w+, expected 0x\w+\n")
        self.assertEqual(self.read("target"), b"before")
        self.expect(DAMAGED, "get", "a", self.path("other"))
        self.assertEqual(sorted(os.listdir(self.place)), ["store", "target"])
        self.assertEqual(self.get("b"), b"well")

    def test_is_told_to_scripts(self):
        found = self.json("get", "a", self.path("target"), status=DAMAGED)
        error = found["errors"][0]
        self.assertEqual((error["code"], error["object"]), ("damaged", "a"))
        self.assertEqual((error["damage"]["object"], error["damage"]["offset"]), (self.id, self.at))
        self.assertEqual(set(error["damage"]), {"object", "offset", "chunk", "field", "expected", "actual"})

    def test_is_not_written_to_pipes(self):
        done = self.run_raw("get", "--json", "a", "-")
        self.assertEqual(done.returncode, DAMAGED)
        self.assertEqual(done.stdout, self.bytes[:len(done.stdout)])
        self.assertIn(f"{len(done.stdout)} of 100000 bytes were written, all verified".encode(), done.stderr)
        self.assertEqual(json.loads(done.stderr[done.stderr.index(b"{"):])["errors"][0]["code"], "damaged")
        self.assertEqual(self.get("a", "--length", str(self.at)), self.bytes[:self.at])

    def test_is_zeros_for_who_wants_the_rest(self):
        found = self.json("get", "--keep-going", "a", self.path("target"), status=DAMAGED)
        self.assertEqual((found["bytes_read"], found["bytes_zeroed"]), (100_000, CHUNK))
        self.assertEqual(self.read("target"), self.bytes[:self.at] + bytes(CHUNK) + self.bytes[self.at + CHUNK:])

    def test_is_found_by_scrub(self):
        done = support.verbena("scrub", self.data)
        self.assertEqual(done.returncode, DAMAGED)
        self.assertRegex(done.stdout, rf"^object {self.id} at offset {self.at} \(chunk \d+\): .*CRC is 0x\w+, expected 0x\w+\n")
        found = json.loads(support.verbena("scrub", "--json", self.data).stdout)
        self.assertEqual((found["damaged"], len(found["damage"]), found["errors"][0]["code"]), (1, 1, "damaged"))

    def test_is_left_behind_by_salvage(self):
        new = self.path("new")
        done = support.verbena("salvage", self.data, new)
        self.assertEqual(done.returncode, DAMAGED, done.stderr)
        self.assertIn("copied 2 objects", done.stdout)
        self.assertEqual(support.verbena("salvage", self.data, new).returncode, EXISTS)
        self.data = new
        self.assertEqual(self.get("b"), b"well")
        self.assertIn("no damage", support.verbena("scrub", new).stdout)
        self.assertEqual(sorted(os.listdir(self.place)), ["new", "store"])


class Salvage(StoreTest):
    def test_of_a_store_without_superblocks(self):
        data = {name: content(30_000, name) for name in ("new", "replaced", "appended", "clone")}
        self.put(b"old", "replaced")
        self.put(data["new"], "new")
        self.put(data["replaced"], "replaced")
        self.put(data["appended"][:10_000], "appended")
        self.put(data["appended"][10_000:], "appended", "--append")
        self.put(data["clone"], "original")
        self.expect(0, "cp", "original", "clone")
        self.put(b"another", "original")
        self.expect(0, "rm", "original")
        with open(self.store_files()[0], "r+b") as file:
            for at in (0, 8 << 20):  # the beginnings of blocks 0 and 1
                file.seek(at)
                file.write(bytes(4096))
        self.expect(DAMAGED, "ls")
        self.put(b"", "a", status=DAMAGED)  # and no new store over it
        done = support.verbena("salvage", self.data, self.path("salvaged"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("guessed: the log cannot be read", done.stdout)
        self.data = self.path("salvaged")
        self.assertEqual({name: self.get(name) for name in self.names()}, data)


class Inspect(StoreTest):
    def test_shows_a_store(self):
        self.put(content(50_000), "a")
        self.put(b"x", "7:42")
        done = support.verbena("inspect", "--segments", self.data)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for wanted in (r"closed +cleanly", r"objects +2", r"space .* used, .* free of", r"7:42", r"OFFSET +SIZE +CHUNK"):
            self.assertRegex(done.stdout, wanted)
        found = json.loads(support.verbena("inspect", "--json", "--segments", self.data).stdout)
        self.assertEqual([entry["id"] for entry in found["objects"]][:1], ["7:42"])
        self.assertTrue(found["opening"]["clean"])
        self.assertGreater(found["space"]["free_chunks"], 0)
        self.assertEqual(found["errors"], [])


class Help(unittest.TestCase):
    COMMANDS = ("put", "get", "ls", "stat", "rm", "cp", "mv", "truncate", "cat", "du", "df", "sync", "flush", "range", "verify",
                "inspect", "scrub", "compact", "salvage", "serve", "ping", "bench")

    def test_is_there_for_each(self):
        overview = support.verbena("--help").stdout
        for command in self.COMMANDS:
            done = support.verbena(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"\n  verbena {command} ", done.stdout)  # an example
            self.assertIn("Exit status: ", done.stdout)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)
            self.assertRegex(overview, rf"\n  {command} ")


if __name__ == "__main__":
    support.main()
