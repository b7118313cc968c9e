"""Lint of one request with an engine's cache."""

from judge.test_lint import LONG, RULES, entry, text
from lore.judge.requests.lint import Linter
from model.making import parsed, turn


def test_engine_has_no_price_and_lifetime():
    long_turn = turn(parsed({"model": "acme-1", "messages": [entry("user", text(LONG))]}, "openai-chat"))
    outlook = Linter(RULES, cache="vllm").outlook(long_turn)
    assert outlook.cached
    assert (outlook.first, outlook.lifetime) == (None, None)
