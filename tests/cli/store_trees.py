#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store's commands on many objects, and on what they hold: put -r, --batch, get -r, rm -r, sync, ls in pages, cat, du, df,
verify, CRCs and sparse files.

store_trees.py VERBENA
"""
import os
import subprocess

import support
from store import CHUNK, DAMAGED, EXISTS, NO_OBJECT, NO_STORE, NOT_DONE, USAGE, StoreTest, content


def crc32_bzip2(data):
    """CRC-32/BZIP2, a byte at a time."""
    table = []
    for value in range(256):
        value <<= 24
        for _ in range(8):
            value = (value << 1 ^ 0x04C11DB7 if value & 0x80000000 else value << 1) & 0xFFFFFFFF
        table.append(value)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc << 8 & 0xFFFFFFFF) ^ table[crc >> 24 ^ byte]
    return crc ^ 0xFFFFFFFF


class TreeTest(StoreTest):
    FILES = {"a": b"of a", "b/1": b"", "b/2": content(10_000), "b/c/deep": content(5 * CHUNK), "käse": b"x", "z z": b"y"}

    def tree(self, name, files):
        for path, data in files.items():
            whole = os.path.join(self.path(name), path)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "wb") as file:
                file.write(data)
        return self.path(name)

    def read_tree(self, name):
        found = {}
        for folder, _, names in os.walk(self.path(name)):
            for file in names:
                path = os.path.join(folder, file)
                with open(path, "rb") as opened:
                    found[os.path.relpath(path, self.path(name))] = opened.read()
        return found


class Trees(TreeTest):
    def test_there_and_back(self):
        self.tree("from", self.FILES)
        for prefix, expected in (("p", "p/"), ("q/", "q/"), ("", "")):
            self.expect(0, "put", "-r", self.path("from"), prefix)
            self.assertEqual([name for name in self.names() if name.startswith(expected)][:len(self.FILES)]
                             if expected else sorted(set(self.names()) & set(self.FILES)),
                             sorted(expected + name for name in self.FILES))
            target = self.path("to " + prefix.strip("/"))
            self.expect(NOT_DONE if prefix == "none" else 0, "get", "-r", prefix, target)
            found = self.read_tree(target)
            if prefix:
                self.assertEqual(found, self.FILES)
        found = self.json("put", "-r", self.path("from"), "p")
        self.assertEqual((found["objects_written"], found["bytes_written"]),
                         (len(self.FILES), sum(map(len, self.FILES.values()))))
        found = self.json("rm", "-r", "p/")
        self.assertEqual(len(found["removed"]), len(self.FILES))
        self.assertEqual([name for name in self.names() if name.startswith("p/")], [])
        self.assertIn("q/a", self.names())
        self.expect(NO_OBJECT, "rm", "-r", "p")
        self.expect(0, "rm", "-r", "--force", "p")
        self.expect(USAGE, "rm", "-r", "")

    def test_leave_out_what_is_no_file(self):
        self.tree("from", {"a": b"a"})
        os.symlink("/etc/passwd", self.path("from/link"))
        os.symlink("..", self.path("from/up"))
        os.mkfifo(self.path("from/pipe"))
        said = self.expect(0, "put", "-r", self.path("from"), "p")
        for name in ("link", "up", "pipe"):
            self.assertIn(f"from/{name}: skipped", said)
        self.assertEqual(self.names(), ["p/a"])

    def test_name_what_cannot_be_stored(self):
        self.tree("from", {"a": b"a", "line\nfeed": b"b", "z": b"z"})
        said = self.expect(USAGE, "put", "-r", self.path("from"), "p")
        self.assertIn("line\\x0afeed", said)
        self.assertEqual(self.names(), ["p/a", "p/z"])
        self.expect(EXISTS, "put", "--new", "-r", self.path("from"), "p")
        self.expect(NOT_DONE, "put", "-r", self.path("none"), "p")
        for wrong in (["put", "-r", self.path("from")], ["put", "-r", "--append", self.path("from"), "p"],
                      ["get", "-r", "p", "-"], ["get", "-r", "--offset", "1", "p", "x"], ["put", "a", "b", "c"]):
            self.expect(USAGE, *wrong)

    def test_never_leave_the_directory(self):
        for name in ("p/../out", "p//out", "p/./out", "p/ok/../../../out", "p/dir/", "p/" + "x" * 300, "p/fine", "p/link/out",
                     "p//etc/passwd"):
            self.put(b"data", name)
        os.makedirs(self.path("deep/to"))
        os.mkdir(self.path("outside"))
        os.symlink(self.path("outside"), self.path("deep/to/link"))
        os.symlink(self.file("victim", b"as it was"), self.path("deep/to/fine"))
        said = self.expect(NOT_DONE, "get", "-r", "p", self.path("deep/to"))
        for name in ("p/../out", "p//out", "p/./out", "p/ok/../../../out", "p/dir/", "p/" + "x" * 300, "p//etc/passwd"):
            self.assertIn(f"{name}: not written", said)
        self.assertIn("links in the target directory are not followed", said)
        self.assertEqual(self.read("victim"), b"as it was")  # the link was replaced, not what it points to
        self.assertEqual(self.read("deep/to/fine"), b"data")
        self.assertEqual(os.listdir(self.path("outside")), [])
        self.assertEqual(sorted(os.listdir(self.path("deep"))), ["to"])
        self.assertEqual(sorted(os.listdir(self.path("deep/to"))), ["fine", "link"])

    def test_of_a_batch(self):
        lines = []
        for i in range(600):
            lines.append(f"{self.file(f'{i}', str(i).encode())}\tobject {i}")
        found = self.json("put", "--batch", input="\n".join(lines))
        self.assertEqual(found["objects_written"], 600)
        self.assertEqual(len(self.names()), 600)
        self.assertEqual(self.get("object 599"), b"599")
        done = self.run_text("put", "--batch", input=f"{self.path('none')}\tx\nno tab\n{self.path('1')}\t\n{self.path('1')}\tlast\n")
        self.assertEqual(done.returncode, NOT_DONE)
        for wanted in ("none: cannot be read", "line 2: expected FILE, a tab, and OBJECT", "empty"):
            self.assertIn(wanted, done.stderr)
        self.assertEqual(self.get("last"), b"1")
        self.expect(USAGE, "put", "--batch", "a", "b")


class Sync(TreeTest):
    def test_stores_what_has_changed(self):
        self.tree("from", self.FILES)
        args = [self.path("from"), "p"]
        planned = self.json("sync", "--dry-run", *args)
        self.assertEqual((len(planned["put"]), planned["dry_run"]), (len(self.FILES), True))
        self.assertFalse(os.path.exists(self.data))
        self.json("sync", *args)
        self.put(b"else", "p/extra")
        self.put(b"else", "other")
        found = self.json("sync", *args)
        self.assertEqual((found["put"], found["removed"], found["unchanged"]), ([], [], len(self.FILES)))
        # The same size, and another size.
        self.tree("from", {"b/2": content(10_000, 2), "a": b"longer than before", "new": b"n"})
        found = self.json("sync", "--delete", "--dry-run", *args)
        self.assertEqual((found["put"], found["removed"]), (["p/a", "p/b/2", "p/new"], ["p/extra"]))
        self.assertEqual(self.get("p/a"), b"of a")
        done = self.run_text("sync", "--delete", *args)
        self.assertEqual(done.stdout, "put     p/a\nput     p/b/2\nput     p/new\nremove  p/extra\n")
        self.expect(0, "get", "-r", "p", self.path("to"))
        self.assertEqual(self.read_tree("to"), self.read_tree("from"))
        self.assertIn("other", self.names())

    def test_removes_nothing_that_it_could_not_look_for(self):
        words = support.as_nobody()
        os.chmod(self.place, 0o777)
        self.tree("from", {"a": b"a", "closed/b": b"b"})
        everything = [*words, support.VERBENA, "sync", "--data", self.data, "--delete", self.path("from"), "p"]
        self.assertEqual(support.call(everything).returncode, 0)
        os.chmod(self.path("from/closed"), 0o700)
        done = support.call(everything)
        self.assertEqual(done.returncode, NOT_DONE)
        self.assertIn("nothing is removed", done.stderr)
        self.assertEqual(self.names(), ["p/a", "p/closed/b"])


class Views(TreeTest):
    def test_in_pages(self):
        names = [f"{i:03}" for i in range(25)]
        for name in names:
            self.put(b"", name)
        self.put(b"", "7:1")
        self.put(b"", "7:2")
        found, after, pages = [], [], 0
        while True:
            page = self.json("ls", "--limit", "4", *after)
            found += [entry["name"] or entry["id"] for entry in page["objects"]]
            pages += 1
            if "next" not in page:
                break
            after = ["--after", page["next"]]
        self.assertEqual(found, ["7:1", "7:2", *names])
        self.assertEqual(pages, 7)
        page = self.json("ls", "--limit", "2", "--after", "013", "01")
        self.assertEqual([entry["name"] for entry in page["objects"]], ["014", "015"])
        self.assertIn("--after '001'", self.run_text("ls", "--limit", "2", "0").stderr)
        for wrong in ("0", "x", "-1", "1x"):
            self.expect(USAGE, "ls", "--limit", wrong)

    def test_cat(self):
        self.put(b"one ", "a")
        self.put(b"two", "b")
        done = self.run_raw("cat", "a", "none", "b", "a")
        self.assertEqual((done.returncode, done.stdout), (NO_OBJECT, b"one twoone "))
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([support.VERBENA, "cat", "--data", self.data, "a"], stdout=full, stderr=subprocess.PIPE,
                                  timeout=support.SECONDS, check=False)
        self.assertEqual(done.returncode, NOT_DONE)
        self.assertIn(b"No space left", done.stderr)

    def test_du_and_df(self):
        for name, size in (("a", 10), ("p/1", CHUNK), ("p/2", 1), ("p/q/3", 3)):
            self.put(b"x" * size, name)
        found = self.json("du")
        self.assertEqual([(part["name"], part["objects"], part["size"]) for part in found["parts"]],
                         [("a", 1, 10), ("p/", 3, CHUNK + 4)])
        # Few bytes take no chunk.
        self.assertEqual((found["total"]["size"], found["total"]["stored"]), (CHUNK + 14, CHUNK + 14))
        found = self.json("du", "p/")
        self.assertEqual([part["name"] for part in found["parts"]], ["p/1", "p/2", "p/q/"])
        self.assertRegex(self.run_text("du", "--bytes").stdout, r"SIZE +STORED +OBJECTS +NAME\n +10 +10 +1  a\n(.*\n)*.*  total\n$")
        space = self.json("df")
        self.assertEqual(space["used"], CHUNK)
        self.assertEqual(space["size"], space["used"] + space["free"] + space["pending"])
        self.assertEqual(space["files"], sum(map(os.path.getsize, self.store_files())))
        self.assertRegex(self.run_text("df").stdout, r"SIZE +USED +FREE +USE% +FILES +STORE\n.* 1% .*/store\n$")
        self.assertEqual(support.verbena("df", self.path("none")).returncode, NO_STORE)

    def test_compact(self):
        self.put(content(100 << 20), "large")
        self.put(content(CHUNK, 3), "small")
        before = self.json("df")["files"]
        modified = self.json("stat", "small")["objects"][0]["modified"]
        self.expect(0, "rm", "large")
        self.assertEqual(self.json("df")["files"], before)
        found = self.json("compact")
        self.assertEqual((found["bytes_before"], found["complete"]), (before, True))
        self.assertEqual(self.json("df")["files"], found["bytes"])
        self.assertLess(found["bytes"], before)
        self.assertEqual(sum(map(os.path.getsize, self.store_files())), found["bytes"])
        self.assertEqual(self.get("small"), content(CHUNK, 3))
        self.assertEqual(self.json("stat", "small")["objects"][0]["modified"], modified)
        self.assertIn("no damage", support.verbena("scrub", self.data).stdout)
        self.assertRegex(self.run_text("compact").stdout, r"^moved 0 B; the store has 64.* in files, 0 B less than before\n$")

    def test_verify(self):
        data = content(300_000)
        self.put(data, "a")
        self.put(b"well", "b")
        found = self.json("verify", "a", "b")["objects"]
        self.assertEqual([entry["crc32"] for entry in found], [f"{crc32_bzip2(data):08x}", f"{crc32_bzip2(b'well'):08x}"])
        self.damage(data[CHUNK:2 * CHUNK], 5)
        self.damage(data[9 * CHUNK:10 * CHUNK], 5)
        done = self.run_text("verify", "a", "none", "b")
        self.assertEqual(done.returncode, DAMAGED)
        self.assertIn("a: 2 of 75 chunks damaged", done.stdout)
        self.assertIn("b: no damage in 4 B", done.stdout)
        for wanted in (f"at offset {CHUNK} ", f"at offset {9 * CHUNK} ", "none: no such object"):
            self.assertIn(wanted, done.stderr)
        found = self.json("verify", "a", status=DAMAGED)["objects"][0]
        self.assertEqual((found["damaged_chunks"], found["crc32"]), (2, None))

    def test_crc_of_whole_objects(self):
        for size in (0, 1, CHUNK, CHUNK + 1, 100_000):
            self.put(content(size), f"{size}")
            shown = self.json("stat", "--crc", f"{size}")["objects"][0]
            self.assertEqual(shown["crc32"], f"{crc32_bzip2(content(size)):08x}")
        self.put(b"end", "hole", "--offset", "100000")
        data = bytes(100_000) + b"end"
        self.assertIn(f"crc32     {crc32_bzip2(data):08x}", self.run_text("stat", "--crc", "hole").stdout)
        self.assertNotIn("crc32", self.json("stat", "hole")["objects"][0])


class SparseFiles(TreeTest):
    """They stay sparse there and back."""

    def sparse(self, name, size, pieces):
        with open(self.path(name), "wb") as file:
            file.truncate(size)
            for at, data in pieces.items():
                file.seek(at)
                file.write(data)
        if os.stat(self.path(name)).st_blocks * 512 >= size:
            self.skipTest("this file system has no sparse files")
        return self.path(name)

    def test_there_and_back(self):
        size = 300_000_000
        for number, pieces in enumerate(({}, {0: b"begin"}, {100_000_000: content(100_000), 200_000_003: b"x"}, {size - 3: b"end"})):
            source = self.sparse("source", size, pieces)
            self.expect(0, "put", source, f"{number}")
            shown = self.json("stat", f"{number}")["objects"][0]
            self.assertEqual(shown["size"], size)
            self.assertLess(shown["chunks"], 100)
            self.expect(0, "get", f"{number}", self.path("target"))
            self.assertEqual(subprocess.run(["cmp", source, self.path("target")], check=False).returncode, 0)
            self.assertLess(os.stat(self.path("target")).st_blocks * 512, 2_000_000)
        # A part of one; and into a pipe, where there are no holes.
        self.expect(0, "get", "2", self.path("part"), "--offset", "99999990", "--length", "20M")
        self.assertEqual(self.read("part"), (bytes(10) + content(100_000)).ljust(20 << 20, b"\0"))
        done = self.run_raw("get", "2", "-", "--offset", "99999990", "--length", "1M")
        self.assertEqual(done.stdout, (bytes(10) + content(100_000)).ljust(1 << 20, b"\0"))

    def test_into_an_object_write_their_zeros(self):
        source = self.sparse("source", 100_000, {50_000: b"middle"})
        self.put(b"x" * 200_000, "a")
        self.expect(0, "put", "--offset", "0", source, "a")
        self.assertEqual(self.get("a"), self.read("source") + b"x" * 100_000)


if __name__ == "__main__":
    support.main()
