"""What vLLM 0.32 answered to generated sequences, without vLLM: lore's model says the same of each request.

`make oracle-vllm` asks vLLM itself, 10,000 sequences, and with RECORD=1 writes these answers.
"""

from __future__ import annotations

import json

import pytest

from oracle.engines.sequences import Sequence
from oracle.engines.vllm_agreement import ANSWERS
from oracle.engines.vllm_settings import block_of, capacity_of, predicted, served


@pytest.fixture(scope="module")
def recorded() -> list[tuple[Sequence, list[int]]]:
    answers = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    return [(served(seed), cached) for seed, *cached in answers]


def test_every_request_reads_what_vllm_said_was_cached(recorded):
    assert len(recorded) >= 200
    for drawn, cached in recorded:
        assert predicted(drawn) == cached, (drawn.seed, block_of(drawn), capacity_of(drawn))


def test_answers_hold_every_block_size_under_pressure_and_without(recorded):
    assert len({(block_of(drawn), drawn.room is None) for drawn, _ in recorded}) == 5 * 2
    tight = [(drawn, cached) for drawn, cached in recorded if drawn.room is not None]
    decided = [drawn for drawn, cached in tight if predicted(drawn._replace(room=None)) != cached]
    assert len(decided) > 40, "in these memory decides what is read"
