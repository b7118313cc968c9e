"""Packs: several files as one stream; and the folders that are read from them."""

import json

from formats.captures import codes, exchanges, fixture, pack
from lore.formats.captures.bodies import BodyPairs
from lore.formats.captures.litellm import Completions
from lore.model.limits import MEMBER_BYTES
from lore.testing import ReaderContract
from model.making import body, dumps

ASK = ({"name": "a.request.json", "awaits": True, "place": True}, dumps(body("x")))
REPLY = ({"name": "r.response.json"}, dumps({"id": "m", "usage": {"input_tokens": 2}, "content": []}))
ALONE = ({"name": "b.request.json", "place": True}, json.dumps(body("y"), indent=1).encode())
ORPHAN = ({"name": "o.response.json", "orphan": True}, b"{}")
PAIRS = pack("body-pairs", ASK, REPLY, ALONE, ORPHAN)
ONE = fixture("completions/stable/claude-sonnet-4-6-a.json")


class TestPairsContract(ReaderContract):
    reader = BodyPairs
    samples = (PAIRS, PAIRS[:-1], pack("body-pairs", ASK, ASK))


class TestCompletionsContract(ReaderContract):
    reader = Completions
    samples = (pack("completions", ({}, ONE), ({}, ONE)),)


def test_response_without_request_is_a_problem():
    assert codes(BodyPairs, PAIRS) == ["LORE226"]


def test_file_without_request_is_a_problem():
    assert codes(BodyPairs, pack("body-pairs", ({"name": "c.request.json"}, b'{"a":1}'))) == ["LORE210"]


def test_too_large_member_is_refused_unread():
    data = b'{"lore_pack":"body-pairs","name":"x","size":%d}\n' % (MEMBER_BYTES + 1)
    assert codes(BodyPairs, data) == ["LORE201"]


def test_pack_ending_inside_file_is_torn():
    assert codes(BodyPairs, PAIRS[:200]) == ["LORE202"]


def test_other_file_among_completions_is_a_problem():
    data = pack("completions", ({}, ONE), ({"name": "notes.json"}, b"{}"))
    assert (codes(Completions, data), len(exchanges(Completions, data))) == (["LORE210"], 1)
