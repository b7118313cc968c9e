"""The rows of engines' caches: contract, options and their values."""

import math

import pytest

from cache.asking import request, rules
from lore.cache.registry import make
from lore.errors import LoreError
from lore.testing import CacheContract
from lore_plugins.engines import LLAMA_CPP, LMCACHE, SGLANG, VLLM
from lore_plugins.engines.caches.radix import POLICIES

ROWS = {row.name: row for row in (VLLM, SGLANG, LLAMA_CPP, LMCACHE)}


@pytest.mark.parametrize("name", ROWS)
class TestContract(CacheContract):
    @pytest.fixture(autouse=True)
    def _chosen(self, name):
        self.cache = ROWS[name]


def test_sglang_policies_match_the_model():
    assert SGLANG.words["policy"] == tuple(POLICIES)


@pytest.mark.parametrize("name", ROWS)
def test_every_option_is_accepted(name):
    needed = {"window_capacity": {"window": 9}} if name == "sglang" else {}
    needed |= {option: {"states": True} for option in ("strategy", "state_capacity", "state_chunk", "state_interval")}
    needed |= {option: {"states": True, "block": 1} for option in ("groups", "retention")}
    for option in ROWS[name].options:
        value = SGLANG.words.get(option, (8 if option == "state_capacity" else 1,))[-1]
        assert make(name, rules(), {option: value, **needed.get(option, {})}).predict(request("ab")).total == 32


@pytest.mark.parametrize(
    ("name", "options"),
    [("llama.cpp", {"slots": math.nan}), ("vllm", {"block": 2.5}), ("vllm", {"capacity": math.inf}),
     ("llama.cpp", {"similarity": math.nan}), ("sglang", {"hybrid": 7}), ("sglang", {"policy": "newest"})],
)  # fmt: skip
def test_invalid_option_values_are_refused(name, options):
    with pytest.raises(LoreError, match="is not (a whole number|a number|true or false|one of lru)"):
        make(name, rules(), options)
