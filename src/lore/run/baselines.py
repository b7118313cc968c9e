"""Baselines on disk: read, and written anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from lore.errors import LoreError
from lore.judge import baseline
from lore.judge.baseline import Baseline, Entry
from lore.recording import corpus
from lore.run.reporting import spare_recordings
from lore.run.writing import written


class Written(NamedTuple):
    """How many findings a baseline knows, and how many of them are from before and were not looked for."""

    findings: int
    unseen: int


def read(path: str) -> Baseline:
    """Read a baseline; raises LoreError where it cannot be read or is damaged."""
    shown = corpus.show(path)
    if not os.path.lexists(path):
        raise LoreError(f"there is no baseline {shown}", hint="write it with --update-baseline")
    if os.path.isdir(path):
        raise LoreError(f"{shown} is a folder, and a baseline is a file", hint=f"--baseline {shown}/lore-baseline.json")
    return baseline.decode(b"".join(corpus.pieces(path)), shown)


def replaceable(path: str) -> Baseline:
    """Return the baseline that is to be written anew, an empty one where there is none yet.

    Raises LoreError for a file that is no baseline: whatever it is, it would be lost, and with a damaged baseline
    what it knows of files that a run does not judge.
    """
    if not os.path.lexists(path) or (os.path.isfile(path) and os.path.getsize(path) == 0):
        return Baseline()
    spare_recordings(path)
    return read(path)


def update(path: str, entries: Iterable[Entry], about: Callable[[Entry], bool]) -> Written:
    """Write a baseline; entries that this run is not `about` stay."""
    found = {one.fingerprint: one for one in entries}
    unseen = 0
    for one in replaceable(path).findings:
        new = found.get(one.fingerprint)
        if not about(one) and (new is None or new.count < one.count):
            unseen += one.count - (0 if new is None else new.count)
            found[one.fingerprint] = one if new is None else msgspec.structs.replace(new, count=one.count)
    with written(path, force=True) as file:
        file.write(baseline.encode(found.values()))
    return Written(sum(one.count for one in found.values()), unseen)
