#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the store's commands say of stores that they do not take, or not yet: the reason, and a status that fits it.

store_refused.py VERBENA
"""
import os
import shutil
import subprocess

import support
from store import FULL, NO_STORE, NOT_DONE, USAGE, StoreTest, content
from support import call

ROUNDS = int(os.environ.get("ROUNDS", "12"))


class NewFolders(StoreTest):
    def test_of_many_at_once(self):
        """None of four finds no store because another has made it meanwhile."""
        for i in range(ROUNDS):
            self.data = self.path(f"store {i}")
            puts = [subprocess.Popen([support.VERBENA, "put", "--data", self.data, "--wait", "50", "/dev/null", f"{j}"],
                                     stderr=subprocess.PIPE) for j in range(4)]
            said = [process.communicate(timeout=support.SECONDS)[1] for process in puts]
            self.assertEqual([process.returncode for process in puts], [0] * 4, said)
            shutil.rmtree(self.data)

    def test_in_a_fresh_file_system(self):
        os.makedirs(os.path.join(self.data, "lost+found"))
        self.put(b"abc", "a")
        self.assertEqual(self.get("a"), b"abc")

    def test_that_have_only_some_of_the_folders_of_a_store(self):
        self.put(b"", "a")
        os.mkdir(self.path("other"))
        self.file("other/mine", b"")
        said = self.expect(NO_STORE, "put", "--wait", "30", "--data", self.path("other"), "/dev/null", "a")
        self.assertIn("does not exist or is empty", said)


class Refused(StoreTest):
    def test_for_a_hard_link(self):
        """It is as it was written: not damaged. Commands that read take it."""
        self.put(b"abc", "a")
        os.link(self.store_files()[0], self.path("link"))
        self.assertIn("hard link", self.put(b"x", "b", status=NOT_DONE))
        self.assertEqual(self.get("a"), b"abc")

    def test_for_lack_of_room_for_holes(self):
        self.put(b"abc", "a")
        os.mkdir(self.path("disk"))
        # A copy with holes takes less than the store: until it is written to.
        done = call([*support.own_namespaces(), "sh", "-c", 'mount -t tmpfs -o size=40m none "$1/disk" && '
                     'cp -r --sparse=always "$1/store" "$1/disk" && "$0" put --data "$1/disk/store" /dev/null b',
                     support.VERBENA, self.place])
        self.assertEqual(done.returncode, FULL, done.stderr)
        self.assertIn("no space to fill", done.stderr)

    def test_where_a_folder_cannot_be_read(self):
        words = support.as_nobody()
        self.put(b"", "a")
        os.chmod(self.place, 0o755)
        for command in (["ls"], ["rm", "a"], ["put", "/dev/null", "b"], ["inspect"], ["scrub"], ["salvage", self.path("new")]):
            done = call([*words, support.VERBENA, command[0], "--data", self.data, *command[1:]])
            self.assertEqual(done.returncode, NOT_DONE, (command, done.stderr))
            self.assertIn("Permission denied", done.stderr)
            self.assertNotIn("no store", done.stderr)

    def test_in_bytes_and_not_in_chunks(self):
        self.file("large", content(60_000_000))
        said = self.expect(FULL, "put", "--capacity", "64M", self.path("large"), "a")
        self.assertRegex(said, r"needs [\d.]+ \wiB, and [\d.]+ \wi?B.* are free")
        self.assertNotIn("chunk", said)


class Folders(StoreTest):
    """Commands on a store as a whole take it as the others do."""

    def test_by_option_and_by_variable(self):
        self.put(b"abc", "a")
        env = {**os.environ, "VERBENA_DATA": self.data}
        for i, command in enumerate((["scrub"], ["inspect"], ["salvage"])):
            target = [self.path(f"new {i}")] if command == ["salvage"] else []
            self.assertEqual(call([support.VERBENA, *command, *target], env=env).returncode, 0)
            if target:
                shutil.rmtree(target[0])
            self.expect(0, *command, *target)
            if target:
                self.assertEqual(support.verbena("salvage", "--data", self.data, self.data, "x").returncode, USAGE)
                self.assertEqual(support.verbena("salvage", self.path("x")).returncode, USAGE)
            self.assertEqual(call([support.VERBENA, *command, *(target or [self.data])]).returncode, USAGE if target else 0)

    def test_of_another_user_stay_theirs(self):
        words = support.as_nobody()
        os.chmod(self.place, 0o755)
        os.mkdir(self.data)
        shutil.chown(self.data, 65534, 65534)
        self.assertEqual(call([*words, support.VERBENA, "put", "--data", self.data, "-", "a"], input="mine").returncode, 0)
        os.remove(os.path.join(self.data, "lock"))
        self.put(content(70_000_000), "large")  # takes another file
        self.assertGreater(len(self.store_files()), 1)
        done = call([*words, support.VERBENA, "put", "--data", self.data, "-", "b"], input="mine, too")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(call([*words, support.VERBENA, "get", "--data", self.data, "b", "-"]).stdout, "mine, too")
        # And one that root makes in another's folder.
        shutil.rmtree(self.data)
        os.mkdir(self.data)
        shutil.chown(self.data, 65534, 65534)
        self.put(b"", "a")
        self.assertEqual(call([*words, support.VERBENA, "put", "--data", self.data, "-", "b"], input="x").returncode, 0)

    def test_keep_the_permissions_of_their_files(self):
        self.put(b"", "a")
        os.chmod(self.store_files()[0], 0o640)
        self.put(content(70_000_000), "large")
        self.assertEqual({os.stat(path).st_mode & 0o777 for path in self.store_files()}, {0o640})


if __name__ == "__main__":
    support.main()
