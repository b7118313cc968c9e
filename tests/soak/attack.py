"""Attack lore with each class of hostile input; report the number of inputs and of failures.

    python tests/soak/attack.py [--seed N] [--share F] [--only CLASS]

`make attack`, a part of `make soak`. The seed is fixed, so that a run can be repeated; `--share 0.1` tries a tenth of
each class. Exit code 1 if anything failed.
"""

import argparse
import contextlib
import faulthandler
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from soak.attacks import CLASSES, Attacks

SHOWN = 5  # failures of a class


def attacked(make: Callable[[Random, int], Attacks], chance: Random, count: int) -> tuple[int, list[str]]:
    """Run one class in an empty folder; return how many inputs it had, and what failed."""
    tried, failed = 0, []
    with (
        tempfile.TemporaryDirectory(prefix="lore-attack-", ignore_cleanup_errors=True) as folder,
        contextlib.chdir(folder),
    ):
        for name, place in {"HOME": folder, "LORE_STATE": "state", "XDG_CACHE_HOME": "cache"}.items():
            os.environ[name] = os.path.join(folder, place)  # what commands keep goes with the folder
        for attack in make(chance, count):
            tried += 1
            try:
                attack.run()
            except Exception as error:  # noqa: BLE001 - whatever escapes is what an attack looks for
                frame = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(frame.filename).name}:{frame.lineno}"
                failed.append(
                    f"{attack.name}: {type(error).__name__} at {place}: {str(error).partition(chr(10))[0][:300]}"
                )
    return tried, failed


def main(
    arguments: list[str] | None = None, classes: Mapping[str, tuple[Callable[[Random, int], Attacks], int]] = CLASSES
) -> int:
    """Attack; print a line a class, and the first failures of it."""
    parser = argparse.ArgumentParser(description="Attack lore.")
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--share", type=float, default=1.0, help="of the inputs of each class")
    parser.add_argument("--only", choices=classes, help="one class")
    given = parser.parse_args(arguments)
    inputs = failures = 0
    for name, (make, most) in classes.items():
        if given.only in (None, name):
            tried, failed = attacked(make, Random(f"{given.seed}:{name}"), max(1, round(most * given.share)))
            inputs, failures = inputs + tried, failures + len(failed)
            print(f"{name}: {tried:,} inputs, {len(failed)} failures", flush=True)
            for one in failed[:SHOWN]:
                print(f"  {one}", flush=True)
    print(f"{inputs:,} inputs, {failures} failures (seed {given.seed})")
    return 1 if failures else 0


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
