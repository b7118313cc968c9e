"""Resuming a checkpoint after one more turn against folding the whole log.

Whole processes in wall time, `lore fold LOG --json` with and without `--checkpoint FILE`; what they print goes
nowhere. Each run of the first finds one more turn in the log than its checkpoint holds.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench import clock, generate

END = b'{"kind":"turn_completed"'
SPARE = 64  # turns to add while measuring


def turns(number: int) -> Iterator[bytes]:
    """Yield the bytes of a log turn by turn; the first has the header."""
    made: list[bytes] = []
    for line in generate.lines(number):
        made.append(line)
        if line.startswith(END):
            yield b"".join(made)
            made.clear()


def quiet(*command: str | Path) -> None:
    """Run a whole process without its answer; raises RuntimeError where it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise RuntimeError(f"{words[0]} ended with {done.returncode}: {said}")


def resume(folder: Path, lore: tuple[str, ...], number: int, pairs: int) -> tuple[str, str, str, bool | None]:
    """Measure, as the fields of a row."""
    measure, bar = (
        "resuming a checkpoint after one more turn against a cold fold, whole processes",
        "at most 0.25 times",
    )
    log, saved = folder / "resumed.jsonl", folder / "resumed.checkpoint"
    more = turns(number + SPARE)
    with log.open("wb") as file:
        file.writelines(next(more) for _ in range(number))
    fold = (*lore, "fold", log, "--json")

    def again() -> None:
        with log.open("ab") as file:
            file.write(next(more))
        quiet(*fold, "--checkpoint", saved)

    try:
        quiet(*fold, "--checkpoint", saved)
        found = clock.alternate(again, lambda: quiet(*fold), pairs, clock.WALL)
    except RuntimeError as error:
        return measure, bar, f"not measured: {' '.join(str(error).split())}", False
    size = log.stat().st_size / 1e6
    log.unlink()
    saved.unlink()
    said = f"{found}; {found.left_seconds:.2f} s against {found.right_seconds:.2f} s for {size:,.1f} MB"
    return measure, bar, said, found.median <= 0.25
