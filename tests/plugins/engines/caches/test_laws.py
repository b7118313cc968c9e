"""The laws of `tests/cache/test_laws.py` for engines, and laws of blocks and memory sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache import test_laws as laws
from cache.asking import predicted, rules
from cache.sessions import sequences
from cache.test_laws import (  # noqa: F401 - run here once more
    test_any_request_and_usage_is_accepted,
    test_independent_chains_can_be_reordered,
    test_missing_usage_changes_nothing,
    test_prediction_ignores_its_own_usage,
    test_read_never_exceeds_the_longest_common_beginning,
    test_read_write_and_uncached_make_the_whole,
)

ENGINES = ("vllm", "sglang", "llama.cpp", "lmcache")
BLOCKS = {"vllm": ("block", 16), "sglang": ("page_size", 4), "lmcache": ("chunk_size", 8)}


@pytest.fixture(autouse=True, scope="module")
def _of_engines():
    """Hold the laws of engines in this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laws, "NAMES", ENGINES)
        yield


@pytest.mark.parametrize("name", ENGINES)
def test_work_of_an_engine_is_linear(name):
    assert laws.walked(name, 200) <= 2.2 * laws.walked(name, 100)


@pytest.mark.parametrize("name", BLOCKS)
@given(requests=sequences(), capacity=st.none() | st.integers(0, 60))
def test_engine_reads_whole_blocks(name, requests, capacity):
    option, block = BLOCKS[name]
    predictions = predicted(name, requests, rules(), **{option: block, "capacity": capacity})
    assert all((prediction.read or 0) % block == 0 for prediction in predictions)


@pytest.mark.parametrize("name", BLOCKS)
@given(requests=sequences(), small=st.integers(0, 40), more=st.none() | st.integers(0, 40))
def test_larger_memory_never_reads_less(name, requests, small, more):
    """For SGLang and LMCache only if each request fits: SGLang refuses larger ones, LMCache evicts their own chunks."""
    option, block = BLOCKS[name]
    if name != "vllm":
        small += max(-(-sum(part.tokens or 0 for part in request.pieces) // block) for request in requests)
    sizes = (small, None if more is None else small + more)
    reads = [
        [prediction.read or 0 for prediction in predicted(name, requests, capacity=size, **{option: block})]
        for size in sizes
    ]
    assert all(small_read <= large_read for small_read, large_read in zip(*reads, strict=True))
