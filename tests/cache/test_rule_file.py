"""Files of rules: what rows may say, and that every fault is one line that names file and row."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.cache.rule_file import ALWAYS, parse
from lore.cache.rules import RULES
from lore.errors import LoreError

ROW = "[[rules]]\nrule='price_read'\nprovider='anthropic'\nvalue=0.5\n"


def test_a_row_needs_a_rule_a_provider_and_a_value():
    (row,) = parse(ROW, "mine.toml").rows
    assert (row.rule, row.provider, row.value) == ("price_read", "anthropic", Decimal("0.5"))
    assert (row.model, row.platform, row.valid_from, row.unit) == ("*", "", ALWAYS, "usd_per_mtok")
    assert (row.source, row.evidence, row.file, row.above_tokens) == ("mine.toml", "?", "mine.toml", None)


def test_rows_share_what_their_block_says_and_may_say_otherwise():
    text = (
        "as_of=2026-10-24\n[[rules]]\nprovider='qwen'\nevidence='P'\nrows=[\n"
        "  {rule='lifetime', value=300},\n  {rule='max_breakpoints', value=4, evidence='S'},\n]\n"
    )
    table = parse(text, "t.toml")
    assert table.as_of == date(2026, 10, 24)
    assert [(row.rule, row.evidence) for row in table.rows] == [("lifetime", "P"), ("max_breakpoints", "S")]


HABIT = "[[habits]]\nsign='skill'\nmoment='prompt'\nmoves='text'\nfell=31\nseen=42\nsessions=769\ncounted=2026-11-22\n"


def test_a_habit_says_what_was_counted_and_for_whom_it_holds():
    text = HABIT + "before_version='2.1.59'\nmodel='Claude-Opus-4.5*'\nfirst=true\nderived=true\n"
    (habit,) = parse(text, "t.toml").habits
    assert (habit.sign, habit.moment, habit.moves, habit.fell, habit.seen) == ("skill", "prompt", "text", 31, 42)
    assert (habit.until, habit.since, habit.first, habit.derived) == ((2, 1, 59), (), True, True)
    assert (habit.model, habit.sessions, habit.counted) == ("claude-opus-4.5*", 769, date(2026, 11, 22))
    assert (habit.source, habit.evidence, habit.file) == ("t.toml", "?", "t.toml")


@pytest.mark.parametrize(("text", "fault"), [
    (HABIT.replace("'skill'", "'skil'"), "sign 'skil' is not known"),
    (HABIT.replace("'prompt'", "'now'"), "moment 'now' is not known"),
    (HABIT.replace("'text'", "'tail'"), "moves 'tail' is not known"),
    (HABIT.replace("fell=31", "fell=43"), "fell is 43, of 42 seen"),
    (HABIT.replace("fell=31", "fell=-1"), "fell is no count"),
    (HABIT.replace("seen=42", "seen=42.5"), "seen is no count"),
    (HABIT.replace("sessions=769\n", ""), "sessions is missing"),
    (HABIT.replace("2026-11-22", "'today'"), "counted is no date"),
    (HABIT + "before_version='new'\n", "before_version 'new' is no version"),
    (HABIT + "first=1\n", "first is neither true nor false"),
    (HABIT + "value=1\n", "unknown key 'value'"),
    (HABIT + HABIT, "the same row as habits 1"),
])  # fmt: skip
def test_what_is_wrong_with_a_habit_is_said(text, fault):
    with pytest.raises(LoreError) as raised:
        parse(text, "t.toml")
    assert fault in raised.value.message


@pytest.mark.parametrize(
    ("spelled", "pattern"),
    [("anthropic.claude-opus-4-8-v1:0", "claude-opus-4-8"), ("Claude-3-5-Haiku-20241022", "claude-haiku-3-5"),
     ("claude-opus-*", "claude-opus-*"), ("gpt-5.[6-9]*", "gpt-5.[6-9]*")],
)  # fmt: skip
def test_a_models_name_is_spelled_as_the_tables_spell_it(spelled, pattern):
    (row,) = parse(ROW + f"model='{spelled}'\n", "t.toml").rows
    assert row.model == pattern


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("[[rules\n", "t.toml is no TOML", "quotes"),
        ("rule=1\n", "t.toml: unknown key 'rule'", "did you mean 'rules'?"),
        ("zzz=1\n", "unknown key 'zzz'", "known keys: as_of, rules"),
        ("as_of='2026-10-24'\n", "as_of is no date", "without quotes"),
        ("rules=3\n", "rules is no list of tables", "[[rules]]"),
        ("[[rules]]\nrows={}\n", "rules 1: rows is no list of tables", "rows = ["),
        (ROW + "modell='x'\n", "rules 1: unknown key 'modell'", "did you mean 'model'?"),
        (ROW + ROW.replace("value=0.5", "value=-1"), "rules 2: value is not what price_read takes", "0 or more"),
        ("[[rules]]\nrows=[{}, {provder='x'}]\n", "rules 1, row 1: rule is missing", ""),
        ("[[rules]]\nrows=[{provder='x'}]\n", "rules 1, row 1: unknown key 'provder'", "did you mean 'provider'?"),
        ("[[rules]]\nrule='lifetime'\nvalue=1\n", "provider is missing", ""),
        ("[[rules]]\nrule='lifetime'\nprovider='p'\n", "value is missing", ""),
        (ROW.replace("price_read", "price_red"), "unknown rule 'price_red'", "did you mean 'price_read'?"),
        (ROW.replace("0.5", "'much'"), "value is not what price_read takes", "a number"),
        (ROW.replace("0.5", "1e99999"), "value is not what price_read takes", "a number"),
        (ROW.replace("price_read", "max_breakpoints"), "value is not what max_breakpoints takes", "a whole number"),
        (ROW.replace("price_read", "lookback_runs"), "value is not what lookback_runs takes", "true or false"),
        (ROW.replace("price_read", "order"), "value is not what order takes", "tools,system,messages"),
        (ROW.replace("price_read", "peak_hours").replace("0.5", "'4-1'"), "what peak_hours takes", "1-4,6-10"),
        (ROW + "unit='eur'\n", "unit 'eur' is not known", "usd_per_mtok"),
        (ROW + "model='claude-['\n", "model 'claude-[' is no pattern", "claude-opus-5*"),
        (ROW + "platform='bedrok'\n", "platform 'bedrok' is not known", "did you mean 'bedrock'?"),
        (ROW + "evidence='Q'\n", "evidence 'Q' is not known", "P, M, S"),
        (ROW + "valid_from='2026-10-24'\n", "valid_from is no date", "without quotes"),
        (ROW + "above_tokens=0\n", "above_tokens is no number of tokens", ""),
        (ROW + ROW, "rules 2: the same row as rules 1", "another date"),
        (ROW + "model='claude-opus-5'\n" + ROW + "model='claude-opus-5-20260724'\n", "the same row as rules 1", ""),
        ("[[rules]]\n" + "a." * 3000 + "b=1\n", "t.toml: rules 1: unknown key 'a'", ""),
        ("rules=" + "[" * 5000, "t.toml", ""),
    ],
)
def test_a_fault_is_one_line_that_names_file_and_row(text, said, hint):
    with pytest.raises(LoreError) as caught:
        parse(text, "t.toml")
    assert said in caught.value.message
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    assert caught.value.where is not None
    assert caught.value.where.file == "t.toml"


@given(st.text(max_size=60), st.sampled_from(["", ROW, ROW + "note="]))
def test_whatever_a_file_holds_is_rows_or_one_error(text, head):
    try:
        parse(head + text, "t.toml")
    except LoreError as error:
        assert "\n" not in error.message  # noqa: PT017 - most texts are rows


@given(st.sampled_from(sorted(RULES)), st.one_of(st.integers(), st.booleans(), st.sampled_from(["unknown", "lru", ""])))
def test_a_value_is_read_as_its_rule_says_or_refused(rule, value):
    spelled = str(value).lower() if isinstance(value, bool) else repr(value)
    try:
        (row,) = parse(f"[[rules]]\nrule='{rule}'\nprovider='p'\nvalue={spelled}\n", "t.toml").rows
    except LoreError as error:
        assert rule in error.message  # noqa: PT017 - most values are refused
    else:
        kinds = {"number": Decimal, "whole": Decimal, "flag": bool, "text": str}
        assert row.value is None or isinstance(row.value, kinds[RULES[rule].kind])
