"""Turns as requests to caches: the places of automatic breakpoints."""

from __future__ import annotations

import json

from cache.asking import rules
from lore.cache.registry import make
from lore.cache.views import VIEWS, Views
from model.making import body, parsed, turn

MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def of_openai(marked):
    """A Responses body of seven texts, some of them with a breakpoint."""
    texts = [{"type": "input_text", "text": f"{n}" * 9000, **(MARK if n in marked else {})} for n in range(7)]
    return parsed({"model": "gpt-5.6", "input": [{"role": "user", "content": texts}]}, "openai-responses")


def texts(data):
    return json.loads(data)["text"][0]


def test_automatic_breakpoint_is_on_the_last_markable_block():
    """Without it the request would read and write nothing."""
    blocks = [{"type": "text", "text": "a" * 400}, {"type": "thinking", "thinking": "…", "signature": "s"}]
    text, model = {"role": "assistant", "content": blocks}, make("anthropic", rules(lifetime=300, lookback=20))
    views = Views(VIEWS["anthropic"])
    first = views.of(turn(parsed(body("go", text, cache_control={"type": "ephemeral"}))))
    assert [first.pieces[at.place].data for at in first.breakpoints] == [b'"' + b"a" * 400 + b'"']
    assert model.predict(first).read == 0
    again = views.of(turn(parsed(body("go", text, "on", cache_control={"type": "ephemeral"})), 2))
    assert [again.pieces[at.place].data for at in again.breakpoints] == [b'"on"']
    assert model.predict(again).read > 100


def test_openai_5_6_counts_its_latest_three_explicit_breakpoints():
    request = Views(VIEWS["openai-breakpoint"]).of(turn(of_openai({0, 1, 2, 3})))
    marked = [texts(request.pieces[at.place].data) for at in request.breakpoints]
    assert marked == ["1", "2", "3", "6"]
    request = Views(VIEWS["openai-breakpoint"]).of(turn(of_openai({0})))
    assert [texts(request.pieces[at.place].data) for at in request.breakpoints] == ["0", "6"]
