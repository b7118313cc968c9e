"""Laws of every cache model, on generated sequences of requests with exact sizes.

A read is at most the longest common beginning with an earlier request; block models read whole blocks; read, write and
uncached tokens sum to the total; a longer lifetime never reads less; the order of independent chains does not matter;
any request and usage is accepted; a missing usage changes nothing.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cache.asking import piece, predicted, rules
from cache.sessions import growing, sequences
from helpers.each import each
from lore.cache.base import Breakpoint, Piece, Request, RuleLookup
from lore.cache.registry import BROUGHT, CACHES, make
from lore.model.events import Usage
from lore.model.vector import common_prefix

NAMES = tuple(name for name in CACHES if name not in BROUGHT)  # those of the core; plug-ins hold the laws, too
BLOCKS = {"openai": 128, "kimi": 256, "xai": 128}
HOSTED = {"minimum_tokens": 20, "lifetime": 300, "lookback": 20}
LIVING = ("anthropic", "bedrock", "qwen", "openai-breakpoint", "openai", "gemini", "kimi", "xai", "qwen-implicit")


def full_rules(name: str, **more: float) -> RuleLookup:
    """Return rules that use every feature of a model."""
    return rules({**HOSTED, **({"compared_breakpoints": 80} if name == "openai-breakpoint" else {}), **more})


def common(request: Request, other: Request) -> int:
    """Return the tokens of the common pieces of two requests, and of the common bytes of the next two pieces."""
    tokens = 0
    for first, second in zip(request.pieces, other.pieces, strict=False):
        if first != second:
            alike = common_prefix(first.data, second.data)
            return tokens + math.floor((first.tokens or 0) * alike / max(1, len(first.data)))
        tokens += first.tokens or 0
    return tokens


@given(requests=sequences())
def test_read_never_exceeds_the_longest_common_beginning(requests):
    for name in NAMES:
        for number, prediction in enumerate(predicted(name, requests, full_rules(name))):
            best = max((common(requests[number], earlier) for earlier in requests[:number]), default=0)
            assert (prediction.read or 0) <= best, name


@given(requests=sequences())
def test_read_write_and_uncached_make_the_whole(requests):
    for name in NAMES:
        model = make(name, full_rules(name))
        for request in requests:
            prediction = model.predict(request)
            if not request.pieces:
                assert (prediction.read, prediction.write, prediction.uncached) == (None, None, None)
                continue
            assert prediction.total == sum(piece_sent.tokens or 0 for piece_sent in request.pieces), name
            assert min(prediction.read, prediction.write, prediction.uncached) >= 0
            assert 0 <= (prediction.write_1h or 0) <= prediction.write


@pytest.mark.parametrize("name", BLOCKS)
@given(requests=sequences())
def test_block_models_read_whole_blocks(name, requests):
    find_rule = rules({"block_tokens": BLOCKS[name]})
    assert all((prediction.read or 0) % BLOCKS[name] == 0 for prediction in predicted(name, requests, find_rule))


@pytest.mark.parametrize("name", LIVING)
@given(requests=growing(), short=st.sampled_from((60, 300, 1000)), more=st.sampled_from((1, 2, 13)))
def test_longer_lifetime_never_reads_less(name, requests, short, more):
    reads = [
        [prediction.read for prediction in predicted(name, requests, full_rules(name, lifetime=lifetime))]
        for lifetime in (short, short * more)
    ]
    assert all(shorter <= longer for shorter, longer in zip(*reads, strict=True))


@given(requests=sequences(), seed=st.randoms(use_true_random=False))
def test_independent_chains_can_be_reordered(requests, seed):
    """Each chain is shifted in time. Without copies in main memory, which llama.cpp makes when any request comes."""
    for name in NAMES:
        separate = [replace(request, space=request.chain.encode()) for request in requests]
        shift = {request.chain: seed.choice((0.0, 2.0, 50.0, 1_000.0)) for request in separate}
        later = [
            replace(request, at=request.at + shift[request.chain], answered=request.answered + shift[request.chain])
            for request in separate
        ]
        mixed = sorted(later, key=lambda request: request.at)
        chains = set(shift)
        options = {"slots": 20, "host_tokens": 0} if name == "llama.cpp" else {}
        outcomes = []
        for sequence in (separate, mixed):
            predictions = predicted(name, sequence, full_rules(name), **options)
            outcomes.append(
                {
                    chain: [
                        (prediction.read, prediction.write, prediction.uncached)
                        for prediction, sent_request in zip(predictions, sequence, strict=True)
                        if sent_request.chain == chain
                    ]
                    for chain in chains
                }
            )
        assert outcomes[0] == outcomes[1], name


HOSTILE = (
    Request("h", []),
    Request("h", [], 7, breakpoints=(Breakpoint(0), Breakpoint(-1), Breakpoint(99))),
    Request("h", [Piece(b"", "messages")] * 5, breakpoints=(Breakpoint(4), Breakpoint(4), Breakpoint(2))),
    Request("h", [Piece(b"", "messages", tokens=0)] * 3, -5, at=-1e18),
    Request("h", [piece("a")] * 40, 10**9, breakpoints=tuple(Breakpoint(n % 60 - 10) for n in range(10_000)), at=1e18),
    Request("h", [piece("a")] * 40, 40, at=5.0, answered=1.0, output=[Piece(b"", "messages")]),
    Request("h", [piece("a")], 1, at=None, answered=7.0, output=[piece("b", 0), piece("c", None)]),
    Request("h", [piece("t", 5, "tools"), piece("s", 5, "system"), piece("t", 5, "tools")], space=b"\x00", cached=b"c"),
    Request("h", [piece("i", None, kind="image"), piece("?", None, kind="no such kind")], salts=(("system", b"x"),)),
    Request("", [piece("a", -5)], 1, at=3.0, cached=b"c"),
    Request("h", [replace(piece("a"), tokens=10**15)], at=2.0, cached=b"c", breakpoints=(Breakpoint(0, -1.0),)),
)  # fmt: skip
BILLS = (
    None,
    Usage(),
    Usage(uncached_tokens=-1, read_tokens=-2, write_tokens=-3),
    Usage(uncached_tokens=0, read_tokens=0, write_tokens=0),
    Usage(uncached_tokens=10**18, read_tokens=10**18, write_tokens=10**18, write_1h_tokens=5, write_5m_tokens=1),
    Usage(uncached_tokens=2000, read_tokens=0),
    Usage(read_tokens=50, write_tokens=3),
)


@given(requests=st.lists(st.tuples(st.sampled_from(HOSTILE), st.sampled_from(BILLS)), min_size=1, max_size=25))
def test_any_request_and_usage_is_accepted(requests):
    for name in NAMES:
        model = make(name, full_rules(name))
        for request, bill in requests:
            prediction = model.predict(request)
            assert prediction.confidence in ("exact", "rule", "ceiling")
            assert isinstance(model.learn(bill), str)
            assert isinstance(model.learn(bill), str)  # usage without a request


@given(
    requests=sequences(), bills=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), min_size=14, max_size=14)
)
def test_missing_usage_changes_nothing(requests, bills):
    """`learn(None)` after a turn equals no call of `learn`."""
    for name in NAMES:
        models = [make(name, full_rules(name)) for _ in range(2)]
        for number, (request, (uncached, read)) in enumerate(zip(requests, bills, strict=False)):
            assert models[0].predict(request) == models[1].predict(request), name
            if number % 2:
                bill = Usage(uncached_tokens=uncached, read_tokens=read, write_tokens=0)
                assert models[0].learn(bill) == models[1].learn(bill)
            else:
                models[0].learn(None)


@given(requests=sequences(), bills=st.lists(st.integers(0, 2000), min_size=1, max_size=5))
def test_prediction_ignores_its_own_usage(requests, bills):
    for name in NAMES:
        models = [make(name, full_rules(name)) for _ in range(2)]
        for request in requests[:-1]:
            for model in models:
                model.predict(request)
                model.learn(Usage(uncached_tokens=bills[0], read_tokens=0, write_tokens=bills[-1]))
        predictions = [model.predict(requests[-1]) for model in models]
        models[0].learn(Usage(uncached_tokens=bills[0], read_tokens=bills[-1], write_tokens=0))
        assert predictions[0] == predictions[1], name


@each(NAMES)
def test_work_is_linear(name):
    assert walked(name, 200) <= 2.2 * walked(name, 100)


def walked(name: str, turns: int) -> int:
    """Return how often pieces are looked up in a conversation of this many turns."""

    class Counting(list):
        lookups = 0

        def __getitem__(self, key):
            if isinstance(key, int):
                Counting.lookups += 1
            return super().__getitem__(key)

    model, text = make(name, full_rules(name)), []
    for turn in range(turns):
        same = len(text)
        text = [*text, *(piece(f"{turn}.{number}", 30) for number in range(3))]
        at = turn * 10.0
        model.predict(
            Request("main", Counting(text), same, breakpoints=(Breakpoint(len(text) - 1),), at=at, answered=at)
        )
        model.learn(None)
    return Counting.lookups
