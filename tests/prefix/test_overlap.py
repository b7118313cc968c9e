"""How much two prompts share: overlap, relation, first difference, sums over a chain."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.each import each
from lore.model.turn import Prompt, Segment
from lore.model.vector import Vector
from lore.prefix.overlap import (
    ChainSums,
    PairSums,
    byte_size,
    canonical_of,
    compare_prompts,
    count_cached_segments,
    excerpt,
    find_divergence,
    name_relation,
)
from model.making import assistant, body, dumps, parsed
from prefix.pairs import explain, text, user

BASE = body("one", assistant("two"), "three")
TOOL = {"name": "ls", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}


def compare(previous, current):
    prompts = [side if isinstance(side, Prompt) else parsed(side) for side in (previous, current)]
    overlap = compare_prompts(*prompts)
    return overlap, name_relation(*prompts, overlap)


def prompt(head=(), messages=(), tail=()):
    def segments(section, texts):
        return [Segment(section, f"{section}[{n}]", words.encode()) for n, words in enumerate(texts)]

    return Prompt("d", "wire", head=tuple(segments("system", head)), messages=Vector(segments("messages", messages)),
                  tail=tuple(segments("messages", tail)))  # fmt: skip


@each("current, common, relation", [
    (BASE, 7, "identical"),
    (body("one", assistant("two"), "three", assistant("four")), 7, "extension"),
    (body("one", assistant("two")), 5, "shrunk"),
    (body("one", assistant("twx"), "three"), 4, "diverged"),
    (body("new first", "one", assistant("two")), 2, "diverged"),
    (body("other", system="Be brief."), 2, "unrelated"),
])  # fmt: skip
def test_relation_follows_from_shared_segments(current, common, relation):
    overlap, name = compare(BASE, current)
    assert (overlap.common, name) == (common, relation)
    assert overlap.is_covered is (relation in ("identical", "extension"))


def test_rewritten_end_of_the_only_message_diverges():
    log = "Log: opened the file, read it. "
    assert compare(body(log), body(log + "Then closed it."))[1] == "diverged"
    assert compare(body("Log: opened."), body("Log: other things happened."))[1] == "unrelated"


def test_prompts_without_messages_relate_by_their_heads():
    assert compare(body(), body())[1] == "identical"
    assert compare(body(), body(system="Other"))[1] == "unrelated"


def test_common_bytes_end_at_the_first_difference():
    assert compare(BASE, body("one", assistant("twx"), "three"))[0].common_bytes == len('"tw')
    assert compare(prompt(["a"], ["same"]), prompt(["a", "same"], ["x"]))[0].common_bytes == 0  # two sections


@pytest.mark.parametrize(
    ("head", "new_head", "common"),
    [(["a"], ["a", "b"], 1), (["a", "b"], ["a"], 1), (["a", "b"], ["a", "c"], 1), (["b"], ["c"], 0), (["a"], ["a"], 2)],
)
def test_a_longer_or_shorter_head_ends_the_prefix(head, new_head, common):
    overlap, _ = compare(prompt(head, ["m"]), prompt(new_head, ["m", "n"]))
    assert (overlap.common, overlap.is_covered) == (common, common == 2)


def test_previous_tail_is_not_compared():
    previous = prompt(["a"], ["m"], ["noon"])
    overlap, relation = compare(previous, prompt(["a"], ["m", "n"], ["one"]))
    assert (overlap.is_covered, overlap.common, relation) == (True, 2, "extension")
    assert compare(previous, prompt(["a"], ["m"], ["one"]))[1] == "extension"
    assert compare(previous, prompt(["a"], ["m"], ["noon"]))[1] == "identical"
    assert compare(prompt(["a"], ["m", "n"]), prompt(["a"], ["m"], ["n", "o"]))[0].common == 3


@pytest.mark.parametrize(("content", "new_content"), [
    (b'[{"type":"text","text":"\\u00e9"}]', '[{"type":"text","text":"é"}]'.encode()),
    (b'[{"type":"text","text":"x"}]', b'[{"text": "x", "type": "text"}]'),
    (b'"x"', b'[{"type":"text","text":"x"}]'),
], ids=["escapes", "key order", "shape"])  # fmt: skip
def test_other_spelling_is_equal_in_canonical_form(content, new_content):
    bodies = [b'{"system":"S","messages":[{"role":"user","content":' + raw + b"}]}" for raw in (content, new_content)]
    overlap, relation = compare(*bodies)
    assert (overlap.common, overlap.canonical, overlap.is_covered, overlap.is_covered_canonically) == (
        2,
        3,
        False,
        True,
    )
    assert relation == "diverged"


def test_white_space_between_segments_does_not_count():
    previous = b'{"system":"S","messages":[{"role":"user","content":["a","b"]}]}'
    current = b'{ "system" : "S",\n "messages" : [ {"role":"user" , "content" : [ "a" ,\t"b" ] } ] }'
    assert compare(previous, current)[1] == "identical"


def test_cached_segments_end_at_the_last_breakpoint():
    marked = parsed(body(user(text("a", cache_control={"type": "ephemeral"})), "b"))
    assert count_cached_segments(marked) == 3
    assert count_cached_segments(msgspec.structs.replace(marked, auto_breakpoint=True)) == marked.stable
    assert count_cached_segments(parsed(body("a", "b"))) == 5


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5))
def test_spellings_of_a_block_share_one_canonical_form(block):
    spellings = [
        json.dumps(block),
        json.dumps(block, ensure_ascii=False, indent=1),
        json.dumps(dict(reversed(block.items())), separators=(",", ":")),
        json.dumps(block).replace("/", "\\/"),
    ]
    segments = [Segment("messages", "m", spelling.encode("utf-8", "surrogatepass")) for spelling in spellings]
    assert len({canonical_of(segment) for segment in segments}) == 1


# The first difference


def divergence(previous, current):
    prompts = parsed(previous), parsed(current)
    overlap = compare_prompts(*prompts)
    sums = ChainSums(byte_size)
    sums.advance(prompts[0], 0)
    return find_divergence(*prompts, overlap, sums.sum_before(overlap.common))


@each("previous, current, section, path, offset", [
    (body("a", system="Day 1"), body("a", system="Day 2"), "system", "system", 5),
    (body("a", system=[text("Day 1")]), body("a", system=[text("Day 2")]), "system", "system[0].text", 5),
    (body("abc"), body("abd"), "messages", "messages[0].content", 3),
    (body("a", assistant("x")), body("a", "x"), "messages", "messages[1].role", 1),
    (body("a", tools=[TOOL]), body("a", tools=[json.loads(json.dumps(TOOL).replace("string", "strong"))]),
     "tools", "tools[0].input_schema.properties.path.type", 4),
    (body("a", tools=[TOOL]), body("a", tools=[TOOL, {**TOOL, "name": "cat"}]), "tools", "tools[1]", 0),
    (body("a", tools=[TOOL, {**TOOL, "name": "cat"}]), body("a", tools=[TOOL]), "tools", "tools[1]", 0),
])  # fmt: skip
def test_divergence_names_innermost_value_and_byte(previous, current, section, path, offset):
    difference = divergence(previous, current)
    assert (difference.section, difference.path, difference.offset) == (section, path, offset)


def test_prompt_offset_counts_segments_without_punctuation():
    head = b'"S"' + b'"role":"user"' + b'"a"' + b'"role":"user"'
    assert divergence(body("a", "bcd", system="S"), body("a", "bcx", system="S")).prompt_offset == len(head) + 3


def test_divergence_shows_both_sides_in_context():
    difference = divergence(body("x" * 50 + "left" + "y" * 200), body("x" * 50 + "right" + "y" * 200))
    assert (difference.left, difference.right) == ("x" * 20 + "left" + "y" * 76, "x" * 20 + "right" + "y" * 75)


def test_excerpt_leaves_out_cut_code_points():
    segment = parsed({"messages": [{"role": "user", "content": "é" * 100}]}).messages[1]
    assert set(excerpt(segment, 100)) == {"é"}
    assert excerpt(None, 3) == ""


KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(["MIIEowIBAAKCAQEAx" + "Q7b9" * 11] * 30)


@each([*["sk-ant-" + "Q7b9" * size for size in (5, 15, 75, 225, 625)] + [KEY, KEY + "Q7b9" * 3000]])
def test_excerpt_masks_credentials_beyond_its_ends(secret):
    difference = divergence(body(f"key {secret}x rest"), body(f"key {secret}y rest"))
    assert "Q7b9" not in difference.left + difference.right


def test_offsets_hold_beside_a_masked_credential():
    secret = "ghp_" + "a1B2" * 9
    difference = divergence(body(f"{secret} 1"), body(f"{secret} 2"))
    assert difference.left.endswith('** 1"')
    assert dumps(f"{secret} 1")[difference.offset : difference.offset + 1] == b"1"


# Sums over a chain


def total(prompt, count=None):
    return sum(len(segment.data) for segment in list(prompt)[:count])


def test_chain_sums_equal_sums_of_whole_prompts():
    sums, previous = ChainSums(byte_size), None
    changed = [body("one", assistant("twx")), body("one", assistant("twx"), "four", system="Other"), body()]
    for current in map(parsed, [body("one"), BASE, *changed]):
        common = compare_prompts(previous, current).common if previous is not None else 0
        before = total(previous) if previous is not None else 0
        assert sums.advance(current, common) == PairSums(before, total(current), total(current, common))
        previous = current


def test_tails_count_in_the_whole_prompt_only():
    sums = ChainSums(byte_size)
    sums.advance(prompt(messages=["mm"], tail=["ttt"]), 0)
    assert (sums.tail, sums.sum_before(1), sums.sum_before(9)) == (3, 2, 2)
    assert sums.advance(prompt(messages=["mm"], tail=["uuuu"]), 1) == PairSums(5, 6, 2)
    assert sums.advance(prompt(messages=["mm"], tail=["uuuu"]), 2) == PairSums(6, 6, 6)


def test_a_changing_head_leaves_the_history_measured():
    measured = []
    sums = ChainSums(lambda segment: measured.append(segment) or len(segment.data))
    history = [Segment("messages", f"messages[{n}]", b"word" * n) for n in range(50)]
    messages, previous = Vector(), None
    for turn in range(50):
        messages = messages.append(history[turn])
        current = Prompt("anthropic", "wire", head=(Segment("system", "system", b"at %d" % turn),), messages=messages)
        totals = sums.advance(current, 0 if previous is None else compare_prompts(previous, current).common)
        assert totals.current == total(current)
        previous = current
    assert len(measured) == 100


def test_inserted_text_that_repeats_itself_is_shown():
    """CrewAI appended its system prompt once more in each request; both excerpts showed the same place of it."""
    text = "You are Calculator. You are a calculator.\nYour personal goal is: Calculate numbers accurately"
    (cause,) = explain(body(system=text), body(system=f"{text}\n\n{text}"))
    before, after = cause.evidence.before, cause.evidence.after
    assert before != after
    assert after.endswith("accurately\\n\\nYou are Calculator. ")
