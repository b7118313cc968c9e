"""The relation of each pair of requests in a capture equals that of the naive comparison."""

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
from lore.commands.diff_prefix import TurnComparison, diff_session
from lore.errors import LoreError
from lore.formats.registry import READERS
from lore.model.evidence import TailReplaced
from lore.prefix.chains import Chains
from lore.recording.opening import Options
from oracle.naive import at_anthropic, dialect_of, flatten, relation, without_end

CAPTURES = ("capture/*", "vcr/*.yaml")
PARTS = 24  # into which the generated captures are divided


def pairs_of(path: Path, monkeypatch, options: Options) -> list[tuple[str, str, str]]:
    """Return each pair's name, its relation by lore, and by the naive comparison."""
    bodies: dict[tuple[str, int], tuple[dict[str, Any], str, bool]] = {}
    latest: dict[str, tuple[dict[str, Any], str, bool]] = {}
    add = Chains.add

    def add_and_note(self, prompt, exchange=None):
        chain, turn = add(self, prompt, exchange)
        if self.given_up:  # the first turn of a restarted chain is compared with the other chain's latest
            bodies[chain, 0] = latest[self.given_up]
        bodies[chain, turn] = (
            json.loads(exchange.body), exchange.call.endpoint, bool(exchange.call.previous or prompt.partial)
        )  # fmt: skip
        latest[chain] = bodies[chain, turn]
        return chain, turn

    monkeypatch.setattr(Chains, "add", add_and_note)
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
            continue  # of parallel requests only tools and system prompt are compared
        if left[2] or right[2] or one.prompt is None:  # the body is only a part of the prompt
            continue
        tail = next((cause.evidence.bytes for cause in one.causes if isinstance(cause.evidence, TailReplaced)), 0)
        rows.append((f"{one.chain}:{one.turn}", one.relation, naive(left, right, tail)))
    return rows


def _named(side: str) -> tuple[str, int]:
    """Return chain and turn of a side; the sides may be of two chains."""
    chain, _, number = side.rpartition("#")[2].rpartition(":")
    return chain or "main", int(number)


def naive(left, right, tail: int = 0) -> str:
    """Return the relation of the right side to the left one, without the bytes of a replaced tail."""
    shapes = {dialect_of(left[0]), dialect_of(right[0])}
    if len(shapes) > 1:
        return "unrelated"
    shape = shapes.pop()
    mine, theirs = (flatten(body, shape, drops_header=at_anthropic(body, host)) for body, host, _ in (left, right))
    return relation(without_end(mine, tail), theirs)


FILES = [file for pattern in CAPTURES for file in CORPUS.glob(pattern)]


@pytest.mark.corpus
@pytest.mark.parametrize("path", recordings(FILES))
def test_relations_in_real_captures_equal_naive_ones(path, monkeypatch):
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
def test_relations_in_stable_captures_equal_naive_ones(dialect, tmp_path, monkeypatch, injected):
    captures = [stable(dialect, seed) for seed in range(1, 4)]
    assert _compared(captures, tmp_path, monkeypatch, injected) >= 15


@pytest.mark.parametrize("first", some(range(PARTS)))
def test_relations_after_faults_equal_naive_ones(first, tmp_path, monkeypatch, injected):
    """Faults that only spell values otherwise are left out: parsed bodies do not show them."""
    seen = [number for number, one in enumerate(FAULTS) if one.content or one.code in ("LORE107", "LORE133")]
    captures = [case.capture for number in seen[first::PARTS] for case in alone(number)]
    assert _compared(captures, tmp_path, monkeypatch, injected) >= 25


@pytest.mark.parametrize("first", some(range(PARTS // 4)))
def test_relations_after_expected_events_equal_naive_ones(first, tmp_path, monkeypatch, injected):
    captures = [case.capture for number in range(first, len(EXPECTED), PARTS // 4) for case in happening(number)]
    assert _compared(captures, tmp_path, monkeypatch, injected) >= 10
