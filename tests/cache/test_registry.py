"""The table of cache models: found by name, made with options, extended by others."""

from __future__ import annotations

import math

import pytest

from cache.asking import reads, request, rules
from lore.cache.base import UNKNOWN
from lore.cache.registry import CACHES, WORDS, cache_named, configured, make
from lore.errors import LoreError
from lore.recording import base
from lore.recording.base import PLUGIN_GROUPS, register_plugins
from lore.testing import CacheContract


@pytest.mark.parametrize("name", CACHES)
class TestContract(CacheContract):
    @pytest.fixture(autouse=True)
    def _chosen(self, name):
        self.cache = CACHES[name]


def test_a_model_stands_under_its_name():
    assert all(name == one.name for name, one in CACHES.items())
    assert {"anthropic", "openai", "openai-breakpoint", "gemini", "deepseek", "bedrock", "qwen", "kimi"} <= set(CACHES)
    assert {"vllm", "sglang", "llama.cpp", "lmcache"} <= set(CACHES)


@pytest.mark.parametrize("name", CACHES)
def test_every_option_is_taken(name):
    needed = {"window_capacity": {"window": 9}} if name == "sglang" else {}
    needed |= {option: {"states": True} for option in ("strategy", "state_capacity", "state_chunk", "state_interval")}
    needed |= {option: {"states": True, "block": 1} for option in ("groups", "retention")}
    for option in CACHES[name].options:
        value = WORDS.get(option, (8 if option == "state_capacity" else 1,))[-1]
        assert make(name, rules(), {option: value, **needed.get(option, {})}).predict(request("ab")).total == 32


def test_an_option_decides():
    assert reads("vllm", [request("ab"), request("ab")], capacity=0) == [0, 0]
    assert reads("vllm", [request("ab"), request("ab")], capacity=9) == [0, 16]


def test_an_unknown_name_is_an_error_that_names_the_nearest():
    with pytest.raises(LoreError, match="'antropic'") as raised:
        cache_named("antropic")
    assert raised.value.hint == "did you mean 'anthropic'?"


def test_an_unknown_option_is_an_error_that_names_those_there_are():
    with pytest.raises(LoreError, match="no option 'slot'") as raised:
        make("vllm", rules(), {"slot": 4})
    assert raised.value.hint == "options: block, capacity, window, states, groups, full, retention, hybrid"
    with pytest.raises(LoreError) as raised:
        make("anthropic", rules(), {"slot": 4})
    assert raised.value.hint == "it has none"


@pytest.mark.parametrize(
    ("name", "options"),
    [("llama.cpp", {"slots": math.nan}), ("vllm", {"block": 2.5}), ("vllm", {"capacity": math.inf}),
     ("llama.cpp", {"similarity": math.nan}), ("sglang", {"hybrid": 7})],
)  # fmt: skip
def test_a_value_that_cannot_be_is_an_error_that_says_what_can(name, options):
    """`--what-if block=2.5` and `slots=nan` were a TypeError and "a bug in lore"; an endless capacity passed."""
    with pytest.raises(LoreError, match="is not (a whole number|a number|true or false)"):
        make(name, rules(), options)


class Nothing:
    """A cache that keeps nothing."""

    name, provider, options = "nothing", "nobody", ()

    def __init__(self, look):
        self.look = look

    def predict(self, request):
        return UNKNOWN

    def learn(self, usage):
        return ""


class TestNothing(CacheContract):
    cache = Nothing


def test_others_publish_models_under_an_entry_point(monkeypatch):
    class Point:
        name, value = "nothing", "package:Nothing"

        @staticmethod
        def load():
            return Nothing

    monkeypatch.setattr(base, "published", lambda group: [Point] if group == "lore.caches" else [])
    known = dict(CACHES)
    register_plugins("lore.caches", known, call=False)
    assert known["nothing"] is Nothing
    assert PLUGIN_GROUPS["lore.caches"] is CACHES


def test_a_cache_is_named_with_its_options():
    assert configured("vllm") == ("vllm", ())
    assert configured("llama.cpp:slots=2, swa-full=true") == ("llama.cpp", (("slots", 2), ("swa_full", True)))
    assert configured("sglang:policy=lfu")[1] == (("policy", "lfu"),)
    assert cache_named("vllm:block=32").name == "vllm"
    for text in ("vllm:block", "vllm:block=", "vllm:block=x"):
        with pytest.raises(LoreError, match="^--cache vllm:"):
            configured(text)
