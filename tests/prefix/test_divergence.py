"""Divergence: section, path, offsets, and both sides in context."""

from __future__ import annotations

import json

import pytest

from lore.model.turn import Segment
from lore.prefix.overlap import ChainSums, byte_size, compare_prompts, excerpt, find_divergence
from model.making import assistant, body, dumps, parsed

TOOL = {"name": "ls", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}


def where(left, right, dialect="anthropic"):
    mine, theirs = parsed(left, dialect), parsed(right, dialect)
    found = compare_prompts(mine, theirs)
    measure = ChainSums(byte_size)
    measure.advance(mine, 0)
    return find_divergence(mine, theirs, found, measure.sum_before(found.common))


@pytest.mark.parametrize(
    ("left", "right", "section", "path", "offset"),
    [
        (body("a", system="Day 1"), body("a", system="Day 2"), "system", "system", 5),
        (
            body("a", system=[{"type": "text", "text": "Day 1"}]),
            body("a", system=[{"type": "text", "text": "Day 2"}]),
            "system", "system[0].text", 5,
        ),
        (body("abc"), body("abd"), "messages", "messages[0].content", 3),
        (body("a", assistant("x")), body("a", {"role": "user", "content": "x"}), "messages", "messages[1].role", 1),
        (
            body("a", tools=[TOOL]),
            body("a", tools=[json.loads(json.dumps(TOOL).replace("string", "strong"))]),
            "tools", "tools[0].input_schema.properties.path.type", 4,
        ),
    ],
    ids=["system text", "system block", "content", "role", "tool"],
)  # fmt: skip
def test_the_path_names_the_innermost_value_and_the_offset_the_byte_in_it(left, right, section, path, offset):
    found = where(left, right)
    assert (found.section, found.path, found.offset) == (section, path, offset)


def test_the_prompt_offset_counts_the_segments_before_and_no_punctuation():
    found = where(body("a", "bcd", system="S"), body("a", "bcx", system="S"))
    head = b'"S"' + b'"role":"user"' + b'"a"' + b'"role":"user"'
    assert found.prompt_offset == len(head) + len('"bc')


def test_both_sides_are_shown_in_context():
    found = where(body("x" * 50 + "left" + "y" * 200), body("x" * 50 + "right" + "y" * 200))
    assert found.left == "x" * 20 + "left" + "y" * 76
    assert found.right == "x" * 20 + "right" + "y" * 75


@pytest.mark.parametrize("swap", [False, True])
def test_where_one_head_is_longer_the_earlier_section_is_named(swap):
    pair = [body("a", tools=[TOOL]), body("a", tools=[TOOL, {**TOOL, "name": "cat"}])]
    found = where(*(reversed(pair) if swap else pair))
    assert (found.section, found.path) == ("tools", "tools[1]")


def test_code_points_cut_at_the_ends_are_left_out():
    segment = parsed({"messages": [{"role": "user", "content": "é" * 100}]}).messages[1]
    assert set(excerpt(segment, 100)) == {"é"}
    assert excerpt(None, 3) == ""


@pytest.mark.parametrize("size_", [20, 60, 300, 900, 2500])
def test_a_credential_cut_by_an_excerpts_edge_is_masked(size_):
    secret = "sk-ant-" + "Ab1_" * (size_ // 4)
    found = where(body(f"key {secret}x rest"), body(f"key {secret}y rest"))
    assert "Ab1_" not in found.left + found.right


def test_the_middle_of_a_private_key_is_masked():
    lines = "\n".join(["MIIEowIBAAKCAQEAx" + "Q7b9" * 11] * 30)
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}"
    found = where(body(f"{key}Aend"), body(f"{key}Bend"))
    assert "Q7b9" not in found.left + found.right


def test_offsets_hold_where_a_credential_is_masked():
    secret = "ghp_" + "a1B2" * 9
    found = where(body(f"{secret} 1"), body(f"{secret} 2"))
    assert found.left.endswith('** 1"')
    assert dumps(f"{secret} 1")[found.offset : found.offset + 1] == b"1"


def test_the_end_of_a_long_private_key_is_masked_too():
    """The excerpt masks a window: a key that began before it was shown."""
    key = "-----BEGIN PRIVATE KEY-----\\n" + "QUJD" * 3000
    one, other = (Segment("messages", "m", f'{{"text":"{key}{end}"}}'.encode()) for end in ("xx", "yy"))
    at = next(place for place, pair in enumerate(zip(one.data, other.data, strict=True)) if pair[0] != pair[1])
    assert "QUJD" not in excerpt(one, at) + excerpt(other, at)
