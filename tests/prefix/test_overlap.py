"""Overlap and relation: how much two prompts share, byte for byte and in canonical form."""

from __future__ import annotations

import pytest

from lore.model.turn import Prompt, Segment
from lore.model.vector import Vector
from lore.prefix.overlap import compare_prompts, name_relation
from model.making import assistant, body, parsed

BASE = body("one", assistant("two"), "three")


def compare(left, right, dialect="anthropic"):
    mine = left if isinstance(left, Prompt) else parsed(left, dialect)
    theirs = right if isinstance(right, Prompt) else parsed(right, dialect)
    found = compare_prompts(mine, theirs)
    return found, name_relation(mine, theirs, found)


def prompt(head=(), messages=(), tail=()):
    def made(section, texts):
        return [Segment(section, f"{section}[{n}]", text.encode()) for n, text in enumerate(texts)]

    return Prompt("d", "wire", head=tuple(made("system", head)), messages=Vector(made("messages", messages)),
                  tail=tuple(made("messages", tail)))  # fmt: skip


def test_equal_prompts_are_identical():
    found, how = compare(BASE, BASE)
    assert (found.is_covered, found.common, how) == (True, 7, "identical")


def test_a_prompt_that_goes_on_is_an_extension():
    found, how = compare(BASE, body("one", assistant("two"), "three", assistant("four")))
    assert (found.is_covered, found.is_covered_canonically, found.common, found.common_bytes, how) == (
        True,
        True,
        7,
        0,
        "extension",
    )


def test_a_prompt_that_stops_earlier_has_shrunk():
    found, how = compare(BASE, body("one", assistant("two")))
    assert (found.is_covered, found.common, how) == (False, 5, "shrunk")


def test_an_edited_prompt_has_diverged_at_the_byte_that_differs():
    found, how = compare(BASE, body("one", assistant("twx"), "three"))
    assert (found.common, found.common_bytes, how) == (4, len('"tw'), "diverged")


def test_prompts_without_a_message_in_common_are_unrelated():
    assert compare(BASE, body("other", system="Be brief."))[1] == "unrelated"


def test_a_message_that_moved_still_relates_two_prompts():
    assert compare(BASE, body("new first", "one", assistant("two")))[1] == "diverged"


def test_prompts_without_messages_relate_by_their_heads():
    assert compare(body(), body())[1] == "identical"
    assert compare(body(), body(system="Other"))[1] == "unrelated"


# heads


@pytest.mark.parametrize(
    ("left", "right", "common", "covered"),
    [
        (["a"], ["a", "b"], 1, False),
        (["a", "b"], ["a"], 1, False),
        (["a", "b"], ["a", "c"], 1, False),
        (["b"], ["c"], 0, False),
        ([], ["a"], 0, False),
        (["a"], ["a"], 2, True),
    ],
)
def test_heads_of_different_length_end_the_prefix(left, right, common, covered):
    found, _ = compare(prompt(left, ["m"]), prompt(right, ["m", "n"]))
    assert (found.common, found.is_covered) == (common, covered)


def test_segments_of_two_sections_share_no_bytes():
    found, _ = compare(prompt(["a"], ["same"]), prompt(["a", "same"], ["x"]))
    assert (found.common, found.common_bytes) == (1, 0)


# tails


def test_the_lefts_tail_is_not_compared():
    found, how = compare(prompt(["a"], ["m"], ["noon"]), prompt(["a"], ["m", "n"], ["one"]))
    assert (found.is_covered, found.common, how) == (True, 2, "extension")


def test_another_tail_alone_is_an_extension_and_the_same_tail_identical():
    left = prompt(["a"], ["m"], ["noon"])
    assert compare(left, prompt(["a"], ["m"], ["one"]))[1] == "extension"
    assert compare(left, prompt(["a"], ["m"], ["noon"]))[1] == "identical"


def test_history_that_stands_in_the_rights_tail_is_reused():
    found, _ = compare(prompt(["a"], ["m", "n"]), prompt(["a"], ["m"], ["n", "o"]))
    assert (found.common, found.is_covered) == (3, True)


# canonical form


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (b'[{"type":"text","text":"\\u00e9"}]', '[{"type":"text","text":"é"}]'.encode()),
        (b'[{"type":"text","text":"x"}]', b'[{"text": "x", "type": "text"}]'),
        (b'"x"', b'[{"type":"text","text":"x"}]'),
    ],
    ids=["escapes", "key order", "shape"],
)
def test_what_is_only_spelled_differently_is_equal_in_canonical_form(left, right):
    made = [b'{"system":"S","messages":[{"role":"user","content":' + content + b"}]}" for content in (left, right)]
    found, how = compare(*made)
    assert (found.common, found.canonical, found.is_covered, found.is_covered_canonically) == (2, 3, False, True)
    assert how == "diverged"


def test_white_space_between_segments_counts_nowhere():
    left = b'{"system":"S","messages":[{"role":"user","content":["a","b"]}]}'
    right = b'{ "system" : "S",\n "messages" : [ {"role":"user" , "content" : [ "a" ,\t"b" ] } ] }'
    assert compare(left, right)[1] == "identical"
