#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Puts an object, reads a part of it back, clones it, and changes the clone as a file.

verbena serve --memory 1G &
put_get.py 127.0.0.1 7471
"""
import sys

import verbena


def use(client: verbena.Client) -> None:
    # All of it, in one step: others see the old object or the new one.
    done = client.put("greeting", b"Hello, chunk\n")
    print(f"put {done.bytes} bytes, CRC {done.crc:08x}")

    # A part of it, as a memoryview: Python makes no copy of what arrived.
    print(f'read "{bytes(client.read("greeting", 5, 7)).decode()}"')

    # A clone shares its data, until one of the two is changed.
    client.clone("greeting", "copy")
    with client.open("copy", "a") as file:
        print("and goodbye", file=file)
    print("got", bytes(client.get("copy")).decode(), end="")

    for info in client.list("gree"):
        print(f"{info.size:12} {info.name}")

    client.remove("copy")
    client.flush()


def main() -> None:
    host = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 7471
    try:
        with verbena.Client(host, port) as client:
            use(client)
    except verbena.VerbenaError as error:
        sys.exit(f"put_get: {error.word}: {error.strerror}")


if __name__ == "__main__":
    main()
