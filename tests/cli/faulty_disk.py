# SPDX-License-Identifier: Apache-2.0
"""A file system of our own (FUSE, spoken directly with the kernel) in which chosen reads and writes fail.

Files live in the memory of a thread of this process. What the kernel has cached is its own: a page whose
write-back fails stays in its cache, as with a disk. One flat directory, and no more than a store needs.

    with FaultyDisk(folder) as disk:
        disk.unreadable.add(("blocks.0of1.000", 4096))     # this page gives EIO
        disk.fail_writes = lambda name, offset: offset == 8192
"""
import ctypes
import errno
import functools
import os
import stat
import struct
import threading
import unittest

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MNT_DETACH = 2
PAGE = 4096
MAX_WRITE = 128 << 10

LOOKUP, FORGET, GETATTR, SETATTR, UNLINK, RENAME = 1, 2, 3, 4, 10, 12
OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH = 14, 15, 16, 17, 18, 20, 25
INIT, OPENDIR, READDIR, RELEASEDIR, FSYNCDIR, ACCESS, CREATE = 26, 27, 28, 29, 30, 34, 35
INTERRUPT, BATCH_FORGET, RENAME2 = 36, 42, 45
SILENT = (FORGET, BATCH_FORGET, INTERRUPT)


@functools.cache
def enter_namespaces():
    """Mounts are this process's alone, and gone with it. Raises SkipTest where that cannot be had."""
    if not os.path.exists("/dev/fuse"):
        raise unittest.SkipTest("this system has no FUSE")
    uid, gid = os.getuid(), os.getgid()
    if uid == 0 and LIBC.unshare(CLONE_NEWNS) == 0:
        pass
    elif LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    else:
        raise unittest.SkipTest("this system has no mount namespaces for us")
    LIBC.mount(b"none", b"/", None, 0x4000 | 0x40000, None)  # MS_REC | MS_PRIVATE


class FaultyDisk:
    def __init__(self, folder):
        self.folder = folder
        self.names = {}    # name: inode
        self.files = {}    # inode: bytearray
        self.next = 2
        self.lock = threading.Lock()
        self.unreadable = set()       # (name, offset of a page)
        self.fail_writes = None       # (name, offset of a page) -> whether that fails
        self.failed = []              # those that did
        self.written = []             # (name, offset of a page), since it was emptied
        self.readdir_fails = False    # behind the first entries

    def __enter__(self):
        enter_namespaces()
        try:
            self.fd = os.open("/dev/fuse", os.O_RDWR)
        except OSError as error:
            raise unittest.SkipTest(f"/dev/fuse: {error}") from error
        options = f"fd={self.fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        if LIBC.mount(b"faulty", self.folder.encode(), b"fuse", 6, options.encode()) != 0:  # NOSUID | NODEV
            error = os.strerror(ctypes.get_errno())
            os.close(self.fd)
            raise unittest.SkipTest(f"mounting a FUSE file system: {error}")
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        LIBC.umount2(self.folder.encode(), MNT_DETACH)
        self.thread.join(20)
        os.close(self.fd)

    def drop_cache(self, name):
        """Only what was written is read from now on."""
        fd = os.open(os.path.join(self.folder, name), os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)

    # --- the protocol

    def serve(self):
        while True:
            try:
                request = os.read(self.fd, MAX_WRITE + 4096)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return  # ENODEV: unmounted
            _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
            with self.lock:
                try:
                    body, error = self.answer(opcode, node, request[40:]), 0
                except OSError as failure:
                    body, error = b"", failure.errno
            if opcode in SILENT:
                continue
            try:
                os.write(self.fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)
            except OSError:
                pass  # the asker is gone

    def answer(self, opcode, node, body):
        handler = self.HANDLERS.get(opcode)
        if handler is None:
            raise OSError(errno.ENOSYS, "not here")
        return handler(self, node, body)

    @staticmethod
    def text(body):
        return body.split(b"\0")[0].decode()

    def attributes(self, node):
        if node == 1:
            mode, size = stat.S_IFDIR | 0o755, 0
        else:
            mode, size = stat.S_IFREG | 0o600, len(self.files[node])
        return struct.pack("<6Q3I7I", node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, mode, 1 if node != 1 else 2,
                           os.getuid(), os.getgid(), 0, PAGE, 0)

    def entry(self, node):
        return struct.pack("<4Q2I", node, 0, 3600, 3600, 0, 0) + self.attributes(node)

    def init(self, _node, body):
        major, _minor, readahead, _flags = struct.unpack_from("<4I", body)
        big_writes = 1 << 5
        return struct.pack("<4I2H4I7I", major, 31, readahead, big_writes, 16, 12, MAX_WRITE, 1, 0, 0, *([0] * 7))

    def lookup(self, _node, body):
        name = self.text(body)
        if name not in self.names:
            raise OSError(errno.ENOENT, name)
        return self.entry(self.names[name])

    def getattr(self, node, _body):
        return struct.pack("<QII", 3600, 0, 0) + self.attributes(node)

    def setattr(self, node, body):
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        if valid & 8:
            file = self.files[node]
            del file[size:]
            file.extend(bytes(size - len(file)))
        return self.getattr(node, body)

    def create(self, _node, body):
        name = self.text(body[16:])
        node = self.next
        self.next += 1
        self.names[name] = node
        self.files[node] = bytearray()
        return self.entry(node) + struct.pack("<QII", 0, 0, 0)

    def unlink(self, _node, body):
        name = self.text(body)
        if name not in self.names:
            raise OSError(errno.ENOENT, name)
        del self.names[name]
        return b""

    def rename(self, body):
        old, new = [part.decode() for part in body.split(b"\0")[:2]]
        self.names[new] = self.names.pop(old)
        return b""

    def name_of(self, node):
        return next((name for name, other in self.names.items() if other == node), "")

    @staticmethod
    def pages(offset, size):
        return range(offset - offset % PAGE, offset + size, PAGE)

    def read(self, node, body):
        _, offset, size = struct.unpack_from("<QQI", body)
        name = self.name_of(node)
        # All of it: fewer bytes would be the end of the file. The kernel tries again page by page.
        if any((name, page) in self.unreadable for page in self.pages(offset, size)):
            raise OSError(errno.EIO, "a bad sector")
        return bytes(self.files[node][offset:offset + size])

    def write(self, node, body):
        _, offset, size = struct.unpack_from("<QQI", body)
        data = body[40:40 + size]
        name = self.name_of(node)
        file = self.files[node]
        bad = False
        for page in self.pages(offset, size):
            if self.fail_writes is not None and self.fail_writes(name, page):
                self.failed.append((name, page))
                bad = True
                continue
            self.written.append((name, page))
            begin, end = max(page, offset), min(page + PAGE, offset + size)
            file.extend(bytes(max(0, end - len(file))))
            file[begin:end] = data[begin - offset:end - offset]
            if end - begin == PAGE:
                self.unreadable.discard((name, page))  # the disk gives it another place
        if bad:
            raise OSError(errno.EIO, "a bad sector")
        return struct.pack("<II", size, 0)

    def readdir(self, _node, body):
        _, offset, _size = struct.unpack_from("<QQI", body)
        entries = [(1, "."), (1, "..")] + [(node, name) for name, node in self.names.items()]
        if self.readdir_fails and offset > 0:
            raise OSError(errno.EIO, "a bad sector")
        out = b""
        # A few at a time, so that reading goes on in another call.
        for at, (node, name) in list(enumerate(entries))[offset:offset + 2]:
            encoded = name.encode()
            record = struct.pack("<QQII", node, at + 1, len(encoded), 0) + encoded
            out += record + bytes(-len(record) % 8)
        return out

    HANDLERS = {
        INIT: init, LOOKUP: lookup, GETATTR: getattr, SETATTR: setattr, CREATE: create, UNLINK: unlink,
        RENAME: lambda self, _node, body: self.rename(body[8:]),
        RENAME2: lambda self, _node, body: self.rename(body[16:]),
        OPEN: lambda self, _node, _body: struct.pack("<QII", 0, 2, 0),  # FOPEN_KEEP_CACHE
        OPENDIR: lambda self, _node, _body: struct.pack("<QII", 0, 0, 0),
        READ: read, WRITE: write, READDIR: readdir,
        STATFS: lambda self, _node, _body: struct.pack("<5Q4I6I", 1 << 20, 1 << 19, 1 << 19, 1000, 500, PAGE, 255,
                                                       PAGE, 0, *([0] * 6)),
        **{code: lambda self, _node, _body: b"" for code in (RELEASE, RELEASEDIR, FSYNC, FSYNCDIR, FLUSH, ACCESS,
                                                             FORGET, BATCH_FORGET, INTERRUPT)},
    }
