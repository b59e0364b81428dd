#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`verbena serve --backend dir:PATH`: a server that is a cache for a directory of ordinary files.

store_behind.py VERBENA
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import support
from store import CHUNK, DAMAGED, IN_USE, NO_OBJECT, StoreTest, content
from store_served import Served


class Behind(Served):
    """Nothing is flushed unless it is asked for, or must be."""
    FLUSH_AFTER = "1000"

    def setUp(self):
        StoreTest.setUp(self)
        self.server, self.address = None, "127.0.0.1:0"
        self.tier = self.path("tier")
        os.mkdir(self.tier)

    def serve(self, *options):
        self.start(*self.backend(), *options)

    def backend(self):
        return "--backend", "dir:" + self.tier, "--flush-after", self.FLUSH_AFTER

    def file_of(self, name):
        with open(os.path.join(self.tier, name), "rb") as file:
            return file.read()

    def behind(self, name):
        return self.json("stat", name)["objects"][0]["behind"]


class InFrontOfADirectory(Behind):
    def test_objects_are_files(self):
        self.serve()
        sizes = (0, 1, 512, CHUNK - 1, CHUNK, CHUNK + 1, 300_000, (5 << 20) + 7)
        for size in sizes:
            self.put(content(size), f"sizes/{size}")
        self.assertFalse(self.behind("sizes/300000")["flushed"])
        self.assertFalse(os.path.exists(os.path.join(self.tier, "sizes/300000")))
        self.expect(0, "flush", "sizes/300000")
        self.assertEqual(self.file_of("sizes/300000"), content(300_000))
        self.assertFalse(os.path.exists(os.path.join(self.tier, "sizes/512")), "only that one")
        self.expect(0, "flush")
        for size in sizes:
            self.assertEqual(self.file_of(f"sizes/{size}"), content(size))
            self.assertTrue(self.behind(f"sizes/{size}")["flushed"])
        self.expect(0, "evict")
        self.assertEqual(self.behind("sizes/300000")["cached_bytes"], 0)
        self.assertGreaterEqual(self.behind("sizes/300000")["only_behind_bytes"], 300_000)
        for size in sizes:
            self.assertEqual(self.get(f"sizes/{size}"), content(size))
        self.expect(0, "rm", "sizes/512")
        self.expect(0, "mv", "sizes/300000", "moved")
        self.expect(0, "cp", "moved", "copied")
        self.assertEqual(self.stop(), 0)
        self.assertFalse(os.path.exists(os.path.join(self.tier, "sizes/512")))
        self.assertFalse(os.path.exists(os.path.join(self.tier, "sizes/300000")))
        self.assertEqual(self.file_of("moved"), content(300_000))
        self.assertEqual(self.file_of("copied"), content(300_000))

    def test_the_directory_alone_is_enough(self):
        self.serve()
        self.put(content(1_000_000), "x")
        self.put(content(100), "y")
        self.assertEqual(self.stop(), 0)
        shutil.rmtree(self.data)
        with open(os.path.join(self.tier, "by another program"), "wb") as file:
            file.write(content(200_000))
        self.serve()
        self.assertEqual(self.get("x"), content(1_000_000))
        self.assertEqual(self.get("y"), content(100))
        self.assertEqual(self.get("by another program"), content(200_000))

    def test_a_kill_loses_nothing(self):
        self.serve()
        self.put(content(1_000_000), "x")
        self.expect(0, "flush")
        self.put(content(2_000_000), "x")
        self.put(content(50_000), "new")
        self.stop(signal.SIGKILL)
        self.assertEqual(self.file_of("x"), content(1_000_000))
        self.serve()
        self.assertEqual(self.get("x"), content(2_000_000))
        self.assertFalse(self.behind("x")["flushed"], "it is known to be newer")
        self.assertEqual(self.stop(), 0)
        self.assertEqual(self.file_of("x"), content(2_000_000))
        self.assertEqual(self.file_of("new"), content(50_000))

    def test_more_than_the_memory(self):
        self.data = None
        objects = {f"object {i}": content((3 << 20) + i) for i in range(12)}
        self.start(*self.backend(), "--memory", "24M")
        for name, data in objects.items():
            self.put(data, name)
        for name, data in objects.items():
            self.assertEqual(self.get(name), data, name)
        self.expect(0, "flush")
        self.stop(signal.SIGKILL)
        self.start(*self.backend(), "--memory", "24M")
        for name, data in objects.items():
            self.assertEqual(self.get(name), data, name)

    def start(self, *options):
        if self.data is not None:
            return super().start(*options)
        self.server = subprocess.Popen(
            [support.VERBENA, "serve", "--listen", "127.0.0.1:0", "--quiet", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.stop)
        self.address = self.server.stdout.readline().split()[1]
        return None

    def test_one_server_at_a_time(self):
        self.serve()
        other = support.verbena("serve", "--memory", "16M", "--listen", "127.0.0.1:0", "--backend", "dir:" + self.tier)
        self.assertEqual(other.returncode, IN_USE, other.stderr)
        self.assertIn(str(self.server.pid), other.stderr)
        self.stop(signal.SIGKILL)
        self.serve()

    def test_damage_behind_is_an_error_and_not_data(self):
        self.serve()
        self.put(content(1_000_000), "x")
        self.put(content(1_000_000), "y")
        self.expect(0, "flush")
        self.expect(0, "evict")
        path = os.path.join(self.tier, "x")
        times = os.stat(path)
        with open(path, "r+b") as file:
            file.seek(500_000)
            byte = file.read(1)[0]
            file.seek(500_000)
            file.write(bytes([byte ^ 1]))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertEqual(self.run_raw("get", "x", "-").returncode, DAMAGED)
        self.assertEqual(self.get("y"), content(1_000_000))

    def test_changed_by_another_program(self):
        self.serve()
        self.put(content(1_000_000), "x")
        self.put(content(1_000_000), "y")
        self.expect(0, "flush")
        self.expect(0, "evict")
        for name in ("x", "y"):
            with open(os.path.join(self.tier, name), "wb") as file:
                file.write(content(700_000)[::-1])
        self.run_raw("get", "x", "-")  # is told that it is shorter than it was
        self.assertEqual(self.get("x"), content(700_000)[::-1])
        self.stop()
        os.remove(os.path.join(self.tier, "y"))
        self.serve()
        self.expect(NO_OBJECT, "stat", "y")

    def test_a_flush_that_fails(self):
        if os.geteuid() == 0:
            words = support.as_nobody()
            os.chmod(self.tier, 0o777)
            os.chmod(os.path.dirname(self.tier), 0o777)
        else:
            words = []
        self.server = subprocess.Popen(
            [*words, support.VERBENA, "serve", "--data", self.data, *self.backend(), "--listen", "127.0.0.1:0",
             "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.stop)
        line = self.server.stdout.readline().split()
        self.assertEqual(line[:1], ["ready"], self.server.stderr.read() if not line else line)
        self.address = line[1]
        run = lambda *command, **more: subprocess.run(  # noqa: E731
            [*words, support.VERBENA, command[0], "--server", self.address, *command[1:]], capture_output=True,
            timeout=support.SECONDS, check=False, **more)
        self.assertEqual(run("put", "-", "x", input=content(100_000)).returncode, 0)
        hidden = os.path.join(self.tier, ".verbena", "tmp")
        os.chmod(hidden, 0)
        failed = run("flush")
        self.assertNotEqual(failed.returncode, 0)
        self.assertIn("ermission denied", failed.stderr.decode())
        self.assertEqual(run("get", "x", "-").stdout, content(100_000))
        os.chmod(hidden, 0o777)
        self.assertEqual(run("flush").returncode, 0)
        self.assertEqual(self.file_of("x"), content(100_000))

    def test_another_reader_sees_the_same(self):
        """The one that is written from the format's description alone."""
        self.serve()
        for size in (0, 100, CHUNK, 1_000_000):
            self.put(content(size), f"x{size}")
        self.expect(0, "flush")
        self.expect(0, "evict")
        self.expect(0, "truncate", "x1000000", "700000")
        self.put(content(300_000), "new")
        self.run_raw("get", f"x{CHUNK}", "-")
        self.put(content(500_000), "replaced")
        self.put(content(600_000), "y")
        self.expect(0, "flush")
        self.expect(0, "evict", "y")
        self.expect(0, "cp", "--replace", "y", "replaced")
        self.expect(0, "mv", "y", "moved")
        shown = {name: self.behind(name) for name in ("x0", "x100", f"x{CHUNK}", "x1000000", "new", "replaced", "moved")}
        self.assertEqual(self.stop(), 0)
        reader = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../store/reader/reader.py")
        done = support.call([sys.executable, "-B", reader, "--check", self.data])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        objects = {one["name"]: one for one in json.loads(done.stdout)["objects"]}
        for name, behind in shown.items():
            self.assertEqual(objects[name]["behind"] * CHUNK, behind["only_behind_bytes"], name)
            self.assertEqual(objects[name]["chunks"] * CHUNK, behind["cached_bytes"], name)

    def test_by_itself_after_a_while(self):
        self.FLUSH_AFTER = "0.1"
        self.serve()
        self.put(content(100_000), "x")
        until = time.monotonic() + support.SECONDS
        while not os.path.exists(os.path.join(self.tier, "x")):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)

    def test_without_what_is_behind(self):
        self.serve()
        for name in ("x", "y", "z"):
            self.put(content(1_000_000), name)
        self.put(content(1_000_000), "here")
        self.expect(0, "flush", "x")
        self.expect(0, "flush", "y")
        self.expect(0, "evict")
        self.stop(signal.SIGKILL)
        local = lambda *words: subprocess.run(  # noqa: E731
            [support.VERBENA, words[0], "--data", self.data, *words[1:]], capture_output=True,
            timeout=support.SECONDS, check=False)
        got = local("get", "x", "-")
        self.assertNotEqual(got.returncode, 0, "and not zeros")
        self.assertIn("behind the cache", got.stderr.decode())
        self.assertNotEqual(local("verify", "x").returncode, 0)
        self.assertEqual(local("get", "here", "-").stdout, content(1_000_000))
        self.assertEqual(local("scrub").returncode, 0)
        for words in (("rm", "x"), ("mv", "x", "w")):
            refused = local(*words)
            self.assertNotEqual(refused.returncode, 0, words)
            self.assertIn("--backend", refused.stderr.decode())
        self.assertEqual(local("rm", "z").returncode, 0, "it was never behind")
        salvaged = local("salvage", self.path("salvaged"))
        self.assertIn("only behind it as a cache", (salvaged.stdout + salvaged.stderr).decode())
        self.serve()
        self.assertEqual(self.get("x"), content(1_000_000))
        self.expect(NO_OBJECT, "stat", "z")

    def test_a_salvaged_store_removes_nothing_behind(self):
        """It does not know that the object is behind under the name that it had before."""
        self.serve()
        self.put(content(1_000_000), "x")
        self.expect(0, "flush")
        self.expect(0, "evict")
        self.expect(0, "mv", "x", "y")
        self.stop(signal.SIGKILL)
        salvaged = self.path("salvaged")
        done = support.verbena("salvage", "--data", self.data, salvaged)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("copied 1 object", done.stdout + done.stderr)
        self.data = salvaged
        self.serve()
        self.expect(0, "flush")
        self.assertEqual(self.file_of("x"), content(1_000_000))

    def test_a_put_larger_than_the_cache(self):
        self.put_larger_than("--cache-size", "24M")

    def test_a_put_larger_than_the_memory(self):
        self.data = None
        self.put_larger_than("--memory", "24M")

    def put_larger_than(self, *options):
        self.start(*self.backend(), *options)
        for size in (60_000_000, 70_000_001):  # a new object, and one that is replaced
            self.put(content(size), "big")
            self.assertEqual(self.get("big"), content(size))
            self.expect(0, "flush")
            self.assertEqual(self.file_of("big"), content(size))
        self.assertEqual(self.ids_behind(), [], "nothing is left of what was on its way")

    def ids_behind(self):
        path = os.path.join(self.tier, ".verbena", "ids")
        return os.listdir(path) if os.path.exists(path) else []

    def test_larger_than_the_cache_moved_and_copied(self):
        with open(os.path.join(self.tier, "big"), "wb") as file:
            file.write(content(60_000_000))
        self.serve("--cache-size", "24M")
        self.put(content(100_000), "small")
        self.expect(0, "mv", "big", "moved")
        self.assertEqual(self.file_of("big"), content(60_000_000), "until it is flushed")
        self.expect(NO_OBJECT, "stat", "big")
        self.assertEqual(self.get("moved"), content(60_000_000))
        self.put(content(200_000), "big")  # which needs the place of the other one
        self.expect(0, "cp", "moved", "copied")
        self.expect(0, "cp", "--replace", "moved", "small")
        self.stop(signal.SIGKILL)
        self.serve("--cache-size", "24M")
        expected = {"moved": 60_000_000, "copied": 60_000_000, "small": 60_000_000, "big": 200_000}
        for name, size in expected.items():
            self.assertEqual(self.get(name), content(size), name)
        self.expect(0, "flush")
        for name, size in expected.items():
            self.assertEqual(self.file_of(name), content(size), name)
        self.assertEqual(self.ids_behind(), [])

    def test_names_that_are_exchanged(self):
        self.serve()
        self.put(content(300_000), "x")
        self.put(content(400_000), "y")
        self.expect(0, "flush")
        self.expect(0, "evict")
        for words in (("x", "z"), ("y", "x"), ("z", "y")):
            self.expect(0, "mv", *words)
        self.expect(0, "flush")
        self.assertEqual(self.file_of("x"), content(400_000))
        self.assertEqual(self.file_of("y"), content(300_000))
        self.assertEqual(self.ids_behind(), [])

    def test_a_kill_during_a_put_larger_than_the_cache(self):
        self.serve("--cache-size", "24M")
        self.put(content(1_000_000), "big")
        self.expect(0, "flush")
        put = subprocess.Popen([support.VERBENA, "put", "--server", self.address, "-", "big"],
                               stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(put.wait)
        self.addCleanup(put.kill)
        put.stdin.write(content(60_000_000))  # and there may be more to come
        until = time.monotonic() + support.SECONDS
        while not self.ids_behind():
            self.assertIsNone(put.poll())
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        self.stop(signal.SIGKILL)
        put.kill()  # it would begin again
        put.communicate()
        # Whoever opens the store without what is behind can use it all the same.
        local = subprocess.run([support.VERBENA, "put", "--data", self.data, "-", "other"], input=content(1000),
                               capture_output=True, timeout=support.SECONDS, check=False)
        self.assertEqual(local.returncode, 0, local.stderr.decode())
        self.serve("--cache-size", "24M")
        self.assertEqual(self.get("big"), content(1_000_000))
        self.expect(0, "flush")
        self.assertEqual(self.file_of("big"), content(1_000_000))
        self.assertEqual(self.ids_behind(), [])

    def test_a_server_that_is_no_cache(self):
        self.start()
        self.put(content(100), "x")
        self.expect(0, "flush")
        refused = self.run_text("evict")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("--backend", refused.stderr)


if __name__ == "__main__":
    support.main()
