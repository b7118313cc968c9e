"""What SGLang 0.5.23 answered to generated sequences, without SGLang: lore's model says the same of each request.

`make oracle-sglang` asks SGLang itself, 10,000 sequences in each of its trees, and with RECORD=1 writes these answers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oracle.engines.sequences import sequence
from oracle.engines.sglang_model import read, settings

ANSWERS = Path(__file__).parent / "answers"


def recorded(tree: str) -> list[list[int]]:
    return [json.loads(line) for line in (ANSWERS / f"sglang-{tree}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("tree", "least"), [("unified", 800), ("radix", 200)])
def test_every_request_reads_what_sglang_said_was_cached(tree, least):
    answers = recorded(tree)
    assert len(answers) >= least
    for seed, *cached in answers:
        assert read(sequence(seed), tree) == cached, (seed, settings(sequence(seed)))


def test_answers_hold_every_page_size_and_policy_under_pressure_and_without():
    drawn = [sequence(seed) for seed, *_ in recorded("unified")]
    found = {(*settings(one), one.room is None) for one in drawn}
    assert len(found) == 3 * 7 * 2
    assert any(a.at < b.at < a.ended for one in drawn for a, b in zip(one.operations, one.operations[1:], strict=False))
