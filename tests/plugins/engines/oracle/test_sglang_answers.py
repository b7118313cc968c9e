"""lore's predictions equal the recorded answers of SGLang 0.5.23 to generated sequences.

`make oracle-sglang` compares 10,000 sequences for each tree with SGLang itself, and with RECORD=1 writes these answers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.matrix import some
from plugins.engines.oracle.sequences import sequence
from plugins.engines.oracle.sglang_model import read
from plugins.engines.oracle.sglang_settings import settings

ANSWERS = Path(__file__).parent / "answers"
LEAST = {"unified": 800, "radix": 200, "chunks": 200, "windows": 400, "states": 400}


def recorded(kind: str) -> list[list[int]]:
    return [json.loads(line) for line in (ANSWERS / f"sglang-{kind}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("step", some([6, 1]))
@pytest.mark.parametrize("kind", LEAST)
def test_reads_equal_sglang(kind, step):
    answers = recorded(kind)
    assert len(answers) >= LEAST[kind]
    for seed, *cached in answers[::step]:
        assert read(sequence(seed), kind) == cached, (seed, settings(sequence(seed), kind)[1])


def test_sglang_answers_cover_pages_and_policies():
    drawn = [sequence(seed) for seed, *_ in recorded("unified")]
    asked = [settings(each, "unified")[1] for each in drawn]
    assert len({(each.page_size, each.policy, each.capacity is None) for each in asked}) == 3 * 7 * 2
    pairs = [pair for each in drawn for pair in zip(each.operations, each.operations[1:], strict=False)]
    assert any(before.at < later.at < before.ended for before, later in pairs)


def test_sglang_answers_cover_windows_and_states():
    asked = [settings(sequence(seed), "windows")[1] for seed, *_ in recorded("windows")]
    assert len({(each.window, each.page_size, each.window_capacity is None) for each in asked}) == 7 * 3 * 2
    assert {each.chunked_prefill for each in asked} == {None, 64, 128}
    asked = [settings(sequence(seed), "states")[1] for seed, *_ in recorded("states")]
    kinds = {(each.strategy, each.state_capacity is None, each.state_chunk, each.state_interval) for each in asked}
    assert len(kinds) == 2 * 2 * 2 * 2
