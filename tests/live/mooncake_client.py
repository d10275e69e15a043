"""A client of a Mooncake store, as a program of its own: puts objects, gets them and others, then waits to be killed.

Usage: mooncake_client.py MASTER PUTS GETS MISSES; prints one line of JSON when it has done so.
"""

import json
import sys
import time

from mooncake.store import MooncakeDistributedStore  # type: ignore[import-not-found]  # in an environment of its own

OBJECT_BYTES = 65_536


def main(master: str, puts: int, gets: int, misses: int) -> None:
    store = MooncakeDistributedStore()
    store.setup("127.0.0.1", "P2PHANDSHAKE", 64 << 20, 16 << 20, "tcp", "", master)
    stored = sum(store.put(f"object-{number}", bytes(OBJECT_BYTES)) == 0 for number in range(puts))
    found = sum(len(store.get(f"object-{number % puts}")) == OBJECT_BYTES for number in range(gets))
    missed = sum(len(store.get(f"nothing-{number}")) == 0 for number in range(misses))
    sys.stdout.write(json.dumps({"puts": stored, "hits": found, "misses": missed}) + "\n")
    sys.stdout.flush()
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
