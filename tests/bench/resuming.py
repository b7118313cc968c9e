"""Resuming a checkpoint after one more turn against folding the whole log.

What `lore fold` does with and without `--checkpoint`, reading the log and writing the new checkpoint included;
printing the answer, which takes as long in both, is not. Each run of the first finds one more turn in the log
than its checkpoint holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench import clock, generate
from lore.recording.opening import Options
from lore.run.checkpoints import fold_resumed
from lore.run.folding import fold

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


def resume(folder: Path, number: int, pairs: int) -> tuple[str, str, str, bool | None]:
    """Measure, as the fields of a row."""
    measure, bar = "resuming a checkpoint after one more turn against a cold fold, in process", "at most 0.1 times"
    log, saved = folder / "resumed.jsonl", folder / "resumed.checkpoint"
    more = turns(number + SPARE)
    with log.open("wb") as file:
        file.writelines(next(more) for _ in range(number))

    def again() -> None:
        with log.open("ab") as file:
            file.write(next(more))
        done = fold_resumed(str(log), Options(), str(saved))
        if done.refused or done.failure:
            raise RuntimeError(done.refused or str(done.failure))

    fold_resumed(str(log), Options(), str(saved))
    found = clock.alternate(again, lambda: fold(str(log), Options()), pairs, clock.CPU)
    size = log.stat().st_size / 1e6
    log.unlink()
    saved.unlink()
    said = f"{found}; {found.left_seconds:.2f} s against {found.right_seconds:.2f} s for {size:,.1f} MB"
    return measure, bar, said, found.median <= 0.1
