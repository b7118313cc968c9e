"""Baselines on disk: read, compared with what a run judged, written anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable

from lore import corpus
from lore.check import baseline
from lore.check.baseline import Baseline, Entry
from lore.check.policy import Exempt
from lore.errors import LoreError
from lore.run.places import path_of
from lore.run.writing import written


def read(path: str) -> Baseline:
    """Read a baseline; raises LoreError where it cannot be read or is damaged."""
    if not os.path.lexists(path):
        hint = "write it with --update-baseline"
        raise LoreError(f"there is no baseline {corpus.show(path)}", hint=hint)
    return baseline.decode(b"".join(corpus.pieces(path)), corpus.show(path))


def update(path: str, entries: Iterable[Entry], judged: Collection[str], root: str) -> int:
    """Write a baseline; entries of files that this run did not judge stay while the files are there.

    Returns the number of findings in it.
    """
    kept = list(entries)
    if os.path.lexists(path):
        about = is_about(judged, root)
        kept.extend(one for one in _readable(path) if not about(one))
    with written(path, force=True) as file:
        file.write(baseline.encode(kept))
    return sum(one.count for one in kept)


def _readable(path: str) -> tuple[Entry, ...]:
    """Return the entries of a baseline, none of one that is damaged: it is written anew."""
    try:
        return read(path).findings
    except LoreError:
        return ()


def is_about(judged: Collection[str], root: str) -> Callable[[Entry], bool]:
    """Tell of an entry whether this run could have matched it: its file was judged, or is gone."""
    return lambda one: one.path in judged or not os.path.exists(path_of(one.path, root))


def outlived(one: Exempt, judged: Collection[str], matches: Callable[[str, str], bool], root: str) -> bool:
    """Tell whether an exemption that took nothing out could have: a file of its was judged, or none is there."""
    if any(matches(one.path, key) for key in judged):
        return True
    return not _there(one.path, root)


def _there(pattern: str, root: str) -> bool:
    path = path_of(pattern, root)
    if not corpus.is_pattern(path):
        return os.path.exists(path)
    return bool(corpus.matches(path, _passed_over))


def _passed_over(place: str, error: LoreError) -> None:
    """Say nothing of a folder that cannot be listed: judging it does."""
