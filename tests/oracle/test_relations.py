"""On every capture the relation of each pair is what a naive reading of the parsed bodies says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import CORPUS, recordings
from faults.bodies import DIALECTS
from faults.catalogue import alone
from faults.expected import EXPECTED, happening
from faults.faults import FAULTS
from faults.serving import Injected, stable, written
from helpers.matrix import some
from lore.errors import LoreError
from lore.formats.registry import READERS
from lore.model.evidence import TailReplaced
from lore.prefix.chains import Chains
from lore.recording.opening import Options
from lore.run.diff import TurnComparison, diff_session
from oracle.naive import at_anthropic, dialect_of, flatten, relation, without_end

CAPTURES = ("capture/*", "vcr/*.yaml")
PARTS = 12  # of all captures with a fault, and of those in which something expected happened


def pairs_of(path: Path, monkeypatch, options: Options) -> list[tuple[str, str, str]]:
    """Return each pair's name, what lore calls its relation, and what the naive reading does."""
    bodies: dict[tuple[str, int], tuple[dict[str, Any], str, bool]] = {}
    latest: dict[str, tuple[dict[str, Any], str, bool]] = {}
    add = Chains.add

    def told(self, prompt, exchange=None):
        found = add(self, prompt, exchange)
        if self.given_up:  # a chain that restarts another one is compared with it
            bodies[found.chain, 0] = latest[self.given_up]
        bodies[found.chain, found.turn] = (
            json.loads(exchange.body), exchange.call.endpoint, bool(exchange.call.previous or prompt.partial)
        )  # fmt: skip
        latest[found.chain] = bodies[found.chain, found.turn]
        return found

    monkeypatch.setattr(Chains, "add", told)
    try:
        found = list(diff_session(str(path), TurnComparison(options)))
    except LoreError as error:
        if "no pair to compare" in error.message:
            return []
        raise
    rows: list[tuple[str, str, str]] = []
    for one in found:
        left, right = (bodies[_named(side.name)] for side in (one.left, one.right))
        if _named(one.left.name)[0] != one.chain and any(cause.code == "LORE129" for cause in one.causes):
            continue  # of requests that were sent together the tools and the system prompt alone are compared
        if left[2] or right[2] or one.prompt is None:  # a body that only continues is not the whole prompt
            continue
        tail = next((cause.evidence.bytes for cause in one.causes if isinstance(cause.evidence, TailReplaced)), 0)
        rows.append((f"{one.chain}:{one.turn}", one.relation, naive(left, right, tail)))
    return rows


def _named(side: str) -> tuple[str, int]:
    """Read which turn a side is: a pair may join two chains."""
    chain, _, number = side.rpartition("#")[2].rpartition(":")
    return chain, int(number)


def naive(left, right, tail: int = 0) -> str:
    """Name how the right stands to the left; to the left without the bytes of a tail that was replaced."""
    shapes = {dialect_of(left[0]), dialect_of(right[0])}
    if len(shapes) > 1:
        return "unrelated"
    shape = shapes.pop()
    mine, theirs = (flatten(body, shape, drops_header=at_anthropic(body, host)) for body, host, _ in (left, right))
    return relation(without_end(mine, tail), theirs)


FILES = [file for pattern in CAPTURES for file in CORPUS.glob(pattern)]


@pytest.mark.corpus
@pytest.mark.parametrize("path", recordings(FILES))
def test_each_pair_of_a_real_capture_is_what_the_naive_reading_says(path, monkeypatch):
    rows = pairs_of(path, monkeypatch, Options())
    assert [row for row in rows if row[1] != row[2]] == []


@pytest.fixture
def injected(monkeypatch):
    monkeypatch.setitem(READERS, Injected.name, Injected)
    return Options(format=Injected.name)


def _compared(captures, folder, monkeypatch, options) -> int:
    compared, wrong = 0, []
    for number, capture in enumerate(captures):
        path = folder / f"{number}.jsonl"
        path.write_bytes(written(capture))
        with monkeypatch.context() as patch:
            rows = pairs_of(path, patch, options)
        compared += len(rows)
        wrong += [(capture.name, *row) for row in rows if row[1] != row[2]]
    assert wrong == []
    return compared


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_pair_of_a_generated_capture_is_an_extension(dialect, tmp_path, monkeypatch, injected):
    captures = [stable(dialect, seed) for seed in range(1, 7)]
    assert _compared(captures, tmp_path, monkeypatch, injected) >= 30


@pytest.mark.parametrize("first", some(range(PARTS)))
def test_each_pair_with_a_fault_is_what_the_naive_reading_says(first, tmp_path, monkeypatch, injected):
    """Other spellings of the same values are left out: a reading of parsed bodies cannot see them."""
    seen = [number for number, one in enumerate(FAULTS) if one.content or one.code in ("LORE107", "LORE133")]
    captures = [case.capture for number in seen[first::PARTS] for case in alone(number)]
    assert _compared(captures, tmp_path, monkeypatch, injected) >= 50


@pytest.mark.parametrize("first", some(range(PARTS)))
def test_each_pair_of_what_is_expected_is_what_the_naive_reading_says(first, tmp_path, monkeypatch, injected):
    captures = [case.capture for number in range(first, len(EXPECTED), PARTS) for case in happening(number)]
    assert _compared(captures, tmp_path, monkeypatch, injected) >= 25
