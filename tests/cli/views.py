#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs see of the device in /sys and /dev under `verbena run`, by each way of showing it.

views.py VERBENA
"""
import json
import os
import re
import subprocess
import tempfile
import time
import unittest

import support
from support import call, verbena

SYS = "/sys/class/infiniband"
DEVICE = "/sys/devices/verbena"

# Looks at the tree by the ways that Python has, and prints what it saw.
LOOK = """
import glob, json, os, stat
tree = {}
def see(path):
    status = os.stat(path)
    if os.path.islink(path):
        assert os.path.samefile(path, os.path.realpath(path)), path
        tree[path] = '-> ' + os.readlink(path)
        return
    assert stat.S_IFMT(os.lstat(path).st_mode) == stat.S_IFMT(status.st_mode), path
    if stat.S_ISDIR(status.st_mode):
        names = sorted(os.listdir(path))
        assert names == sorted(e.name for e in os.scandir(path)), path
        assert sorted(glob.glob(path + '/*')) == [path + '/' + n for n in names], path
        tree[path] = names
        for name in names:
            see(path + '/' + name)
    elif stat.S_ISCHR(status.st_mode):
        assert os.access(path, os.R_OK | os.W_OK), path
        with open(path, 'r+b', buffering=0) as device:
            assert device.read(10) == b'', path
        tree[path] = 'device %d:%d' % (os.major(status.st_rdev), os.minor(status.st_rdev))
    else:
        assert not os.access(path + '/x', os.F_OK), path
        with open(path) as file:
            tree[path] = file.read()
            assert os.path.samestat(os.fstat(file.fileno()), status), path
for root in ('/sys/class/infiniband', '/sys/class/infiniband_verbs', '/dev/infiniband', '/sys/devices/verbena'):
    see(root)
assert os.path.realpath('/sys/class/infiniband/../infiniband/') == '/sys/class/infiniband'
assert sorted(os.listdir('/sys/class/infiniband/../net')) == sorted(os.listdir('/sys/class/net'))
fd = os.open('/sys/class/infiniband', os.O_RDONLY | os.O_DIRECTORY)
assert stat.S_ISDIR(os.fstat(fd).st_mode) and os.listdir(fd) == os.listdir('/sys/class/infiniband')
name = os.listdir(fd)[0]
assert os.read(os.open(name + '/node_type', os.O_RDONLY, dir_fd=fd), 100) == b'1: CA\\n'
assert os.readlink(name, dir_fd=fd) == '../../devices/verbena/infiniband/' + name
assert os.path.samestat(os.stat('..', dir_fd=fd), os.stat('/sys/class'))
assert os.stat(name + '/ports', dir_fd=fd).st_ino == os.stat('/sys/class/infiniband/' + name + '/ports').st_ino
for wrong in (SYS + '/nothing', '/dev/infiniband/uverbs1', '/sys/class/infiniband_mad'):
    assert not os.path.exists(wrong), wrong
try:
    open('/sys/class/infiniband/' + name + '/node_desc', 'w')
    raise AssertionError('written to')
except OSError:
    pass
print(json.dumps(tree))
""".replace("SYS", repr(SYS))


def tree_under(view, *options, before=()):
    done = call([*before, support.VERBENA, "run", "--view", view, *options, "--", "python3", "-c", LOOK])
    if done.returncode != 0:
        raise AssertionError(f"{view}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def views():
    """Those that this system allows; preload always."""
    allowed = ["preload"]
    if verbena("run", "--view", "namespace", "--", "true").returncode == 0:
        allowed.append("namespace")
    return allowed


class Views(unittest.TestCase):
    def test_show_the_same(self):
        for options in ([], ["--identity", "connectx"], ["--name", "roce7", "--address", "lo"]):
            trees = [tree_under(view, *options) for view in views()]
            for tree in trees:
                self.check_same(tree, trees[0])
            if len(trees) < 2:
                self.skipTest("this system has no user namespaces for us")

    def check_same(self, tree, other):
        self.assertEqual(tree.keys(), other.keys())
        # But for counters, which other programs of the host move meanwhile.
        for path in tree:
            if "counters/" not in path:
                self.assertEqual(tree[path], other[path], path)

    def test_agree_with_verbs(self):
        for options in ([], ["--identity", "connectx", "--mtu", "512"]):
            tree = tree_under("preload", *options)
            device = tree[SYS][0]
            info = verbena("run", *options, "--", "ibv_devinfo", "-v").stdout
            self.assertRegex(info, rf"hca_id:\s+{device}\n")
            for name, field in (("fw_ver", "fw_ver"), ("node_guid", "node_guid"),
                                ("sys_image_guid", "sys_image_guid"), ("board_id", "board_id"),
                                ("device/vendor", "vendor_id")):
                shown = tree[f"{DEVICE}/infiniband/{device}/{name}" if "/" not in name else f"{DEVICE}/vendor"].strip()
                said = re.search(rf"\t{field}:\s+(\S+)", info).group(1)
                if name == "device/vendor":
                    shown, said = int(shown, 16), int(said, 16)
                self.assertEqual(shown, said, name)
            self.assertIn("PORT_ACTIVE (4)", info)
            self.assertIn("LINK_UP (5)", info)
            self.assertIn("2.5 Gbps (1)", info)
            self.assertEqual(tree[f"{DEVICE}/infiniband/{device}/ports/1/rate"], "2.5 Gb/sec (1X SDR)\n")
            self.check_gids(tree, device, options)

    def check_gids(self, tree, device, options):
        listed = json.loads(verbena("devices", "--json", *options).stdout)["devices"][0]["ports"][0]["gids"]
        port = f"{DEVICE}/infiniband/{device}/ports/1"
        self.assertEqual([str(gid["index"]) for gid in listed],
                         sorted(tree[f"{port}/gid_attrs/types"], key=int))
        for gid in listed:
            index = gid["index"]
            self.assertEqual(tree[f"{port}/gid_attrs/ndevs/{index}"].strip(), gid["interface"])
            self.assertTrue(tree[f"{port}/gid_attrs/types/{index}"].strip().endswith(gid["type"]))
            self.assertIn(gid["interface"], tree[f"{DEVICE}/net"])

    def test_serve_programs_of_the_distribution(self):
        for view in views():
            for command, wanted in ((["ls", "-l", SYS], "verbena0"),
                                    (["ls", "-l", "/dev/infiniband"], r"crw-rw-rw-.* 1, +3 .*uverbs0"),
                                    (["cat", f"{SYS}/verbena0/ports/1/state"], "4: ACTIVE"),
                                    (["find", f"{SYS}/verbena0/device/", "-name", "numa_node"], "device/numa_node"),
                                    (["ls", "-la", SYS], r"verbena0 -> ../../devices/verbena/infiniband/verbena0"),
                                    (["ls", "-la", f"{SYS}/verbena0/device/"], r" \.\.\n(.*\n)*.* infiniband\n"),
                                    (["ls", "-laL", SYS], r"drwxr-xr-x .* \.\.\n.* verbena0\n"),
                                    (["cp", f"{SYS}/verbena0/node_type", "/dev/stdout"], "1: CA"),
                                    (["sh", "-c", f"cat {SYS}/*/node_type < /dev/null"], "1: CA"),
                                    (["sh", "-c", f"cd /sys/class; read x < infiniband/verbena0/ports/1/lid; echo $x"],
                                     "0x0"),
                                    (["sh", "-c", "test -c /dev/infiniband/uverbs0 && echo yes"], "yes"),
                                    (["bash", "-c", f"echo {SYS}/v*/ports/*"], "verbena0/ports/1"),
                                    (["realpath", f"{SYS}/verbena0/device/.."], "^/sys/devices\n"),
                                    (["stat", "-c", "%F", "/dev/infiniband/uverbs0"], "character special")):
                done = verbena("run", "--view", view, "--", *command)
                self.assertEqual((done.returncode, done.stderr), (0, ""), (view, command))
                self.assertRegex(done.stdout, wanted, (view, command))

    def test_can_be_the_current_directory(self):
        script = (f"cd {SYS} && pwd && ls && cd verbena0/ports/1 && pwd && cat state && echo gids/*4 && (cd gids; cat 200)"
                  " && pwd -P && sh -c 'cat lid; pwd; cd ..; ls; pwd -P' && /bin/pwd && cd ../../device && cat vendor"
                  " && python3 -c 'import os; print(os.getcwd(), os.path.exists(\"numa_node\"), len(os.listdir(\"..\")) > 2)'"
                  f" && cd -P ../../class && pwd && test -d net && cd {SYS}/.. && cat infiniband/verbena0/node_type && ! cd infiniband/nothing 2>&1")
        said = {}
        for shell in ("dash", "bash"):
            for view in views():
                done = verbena("run", "--view", view, "--", shell, "-c", script)
                self.assertEqual((done.returncode, done.stderr), (0, ""), (view, shell, done.stdout))
                said[view, shell] = re.sub(r"^.*nothing.*$", "", done.stdout, flags=re.M)
                self.assertEqual(said[view, shell], said["preload", "dash"])
        self.assertIn("/sys/devices/verbena/infiniband/verbena0/ports/1\n0x0\n", said["preload", "dash"])

    def test_leave_nothing_of_a_current_directory(self):
        def there():  # other tests have directories of their own, and those that were killed left theirs
            return {name for place in ("/tmp", "/dev/shm", "/var/tmp") for name in os.listdir(place)
                    if name.startswith("verbena-in:")}
        before = there()
        verbena("run", "--", "sh", "-c", f"cd {SYS}/verbena0 && kill -9 $$")
        self.assertEqual(there() - before, set())

    def test_leave_the_rest_alone(self):
        for view in views():
            script = ("ls /sys/class /dev | grep -v infiniband; ls -d /sys/class/net/lo/ /dev/pts /dev/shm;"
                      "echo x > /dev/null; head -c 1 /dev/zero | wc -c; id -u; id -g; pwd; umask")
            inside = verbena("run", "--view", view, "--", "sh", "-c", script)
            outside = call(["sh", "-c", script])
            self.assertEqual((inside.stdout, inside.stderr), (outside.stdout, outside.stderr), view)

    def test_a_limit_on_the_size_of_files_ends_no_program(self):
        for file in ("node_type", "ports/1/counters/port_xmit_data"):
            done = verbena("run", "--view", "preload", "--", "sh", "-c", f"ulimit -f 0; cat {SYS}/verbena0/{file}; echo $?")
            self.assertEqual(done.stdout, "1\n")
            self.assertIn("File too large", done.stderr)

    def test_none_shows_nothing(self):
        if os.path.exists(SYS):
            self.skipTest("this host has RDMA devices of its own")
        done = verbena("run", "--view", "none", "--", "sh", "-c", f"test -e {SYS}; echo $?; ibv_devices")
        self.assertRegex(done.stdout, r"^1\n(.*\n)+.*verbena0")

    def test_as_nobody(self):
        words = support.as_nobody()
        for view in ("preload", "auto"):
            done = call([*words, support.VERBENA, "run", "--view", view, "--", "sh", "-c",
                         f"id -u; id -g; ibv_devices; ls {SYS}"])
            self.assertEqual(done.stderr, "")
            self.assertRegex(done.stdout, r"^65534\n65534\n(.*\n)+.*verbena0\s.*\nverbena0\n$", view)

    def test_where_namespaces_are_blocked(self):
        # Inside a user namespace of the test's own, which it forbids to have any others.
        words = [*support.own_namespaces(), "sh", "-c",
                 "echo 0 > /proc/sys/user/max_user_namespaces && echo 0 > /proc/sys/user/max_mnt_namespaces"
                 ' && exec "$@"', "sh"]
        self.assertNotEqual(call([*words, "unshare", "--mount", "true"]).returncode, 0)
        for view in ("preload", "auto"):
            done = call([*words, support.VERBENA, "run", "--view", view, "--", "sh", "-c", f"ibv_devices; ls {SYS}"])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, r"verbena0\s.*\nverbena0\n$", view)
        self.check_same(tree_under("preload", before=words), tree_under("preload"))
        refused = call([*words, support.VERBENA, "run", "--view", "namespace", "--", "true"])
        self.assertEqual(refused.returncode, 125)
        self.assertIn("--view preload", refused.stderr)

    def test_hide_the_hosts_devices(self):
        # A host that has others, made in a mount namespace.
        words = [*support.own_namespaces(), "sh", "-c",
                 "mount -t tmpfs none /sys/class && mkdir -p /sys/class/infiniband/mlx5_9/ports/1"
                 " /sys/class/infiniband_verbs/uverbs9 /sys/class/infiniband_mad/umad9 /sys/class/other"
                 ' && exec "$@"', "sh"]
        look = ["sh", "-c", "ls /sys/class/infiniband /sys/class/infiniband_verbs; ls -d /sys/class/other"
                " /sys/class/infiniband_mad/umad9 /sys/class/infiniband/mlx5_9"]
        self.assertIn("mlx5_9", call([*words, *look]).stdout)
        for view in ("preload", "namespace"):
            done = call([*words, support.VERBENA, "run", "--view", view, "--", *look])
            self.assertIn("verbena0", done.stdout, view)
            self.assertIn("/sys/class/other", done.stdout, view)
            self.assertNotRegex(done.stdout, "mlx5_9|uverbs9|umad9", view)

    def test_nothing_is_left_after_kill_9(self):
        with tempfile.TemporaryDirectory() as place:
            with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
                before = mounts.read()
            env = {**os.environ, "TMPDIR": place, "HOME": place, "XDG_RUNTIME_DIR": place}
            for view in views():
                script = f"ls {SYS}; exec 3< {SYS}/verbena0/node_type; exec sleep 1000"
                with subprocess.Popen([support.VERBENA, "run", "--view", view, "--", "sh", "-c", script],
                                      env=env, stdout=subprocess.PIPE, text=True) as process:
                    self.assertEqual(process.stdout.readline(), "verbena0\n")
                    process.kill()
            self.assertEqual(os.listdir(place), [])
            with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
                self.assertEqual(mounts.read(), before)
            # Folders there are other tests', which run beside this one.
            left = [name for name in os.listdir("/dev/shm") if "verbena" in name and not os.path.isdir(f"/dev/shm/{name}")]
            self.assertEqual(left, [])

    def test_hwloc_finds_the_device(self):
        support.need_program("lstopo-no-graphics")
        for view in views():
            shown = verbena("run", "--view", view, "--", "lstopo-no-graphics", "--of", "console", "--whole-io").stdout
            self.assertIn('OpenFabrics "verbena0"', shown, view)

    def test_ucx_finds_the_device(self):
        support.need_program("ucx_info")
        for library in ("libmlx5.so.1", "librdmacm.so.1"):
            if not os.path.exists(os.path.join(support.libraries(), library)):
                self.skipTest(f"there is no {library} of ours yet, which UCX needs to load")
        for view in views():
            done = verbena("run", "--view", view, "--", "ucx_info", "-d")
            self.assertRegex(done.stdout, r"Transport: rc_verbs\n#\s+Device: verbena0:1", view)
            self.assertRegex(done.stdout, r"Transport: ud_verbs\n#\s+Device: verbena0:1", view)
            # It knows the interface and the kind of an entry from the files alone.
            done = verbena("run", "--view", view, "--identity", "connectx", "--name", "verbena0", "--address", "127.0.0.1",
                           "--", "ucx_info", "-d", env={**os.environ, "UCX_LOG_LEVEL": "debug"})
            self.assertIn("verbena0:1 using gid_index 1\n", done.stdout)  # the RoCE v2 one
            self.assertIn("on verbena0:1 (lo)", done.stdout)


class Counters(unittest.TestCase):
    words = []

    def counters(self, *names):
        paths = [f"{SYS}/verbena0/ports/1/{name}" for name in names]
        done = call([*self.words, support.VERBENA, "run", "--", "cat", *paths])
        self.assertEqual(done.stderr, "")
        return [int(line) for line in done.stdout.split()]

    def test_are_of_all_processes_of_the_host(self):
        """Two programs have traffic, others read of it, also when those have ended."""
        names = ("counters/port_xmit_data", "counters/port_rcv_data", "counters/port_xmit_packets",
                 "hw_counters/sent_pkts", "hw_counters/rcvd_pkts")
        for program in ("ib_write_bw", "ibv_asyncwatch"):
            support.need_program(program)
        # In a network of their own, where no other test has traffic.
        alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if call([*alone, "true"]).returncode != 0:
            self.skipTest("this user may not make network namespaces")
        # A member of the host that does nothing: the counters are there as long as somebody is.
        keeper = subprocess.Popen([*alone, support.VERBENA, "run", "--", "stdbuf", "-oL", "ibv_asyncwatch", "-d", "verbena0"],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(keeper.stdout.close)
        self.addCleanup(keeper.wait)
        self.addCleanup(keeper.kill)
        self.assertIn("verbena0", keeper.stdout.readline())
        self.words = ["nsenter", f"--net=/proc/{keeper.pid}/ns/net"]
        before = self.counters(*names)
        # A program that calls the kernel itself has files, which are kept current.
        looking = subprocess.Popen([*self.words, support.VERBENA, "run", "--view", "namespace", "--", "sh", "-c",
                                    f"echo; while read line; do cat {SYS}/verbena0/ports/1/{names[2]}; done"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(looking.communicate)
        looking.stdout.readline()
        said = self.write_bandwidth("-n", "500", "-s", "65536", "-W", "counters/port_xmit_data,hw_counters/sent_pkts")
        after = self.counters(*names)
        sent, received, packets, sent_packets, received_packets = (b - a for a, b in zip(before, after))
        # Once there, and the acknowledgements back: both ends are of this host.
        self.assertGreater(sent * 4, 500 * 65536)
        self.assertLess(sent * 4, 3 * 500 * 65536)
        self.assertEqual(packets, sent_packets)
        # Members have a few words with each other that are not the device's.
        self.assertAlmostEqual(received_packets, packets, delta=packets // 50)
        self.assertAlmostEqual(received, sent, delta=sent // 50)
        self.assertGreater(packets, 500 * 65536 // 4096)
        # perftest's own look, through descriptors that it keeps.
        shown = re.search(r"port_xmit_data=(\d+).*sent_pkts=(\d+)", said, re.S)
        self.assertIsNotNone(shown, said)
        self.assertGreater(int(shown.group(1)) * 4, 500 * 65536)
        self.assertEqual(self.counters(*names), after)
        for _ in range(50):
            looking.stdin.write("\n")
            looking.stdin.flush()
            if int(looking.stdout.readline()) == after[2]:
                break
            time.sleep(0.1)
        else:
            self.fail("the files of a namespace stayed as they were")

    def write_bandwidth(self, *options):
        words = [*self.words, support.VERBENA, "run", "--", "ib_write_bw", "-d", "verbena0", "-F", *options]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            for _ in range(50):
                client = call([*words, "127.0.0.1"])
                if client.returncode == 0 or server.poll() is not None:
                    break
                time.sleep(0.1)
            said = server.communicate(timeout=support.SECONDS)[0]
        self.assertEqual(client.returncode, 0, client.stdout + client.stderr + said)
        return client.stdout


if __name__ == "__main__":
    support.main()
