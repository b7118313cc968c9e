"""What lore assembles, lint does not blame: no body of a generated session has an error or a warning about breakpoints.

Sessions are too short to be cached, hold what their users said, and have tools in the order given: what is told of
sizes, of text in the system prompt and of risks is no fault of an assembler.
"""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import bodies, places_for_breakpoints, with_breakpoints
from helpers.strategies.sessions import Agent, scripts
from lore.judge.lint import Linter
from lore.model.codes import CODES
from lore.model.turn import Memo, Turn
from lore.prompt.base import Rules
from lore.prompt.dialects import DIALECTS, dialect_of
from lore.run.dated import PACKAGED

MODELS = {"anthropic": "claude-opus-5", "bedrock": "anthropic.claude-opus-5-v1:0", "openai-chat": "gpt-5.6",
          "openai-responses": "gpt-5.6", "gemini": "gemini-2.5-pro"}  # fmt: skip
TTLS = [("1h", "1h"), ("1h", "5m"), ("5m", "5m")]
# About how much is said, and by whom: not about where an assembler put it.
OF_CONTENT = {"LORE114", "LORE151", "LORE153", "LORE182", "LORE306"}


@cache
def linter():
    return Linter(PACKAGED.rules())


@pytest.mark.parametrize("dialect", MODELS)
@settings(max_examples=20)
@given(script=scripts(max_size=8), ttls=st.sampled_from(TTLS))
def test_no_assembled_body_breaks_a_law_of_requests(dialect, script, ttls):
    rules = Rules(head_ttl=ttls[0], ttl=ttls[1])
    for played in Agent(dialect, rules, model=MODELS[dialect]).play(script).turns:
        prompt = DIALECTS[dialect].parse(played.body, "wire", Memo())
        defects = linter().defects(Turn("main", 1, prompt))
        faults = {each.broken.code for each in defects if each.broken.kind != "expected"}
        faults = {code for code in faults if CODES[code].kind != "expected"}
        assert faults <= OF_CONTENT
        linter().outlook(Turn("main", 1, prompt))


@settings(max_examples=60)
@given(bodies(), st.sets(st.integers(0, 12), max_size=6))
def test_any_body_gets_an_answer_and_every_finding_a_place(body, places):
    body = with_breakpoints(body, {place for place in places if place < len(places_for_breakpoints(body))})
    raw = json.dumps(body).encode()
    dialect = dialect_of(raw)
    assert dialect is not None
    turn = Turn("main", 1, dialect.parse(raw, "wire", Memo()))
    for defect in linter().defects(turn):
        assert 0 <= defect.broken.at < len(turn.prompt) or defect.broken.at == -1
        assert (defect.stake.tokens or 0) >= 0
    outlook = linter().outlook(turn)
    assert 0 <= (outlook.cached or 0) <= max(1, outlook.tokens)
