"""lore's predictions equal the recorded answers of vLLM 0.32 to generated sequences.

`make oracle-vllm` compares 10,000 sequences with vLLM itself, and with RECORD=1 writes these answers.
"""

import json
from pathlib import Path
from typing import TypeAlias

import pytest

from helpers.matrix import some
from plugins.engines.oracle.models import reads
from plugins.engines.oracle.sequences import Operation, Sequence, Text
from plugins.engines.oracle.vllm_agreement import ANSWERS, SEVERAL
from plugins.engines.oracle.vllm_model import mixed, predicted
from plugins.engines.oracle.vllm_settings import FIRST_SERVED, block_of, capacity_of, layers_of, served

Recorded: TypeAlias = list[tuple[Sequence, list[int]]]


def answers(path: Path) -> Recorded:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(served(seed), cached) for seed, *cached in rows]


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return answers(ANSWERS)


@pytest.mark.parametrize("step", some([5, 1]))
def test_reads_equal_vllm(recorded: Recorded, step: int):
    assert len(recorded) >= 200
    for drawn, cached in recorded[::step]:
        assert predicted(drawn) == cached, (drawn.seed, block_of(drawn), capacity_of(drawn))


@pytest.mark.parametrize("step", some([8, 1]))
def test_window_and_state_reads_equal_vllm(step):
    every = answers(SEVERAL)
    assert len(every) >= 200
    recorded = every[::step]
    for drawn, cached in recorded:
        assert mixed(drawn) == cached, (drawn.seed, block_of(drawn), layers_of(drawn))
    assert sum(predicted(drawn) != cached for drawn, cached in recorded) > 100 / step, "layers decide these reads"
    assert {"window", "states"} <= {name for drawn, _ in recorded for name in layers_of(drawn)}


def test_reads_equal_a_served_vllm():
    """Of 200 tokens, the same, with 50 more, changed at 60."""
    piece = Text(0, 200)
    prompts = [(piece,), (piece,), (piece, Text(1, 50)), (piece._replace(edited=60, edit=1),)]
    operations = tuple(Operation(str(at), pieces, None, 10 * at) for at, pieces in enumerate(prompts))
    assert reads(Sequence(0, operations), "vllm", block=32) == FIRST_SERVED
