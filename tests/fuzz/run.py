"""Fuzz the readers, the fold, the assembler and the commands; keep what breaks as a seed.

    python tests/fuzz/run.py [--inputs N] [--seed N] [--tokens]

Each input is mutated from a fixture, a seed or a real recording and held against every law of
`properties`. An input that breaks one is made smaller and stored in `tests/fuzz/corpus`, where the normal
suite replays it. Exit code 1 where something broke.
"""

from __future__ import annotations

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
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz import mutate, properties, samples, shrink

SLOW = 20  # seconds: an input of 64 KiB that takes longer is a finding
SLOW_SHRUNK = 3  # while a slow input is made smaller
SHRINK_SECONDS = 20.0
PRIVATE = Path(tempfile.gettempdir()) / "lore-fuzz"  # failing inputs made from real recordings


class TooSlowError(Exception):
    """An input took longer than any of its size should."""


@contextlib.contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raise TooSlowError where the block takes longer (where the system can tell): an endless loop ends, too."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(*_: object) -> None:
        raise TooSlowError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def broken(examine: Callable[[], None], seconds: int = SLOW) -> str | None:
    """Run one examination; return a signature of what broke, the same for the same bug."""
    try:
        with limit(seconds):
            examine()
    except Exception as error:  # noqa: BLE001 - whatever escapes is what a fuzzer looks for
        frames = traceback.extract_tb(error.__traceback__)
        own = [one for one in frames if "/lore/" in one.filename.replace("\\", "/")] or frames
        said = re.sub(r"\d+", "n", str(error).partition("\n")[0])[:60] if isinstance(error, AssertionError) else ""
        return f"{type(error).__name__} {said} at {Path(own[-1].filename).name}:{own[-1].name}"
    return None


def keep(signature: str, data: bytes, examine: Callable[[bytes], None], *, private: bool, end: str = ".bin") -> Path:
    """Make what broke something smaller and store it: in the project, unless it was made from a recording."""
    seconds = SLOW_SHRUNK if signature.startswith(TooSlowError.__name__) else SLOW
    small = shrink.shrink(data, lambda kept: broken(lambda: examine(kept), seconds) == signature, SHRINK_SECONDS)
    path = place(signature, small, private=private).with_suffix(end)
    path.write_bytes(small)
    print(f"\n{signature}\n  {path}: {small[:300]!r}{' …' * (len(small) > 300)}", flush=True)
    return path


def place(signature: str, data: bytes, *, private: bool) -> Path:
    """Return where to store what broke something, without an ending."""
    words = re.sub(r"[^a-z0-9]+", "-", signature.lower()).strip("-")[:60]
    folder = PRIVATE if private else samples.SEEDS
    folder.mkdir(exist_ok=True)
    return folder / f"{words}-{hashlib.sha256(data).hexdigest()[:6]}"


class Fuzzer:
    """Mutate, examine, keep."""

    def __init__(self, seed: int, folder: Path, counter: Any) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.counter = counter
        self.inputs: list[samples.Sample] = []
        self.found: dict[str, str] = {}
        self.tried = 0

    def begin(self) -> None:
        """Examine the inputs as they are; those that break something already are not mutated."""
        for sample in samples.gather():
            signature = self._signature(sample.data, b"")
            if signature is None:
                self.inputs.append(sample)
                continue
            self.found[signature] = sample.name
            print(f"\n{signature}\n  {sample.name}, as it is", flush=True)

    def once(self) -> None:
        """Try one more input."""
        original, donor = self.chance.choice(self.inputs), self.chance.choice(self.inputs)
        data = mutate.mutate(original.data, donor.data, self.chance)
        self.tried += 1
        signature = self._signature(data, original.data)
        if signature is not None and signature not in self.found:
            private = original.private or donor.private
            self.found[signature] = self._keep(signature, data, original.data, private=private)

    def _signature(self, data: bytes, other: bytes, seconds: int = SLOW) -> str | None:
        return broken(lambda: properties.examine(data, other, self.folder, self.counter), seconds)

    def _keep(self, signature: str, data: bytes, other: bytes, *, private: bool) -> str:
        """Make it smaller and store it, with the other file only where the bug needs it.

        An input made from a real recording is kept outside the project: write a seed like it by hand.
        """
        seconds = SLOW_SHRUNK if signature.startswith(TooSlowError.__name__) else SLOW
        if self._signature(data, b"", seconds) == signature:
            other = b""
        data = shrink.shrink(data, lambda kept: self._signature(kept, other, seconds) == signature, SHRINK_SECONDS)
        if other:
            other = shrink.shrink(other, lambda kept: self._signature(data, kept, seconds) == signature, SHRINK_SECONDS)
        path = place(signature, data + other, private=private).with_suffix(".bin")
        path.write_bytes(data)
        if other:
            path.with_suffix(".other").write_bytes(other)
        print(f"\n{signature}\n  {path}: {data[:300]!r}{' …' * (len(data) > 300)}", flush=True)
        return path.name


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
    with tempfile.TemporaryDirectory(prefix="lore-fuzz-") as name:
        fuzzer = Fuzzer(given.seed, Path(name), counter)
        fuzzer.begin()
        print(f"seed {given.seed}, {len(fuzzer.inputs)} inputs to begin with", flush=True)
        for _ in range(given.inputs):
            fuzzer.once()
    print(f"{fuzzer.tried:,} inputs tried (seed {given.seed}), {len(fuzzer.found)} broke something")
    return 1 if fuzzer.found else 0


if __name__ == "__main__":
    sys.exit(main())
