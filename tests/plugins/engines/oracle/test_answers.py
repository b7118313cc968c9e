"""lore's predictions equal the recorded answers of engines to generated sequences.

`make oracle` asks the engines themselves for 10,000 sequences, and with RECORD=1 writes these answers: of vLLM 0.32,
SGLang 0.5.23, LMCache 0.5.6 and llama.cpp's server (0c1e570).
"""

import json
from itertools import pairwise

import pytest

from helpers.matrix import some
from plugins.engines.oracle import llama_parallel, models
from plugins.engines.oracle.agreement import ANSWERS, ORACLES
from plugins.engines.oracle.llama_agreement import ANSWERS as OF_LLAMA
from plugins.engines.oracle.llama_agreement import cached
from plugins.engines.oracle.llama_server import start
from plugins.engines.oracle.llama_settings import PARALLEL, SETTINGS, read, setting_of
from plugins.engines.oracle.sequences import Operation, Sequence, Text
from plugins.engines.oracle.vllm_settings import FIRST_SERVED, layers_of, served

RECORDED = {oracle.file: oracle for oracles in ORACLES.values() for oracle in oracles if oracle.file}


def recorded(name: str) -> list[list[int]]:
    return [json.loads(line) for line in (ANSWERS / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("step", some([6, 1]))
@pytest.mark.parametrize("file", RECORDED)
def test_reads_equal_the_engine(file, step):
    if file == "lmcache.jsonl":
        step = 1  # one memory serves all its sequences
    answers = recorded(file)
    assert len(answers) >= RECORDED[file].recorded
    predict = RECORDED[file].predict(len(answers))
    for seed, *reads in answers[::step]:
        assert predict(seed) == reads, seed


def test_layers_decide_reads_of_vllm():
    every = [(served(seed), reads) for seed, *reads in recorded("vllm-several.jsonl")[::8]]
    assert sum(models.of_vllm(drawn) != reads for drawn, reads in every) > 12
    assert {"window", "states"} <= {name for drawn, _ in every for name in layers_of(drawn)}


def test_reads_equal_a_served_vllm():
    """Of 200 tokens, the same, with 50 more, changed at 60."""
    piece = Text(0, 200)
    prompts = [(piece,), (piece,), (piece, Text(1, 50)), (piece._replace(edited=60, edit=1),)]
    operations = tuple(Operation(str(at), pieces, None, 10 * at) for at, pieces in enumerate(prompts))
    assert models.reads(Sequence(0, operations), "vllm", block=32) == FIRST_SERVED


LLAMA = {(kind, session): reads for kind, session, *reads in recorded(OF_LLAMA.name)}


@pytest.mark.parametrize(("kind", "session"), LLAMA)
def test_reads_equal_llama_server(kind, session):
    assert read(setting_of(kind, session), session) == LLAMA[kind, session]


@pytest.mark.parametrize("session", range(len(PARALLEL)))
def test_concurrent_reads_equal_llama_server(session):
    _, *rows = recorded(llama_parallel.ANSWERS.name)[session]
    order = [llama_parallel.ServedRequest(*row) for row in rows]
    assert PARALLEL[session].slots == 1 or any(entry.at < other.ended for other, entry in pairwise(order))
    assert llama_parallel.read(PARALLEL[session], session, order) == [entry.cached for entry in order]


@pytest.mark.parametrize("kind", SETTINGS)
def test_local_llama_server_repeats_the_answers(kind):
    start()  # skips without one
    assert cached(setting_of(kind, 0), 0) == LLAMA[kind, 0]
