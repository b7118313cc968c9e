"""lore's predictions equal the recorded answers of llama.cpp's server (0c1e570) to generated sequences.

`make oracle-llama` asks the server itself, 10,000 sequences of each kind, and with RECORD=1 writes these answers.
"""

import json
from itertools import pairwise

import pytest

from plugins.engines.oracle import llama_parallel
from plugins.engines.oracle.llama_agreement import ANSWERS, cached
from plugins.engines.oracle.llama_parallel import ServedRequest
from plugins.engines.oracle.llama_server import start
from plugins.engines.oracle.llama_settings import PARALLEL, SETTINGS, read, setting_of

CASES = [(kind, session) for kind, settings in SETTINGS.items() for session in range(len(settings))]


@pytest.fixture(scope="module")
def recorded() -> dict[tuple[str, int], list[int]]:
    lines = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    return {(kind, session): answers for kind, session, *answers in lines}


@pytest.mark.parametrize(("kind", "session"), CASES)
def test_reads_equal_llama_server(recorded, kind, session):
    assert read(setting_of(kind, session), session) == recorded[kind, session]


@pytest.fixture(scope="module")
def together() -> list[list[ServedRequest]]:
    lines = llama_parallel.ANSWERS.read_text(encoding="utf-8").splitlines()
    return [[ServedRequest(*entry) for entry in order] for _, *order in map(json.loads, lines)]


@pytest.mark.parametrize("session", range(len(PARALLEL)))
def test_concurrent_reads_equal_llama_server(together, session):
    order = together[session]
    assert PARALLEL[session].slots == 1 or any(entry.at < other.ended for other, entry in pairwise(order))
    assert llama_parallel.read(PARALLEL[session], session, order) == [entry.cached for entry in order]


@pytest.mark.parametrize("kind", SETTINGS)
def test_local_llama_server_repeats_the_answers(recorded, kind):
    start()  # skips without one
    assert cached(setting_of(kind, 0), 0) == recorded[kind, 0]
