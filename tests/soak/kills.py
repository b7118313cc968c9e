"""Kill writers, and a server, 300 times for each store: nothing acknowledged is lost or doubled.

    python tests/soak/kills.py [--count N] [--seed N]

A part of `make soak`. Exit code 1 where anything fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from plugins.postgres.server import Server, binaries
from store.killing import kills


def main(arguments: list[str] | None = None) -> int:
    """Kill, and say how it went."""
    parser = argparse.ArgumentParser(description="Kill writers of stores.")
    parser.add_argument("--count", type=int, default=300, help="kills a store")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run; default: another one every time")
    given = parser.parse_args(arguments)
    seed = int(time.time()) if given.seed is None else given.seed
    print(f"seed {seed}, {given.count} kills a store", flush=True)
    installed = binaries()
    try:
        with tempfile.TemporaryDirectory(prefix="lore-kills-") as folder:
            for scheme in ("jsonl", "sqlite"):
                print(f"{scheme}: {kills(f'{scheme}:{folder}/{scheme}', given.count, Random(seed))}", flush=True)
        if installed is None:
            print("postgresql: not installed here")
        else:
            with Server(installed) as server:
                url = server.database()
                print(f"postgresql: {kills(url, given.count, Random(seed), server)}", flush=True)
    except AssertionError as error:
        print(f"failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
