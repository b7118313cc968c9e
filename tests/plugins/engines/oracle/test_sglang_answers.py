"""lore's predictions equal the recorded answers of SGLang 0.5.23 to generated sequences.

`make oracle-sglang` compares 10,000 sequences for each tree with SGLang itself, and with RECORD=1 writes these answers.
"""

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
