"""Cache models by name, with options, and of plug-ins."""

import math

import pytest

from cache.asking import rules
from lore import plugins
from lore.cache.base import UNKNOWN
from lore.cache.registry import BROUGHT, CACHES, CacheRow, cache_named, make, parse_cache
from lore.cache.served import billed_by, cache_of, served_by
from lore.errors import LoreError
from lore.model.turn import Call, Prompt, Turn
from lore.plugins import register_plugins
from lore.recording.base import PLUGIN_GROUPS
from lore.testing import CacheContract

NAMES = [name for name in CACHES if name not in BROUGHT]  # those of the core


@pytest.mark.parametrize("name", NAMES)
class TestContract(CacheContract):
    @pytest.fixture(autouse=True)
    def _chosen(self, name):
        self.cache = CACHES[name]


def test_unknown_cache_name_suggests_the_nearest():
    with pytest.raises(LoreError, match="'antropic'") as raised:
        cache_named("antropic")
    assert raised.value.hint == "did you mean 'anthropic'?"


def test_unknown_option_lists_the_known_ones(monkeypatch):
    monkeypatch.setitem(CACHES, "own", CacheRow("own", "nobody", Nothing, ("blocks",)))
    with pytest.raises(LoreError, match="no option 'slot'") as raised:
        make("own", rules(), {"slot": 4})
    assert raised.value.hint == "options: blocks"
    with pytest.raises(LoreError) as raised:
        make("anthropic", rules(), {"slot": 4})
    assert raised.value.hint == "it has none"
    with pytest.raises(LoreError, match="anthropic has no option 'foo'"):
        make("anthropic:foo=1", rules())


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [("blocks", 10**30, "a whole number"), ("share", 10**400, "a number"),
     ("blocks", math.nan, "a whole number"), ("blocks", 2.5, "a whole number"), ("blocks", math.inf, "a whole number"),
     ("blocks", True, "a whole number"), ("share", math.nan, "a number"), ("share", "x", "a number"),
     ("flag", 7, "true or false"), ("word", "x", "one of here, there")],
)  # fmt: skip
def test_impossible_option_value_names_the_possible_ones(option, value, expected, monkeypatch):
    """`--what-if block=2.5` and `slots=nan` ended as internal errors; an infinite capacity was accepted."""
    row = CacheRow("own", "nobody", Nothing, ("blocks", "share", "flag", "word"), ("flag",), ("share",),
                   {"word": ("here", "there")})  # fmt: skip
    monkeypatch.setitem(CACHES, "own", row)
    with pytest.raises(LoreError, match=f"is not {expected}"):
        make("own", rules(), {option: value})


@pytest.mark.parametrize("name", sorted(BROUGHT))
def test_cache_of_missing_plugin_names_the_plugin(name, monkeypatch):
    monkeypatch.delitem(CACHES, name, raising=False)
    monkeypatch.setattr(plugins, "entry_points", lambda _: [])
    with pytest.raises(LoreError, match=f"the cache '{name}' needs lore's plug-in 'engines'") as raised:
        cache_named(f"{name}:capacity=9")
    assert "pip install" in raised.value.hint


class Nothing:
    """A cache that keeps nothing."""

    def __init__(self, find_rule):
        self.find_rule = find_rule

    def predict(self, request):
        return UNKNOWN

    def learn(self, usage):
        return ""


NOTHING = CacheRow("nothing", "nobody", Nothing)


class TestNothing(CacheContract):
    cache = NOTHING


def test_others_publish_models_under_an_entry_point(monkeypatch):
    class Point:
        name, value = "nothing", "package:NOTHING"

        @staticmethod
        def load():
            return NOTHING

    monkeypatch.setattr(plugins, "entry_points", lambda group: [Point] if group == "lore.caches" else [])
    registry = dict(CACHES)
    register_plugins("lore.caches", registry, call=False)
    assert registry["nothing"] is NOTHING
    assert PLUGIN_GROUPS["lore.caches"] is CACHES


def test_a_cache_is_named_with_its_options(monkeypatch):
    monkeypatch.setitem(CACHES, "own", CacheRow("own", "nobody", Nothing, ("word",), words={"word": ("a", "b")}))
    assert parse_cache("deepseek") == ("deepseek", ())
    assert parse_cache("own:slots=2, swa-full=true") == ("own", (("slots", 2), ("swa_full", True)))
    assert parse_cache("own:word=b")[1] == (("word", "b"),)
    assert cache_named("own:slots=2").name == "own"
    for text in ("own:block", "own:block=", "own:block=x"):
        with pytest.raises(LoreError, match="^--cache own:"):
            parse_cache(text)


def test_unlisted_gateway_is_billed_by_answering_provider():
    turn = Turn("main", 1, Prompt("anthropic", "wire"), call=Call(endpoint="my.gw.com/v1", answered_by="anthropic"))
    assert billed_by(turn) == served_by(turn) == ("anthropic", "")


@pytest.mark.parametrize(("breakpoints", "cache"), [((0,), "qwen"), ((), "qwen-implicit")])
def test_breakpoint_selects_the_explicit_cache_of_qwen(breakpoints, cache):
    prompt = Prompt("openai-chat", "wire", model="qwen3.6-plus", breakpoints=breakpoints)
    turn = Turn("main", 1, prompt, call=Call(endpoint="dashscope.aliyuncs.com/compatible-mode/v1/chat/completions"))
    assert cache_of(turn, served_by(turn)) == cache
