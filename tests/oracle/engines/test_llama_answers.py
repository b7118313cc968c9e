"""What llama.cpp's server (0c1e570) answered to generated sequences, without it: lore's model says the same of each.

`make oracle-llama` asks the server itself, 10,000 sequences, and with RECORD=1 writes these answers.
"""

from __future__ import annotations

import json

import pytest

from oracle.engines.llama_agreement import ANSWERS, cached
from oracle.engines.llama_server import start
from oracle.engines.llama_settings import SETTINGS, read


@pytest.fixture(scope="module")
def recorded() -> list[list[int]]:
    return [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]


def test_every_request_reads_what_the_server_said_was_cached(recorded):
    assert len(recorded) >= len(SETTINGS)
    for session, *answers in recorded[: 2 * len(SETTINGS)]:
        assert read(session) == answers, session


def test_slots_main_memory_and_idle_slots_decide_in_these_answers(recorded, monkeypatch):
    without = [setting._replace(model={}) for setting in SETTINGS]
    monkeypatch.setattr("oracle.engines.llama_settings.SETTINGS", without)
    differing = [session for session, *answers in recorded[: len(SETTINGS)] if read(session) != answers]
    assert differing == list(range(1, len(SETTINGS)))


def test_a_server_on_this_machine_answers_as_it_did(recorded):
    start()  # skips where there is none
    assert cached(0) == recorded[0][1:]
