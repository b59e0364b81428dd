#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the distribution's programs that use rsockets on the drop-in libraries, and programs of TCP with librspreload.so,
and looks at the device's counters whether their bytes went over it."""
import filecmp
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "verbs"))
import pairs  # noqa: E402

# So long a peer's sudden end may take to be noticed.
NOTICED = 10
# So long a server may take to listen.
LISTENS = 20


def start(command, env, **options):
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            **options)


def stop(process):
    if process.poll() is None:
        process.kill()
    return process.communicate()[0]


def finish(process, who):
    """None, or what is wrong with its end."""
    try:
        text, _ = process.communicate(timeout=pairs.SECONDS)
    except subprocess.TimeoutExpired:
        places = pairs.where([process.pid])
        return f"{who}: not done after {pairs.SECONDS} s:\n{stop(process)}{places}"
    return None if process.returncode == 0 else f"{who}: exit status {process.returncode}:\n{text}"


def carried(path):
    """The bytes that the devices of all processes with this file of counters have sent and received."""
    if not os.path.exists(path):
        return 0
    with open(path, encoding="utf-8") as lines:
        all_of_it = [json.loads(line) for line in lines]
    return sum(one["sent"]["bytes"] + one["received"]["bytes"] for one in all_of_it)


def connect(command, env, server):
    """Runs a client until it is not refused any more: what an RDMA port is used for cannot be seen from outside, and not
    every client says why it ended. The server ends with the first that gets through to it."""
    until = time.monotonic() + LISTENS
    while True:
        client = start(command, env)
        try:
            text, _ = client.communicate(timeout=pairs.SECONDS)
        except subprocess.TimeoutExpired:
            places = pairs.where([client.pid, server.pid])
            return f"client: not done after {pairs.SECONDS} s:\n{stop(client)}{places}"
        if client.returncode == 0:
            return None
        if server.poll() is not None or time.monotonic() > until:
            return f"client: exit status {client.returncode}:\n{text}"
        time.sleep(0.05)


def run_stream(env, program, words, least):
    """Both ends of rstream or riostream, with the same options; `least` bytes must have crossed the device."""
    port = str(pairs.free_port())
    with tempfile.TemporaryDirectory() as folder:
        counters = os.path.join(folder, "counters")
        env = {**env, "VERBENA_COUNTERS": counters}
        command = [program, "-p", port] + words.split()
        server = start(command, env)
        problem = connect(command + ["-s", "127.0.0.1"], env, server)
        problem = problem or finish(server, "server")
        stop(server)
        if not problem and carried(counters) < least:
            problem = f"the device carried {carried(counters)} bytes of at least {least}"
        return problem


def run_copy(env):
    port = str(pairs.free_port())
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
        with open(source, "wb") as file:
            file.write(os.urandom(20_000_000))
        server = start(["rcopy", "-p", port], env)
        problem = connect(["rcopy", source, f"127.0.0.1:{target}", "-p", port], env, server)
        stop(server)
        if not problem and not filecmp.cmp(source, target, shallow=False):
            problem = "the copy differs"
        return problem


def run_datagrams(env, words):
    """udpong; its server is endless. Most bytes must have crossed the device: the first messages go by UDP."""
    port = str(pairs.free_port())
    with tempfile.TemporaryDirectory() as folder:
        counters = os.path.join(folder, "counters")
        server = start(["udpong", "-b", "127.0.0.1", "-p", port] + words.split(), env)
        client = ["udpong", "-s", "127.0.0.1", "-p", port, "-S", "1000", "-C", "500"] + words.split()
        problem = connect(client, {**env, "VERBENA_COUNTERS": counters}, server)
        stop(server)
        if not problem and carried(counters) < 400_000:
            problem = f"the device carried {carried(counters)} bytes of 500000"
        return problem


def run_kill(env, which):
    """One end is killed while both are busy; the other one notices."""
    port = str(pairs.free_port())
    command = ["stdbuf", "-oL", "rstream", "-p", port, "-S", "64", "-C", "1", "-I", "100000000"]
    server = start(command, env)
    until = time.monotonic() + pairs.SECONDS
    client = start(command + ["-s", "127.0.0.1"], env)
    while time.monotonic() < until:  # until it stays connected
        time.sleep(0.5)
        if client.poll() is None:
            break
        stop(client)
        client = start(command + ["-s", "127.0.0.1"], env)
    time.sleep(0.5)
    killed, other = (server, client) if which == "server" else (client, server)
    killed.kill()
    try:
        text, _ = other.communicate(timeout=NOTICED)
        problem = None if "reset" in text else f"said something else than that the connection was reset:\n{text}"
    except subprocess.TimeoutExpired:
        problem = f"not noticed in {NOTICED} s:\n{pairs.where([other.pid])}"
    stop(killed)
    stop(other)
    return problem


def preload(env, library, **more):
    return {**env, "LD_PRELOAD": library, **more}


def run_iperf(env, words, least):
    """iperf3, both ends preloaded. It lists what it carried; the device must have carried as much."""
    port = str(pairs.free_port())
    with tempfile.TemporaryDirectory() as folder:
        counters = os.path.join(folder, "counters")
        server = start(["iperf3", "-s", "-1", "-p", port], env)
        client = ["iperf3", "-J", "-c", "127.0.0.1", "-p", port] + words.split()
        problem = connect(client, {**env, "VERBENA_COUNTERS": counters}, server) or finish(server, "server")
        stop(server)
        if not problem and carried(counters) < least:
            problem = f"the device carried {carried(counters)} bytes of at least {least}"
        return problem


# A server of HTTP that waits with epoll.
WITH_EPOLL = """
import asyncio, sys
async def answer(reader, writer):
    while (await reader.readline()).strip():
        pass
    with open("big", "rb") as file:
        body = file.read()
    writer.write(b"HTTP/1.0 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1]))
    async with server:
        await server.serve_forever()
asyncio.run(main())
"""
# One that starts a program for each request, while others are under way.
WITH_CHILDREN = """
import http.server, subprocess, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        for close_fds in (True, False):
            assert subprocess.run(["echo", "x"], capture_output=True, close_fds=close_fds).stdout == b"x\\n"
        super().do_GET()
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


# Both ends of a connection in one process, and checks of what other threads do while one waits.
BOTH_ENDS = """
import ctypes, os, select, socket, threading, time
def pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = []
        thread = threading.Thread(target=lambda: made.append(socket.create_connection(listener.getsockname())))
        thread.start()
        passive = listener.accept()[0]
        thread.join()
    made[0].settimeout(20)
    passive.settimeout(20)
    return made[0], passive
def while_waiting(epoll, act):
    got = []
    thread = threading.Thread(target=lambda: got.extend(epoll.poll(20)))
    thread.start()
    time.sleep(0.3)
    begin = time.monotonic()
    act()
    thread.join()
    assert time.monotonic() - begin < 10, "the thread that waits was not woken"
    return got
"""
EPOLL_THREADS = BOTH_ENDS + """
epoll = select.epoll()
for flags in (select.EPOLLIN, select.EPOLLIN | select.EPOLLONESHOT, select.EPOLLIN | select.EPOLLET) * 2:
    active, passive = pair()
    number = passive.fileno()
    active.sendall(b"x")
    expected = [(number, select.EPOLLIN)]
    assert while_waiting(epoll, lambda: epoll.register(number, flags)) == expected
    if flags & select.EPOLLONESHOT:
        assert while_waiting(epoll, lambda: epoll.modify(number, flags)) == expected
    if flags & select.EPOLLET:
        assert while_waiting(epoll, lambda: (passive.recv(1), active.sendall(b"y"))) == expected
    passive.recv(1)
    reader = threading.Thread(target=lambda: epoll.poll(20))
    reader.start()
    time.sleep(0.3)
    passive.close()
    begin = time.monotonic()
    assert active.recv(1) == b""
    assert time.monotonic() - begin < 10, "the end was told late"
    other, end = pair()  # ends what waits
    epoll.register(end.fileno(), select.EPOLLIN)
    other.sendall(b"x")
    reader.join()
    epoll.unregister(end.fileno())
# Of several threads that wait, one is told.
for _ in range(10):
    (active, passive), (other, end) = pair(), pair()
    number = passive.fileno()
    epoll.register(number, select.EPOLLIN | select.EPOLLONESHOT)
    got = []
    threads = [threading.Thread(target=lambda: got.extend(epoll.poll(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    active.sendall(b"x")
    time.sleep(0.1)
    other.sendall(b"x")
    epoll.register(end.fileno(), select.EPOLLIN)  # ends what waits
    for thread in threads:
        thread.join()
    assert [one for one, _ in got].count(number) == 1, got
    for one in (active, passive, other, end):
        one.close()
print("done")
"""
DESCRIPTORS = BOTH_ENDS + """
libc = ctypes.CDLL(None, use_errno=True)
libc.fdopen.restype = ctypes.c_void_p
active, passive = pair()
try:
    os.dup2(9999, active.fileno())
    assert False, "no such descriptor"
except OSError as error:
    assert error.errno == 9, error
active.sendall(b"still here")
assert passive.recv(20) == b"still here"
copy = os.dup(active.fileno())
active.close()
os.write(copy, b"copied")
assert passive.recv(20) == b"copied"
os.close(copy)
assert passive.recv(20) == b""
ways = (lambda number: libc.fclose(ctypes.c_void_p(libc.fdopen(number, b"r"))),
        lambda number: libc.close_range(number, number, 0),
        lambda number: os.close(os.dup2(os.open("/dev/null", os.O_RDWR), number)))
for close in ways:
    active, passive = pair()
    close(active.detach())
    assert passive.recv(20) == b"", "the end was not told"
print("done")
"""

# Refused, as nobody listens yet, a socket can be connected later.
TRY_AGAIN = """
import socket, threading
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
client = socket.socket()
for _ in range(3):
    assert client.connect_ex(listener.getsockname()) == 111
listener.listen()
thread = threading.Thread(target=lambda: client.connect(listener.getsockname()))
thread.start()
listener.settimeout(20)
accepted = listener.accept()[0]
thread.join()
client.sendall(b"hello")
assert accepted.recv(20) == b"hello"
print("done")
"""


def run_script(env, script):
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=pairs.SECONDS)
    return None if done.stdout == "done\n" else f"exit status {done.returncode}:\n{done.stdout}{done.stderr}"


def run_http(env, server_words, at_once=1):
    """curl fetches a file, perhaps several times at once; it must be whole, and have come over the device."""
    port = str(pairs.free_port())
    with tempfile.TemporaryDirectory() as folder:
        big = os.path.join(folder, "big")
        with open(big, "wb") as file:
            file.write(os.urandom(10_000_000))
        server = start([sys.executable] + server_words + [port], env, cwd=folder)
        fetch = lambda number: ["curl", "-sS", "-o", os.path.join(folder, f"got{number}"), f"http://127.0.0.1:{port}/big"]
        counters = lambda number: os.path.join(folder, f"counters{number}")
        problem = connect(fetch(0), {**env, "VERBENA_COUNTERS": counters(0)}, server)
        others = [start(fetch(number), {**env, "VERBENA_COUNTERS": counters(number)}) for number in range(1, at_once)]
        for other in others:
            problem = problem or finish(other, "client")
            stop(other)
        text = stop(server)
        for number in range(at_once):
            if not problem and not filecmp.cmp(big, os.path.join(folder, f"got{number}"), shallow=False):
                problem = f"what came differs:\n{text}"
            if not problem and carried(counters(number)) < 10_000_000:
                problem = f"the device carried {carried(counters(number))} bytes of 10000000"
        return problem


def run_without_peer(env):
    """A server without rsockets: a client that waits in connect() goes on by TCP, and says so."""
    port = str(pairs.free_port())
    server = start([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", port], {**env, "LD_PRELOAD": ""})
    until = time.monotonic() + LISTENS
    while not pairs.listens(int(port)) and time.monotonic() < until:
        time.sleep(0.01)
    script = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{port}/').status)"
    said = [subprocess.run([sys.executable, "-c", script], env={**env, **more}, capture_output=True, text=True, timeout=pairs.SECONDS)
            for more in ({}, {"VERBENA_QUIET": "1"})]
    stop(server)
    if [one.stdout for one in said] != ["200\n"] * 2:
        return f"did not get through: {said}"
    if "connected by TCP" not in said[0].stderr or said[1].stderr:
        return f"said something else: {said}"
    return None


def add_preloaded(cases, env):
    ours = preload(env, "librspreload.so")
    distributions = "/usr/lib/*-linux-gnu/rsocket/librspreload.so"
    for words in ("-t 1", "-t 1 -R", "-t 1 -P 4", "-t 1 --bidir", "-n 20M -Z"):
        cases.append((f"iperf3 {words}", lambda words=words: run_iperf(ours, words, 10_000_000)))
    for library in glob.glob(distributions):
        cases.append(("iperf3 rdma-core's-preload", lambda library=library: run_iperf(preload(env, library), "-t 1", 10_000_000)))
    cases.append(("curl http.server", lambda: run_http(ours, ["-m", "http.server", "--bind", "127.0.0.1"])))
    cases.append(("curl epoll", lambda: run_http(ours, ["-c", WITH_EPOLL], 4)))
    cases.append(("curl children", lambda: run_http(ours, ["-c", WITH_CHILDREN], 3)))
    cases.append(("epoll threads", lambda: run_script(ours, EPOLL_THREADS)))
    cases.append(("descriptors", lambda: run_script(ours, DESCRIPTORS)))
    cases.append(("try again", lambda: run_script(ours, TRY_AGAIN)))
    cases.append(("no rsocket at the peer", lambda: run_without_peer(ours)))
    forks = preload(env, "librspreload.so", RDMAV_FORK_SAFE="1")
    for way in ("-T f", "-T s"):
        cases.append((f"rstream {way}", lambda way=way: run_stream(forks, "rstream", f"-S 5000 -C 1000 -I 5 -T v {way}", 40_000_000)))


def main():
    arguments = pairs.arguments(__doc__)
    env = pairs.environment(arguments.libraries)
    cases = []
    custom = "-S 5000 -C 1000 -I 5 -T v"
    for program in ("rstream", "riostream"):
        for way in ("", "-T a", "-T b", "-T n"):
            cases.append((f"{program} {way}".strip(), lambda program=program, way=way: run_stream(env, program, f"{custom} {way}", 40_000_000)))
    for words in ("-T r", "-i 0", "-B 8192", "-k 1"):
        cases.append((f"rstream {words}", lambda words=words: run_stream(env, "rstream", f"{custom} {words}", 40_000_000)))
    cases.append(("rstream small", lambda: run_stream(env, "rstream", "-S 1 -C 1000 -I 3 -T v", 6000)))
    cases.append(("rstream all sizes", lambda: run_stream(env, "rstream", "-S all -I 20 -C 20", 1_000_000)))
    cases.append(("rcopy", lambda: run_copy(env)))
    for words in ("-T b", "-T a", "-T b -T e"):
        cases.append((f"udpong {words}", lambda words=words: run_datagrams(env, words)))
    for which in ("server", "client"):
        cases.append((f"kill {which}", lambda which=which: run_kill(env, which)))
    add_preloaded(cases, env)
    return pairs.run_cases(cases, arguments, 2)


if __name__ == "__main__":
    sys.exit(main())
