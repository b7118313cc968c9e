"""Gemini's cached objects: their size is known after the first usage."""

from __future__ import annotations

from cache.asking import reads, request, rules
from lore.cache.base import UNKNOWN
from lore.cache.registry import make
from lore.model.events import Usage

NAMED = b'"cachedContents/1"'


def test_cached_object_is_unpredicted_before_usage():
    said = make("gemini-explicit", rules()).predict(request("ab", cached=NAMED))
    assert said[:3] == UNKNOWN[:3]
    assert said.reason == "no usage has shown the size of the cached object"


def test_cached_object_is_read_as_a_whole():
    model = make("gemini-explicit", rules())
    model.predict(request("ab", cached=NAMED))
    assert model.learn(Usage(uncached_tokens=32, read_tokens=5000)) == ""
    said = model.predict(request("abc", cached=NAMED, same=2))
    assert said[:3] == (5032, 0, 16)


def test_the_least_that_was_read_is_the_object():
    model = make("gemini-explicit", rules())
    for read in (5032, 5000):
        model.predict(request("ab", cached=NAMED))
        model.learn(Usage(uncached_tokens=32, read_tokens=read))
    assert model.predict(request("x", cached=NAMED)).read == 5000


def test_objects_are_apart():
    model = make("gemini-explicit", rules())
    model.predict(request("ab", cached=NAMED))
    model.learn(Usage(uncached_tokens=32, read_tokens=5000))
    assert model.predict(request("ab", cached=b"another")).read is None
    assert model.predict(request("abc", chain="2")).read == 0


def test_request_without_object_uses_the_implicit_cache():
    asked = [request("ab"), request("abc")]
    assert reads("gemini-explicit", asked) == reads("gemini", asked) == [0, 32]
