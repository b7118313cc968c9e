"""Fuzz the readers, the fold, the assembler and the commands.

    python tests/fuzz/run.py [--inputs N] [--seed N] [--tokens]

Each input is mutated from a fixture, a seed or a real recording, and checked against every law of `properties`. An
input that breaks one is shrunk and saved in the temporary folder. If it was not made from a real recording, copy it to
`tests/fuzz/corpus`, where the normal suite replays it (`NAME.bin`, and the compared file as `NAME.other`); else write
a seed like it by hand. Exit code 1 if a law was broken.
"""

import argparse
import contextlib
import faulthandler
import hashlib
import random
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz import mutate, properties, samples, shrink

SLOW = 20  # CPU seconds, whatever else the machine does: an input of 64 KiB that takes longer is a failure
SLOW_SHRUNK = 3  # while a slow input is shrunk
SHRINK_SECONDS = 20.0
FOUND = Path(tempfile.gettempdir()) / "lore-fuzz"  # shrunk inputs that broke a law


class TooSlowError(Exception):
    """An input took longer than any of its size should."""


@contextlib.contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raise TooSlowError if the block takes more CPU time, if the system has alarms."""
    if not hasattr(signal, "SIGPROF"):
        yield
        return

    def ring(*_: object) -> None:
        raise TooSlowError(f"more than {seconds} s of CPU time")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def broken(examine: Callable[[], None], seconds: int = SLOW) -> str | None:
    """Return a signature of the failure of an examination, the same for the same bug; None without a failure."""
    try:
        with limit(seconds):
            examine()
    except Exception as error:  # noqa: BLE001 - any exception is a failure
        frames = traceback.extract_tb(error.__traceback__)
        own = [one for one in frames if "/lore/" in one.filename.replace("\\", "/")] or frames
        said = re.sub(r"\d+", "n", str(error).partition("\n")[0])[:60] if isinstance(error, AssertionError) else ""
        return f"{type(error).__name__} {said} at {Path(own[-1].filename).name}:{own[-1].name}"
    return None


def save(signature: str, data: bytes, other: bytes, examine: Callable[[bytes, bytes], None]) -> Path:
    """Shrink a failing input and the file that it is compared with, which is saved only if the failure needs it."""
    seconds = SLOW_SHRUNK if signature.startswith(TooSlowError.__name__) else SLOW

    def fails(data: bytes, other: bytes) -> bool:
        return broken(lambda: examine(data, other), seconds) == signature

    other = b"" if fails(data, b"") else other
    data = shrink.shrink(data, lambda kept: fails(kept, other), SHRINK_SECONDS)
    other = shrink.shrink(other, lambda kept: fails(data, kept), SHRINK_SECONDS)
    words = re.sub(r"[^a-z0-9]+", "-", signature.lower()).strip("-")[:60]
    FOUND.mkdir(exist_ok=True)
    path = FOUND / f"{words}-{hashlib.sha256(data + other).hexdigest()[:6]}.bin"
    path.write_bytes(data)
    if other:
        path.with_suffix(".other").write_bytes(other)
    return path


def main(arguments: list[str] | None = None) -> int:
    """Try a number of inputs; print the failures."""
    parser = argparse.ArgumentParser(description="Fuzz lore.")
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=24, help="another seed tries other inputs")
    parser.add_argument("--tokens", action="store_true", help="count tokens too (slower)")
    given = parser.parse_args(arguments)
    counter = None
    if given.tokens:
        from lore.tokens.o200k import Counter  # noqa: PLC0415 - loads a vocabulary

        counter = Counter()
    faulthandler.enable()
    chance, found = random.Random(given.seed), dict[str, Path | str]()
    with tempfile.TemporaryDirectory(prefix="lore-fuzz-") as folder:

        def examine(data: bytes, other: bytes) -> None:
            properties.examine(data, other, Path(folder), counter)

        inputs = []
        for name, data in samples.gather().items():
            signature = broken(lambda data=data: examine(data, b""))
            if signature is None:
                inputs.append(data)
            elif signature not in found:
                found[signature] = name
        print(f"seed {given.seed}, {len(inputs)} inputs to begin with", flush=True)
        for _ in range(given.inputs):
            original, donor = chance.choice(inputs), chance.choice(inputs)
            data = mutate.mutate(original, donor, chance)
            signature = broken(lambda data=data, original=original: examine(data, original))
            if signature is not None and signature not in found:
                found[signature] = save(signature, data, original, examine)
    for signature, place in found.items():
        print(f"{signature}\n  {place}")
    print(f"{given.inputs:,} inputs tried (seed {given.seed}), {len(found)} broke something")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
