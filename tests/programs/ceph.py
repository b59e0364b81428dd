#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ceph over its messenger async+rdma: a throw-away cluster in a directory, on 127.0.0.1.

ceph.py DIRECTORY-OF-THE-LIBRARIES [--repeat N] [WORDS...]

One monitor and two OSDs that keep data in memory, each object twice. Objects are put, got and compared; the counters
show that the data went through the device, from client to OSD and from OSD to OSD.
"""
import hashlib
import os
import subprocess
import sys
import uuid

from counted import Programs, arguments, free_port, missing, run_cases, skipped

NEEDED = ("ceph-mon", "ceph-osd", "ceph-authtool", "monmaptool", "ceph", "rados")
OSDS = 2
OBJECTS = 4
BYTES = 4 << 20

CONFIGURATION = """[global]
fsid = {fsid}
mon_host = v2:127.0.0.1:{port}/0
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv6 = false
ms_bind_msgr1 = false
ms_type = async+rdma
ms_async_rdma_device_name = verbena0
ms_async_rdma_local_gid = 0000:0000:0000:0000:0000:ffff:7f00:0001
ms_async_rdma_polling_us = 0
ms_async_rdma_buffer_size = 65536
ms_async_rdma_send_buffers = 256
ms_async_rdma_receive_buffers = 1024
ms_async_rdma_receive_queue_len = 1024
ms_async_op_threads = 2
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
keyring = {directory}/keyring
run_dir = {directory}
admin_socket = {directory}/$name.asok
log_file = {directory}/$name.log
mon_cluster_log_file = {directory}/cluster.log
crash_dir = {directory}
mon_data = {directory}/mon.$id
osd_data = {directory}/osd.$id
osd_objectstore = memstore
memstore_device_bytes = 268435456
osd_pool_default_size = {osds}
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_fast_shutdown = false
osd_op_num_shards = 2
osd_op_num_threads_per_shard = 1
mon_data_avail_warn = 2
mon_data_avail_crit = 1
auth_allow_insecure_global_id_reclaim = false
paxos_propose_interval = 0.05
"""


class Cluster(Programs):
    def prepare(self):
        port = free_port()
        fsid = str(uuid.uuid4())
        with open(self.path("ceph.conf"), "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(fsid=fsid, port=port, directory=self.directory, osds=OSDS))
        self.here("ceph-authtool", self.path("keyring"), "--create-keyring", "--gen-key", "-n", "client.admin",
                  "--cap", "mon", "allow *", "--cap", "osd", "allow *")
        self.here("ceph-authtool", self.path("keyring"), "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        self.here("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{port}/0]",
                  "--set-min-mon-release", "16", self.path("monmap"))
        os.mkdir(self.path("mon.a"))
        self.here("ceph-mon", "--mkfs", "-i", "a", "-c", self.path("ceph.conf"), "--monmap", self.path("monmap"),
                  "--keyring", self.path("keyring"), "--ms_type", "async+posix")
        self.start("mon", ["ceph-mon", "-f", "-i", "a", "-c", self.path("ceph.conf")])
        self.ids = [str(uuid.uuid4()) for _ in range(OSDS)]
        for number, identity in enumerate(self.ids):
            os.mkdir(self.path(f"osd.{number}"))
            self.here("ceph-osd", "--mkfs", "-i", str(number), "-c", self.path("ceph.conf"), "--osd-uuid", identity,
                      "--no-mon-config", "--ms_type", "async+posix")

    def here(self, *command):
        """A tool that only writes files: not on the device."""
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"{command}: exit status {done.returncode}:\n{done.stdout}{done.stderr}")

    def ceph(self, name, *words):
        return self.run(name, [words[0], "-c", self.path("ceph.conf"), *words[1:]])

    def up(self):
        if self.ceph("stat", "ceph", "osd", "stat", "-f", "json"):
            return False
        return f'"num_up_osds":{OSDS}' in self.text("stat.log")


def objects(libraries):
    with Cluster(libraries) as cluster:
        cluster.prepare()
        for number, identity in enumerate(cluster.ids):
            problem = cluster.ceph("new", "ceph", "osd", "new", identity, str(number))
            if problem:
                return problem + cluster.text("mon.log")
            cluster.start(f"osd{number}", ["ceph-osd", "-f", "-i", str(number), "-c", cluster.path("ceph.conf")])
        cluster.wait_for("OSDs up", cluster.up)
        problem = cluster.ceph("pool", "ceph", "osd", "pool", "create", "test", "8")
        for number in range(OBJECTS):
            data = os.urandom(BYTES)
            with open(cluster.path("in"), "wb") as file:
                file.write(data)
            problem = problem or cluster.ceph("put", "rados", "-p", "test", "put", f"o{number}", cluster.path("in"))
            problem = problem or cluster.ceph("get", "rados", "-p", "test", "get", f"o{number}", cluster.path("out"))
            if problem:
                return problem
            with open(cluster.path("out"), "rb") as file:
                if hashlib.sha256(file.read()).digest() != hashlib.sha256(data).digest():
                    return f"object o{number}: other data came back"
        for daemon in cluster.running[::-1]:
            if daemon.poll() is None:
                daemon.terminate()
                daemon.wait(timeout=30)
        # To the first OSD, to the second, and back.
        return cluster.lacks(OBJECTS * BYTES * 3)


def main():
    options = arguments(__doc__.splitlines()[0])
    if absent := missing(*NEEDED):
        return skipped(absent)
    return run_cases([("ceph objects", lambda: objects(options.libraries))], options)


if __name__ == "__main__":
    sys.exit(main())
