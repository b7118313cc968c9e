"""Caches without breakpoints: rounding, minimum, lifetime, writes; Gemini's cached objects."""

import pytest
from msgspec.structs import replace

from cache.asking import piece, pieces, reads, request, rules
from helpers.each import each
from lore.cache.base import UNKNOWN, Piece, Request
from lore.cache.registry import make
from lore.model.events import Usage

OPENAI = {"minimum_tokens": 1024, "block_tokens": 128, "lifetime": 600}


def test_classic_openai_rounds_down_to_128():
    requests = [request([piece("a", 1100), piece(end, 300)]) for end in "bc"]
    assert reads("openai", requests, rules(OPENAI)) == [0, 1024]
    requests = [request([piece("a", 1160), piece(end, 300)]) for end in "bc"]
    assert reads("openai", requests, rules(OPENAI)) == [0, 1152]


def test_geminis_minimum_is_that_of_the_model():
    least = {"flash": 4096, "old": 2048}
    requests = [
        request([piece("a", 3000), piece(end, 10)], model=model, space=model.encode())
        for model in ("flash", "old")
        for end in "bc"
    ]
    assert reads("gemini", requests, lambda rule, model, at: least[model] if rule == "minimum_tokens" else None) == [
        0, 0, 0, 3000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "block", "expected"), [("kimi", 256, 768), ("xai", 128, 896), ("qwen-implicit", 1, 1000)]
)
def test_others_round_down_to_their_blocks(name, block, expected):
    requests = [request([piece("a", 1000), piece(end, 300)]) for end in "bc"]
    assert reads(name, requests, rules(block_tokens=block)) == [0, expected]


def test_qwens_implicit_minimum_is_its_own():
    requests = [request([piece("a", 1000), piece(end, 300)]) for end in "bc"]
    assert reads("qwen-implicit", requests, rules(minimum_tokens=4096, minimum_implicit=256)) == [0, 1000]


def test_qwens_implicit_lifetime_is_its_own():
    requests = [request("ab", at=time) for time in (0, 601)]
    assert reads("qwen-implicit", requests, rules(lifetime=300)) == [0, 32]
    assert reads("qwen-implicit", requests, rules(lifetime_implicit=300)) == [0, 0]


def test_a_lifetime_ends_and_a_use_renews():
    def at(*times):
        return reads("openai", [request("ab", at=time) for time in times], rules(lifetime=600))

    assert at(0, 599) == [0, 32]
    assert at(0, 601) == [0, 0]
    assert at(0, 599, 1198) == [0, 32, 32]


def test_prefix_of_a_chain_ages_from_last_use():
    requests = [
        request("abc", at=0),
        request("abcd", at=500, same=3),
        request("ax", at=600, same=1),
        request("abcd", at=1050, same=1),
    ]
    assert reads("openai", requests, rules(lifetime=600)) == [0, 48, 16, 64]
    late = [*requests[:3], replace(requests[3], at=1150)]
    assert reads("openai", late, rules(lifetime=600)) == [0, 48, 16, 16]


def test_without_a_clock_nothing_expires():
    assert reads("openai", [request("ab", at=0), request("ab"), request("ab", at=9999)], rules(lifetime=5)) == [
        0, 32, 32,
    ]  # fmt: skip


def test_usage_corrects_the_next_prediction():
    model = make("openai", rules())
    text = [Piece(letter.encode() * 3600, "messages") for letter in "abc"]
    model.predict(Request("main", text[:1]))
    assert model.learn(Usage(uncached_tokens=1500, read_tokens=0)) == ""
    assert model.predict(Request("main", text[:2], same=1)).read == 1500


def test_usage_without_read_changes_no_estimate():
    model = make("openai", rules())
    model.predict(Request("main", [Piece(b"a" * 3600, "messages")]))
    assert model.learn(Usage(uncached_tokens=1500)) == ""
    assert model.predict(Request("main", [Piece(b"a" * 3600, "messages")], same=1)).read == 1000


def test_writes_are_predicted_after_usage_reported_one():
    model = make("kimi", rules(block_tokens=256))
    first = model.predict(request("a", 600))
    assert (first.write, first.uncached) == (0, 600)
    model.learn(Usage(uncached_tokens=88, read_tokens=0, write_tokens=512))
    second = model.predict(request([*pieces("a", 600), piece("b", 600)], same=1))
    assert (second.read, second.write, second.uncached) == (512, 512, 176)


NAMED = b'"cachedContents/1"'


@each("flag, second, billed, read", [
    (1, "abcd", Usage(48, 0, output_tokens=30), 64),  # 48 of the prompt and 16 of the answer, in whole blocks
    (0, "abcd", Usage(48, 0, output_tokens=30), 48),
    (1, "axcd", Usage(48, 0, output_tokens=30), 16),  # it does not continue the prompt
    (1, "abcd", Usage(48, 0, output_tokens=30, iterations=(Usage(kind="thoughts"),)), 48),
])  # fmt: skip
def test_answer_is_read_if_a_rule_says_so(flag, second, billed, read):
    model = make("deepseek", rules(reads_output=flag, block_tokens=16))
    model.predict(request("abc"))
    model.learn(billed)
    assert model.predict(request(second, tokens=16)).read == read


def test_cached_object_is_unpredicted_before_usage():
    prediction = make("gemini-explicit", rules()).predict(request("ab", cached=NAMED))
    assert prediction == replace(UNKNOWN, reason="no usage has shown the size of the cached object")


def test_cached_object_is_read_as_a_whole():
    model = make("gemini-explicit", rules())
    model.predict(request("ab", cached=NAMED))
    assert model.learn(Usage(uncached_tokens=32, read_tokens=5000)) == ""
    prediction = model.predict(request("abc", cached=NAMED, same=2))
    assert (prediction.read, prediction.write, prediction.uncached) == (5032, 0, 16)


def test_smallest_read_is_the_size_of_the_object():
    model = make("gemini-explicit", rules())
    for read in (5032, 5000):
        model.predict(request("ab", cached=NAMED))
        model.learn(Usage(uncached_tokens=32, read_tokens=read))
    assert model.predict(request("x", cached=NAMED)).read == 5000


def test_each_cached_object_has_its_own_reads():
    model = make("gemini-explicit", rules())
    model.predict(request("ab", cached=NAMED))
    model.learn(Usage(uncached_tokens=32, read_tokens=5000))
    assert model.predict(request("ab", cached=b"another")).read is None
    assert model.predict(request("abc", chain="2")).read == 0


def test_request_without_object_uses_the_implicit_cache():
    requests = [request("ab"), request("abc")]
    assert reads("gemini-explicit", requests) == reads("gemini", requests) == [0, 32]
