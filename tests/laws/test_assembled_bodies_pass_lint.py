"""Lint finds no error in assembled bodies, and no warning about breakpoints.

Findings about sizes, texts in the system prompt and risks are allowed: generated sessions are short and hold any text.
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
# Findings about sizes and texts, not about the assembler.
OF_CONTENT = {"LORE114", "LORE151", "LORE153", "LORE182", "LORE306"}


@cache
def linter():
    return Linter(PACKAGED.rules())


@pytest.mark.parametrize("dialect", MODELS)
@settings(max_examples=20)
@given(script=scripts(max_size=8), ttls=st.sampled_from(TTLS))
def test_assembled_bodies_pass_lint(dialect, script, ttls):
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
def test_lint_findings_of_any_body_have_places(body, places):
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
