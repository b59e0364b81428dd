#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store's commands on a store that `verbena serve` has, over RDMA on the built-in device: the same words, and the
same results as on a directory.

store_served.py VERBENA
"""
import json
import os
import signal
import subprocess
import threading
import time

import support
from store import CHUNK, DAMAGED, EXISTS, IN_USE, NO_OBJECT, USAGE, StoreTest, content
from support import call, verbena

UNREACHABLE = 10


class Served(StoreTest):
    """A server of the test's store, and commands that reach it."""
    OPTIONS = ()

    def setUp(self):
        super().setUp()
        self.server = None
        self.address = "127.0.0.1:0"
        self.start()

    def start(self, *options):
        self.server = subprocess.Popen(
            [support.VERBENA, "serve", "--data", self.data, "--listen", self.address, "--quiet", *self.OPTIONS, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.stop)
        line = self.server.stdout.readline().split()
        self.assertEqual(line[:1], ["ready"], self.server.stderr.read() if not line else line)
        self.address = line[1]

    def stop(self, by=signal.SIGTERM):
        """Its exit status."""
        if self.server is None:
            return None
        server, self.server = self.server, None
        server.send_signal(by)
        server.communicate(timeout=support.SECONDS)
        return server.returncode

    def run_raw(self, command, *arguments, **options):
        return subprocess.run([support.VERBENA, command, "--server", self.address, *arguments], capture_output=True,
                              timeout=support.SECONDS, check=False, **options)

    def run_text(self, command, *arguments, **options):
        return call([support.VERBENA, command, "--server", self.address, *arguments], **options)


class Commands(Served):
    def test_there_and_back(self):
        for size in (0, 1, 512, CHUNK - 1, CHUNK, CHUNK + 1, 32_768, 32_769, 1 << 20, (20 << 20) + 7):
            with self.subTest(size=size):
                data = content(size)
                self.put(data, "x")
                self.assertEqual(self.get("x"), data)
        self.expect(0, "put", self.file("file", content(100_000)), "y")
        self.expect(0, "get", "y", self.path("back"))
        self.assertEqual(self.read("back"), content(100_000))
        self.assertEqual(self.stop(), 0)
        self.assertEqual(verbena("scrub", self.data).returncode, 0)
        # And in the directory they are the same.
        self.assertEqual(subprocess.run([support.VERBENA, "get", "--data", self.data, "y", "-"], capture_output=True,
                                        check=True, timeout=support.SECONDS).stdout, content(100_000))

    def test_all_of_them(self):
        data = content(300_000)
        self.put(data, "a")
        self.expect(0, "cp", "a", "b")
        self.expect(0, "mv", "b", "c")
        self.assertEqual(self.names(), ["a", "c"])
        self.assertEqual(self.get("c"), data)
        self.assertEqual(self.json("stat", "c")["objects"][0]["size"], 300_000)
        self.assertEqual(self.json("stat", "--crc", "a")["objects"][0]["crc32"], self.json("stat", "--crc", "c")["objects"][0]["crc32"])
        self.assertEqual(self.run_raw("cat", "a", "c").stdout, data + data)
        self.expect(0, "verify", "a")
        self.assertEqual(self.json("du")["total"]["objects"], 2)
        self.put(b"more", "a", "--append")
        self.assertEqual(self.get("a"), data + b"more")
        self.put(b"less", "a", "--offset", "100")
        self.assertEqual(self.get("a", "--offset", "98", "--length", "8"), data[98:100] + b"less" + data[104:106])
        self.assertIn("exists", self.put(b"", "a", "--new", status=EXISTS))
        self.expect(0, "rm", "a", "c")
        self.assertEqual(self.names(), [])
        self.expect(NO_OBJECT, "get", "a", "-")

    def test_same_as_in_the_directory(self):
        """What is said of objects, in chunks and without."""
        for size in (0, 100, 512, 513, 10 * CHUNK + 1):
            self.put(content(size), f"p/{size}")
        served = self.json("du"), [self.json("stat", "--crc", f"p/{size}")["objects"] for size in (100, 10 * CHUNK + 1)]
        self.assertEqual(served[0]["total"]["stored"], 100 + 512 + CHUNK + 11 * CHUNK)
        self.assertEqual(self.stop(), 0)
        local = [json.loads(verbena(*words, "--data", self.data, "--json").stdout)
                 for words in (["du"], ["stat", "--crc", "p/100"], ["stat", "--crc", f"p/{10 * CHUNK + 1}"])]
        self.assertEqual(served[0], local[0])
        self.assertEqual(served[1], [one["objects"] for one in local[1:]])

    def test_trees(self):
        files = {"a": b"of a", "b/1": b"", "b/2": content(10_000), "b/c/deep": content(100 * CHUNK)}
        for name, data in files.items():
            path = os.path.join(self.path("from"), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)
        self.expect(0, "put", "-r", self.path("from"), "p")
        self.assertEqual(self.names(), sorted("p/" + name for name in files))
        self.expect(0, "get", "-r", "p", self.path("to"))
        for name, data in files.items():
            self.assertEqual(self.read(os.path.join("to", name)), data)
        with open(self.path("from/a"), "wb") as file:
            file.write(b"other")
        self.expect(0, "sync", self.path("from"), "p")
        self.assertEqual(self.get("p/a"), b"other")
        self.assertEqual(self.json("sync", self.path("from"), "p")["unchanged"], len(files))
        self.expect(0, "rm", "-r", "p/")
        self.assertEqual(self.names(), [])

    def test_a_name_with_several_addresses(self):
        """The server listens on one of them, and it is not the first."""
        hosts = self.file("hosts", b"::1 both\n127.0.0.1 both\n")
        alone = ["unshare", "-m" if os.getuid() == 0 else "-rm", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts]
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("the system does not allow another /etc/hosts")
        there = self.address.replace("127.0.0.1", "both")
        done = call([*alone, support.VERBENA, "ping", "--server", there, "-c", "1"])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_ping(self):
        answered = json.loads(verbena("ping", "--server", self.address, "-c", "3", "-i", "0.01", "--json").stdout)
        self.assertEqual(len(answered["errors"]), 0, answered)

    def test_who_has_the_store_is_said(self):
        self.put(b"x", "x")
        done = verbena("put", "--data", self.data, "--wait", "0", "/dev/null", "y")
        self.assertEqual(done.returncode, IN_USE)
        self.assertIn("--server " + self.address, done.stderr)

    def test_damage_is_named(self):
        data = content(50 * CHUNK)
        self.put(data, "x")
        self.damage(data[20 * CHUNK:20 * CHUNK + 100], 50)
        done = self.run_raw("get", "x", self.path("back"))
        self.assertEqual(done.returncode, DAMAGED, done.stderr)
        self.assertIn(str(20 * CHUNK), done.stderr.decode())
        self.assertFalse(os.path.exists(self.path("back")))

    def test_several_at_once(self):
        """Puts, gets and lists of many processes: each is whole."""
        failures = []

        def work(number):
            for turn in range(3):
                name = f"object {number}"
                data = content(50_000 * (number + turn) + 1)
                done = self.run_raw("put", "--", "-", name, input=data)
                back = self.run_raw("get", "--", name, "-")
                if done.returncode != 0 or back.stdout != data:
                    failures.append((number, turn, done.stderr, back.stderr))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(self.names()), 6)

    def test_a_put_that_is_killed_leaves_the_old_object(self):
        self.put(b"old", "x")
        for delay in (0.05, 0.1, 0.2):
            put = subprocess.Popen([support.VERBENA, "put", "--server", self.address, "-", "x"], stdin=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
            writer = threading.Thread(target=self.feed, args=(put,))
            writer.start()
            time.sleep(delay)
            put.kill()
            put.wait()
            writer.join()
            self.assertEqual(self.get("x"), b"old")
        self.assertEqual(self.names(), ["x"])

    @staticmethod
    def feed(process):
        try:
            while True:
                process.stdin.write(bytes(1 << 20))
        except (BrokenPipeError, OSError):
            pass
        finally:
            try:
                process.stdin.close()
            except OSError:
                pass


class Ends(Served):
    def test_stopped_in_order(self):
        self.put(content(100_000), "x")
        self.assertEqual(self.stop(), 0)
        done = self.run_text("ls", "--timeout", "0.3")
        self.assertEqual(done.returncode, UNREACHABLE)
        self.assertIn("cannot be reached: Connection refused", done.stderr)
        self.start()
        self.assertEqual(self.get("x"), content(100_000))

    def test_killed_and_started_again(self):
        """What a command has stored is there: it flushes before it ends."""
        for turn in range(3):
            self.put(content(100_000 + turn), f"object {turn}")
            self.stop(signal.SIGKILL)
            self.start()
            for before in range(turn + 1):
                self.assertEqual(self.get(f"object {before}"), content(100_000 + before))

    def test_a_command_waits_for_a_server_that_starts_again(self):
        self.put(content(10), "x")
        self.stop(signal.SIGKILL)
        get = subprocess.Popen([support.VERBENA, "get", "--server", self.address, "x", "-"], stdout=subprocess.PIPE)
        time.sleep(0.3)
        self.start()
        self.assertEqual(get.communicate(timeout=support.SECONDS)[0], content(10))
        self.assertEqual(get.returncode, 0)

    def test_one_that_does_not_answer_is_asked_once(self):
        """Not for each of many objects, each time with the time-out."""
        os.mkdir(self.path("tree"))
        for number in range(1000):
            with open(self.path(f"tree/{number}"), "wb") as file:
                file.write(content(100, number))
        names = [f"p/{number}" for number in range(1000)]
        for command in (["rm", "-r", "p"], ["sync", self.path("tree"), "p"], ["get", "-r", "p", self.path("back")],
                        ["stat", *names], ["rm", *names]):
            self.assertEqual(self.run_text("put", "-r", self.path("tree"), "p").returncode, 0)
            said = ""
            for attempt in range(20):  # until it stops in the middle
                process = subprocess.Popen([support.VERBENA, command[0], "--server", self.address, "--timeout", "0.5",
                                            *command[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                time.sleep(0.03 + attempt % 5 * 0.01)
                self.server.send_signal(signal.SIGSTOP)
                _, said = process.communicate(timeout=support.SECONDS)
                self.server.send_signal(signal.SIGCONT)
                if "did not answer" in said:
                    break
                self.run_text("put", "-r", self.path("tree"), "p")
            self.assertEqual(process.returncode, UNREACHABLE, said)
            # One for the object, and one for closing.
            self.assertLessEqual(said.count("did not answer"), 2, said)

    def test_the_address_is_taken(self):
        other = verbena("serve", "--memory", "64M", "--listen", self.address)
        self.assertEqual(other.returncode, 1)
        self.assertIn("listen", other.stderr)

    def test_one_server_for_a_store(self):
        other = verbena("serve", "--data", self.data, "--listen", "127.0.0.1:0")
        self.assertEqual(other.returncode, IN_USE, other.stderr)


class Secrets(Served):
    def setUp(self):
        StoreTest.setUp(self)
        self.server = None
        self.address = "[::1]:0"
        self.secret = self.file("secret", b"open sesame\n")
        os.chmod(self.secret, 0o600)
        self.start("--secret-file", self.secret)

    def test_only_with_the_secret(self):
        self.assertTrue(self.address.startswith("[::1]:"))
        self.put(content(100_000), "x", "--secret-file", self.secret)
        self.assertEqual(self.get("x", "--secret-file", self.secret), content(100_000))
        wrong = self.file("wrong", b"open barley")
        os.chmod(wrong, 0o600)
        for words in ((), ("--secret-file", wrong)):
            done = self.run_text("ls", *words)
            self.assertEqual(done.returncode, UNREACHABLE, done.stderr)
            self.assertIn("secret", done.stderr)


class Words(StoreTest):
    def test_settings(self):
        self.assertEqual(verbena("serve").returncode, USAGE)
        self.assertEqual(verbena("serve", "--memory", "1G", "--workers", "0").returncode, USAGE)
        settings = self.file("serve.toml", b"worker = 3\n")
        done = verbena("serve", "--memory", "1G", "--config", settings)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("line 1: worker: there is no such setting", done.stderr)
        done = verbena("serve", "--memory", "1G", "--config", self.path("missing"))
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("missing: No such file or directory", done.stderr)

    def test_a_ready_fd_that_is_none(self):
        """It would have been written to standard input, and closed."""
        for fd in ("x", "-1", "99", "1x"):
            done = verbena("serve", "--memory", "64M", "--listen", "127.0.0.1:0", "--ready-fd", fd)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            self.assertIn("--ready-fd", done.stderr)

    def test_json_and_ready_fd(self):
        read, write = os.pipe()
        server = subprocess.Popen(
            [support.VERBENA, "serve", "--memory", "64M", "--listen", "127.0.0.1:0", "--json", "--ready-fd", str(write)],
            stdout=subprocess.PIPE, pass_fds=(write,), text=True)
        os.close(write)
        try:
            with os.fdopen(read) as ready:
                self.assertTrue(ready.readline().startswith("ready 127.0.0.1:"))
            said = json.loads(server.stdout.readline())
            self.assertTrue(said["ready"])
            self.assertGreater(said["port"], 0)
        finally:
            server.terminate()
            rest = server.communicate(timeout=support.SECONDS)[0]
        self.assertEqual(server.returncode, 0)
        ended = json.loads(rest)
        self.assertEqual((ended["ended"], ended["sessions"], ended["bad_messages"]), (True, 0, 0))


if __name__ == "__main__":
    support.main()
