"""Fuzz every reader, and `diff-prefix`, guided by which code an input reaches (atheris).

    python tests/fuzz/guided.py [--inputs N] [--seed N] [--target NAME]

Each target runs in a process of its own, first on what the project holds, then, where there are any, with real
recordings among the inputs. What breaks a law of `properties` is made smaller and kept as `run.py` does:
in `tests/fuzz/corpus`, or outside the project where a recording was among the inputs. Exit code 1 where
something broke. Without atheris, which has no build for some versions of Python, it says so and ends.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

LONGEST = 16 * 1024  # bytes of an input
SHORT_LINES = 2048  # a line is too long past this, so that passing over lines is reached
SEPARATOR = b"\n===\n"  # between the two files of an input for `diff-prefix`
DIFF = "diff-prefix"
TARGETS = ("lore", "claude-code", "bodies", DIFF)


def examiner(target: str, folder: Path) -> Callable[[bytes], None]:
    """Return what holds the laws of a target against one input."""
    from fuzz import properties  # noqa: PLC0415 - imported while atheris instruments
    from lore.formats.lines import Lines  # noqa: PLC0415
    from lore.formats.registry import READERS  # noqa: PLC0415

    if target != DIFF:
        Lines.limit = SHORT_LINES
        return lambda data: properties.examine_reader(READERS[target], data)
    left, right = folder / "left.jsonl", folder / "right.jsonl"

    def compare(data: bytes) -> None:
        one, _, other = data.partition(SEPARATOR)
        left.write_bytes(one)
        right.write_bytes(other)
        properties.examine_pair(left, right)

    return compare


def inputs(target: str, *, private: bool) -> list[bytes]:
    """Return what a target begins with."""
    from fuzz import samples  # noqa: PLC0415

    found = [one.data for one in samples.gather() if private or not one.private]
    if target != DIFF:
        return [data[:LONGEST] for data in found]
    pairs = zip(found, [*found[1:], *found[:1]], strict=True)
    return [one[: LONGEST // 2] + SEPARATOR + other[: LONGEST // 2] for one, other in pairs]


def fuzz(target: str, count: int, seed: int, folder: Path, *, private: bool) -> None:
    """Fuzz one target in this process, with a folder for its inputs; never returns."""
    import atheris  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    with atheris.instrument_imports(include=["lore"]):
        from fuzz import run  # noqa: PLC0415

        examine = examiner(target, folder)
    known = folder / "inputs"
    known.mkdir()
    for number, data in enumerate(inputs(target, private=private)):
        (known / f"{number:04}").write_bytes(data)
    kept: set[str] = set()

    def once(data: bytes) -> None:
        signature = run.broken(lambda: examine(data))
        if signature is not None and signature not in kept:
            kept.add(signature)
            run.keep(signature, data, examine, private=private, end=".diff" if target == DIFF else ".bin")

    options = [
        f"-runs={count}",
        f"-seed={seed}",
        f"-max_len={LONGEST}",
        "-timeout=0",
        "-rss_limit_mb=4096",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(known)], once)
    atheris.Fuzz()


def main(arguments: list[str] | None = None) -> int:
    """Fuzz every target with its share of the inputs; say what was found."""
    parser = argparse.ArgumentParser(description="Fuzz lore, guided by coverage.")
    parser.add_argument("--inputs", type=int, default=2000, help="in all")
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--target", action="append", choices=TARGETS, help="fuzz this one (repeatable)")
    parser.add_argument("--one", nargs=2, metavar=("INPUTS", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if importlib.util.find_spec("atheris") is None:
        version = ".".join(map(str, sys.version_info[:2]))
        print(f"no atheris for Python {version} here: fuzzing by mutation only")
        return 0
    if given.one:
        fuzz(given.target[0], given.inputs, given.seed, Path(given.one[1]), private=given.one[0] == "private")
    from fuzz import run, samples  # noqa: PLC0415

    targets, rounds = given.target or TARGETS, ["public", *(["private"] if samples.CORPUS.is_dir() else [])]
    share = max(1, given.inputs // (len(targets) * len(rounds)))
    before, failed = _kept(run.PRIVATE, samples.SEEDS), False
    for target in targets:
        for one in rounds:
            print(f"{target}: {share:,} {one} inputs", flush=True)
            failed = _run_one(target, one, share, given.seed) or failed
    found = _kept(run.PRIVATE, samples.SEEDS) - before
    print(f"{len(found)} new inputs broke something" + (", and a target did not end well" if failed else ""))
    return 1 if found or failed else 0


def _run_one(target: str, inputs: str, count: int, seed: int) -> bool:
    """Fuzz one target in a process of its own; return whether it did not end well."""
    with tempfile.TemporaryDirectory(prefix="lore-guided-") as folder:
        said = ("--inputs", str(count), "--seed", str(seed), "--target", target, "--one", inputs, folder)
        words = (sys.executable, __file__, *said)
        return bool(subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode)


def _kept(*folders: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return {os.path.join(folder, name) for folder in folders if folder.is_dir() for name in os.listdir(folder)}
    return set()


if __name__ == "__main__":
    sys.exit(main())
