"""Read files of rules: every mistake is one sentence with file and row."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.cache.rule_file import read_rules
from lore.cache.rules import ALWAYS, RULES
from lore.errors import LoreError

ROW = "[[rules]]\nrule='price_read'\nprovider='anthropic'\nvalue=0.5\n"


def test_row_with_required_keys_gets_defaults():
    (row,) = read_rules(ROW, "mine.toml").rows
    assert (row.rule, row.provider, row.value) == ("price_read", "anthropic", Decimal("0.5"))
    assert (row.model, row.platform, row.valid_from, row.unit) == ("*", "", ALWAYS, "usd_per_mtok")
    assert (row.source, row.evidence, row.file, row.above_tokens) == ("mine.toml", "?", "mine.toml", None)


def test_rows_of_a_block_share_its_keys():
    text = (
        "as_of=2026-10-24\n[[rules]]\nprovider='qwen'\nevidence='P'\nrows=[\n"
        "  {rule='lifetime', value=300},\n  {rule='max_breakpoints', value=4, evidence='S'},\n]\n"
    )
    table = read_rules(text, "t.toml")
    assert table.as_of == date(2026, 10, 24)
    assert [(row.rule, row.evidence) for row in table.rows] == [("lifetime", "P"), ("max_breakpoints", "S")]


@pytest.mark.parametrize(
    ("written", "pattern"),
    [("anthropic.claude-opus-4-8-v1:0", "claude-opus-4-8"), ("Claude-3-5-Haiku-20241022", "claude-haiku-3-5"),
     ("claude-opus-*", "claude-opus-*"), ("gpt-5.[6-9]*", "gpt-5.[6-9]*")],
)  # fmt: skip
def test_model_of_a_row_is_normalised(written, pattern):
    (row,) = read_rules(ROW + f"model='{written}'\n", "t.toml").rows
    assert row.model == pattern


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[[rules\n", "t.toml is not TOML", "quote"),
        ("rule=1\n", "t.toml: unknown key 'rule'", "did you mean 'rules'?"),
        ("zzz=1\n", "unknown key 'zzz'", "known keys: as_of, rules"),
        ("as_of='2026-10-24'\n", "as_of is not a date", "without quotes"),
        ("rules=3\n", "rules is not a list of tables", "[[rules]]"),
        ("[[rules]]\nrows={}\n", "rules 1: rows is not a list of tables", "rows = ["),
        (ROW + "modell='x'\n", "rules 1: unknown key 'modell'", "did you mean 'model'?"),
        (ROW + ROW.replace("value=0.5", "value=-1"), "rules 2: the value does not fit price_read", "0 or more"),
        ("[[rules]]\nrows=[{}, {rule='lifetime'}]\n", "rules 1, row 1: rule is missing", ""),
        ("[[rules]]\nrule='lifetime'\nvalue=1\n", "provider is missing", ""),
        (ROW + "note=3\n", "rules 1: note: expected `str`, got `int`", ""),
        (ROW.replace("price_read", "price_red"), "unknown rule 'price_red'", "did you mean 'price_read'?"),
        (ROW.replace("0.5", "'much'"), "does not fit price_read", "a number"),
        (ROW.replace("0.5", "1e99999"), "does not fit price_read", "a number"),
        (ROW.replace("price_read", "max_breakpoints"), "does not fit max_breakpoints", "a whole number"),
        (ROW.replace("price_read", "lookback_runs"), "does not fit lookback_runs", "true or false"),
        (ROW.replace("price_read", "order"), "does not fit order", "tools,system,messages"),
        (ROW.replace("price_read", "peak_hours").replace("0.5", "'4-1'"), "does not fit peak_hours", "1-4,6-10"),
        (ROW + "unit='eur'\n", "unit 'eur' is not known", "usd_per_mtok"),
        (ROW + "model='claude-['\n", "model 'claude-[' is not a pattern", "gpt-5*"),
        (ROW + "platform='bedrok'\n", "platform 'bedrok' is not known", "did you mean 'bedrock'?"),
        (ROW + "evidence='Q'\n", "rules 1: evidence: invalid enum value 'Q'", ""),
        (ROW + "valid_from='soon'\n", "rules 1: valid_from: invalid", ""),
        (ROW + "above_tokens=0\n", "above_tokens: expected `int` >= 1", ""),
        (ROW + ROW, "rules 2: the same row as rules 1", "another date"),
        (ROW + "model='claude-opus-5'\n" + ROW + "model='claude-opus-5-20260724'\n", "the same row as rules 1", ""),
        ("[[rules]]\n" + "a." * 3000 + "b=1\n", "t.toml: rules 1: unknown key 'a'", ""),
        ("rules=" + "[" * 5000, "t.toml", ""),
    ],
)
def test_mistake_is_one_sentence_with_its_place(text, message, hint):
    with pytest.raises(LoreError) as caught:
        read_rules(text, "t.toml")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    assert caught.value.where is not None
    assert caught.value.where.file == "t.toml"


@given(st.text(max_size=60), st.sampled_from(["", ROW, ROW + "note="]))
def test_any_text_gives_rows_or_one_error(text, head):
    try:
        read_rules(head + text, "t.toml")
    except LoreError as error:
        assert "\n" not in error.message  # noqa: PT017 - most texts are rows


@given(st.sampled_from(sorted(RULES)), st.one_of(st.integers(), st.booleans(), st.sampled_from(["unknown", "lru", ""])))
def test_value_has_the_kind_of_its_rule(rule, value):
    written = str(value).lower() if isinstance(value, bool) else repr(value)
    try:
        (row,) = read_rules(f"[[rules]]\nrule='{rule}'\nprovider='p'\nvalue={written}\n", "t.toml").rows
    except LoreError as error:
        assert rule in error.message  # noqa: PT017 - most values are refused
    else:
        kinds = {"number": Decimal, "whole": Decimal, "flag": bool, "text": str}
        assert row.value is None or isinstance(row.value, kinds[RULES[rule].kind])
