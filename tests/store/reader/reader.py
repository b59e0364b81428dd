#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads whole stores as docs/store-format.md describes them, and shares no code with src/store.

reader.py STORE... [--list | --cat NAME | --check]

STORE is a directory, one for each medium of the store, or a file of numbered chunks as in tests/golden/store. The
output is JSON; --cat writes the bytes of an object. Exit status: 0, 3 if there is no such object, 4 if anything is
damaged, 7 if there is no store, 9 for another version.
"""
import argparse
import json
import os
import sys

import log
import media
import objects
import report
import roots
import tables
from errors import NoStore, Unusable

NO_OBJECT, DAMAGED, NO_STORE, VERSION = 3, 4, 7, 9


class Store:
    """A store, opened: its objects, and the damage to superblocks, tables and log."""

    def __init__(self, paths):
        if len(paths) == 1 and os.path.isfile(paths[0]):
            self.medium = media.Listed(paths[0])
        else:
            self.medium = media.Folders(paths)
        self.report = report.Report()
        try:
            self._open()
        except Exception:
            self.close()
            raise

    def _open(self):
        self.root = roots.Root(self.medium, self.report)
        self.superblock = self.root.superblock
        by_number, may_be_lost = tables.load(self.medium, self.superblock, self.report)
        self.objects = objects.Objects(by_number, self.superblock.chunks_per_block, may_be_lost)
        self.log = log.Log(self.medium, self.root, self.objects, self.report)

    def close(self):
        self.medium.close()

    def read(self, one):
        return objects.read(self.medium, self.superblock, one)

    def find(self, name):
        return next((one for one in self.objects.shown() if name in (one.name, identity(one))), None)


def identity(one):
    return f"{one.id[0]}:{one.id[1]}"


def describe(one):
    return {"id": identity(one), "name": one.name or None, "size": one.size, "created": one.created,
            "modified": one.modified, "chunks": len(one.map), "lost": sorted(one.lost),
            "behind": sum(high - low for low, high in one.only_behind)}


def list_objects(store):
    return {"objects": [describe(one) for one in store.objects.shown()], "damage": store.report.damage}


def check(store):
    superblock, found = store.superblock, []
    for one in store.objects.shown():
        entry = describe(one)
        entry["damage"] = store.read(one)[1]
        found.append(entry)
    return {"tag": superblock.store, "created": superblock.created, "media": superblock.media,
            "chunks_per_block": superblock.chunks_per_block, "generation": superblock.generation,
            "epoch": roots.epoch(superblock.mark), "closed": store.root.closed, "watermark": store.log.watermark,
            "tables": sum(extent.sequence == 0 for extent in superblock.tables), "dropped": store.log.dropped,
            "log_end": store.log.end, "objects": found, "damage": store.report.damage,
            "incomplete": store.report.incomplete}


def cat(store, name):
    one = store.find(name)
    if one is None:
        return NO_OBJECT
    data, damage = store.read(one)
    sys.stdout.buffer.write(data)
    return DAMAGED if damage or one.lost else 0


def run(options):
    store = Store(options.store)
    if options.cat is not None:
        return cat(store, options.cat)
    document = check(store) if options.check else list_objects(store)
    json.dump(document, sys.stdout, indent=1)
    print()
    damaged = document["damage"] or any(one["lost"] or one.get("damage") for one in document["objects"])
    return DAMAGED if damaged else 0


def main():
    parser = argparse.ArgumentParser(description="Read a store from its format's description alone.")
    parser.add_argument("store", nargs="+")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="list objects (default)")
    action.add_argument("--cat", metavar="NAME", help="write the bytes of an object, by name or id")
    action.add_argument("--check", action="store_true", help="read everything, and list damage")
    try:
        return run(parser.parse_args())
    except NoStore as error:
        print(f"reader.py: {error}", file=sys.stderr)
        return NO_STORE
    except Unusable as error:
        print(f"reader.py: the store cannot be read: {error}", file=sys.stderr)
        return VERSION if error.reason == "version" else DAMAGED


if __name__ == "__main__":
    sys.exit(main())
