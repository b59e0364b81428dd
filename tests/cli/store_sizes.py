#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`verbena truncate` and `verbena flush` on a store in a folder.

store_sizes.py VERBENA
"""
import support
from store import CHUNK, NO_OBJECT, NO_STORE, USAGE, StoreTest, content


class Truncate(StoreTest):
    def size_of(self, name):
        return self.json("stat", name)["objects"][0]["size"]

    def test_cuts_off_and_adds_zeros(self):
        data = content(3 * CHUNK)
        self.put(data, "a")
        for size in (2 * CHUNK + 1, CHUNK, CHUNK - 1, 1, 0):
            self.expect(0, "truncate", "a", str(size))
            self.assertEqual(self.get("a"), data[:size])
        self.put(data, "a")
        self.expect(0, "truncate", "a", "20K")
        self.assertEqual(self.get("a"), data + bytes(20 * 1024 - len(data)))
        self.expect(0, "verify", "a")

    def test_leaves_clones_alone(self):
        data = content(100_000)
        self.put(data, "a")
        self.expect(0, "cp", "a", "b")
        self.expect(0, "truncate", "a", "5")
        self.assertEqual(self.get("b"), data)

    def test_makes_a_hole_that_takes_no_space(self):
        self.expect(0, "put", "/dev/null", "a")
        found = self.json("truncate", "a", "1T")["object"]
        self.assertEqual((found["name"], found["size"], found["chunks"]), ("a", 1 << 40, 0))

    def test_creates_an_object_if_told_to(self):
        self.expect(0, "put", "/dev/null", "a")
        for called in ("new", "7:42"):
            self.assertIn("no such object", self.expect(NO_OBJECT, "truncate", called, "1"))
            self.expect(0, "truncate", "--create", called, "100")
            self.assertEqual(self.get(called), bytes(100))
            self.expect(0, "truncate", "--create", called, "10")
            self.assertEqual(self.size_of(called), 10)
        self.assertEqual(len(self.names()), 3)

    def test_says_what_is_wrong(self):
        self.expect(NO_STORE, "truncate", "a", "1")
        self.put(b"abc", "a")
        self.assertIn("SIZE: ", self.expect(USAGE, "truncate", "a", "1X"))
        self.assertIn("SIZE is missing", self.expect(USAGE, "truncate", "a"))
        self.expect(USAGE, "truncate", "a/\n", "1")
        self.assertEqual(self.size_of("a"), 3)


class Flush(StoreTest):
    def test_of_a_folder(self):
        self.expect(NO_STORE, "flush")
        self.put(b"abc", "a")
        self.expect(0, "flush")
        self.assertEqual(self.json("flush"), {"errors": []})
        self.assertEqual(self.get("a"), b"abc")


if __name__ == "__main__":
    support.main()
