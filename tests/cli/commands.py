#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The `verbena` command: running programs as if it were not there, its options and its refusals.

commands.py VERBENA
"""
import json
import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

import support
from support import call, verbena

NAMESPACE_VIEWS = ("preload", "auto")


class Run(unittest.TestCase):
    def test_serves_rdma_programs(self):
        self.assertIn("verbena0", verbena("run", "--", "ibv_devices").stdout)
        info = verbena("run", "--name", "own1", "--mtu", "512", "--address", "127.0.0.1", "--", "ibv_devinfo", "-v")
        self.assertEqual(info.returncode, 0, info.stderr)
        self.assertRegex(info.stdout, r"hca_id:\s+own1")
        self.assertRegex(info.stdout, r"active_mtu:\s+512")
        self.assertRegex(info.stdout, r"GID\[\s+0\]:\s+::ffff:127.0.0.1, RoCE v2")
        self.assertNotIn("GID[  1]", info.stdout)

    def test_shows_a_connectx_by_choice(self):
        info = verbena("run", "--identity", "connectx", "--address", "127.0.0.1", "--", "ibv_devinfo", "-v").stdout
        self.assertRegex(info, r"hca_id:\s+mlx5_0")
        self.assertRegex(info, r"vendor_id:\s+0x02c9")
        self.assertRegex(info, r"vendor_part_id:\s+4119")
        self.assertRegex(info, r"GID\[\s+0\]:.*(?<!RoCE v2)\n")
        self.assertRegex(info, r"GID\[\s+1\]:\s+::ffff:127.0.0.1, RoCE v2")

    def test_a_connectx_carries_traffic_on_both_kinds_of_entry(self):
        options = ["run", "--identity", "connectx", "--address", "127.0.0.1", "--", "ibv_rc_pingpong", "-n", "50"]
        for index in ("0", "1"):
            port = str(20000 + os.getpid() % 10000)
            with subprocess.Popen([support.VERBENA, *options, "-g", index, "-p", port], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) as server:
                try:
                    for _ in range(500):  # until the server listens
                        client = verbena(*options, "-g", index, "-p", port, "127.0.0.1")
                        if "Couldn't connect" not in client.stderr or server.poll() is not None:
                            break
                    self.assertEqual(client.returncode, 0, client.stderr)
                    self.assertEqual(server.wait(support.SECONDS), 0)
                finally:
                    server.kill()

    def test_is_the_program(self):
        for view in NAMESPACE_VIEWS:
            run = ["run", "--view", view, "--"]
            self.assertEqual(verbena(*run, "sh", "-c", "exit 7").returncode, 7)
            self.assertEqual(verbena(*run, "sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)
            echo = verbena(*run, "cat", input="through\n")
            self.assertEqual((echo.returncode, echo.stdout, echo.stderr), (0, "through\n", ""))
            words = verbena(*run, "printf", "<%s>", "a b", "", "--", "*").stdout
            self.assertEqual(words, "<a b><><--><*>")
            with subprocess.Popen([support.VERBENA, *run, "sh", "-c", "echo $$; exec sleep 1000"],
                                  stdout=subprocess.PIPE, text=True) as process:
                self.assertEqual(int(process.stdout.readline()), process.pid)
                process.send_signal(signal.SIGHUP)
                self.assertEqual(process.wait(support.SECONDS), -signal.SIGHUP)

    def test_takes_the_program_without_dashes(self):
        self.assertEqual(verbena("run", "printf", "%s,", "--", "-n").stdout, "--,-n,")
        self.assertEqual(verbena("run", "--name", "x", "sh", "-c", "echo $VERBENA_DEVICE").stdout, "x\n")

    def test_passes_the_terminal_on(self):
        for view in NAMESPACE_VIEWS:
            child, terminal = pty.fork()
            if child == 0:
                os.execv(support.VERBENA, ["verbena", "run", "--view", view, "--", "sh", "-c",
                                           "test -t 0 && test -t 1 && echo ready; exec sleep 1000"])
            try:
                said = b""
                while b"ready" not in said:
                    said += os.read(terminal, 100)
                os.write(terminal, b"\x03")  # Ctrl-C
                _, status = os.waitpid(child, 0)
                self.assertEqual(os.WTERMSIG(status), signal.SIGINT)
            finally:
                os.close(terminal)

    def test_says_why_there_is_no_program(self):
        with tempfile.TemporaryDirectory() as place:
            plain = os.path.join(place, "plain")
            with open(plain, "w", encoding="utf-8") as file:
                file.write("echo from a script\n")
            lost = os.path.join(place, "lost")
            with open(lost, "w", encoding="utf-8") as file:
                file.write("#!/no/such/interpreter\n")
            os.chmod(lost, 0o755)
            for command, status, wanted in (("no-such-program", 127, "PATH"), (place + "/none", 127, "No such file"),
                                            ("", 127, "empty"), (plain, 126, "not executable"),
                                            (place, 126, "directory"), (lost, 126, "interpreter")):
                done = verbena("run", "--", command)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(wanted, done.stderr)
            os.chmod(plain, 0o755)
            self.assertEqual(verbena("run", "--", plain).stdout, "from a script\n")

    def test_says_what_cannot_be_served(self):
        done = verbena("run", "--", "/sbin/ldconfig", "--version")
        self.assertEqual(done.returncode, 0)
        self.assertIn("statically linked", done.stderr)
        if shutil.which("rdma") is not None:
            self.assertIn("by netlink", verbena("run", "--", "rdma", "link").stderr)
        words = support.as_nobody()
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o755)
            raised = shutil.copy(shutil.which("true"), os.path.join(place, "raised"))
            os.chmod(raised, 0o755 | stat.S_ISUID)
            done = call([*words, support.VERBENA, "run", "--", raised])
            self.assertEqual(done.returncode, 0)
            self.assertIn("setuid", done.stderr)
        self.assertEqual(verbena("run", "--", "true").stderr, "")

    def test_goes_with_sanitizers(self):
        support.need_program("g++")
        with tempfile.TemporaryDirectory() as place:
            source = os.path.join(place, "main.cc")
            with open(source, "w", encoding="utf-8") as file:
                file.write("#include <stdio.h>\n"
                           "int main(void) { char line[100] = {0};\n"
                           '  FILE* file = fopen("/sys/class/infiniband/verbena0/node_type", "r");\n'
                           "  if (file == nullptr || fgets(line, sizeof line, file) == nullptr) return 1;\n"
                           "  fclose(file); fputs(line, stdout); return 0; }\n")
            program = os.path.join(place, "program")
            built = call(["g++", "-fsanitize=address", "-o", program, source])
            if built.returncode != 0:
                self.skipTest("no AddressSanitizer here")
            # Leaks are another matter, and looking for them takes seconds on some machines.
            done = verbena("run", "--", program, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
            self.assertEqual((done.stdout, done.stderr), ("1: CA\n", ""))


class Options(unittest.TestCase):
    def test_wrong_ones_are_refused(self):
        for arguments, wanted in ((["--mtu", "1500"], "--mtu is '1500'"), (["--identity", "x"], "--identity is 'x'"),
                                  (["--name", "a/b"], "--name is 'a/b'"), (["--counters", "/no/such/x"], "cannot be written: No such file"),
                                  (["--receive-buffer", "1"], "--receive-buffer is '1'"),
                                  (["--secret", "/no/such/x"], "cannot be used as a secret: No such file"),
                                  (["--secret", ""], "--secret is empty"), (["--secret", "/dev/null"], "read again"),
                                  (["--address", "10.0.0.0/64"], "10.0.0.0/64"), (["--nothing"], "--nothing")):
            for command, status in (("run", 125), ("env", 2), ("devices", 2)):
                done = verbena(command, *arguments, *(["--", "true"] if command == "run" else []))
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(wanted, done.stderr)
                self.assertEqual(done.stdout, "")
        for arguments, status, wanted in ((["run"], 125, "no program given"), (["run", "--view", "x", "--", "true"], 125, "--view"),
                                          (["env", "--view", "namespace"], 2, "preload"), (["env", "--shell", "x"], 2, "fish"),
                                          (["frob"], 2, "'frob'"), ([], 2, "verbena run"), (["devices", "--", "x"], 2, "x")):
            done = verbena(*arguments)
            self.assertEqual(done.returncode, status, arguments)
            self.assertIn(wanted, done.stderr)

    def test_wrong_variables_are_named_by_the_command_and_forgiven_by_the_library(self):
        env = {**os.environ, "VERBENA_MTU": "7"}
        self.assertIn("VERBENA_MTU is '7'", verbena("devices", env=env).stderr)
        env["LD_LIBRARY_PATH"] = support.libraries()
        quiet = call(["ibv_devinfo"], env=env)
        self.assertEqual((quiet.returncode, quiet.stderr), (0, ""))
        self.assertIn("VERBENA_MTU is '7'", call(["ibv_devinfo"], env={**env, "VERBENA_VERBOSE": "1"}).stderr)

    def test_without_its_secret_the_device_does_not_open(self):
        env = {**os.environ, "VERBENA_SECRET": "/no/such/x"}
        done = verbena("env", "--shell", "sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        script = done.stdout + "ibv_devinfo"
        done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("Failed to open device", done.stdout + done.stderr)

    def test_a_secret_that_others_can_read_is_warned_of(self):
        with tempfile.TemporaryDirectory() as folder:
            secret = os.path.join(folder, "secret")
            with open(secret, "w", encoding="utf-8") as file:
                file.write("open sesame\n")
            for mode, wanted in ((0o600, ""), (0o644, f"verbena run: warning: other users can read the secret in {secret}\n")):
                os.chmod(secret, mode)
                done = verbena("run", "--secret", secret, "--", "true")
                self.assertEqual((done.returncode, done.stderr), (0, wanted))

    def test_counters_are_added_to_a_file_when_a_process_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                done = verbena("run", "--counters", "counters", "--", "sh", "-c", "cd / && ibv_devinfo", cwd=folder)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(os.path.join(folder, "counters"), encoding="utf-8") as lines:
                seen = [json.loads(line) for line in lines]
        self.assertEqual([line["program"] for line in seen], ["ibv_devinfo"] * 2)
        self.assertEqual({line["sent"]["bytes"] for line in seen}, {0})

    def test_help_and_version(self):
        for arguments in (["--help"], ["run", "--help"], ["env", "--help"], ["devices", "--help"], ["--version"]):
            done = verbena(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("verbena", done.stdout)
        self.assertIn("Exit status", verbena("run", "--help").stdout)
        # Each command, the store's too, with the first line of its own help.
        listed = re.findall(r"\n  (\w+) +(\w.*\.)(?=\n)", verbena("--help").stdout)
        self.assertEqual(len(listed), 28)
        for command, summary in listed:
            self.assertTrue(verbena(command, "--help").stdout.startswith(summary + "\n\n"), command)


class Devices(unittest.TestCase):
    def test_are_shown(self):
        text = verbena("devices", "--address", "127.0.0.1").stdout
        self.assertRegex(text, r"^verbena0\n")
        self.assertRegex(text, r"\n  0 +RoCE v2 +lo +127.0.0.1\n$")

    def test_are_shown_to_scripts(self):
        device = json.loads(verbena("devices", "--json", "--address", "lo", "--mtu", "2048").stdout)["devices"][0]
        self.assertEqual(device["name"], "verbena0")
        port = device["ports"][0]
        self.assertEqual((port["state"], port["active_mtu"], port["max_mtu"]), ("active", 2048, 2048))
        self.assertIn({"index": 0, "type": "RoCE v2", "interface": "lo", "address": "127.0.0.1"}, port["gids"])

    def test_say_which_port_they_have(self):
        words = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "--"]
        if call([*words, "true"]).returncode != 0:
            self.skipTest("this user may not make network namespaces")
        alone = call([*words, support.VERBENA, "devices", "--json"])
        port = json.loads(alone.stdout)["devices"][0]["ports"][0]
        self.assertEqual((port["udp_port"], port["this_host_only"], port["notice"]), (4791, False, ""))

        taken = ("import os, socket, sys\n"
                 "taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                 "taken.bind(('0.0.0.0', 4791))\n"
                 "taken.set_inheritable(True)\n"
                 "os.execv(sys.argv[1], sys.argv[1:])\n")
        words += [sys.executable, "-c", taken, support.VERBENA, "devices"]
        self.assertIn("UDP port 14791, this host only", call(words).stdout)
        done = call([*words, "--json"])
        port = json.loads(done.stdout)["devices"][0]["ports"][0]
        self.assertEqual((port["udp_port"], port["this_host_only"]), (14791, True))
        self.assertIn("UDP port 4791 is held by", port["notice"])
        self.assertIn(port["notice"], done.stderr)

    def test_of_which_nothing_is_offered(self):
        self.assertIn("no address", verbena("devices", "--address", "no-such-if").stdout)


class Env(unittest.TestCase):
    def test_serves_a_shell(self):
        for shell in ("sh", "bash", "zsh"):
            if shutil.which(shell) is None:
                continue
            done = call([shell, "-c", f'eval "$("{support.VERBENA}" env --name own2)";'
                         f'eval "$("{support.VERBENA}" env)";'  # a second time, nothing is added
                         "echo $LD_LIBRARY_PATH; ls /sys/class/infiniband; ibv_devices"])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, rf"^{support.libraries()}\nown2\n(.*\n)+.*own2")

    def test_keeps_what_was_there(self):
        env = {**os.environ, "LD_LIBRARY_PATH": "/it's/mine", "ASAN_OPTIONS": "a=b"}
        text = verbena("env", env=env).stdout
        self.assertIn(f"export LD_LIBRARY_PATH='{support.libraries()}:/it'\\''s/mine'\n", text)
        self.assertIn("export ASAN_OPTIONS='a=b:verify_asan_link_order=0'\n", text)
        self.assertNotIn("LD_PRELOAD", verbena("env", "--view", "none").stdout)

    def test_knows_other_shells(self):
        self.assertIn("set -gx VERBENA_DEVICE 'x'\n", verbena("env", "--shell", "fish", "--name", "x").stdout)
        self.assertIn("setenv VERBENA_DEVICE 'x';\n", verbena("env", "--shell", "tcsh", "--name", "x").stdout)


class Installed(unittest.TestCase):
    def test_finds_its_libraries(self):
        build = os.path.dirname(os.path.dirname(support.VERBENA))
        with tempfile.TemporaryDirectory() as place:
            installed = call(["cmake", "--install", build, "--prefix", place, "--strip"])
            self.assertEqual(installed.returncode, 0, installed.stderr)
            command = os.path.join(place, "bin", "verbena")
            self.assertIn("verbena0", call([command, "run", "--", "ibv_devices"]).stdout)
            self.assertIn("verbena0", call([command, "devices"]).stdout)
            self.assertEqual(call([command, "put", "--quiet", "--data", f"{place}/store", command, "a"]).returncode, 0)
            link = os.path.join(place, "link")
            os.symlink(command, link)
            self.assertEqual(call([link, "run", "--", "ls", "/sys/class/infiniband"]).stdout, "verbena0\n")
            for page in ("verbena.1", "verbena-run.1", "verbena-store.1", "verbena-put.1", "verbena-salvage.1"):
                self.assertTrue(os.path.exists(os.path.join(place, "share/man/man1", page)))
            os.remove(os.path.join(place, "lib/verbena/libverbena-paths.so"))
            for arguments, status in ((["run", "--", "true"], 125), (["env"], 1), (["devices"], 1)):
                done = call([command, *arguments])
                self.assertEqual(done.returncode, status)
                self.assertIn("libverbena-paths.so is missing", done.stderr)


if __name__ == "__main__":
    support.main()
