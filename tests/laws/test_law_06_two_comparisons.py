"""Law 6: prompts are compared by bytes and by canonical form; if only bytes differ, the cause is serialisation."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.each import each
from helpers.strategies import NUMBERS, PLAIN, Style, bodies, styles, values, write
from lore.commands.main import main
from lore.model.canonical import canonical
from lore.model.turn import Memo
from lore.prefix.causes import find_causes
from lore.prefix.overlap import compare_prompts, name_relation
from lore.prompt.dialects import dialect_of

SERIALISATION = {"LORE105", "LORE106", "LORE112"}


def _parsed(raw: bytes):
    return dialect_of(raw).parse(raw, "wire", Memo())


def _codes(first: bytes, second: bytes) -> set[str]:
    first_prompt, second_prompt = _parsed(first), _parsed(second)
    return {
        cause.code
        for cause in find_causes(first_prompt, second_prompt, compare_prompts(first_prompt, second_prompt), ())
    }


SPOKEN = ("anthropic", "openai-chat")  # the shapes whose messages hold text blocks or a string


def _as_texts(body: dict) -> dict:
    """Return the body with single text blocks written as plain strings."""

    def short(content):
        alone = isinstance(content, list) and len(content) == 1 and content[0].keys() == {"type", "text"}
        return content[0]["text"] if alone else content

    return {**body, "messages": [{**message, "content": short(message["content"])} for message in body["messages"]]}


@given(bodies(), styles, styles)
def test_another_spelling_differs_on_the_wire_only(body, style, other_style):
    first, second = _parsed(write(body, style)), _parsed(write(body, other_style))
    comparison = compare_prompts(first, second)
    assert comparison.is_covered_canonically
    assert comparison.canonical == first.stable == second.stable


@given(bodies(), styles, styles)
def test_the_cause_of_another_spelling_is_serialisation(body, style, other_style):
    assert _codes(write(body, style), write(body, other_style)) <= SERIALISATION


@given(bodies(), styles)
def test_other_spelling_on_wire_has_cause(body, style):
    first, second = write(body), write(body, style)
    assume([segment.data for segment in _parsed(first)] != [segment.data for segment in _parsed(second)])
    assert _codes(first, second)


@given(bodies())
def test_another_key_order_is_lore105(body):
    assert _codes(write(body), write(body, Style(reverse=True))) == {"LORE105"}


@pytest.mark.parametrize("style", [Style(spaced=True), Style(escapes="all")], ids=["white space", "escapes"])
@given(body=bodies())
def test_another_spelling_in_the_same_order_is_lore106(style, body):
    assume(style.spaced or "plain" in json.dumps(body))
    assert _codes(write(body), write(body, style)) == {"LORE106"}


@given(bodies(SPOKEN), styles)
def test_text_instead_of_one_block_is_lore112(body, style):
    short = _as_texts(body)
    assume(short != body)
    assert _codes(write(body, style), write(short, style)) == {"LORE112"}


@given(bodies(), styles)
def test_a_respelled_body_shares_its_conversation(body, style):
    first, second = _parsed(write(body)), _parsed(write(body, style))
    assert name_relation(first, second, compare_prompts(first, second)) != "unrelated"


@given(bodies(SPOKEN), styles, st.data())
def test_another_content_differs_in_both(body, style, data):
    changed = json.loads(json.dumps(body))
    where = data.draw(st.integers(0, len(changed["messages"]) - 1))
    changed["messages"][where]["content"] = [{"type": "text", "text": "something else entirely"}]
    first, second = _parsed(write(body)), _parsed(write(changed, style))
    assert not compare_prompts(first, second).is_covered_canonically


@given(values, styles, styles)
def test_spellings_of_value_have_one_canonical_form(value, style, other_style):
    assert canonical(write(value, style)) == canonical(write(value, other_style))


STRICT = (b"0", b"0.0", b"false", b'""', b"null", b"[]", b"{}", b"1", b"1.0", b"true", b'"1"', b"18446744073709551616",
          b"18446744073709551617", b"1.8446744073709552e19", b'"\\ud83d"', b'"\\\\ud83d"', b'"?"')  # fmt: skip


@each(STRICT)
def test_different_values_have_different_canonical_forms(value):
    assert [other for other in STRICT if canonical(other) == canonical(value)] == [value]


@pytest.mark.parametrize("around", [b"%s", b'[%s,"\\ud83d"]', b"[%s,18446744073709551616]"], ids=str)
def test_number_beyond_floats_is_not_null(around):
    assert canonical(around % b"1e999") != canonical(around % b"null")


def test_diff_prefix_shows_both_figures(desk, capsys):
    body = {"model": "claude-x", "system": "s", "messages": [{"role": "user", "content": "hello"}]}
    (desk / "a.json").write_bytes(write(body))
    (desk / "b.json").write_bytes(write(body, Style(spaced=True)))
    assert main(["diff-prefix", "a.json", "b.json", "--json", "--no-tokens"]) == 0
    prompt = json.loads(capsys.readouterr().out)["prompt"]
    assert prompt["common_prefix_bytes"] < prompt["left_bytes"]
    assert prompt["canonical_common_prefix_bytes"] >= prompt["common_prefix_bytes"]


def test_generated_numbers_have_several_spellings():
    assert any(write(number, PLAIN) != write(number, Style(floats=1)) for number in NUMBERS)


def test_respelled_recorded_body_differs_only_on_wire(recording):
    from helpers.recognising import recognise  # noqa: PLC0415
    from helpers.strategies import read_all  # noqa: PLC0415
    from lore.formats.captures.bodies import Bodies  # noqa: PLC0415
    from lore.model.turn import Exchange  # noqa: PLC0415

    data = recording.read_bytes()
    if recognise(data[: 1 << 18]) is not Bodies:
        pytest.skip("holds events, not bodies")
    bodies_ = [read.value.body for read in read_all(Bodies(), data) if isinstance(read.value, Exchange)]
    for body in bodies_[:: max(1, len(bodies_) // 3)]:
        respelled = write(json.loads(body), Style(reverse=True))
        assert compare_prompts(_parsed(body), _parsed(respelled)).is_covered_canonically
        assert _codes(body, respelled) <= SERIALISATION
