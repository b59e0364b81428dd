#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives queue pairs of a verbs device by JSON lines over TCP, one connection each: agent.py DEVICE PORT.

A line is a request, {"do": NAME, ...}; its answer is a line too, {"error": TEXT} where it was refused. The requests
are the methods of Agent without an underscore. verbena_agent understands the same ones, so that a script can put
the kernel's device and Verbena opposite each other; `fill`, `digest` and `run` are ours alone, for an emulated machine
is slow to talk to, and hard to reach otherwise.
"""
import hashlib
import json
import random
import socket
import subprocess
import sys
import threading
import time

import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

QKEY = 0x11111111
ALL_ACCESS = 15  # local write; remote write, read, atomic
TYPES = {"RC": e.IBV_QPT_RC, "UC": e.IBV_QPT_UC, "UD": e.IBV_QPT_UD}
MTUS = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
OPERATIONS = {
    "send": e.IBV_WR_SEND,
    "send_imm": e.IBV_WR_SEND_WITH_IMM,
    "write": e.IBV_WR_RDMA_WRITE,
    "write_imm": e.IBV_WR_RDMA_WRITE_WITH_IMM,
    "read": e.IBV_WR_RDMA_READ,
    "cas": e.IBV_WR_ATOMIC_CMP_AND_SWP,
    "fadd": e.IBV_WR_ATOMIC_FETCH_AND_ADD,
}


class Agent:
    def __init__(self, device):
        self._device = device
        self._open = []  # what to close, newest last

    def _keep(self, thing):
        self._open.append(thing)
        return thing

    def _close(self):
        while self._open:
            self._open.pop().close()

    def open(self, qpt="RC", mr_len=65536, gid=1, mr_access=ALL_ACCESS, qp_access=ALL_ACCESS, depth=64):
        """A queue pair with memory. `gid` is the index of the address it has."""
        self._type, self._gid_index, self._qp_access = qpt, gid, qp_access
        context = self._keep(Context(name=self._device))
        self._pd = self._keep(PD(context))
        self._cq = self._keep(CQ(context, 4 * depth))
        self._mr = self._keep(MR(self._pd, mr_len, mr_access))
        self._mr.write(bytes(mr_len), mr_len)
        self._psn = random.getrandbits(24)
        cap = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttr(qp_type=TYPES[qpt], scq=self._cq, rcq=self._cq, cap=cap, sq_sig_all=1)
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = qp_access
        if qpt == "UD":
            attr.qkey, attr.sq_psn = QKEY, self._psn
        self._qp = self._keep(QP(self._pd, init, attr))  # UD is ready to send with this
        return {
            "qpn": self._qp.qp_num,
            "psn": self._psn,
            "gid": context.query_gid(1, gid).gid,
            "addr": self._mr.buf,
            "rkey": self._mr.rkey,
        }

    def connect(self, qpn, psn, gid, mtu=1024, rnr_timer=12, timeout=14, retry=7, rnr_retry=7, rd_atomic=4):
        route = GlobalRoute(dgid=GID(gid), sgid_index=self._gid_index)
        route.hop_limit = 64
        path = AHAttr(port_num=1, is_global=1, gr=route)
        if self._type == "UD":
            self._ah, self._remote_qpn = self._keep(AH(self._pd, attr=path)), qpn
            return
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = self._qp_access
        attr.path_mtu, attr.ah_attr = MTUS[mtu], path
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = qpn, psn, self._psn
        attr.max_dest_rd_atomic = attr.max_rd_atomic = rd_atomic
        attr.min_rnr_timer, attr.timeout = rnr_timer, timeout
        attr.retry_cnt, attr.rnr_retry = retry, rnr_retry
        self._qp.to_rts(attr)

    def recv(self, n=1, off=0, len=4096, wr_id=100):
        for i in range(n):
            sge = SGE(self._mr.buf + off, len, self._mr.lkey)
            self._qp.post_recv(RecvWR(wr_id=wr_id + i, num_sge=1, sg=[sge]))

    def send(self, op, n=1, off=0, len=0, raddr=0, rkey=0, imm=None, cmp=0, swap=0, wr_id=1, qkey=QKEY):
        """Posts `n` of the same. `cmp` is also what a fetch-and-add adds."""
        for i in range(n):
            sge = SGE(self._mr.buf + off, len, self._mr.lkey)
            wr = SendWR(wr_id=wr_id + i, num_sge=1, sg=[sge], opcode=OPERATIONS[op], send_flags=e.IBV_SEND_SIGNALED)
            if op in ("write", "write_imm", "read"):
                wr.set_wr_rdma(rkey, raddr)
            if op in ("cas", "fadd"):
                wr.set_wr_atomic(rkey, raddr, cmp, swap)
            if imm is not None:
                wr.imm_data = socket.htonl(imm)
            if self._type == "UD":
                wr.set_wr_ud(self._ah, self._remote_qpn, qkey)
            self._qp.post_send(wr)

    def poll(self, n=1, timeout=5):
        """Up to `n` completions, those that come within `timeout` seconds."""
        end, completions = time.monotonic() + timeout, []
        while len(completions) < n:
            got, batch = self._cq.poll(n - len(completions))
            for c in batch if got else []:
                completions.append({
                    "wr_id": c.wr_id, "status": c.status, "op": c.opcode, "len": c.byte_len,
                    "imm": socket.ntohl(c.imm_data), "flags": c.wc_flags, "src_qp": c.src_qp,
                })  # fmt: skip
            if not got:
                if time.monotonic() > end:
                    break
                time.sleep(0.001)
        return {"wc": completions}

    def peek(self, off=0, len=64):
        return {"hex": self._mr.read(len, off).hex() if len else ""}

    def poke(self, hex, off=0):
        data = bytes.fromhex(hex)
        self._mr.write(data, len(data), off)

    def fill(self, seed, off=0, len=0):
        """Like `poke`, of random bytes that need not be sent here."""
        self._mr.write(random.Random(seed).randbytes(len), len, off)

    def digest(self, off=0, len=0):
        """Like `peek`, for more bytes than one wants to wait for."""
        return {"sha256": hashlib.sha256(self._mr.read(len, off)).hexdigest()}

    def state(self):
        return {"state": self._qp.query(e.IBV_QP_STATE)[0].qp_state}

    def run(self, command):
        """A shell command, for what is not a queue pair's."""
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr.strip()}")
        return {"out": done.stdout}


def serve(connection, device):
    agent, stream = Agent(device), connection.makefile("rw")
    try:
        for line in stream:
            request = json.loads(line)
            name = request.pop("do")
            try:
                if name.startswith("_"):
                    raise ValueError(f"no such request: {name}")
                answer = getattr(agent, name)(**request) or {}
            except Exception as problem:
                answer = {"error": f"{type(problem).__name__}: {problem}"}
            stream.write(json.dumps(answer) + "\n")
            stream.flush()
    except (ConnectionError, ValueError):
        pass  # the script is gone
    finally:
        agent._close()
        connection.close()


def main():
    device, port = sys.argv[1], int(sys.argv[2])
    Context(name=device).close()  # says what is wrong before anybody connects
    with socket.create_server(("", port), backlog=64) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, device), daemon=True).start()


if __name__ == "__main__":
    main()
