"""The table of rules: a row a line, sources once, text of files never obeyed."""

from __future__ import annotations

import io
import json

from helpers.schemas import valid
from lore.cache.rule_file import parse
from lore.cache.rules import DatedRules
from lore.report.console import console
from lore.report.forms.json_report import render
from lore.report.simulation import write_rules
from lore.run.rules import listed, packaged


def shown(result):
    file = io.StringIO()
    write_rules(result, console(file, colour=False, terminal=False))
    return file.getvalue().splitlines()


def made(text):
    return listed(DatedRules(parse(text, "own.toml").rows))


def test_a_row_a_line_then_the_sources_and_how_many():
    lines = shown(listed(packaged()))
    rows = len(packaged().rows)
    assert lines[0].split() == ["provider", "model", "rule", "value", "unit", "from", "source"]
    habits = len(packaged().habits.rows)
    assert len(lines) == 1 + rows + len({one.source for one in packaged().rows}) + 1 + habits + 2
    assert lines[-1] == f"{rows} rows, as of {packaged().as_of}"
    (opus,) = [one for one in lines if "anthropic on bedrock" in one and "claude-opus-4-7" in one]
    assert opus.split()[3:9] == ["claude-opus-4-7", "minimum_tokens", "4,096", "tokens", "2025-04-07", "P"]


def test_a_habit_is_a_line_with_its_counts_and_what_they_come_to():
    (skill,) = [one for one in shown(listed(packaged())) if one.startswith("anthropic  skill") and "at a prompt" in one]
    for text in ("before 2.1.59", "moves text", "31 of 42", "73%", "769 sessions", "2026-11-22"):
        assert text in skill
    (delta,) = [one for one in shown(listed(packaged())) if one.startswith("anthropic  tools-delta")]
    assert "10 of 67 (derived)" in delta
    openai = [one for one in shown(listed(packaged(), provider="openai")) if "at a prompt" in one]
    assert [one.split()[:2] for one in openai] == [["openai", "reasoning"]]


def test_values_are_words_that_a_person_reads():
    lines = shown(
        made(
            "[[rules]]\nprovider='p'\nrows=[{rule='lookback_runs',value=true},{rule='partial_blocks',value=false},"
            "{rule='lifetime',value='unknown'},{rule='price_read',value=0.025,above_tokens=200000}]"
        )
    )
    assert [one.split()[3] for one in lines[1:4]] == ["yes", "no", "unknown"]
    assert lines[4].split()[2:7] == ["price_read", "above", "200,000", "tokens", "0.025"]
    assert lines[-1] == "4 rows"


def test_a_users_rows_are_counted():
    own = parse("[[rules]]\nprovider='vllm'\nrule='block_tokens'\nvalue=32\n", "own.toml")
    lines = shown(listed(packaged().overridden_by(own.rows), provider="vllm"))
    assert lines[1].split()[2:4] == ["block_tokens", "32"]
    assert "own.toml" in "\n".join(lines)
    assert ", 1 of them your own, as of" in lines[-1]


def test_text_of_a_file_is_never_obeyed_by_a_terminal():
    lines = shown(made('[[rules]]\nprovider="p"\nrule="lifetime"\nvalue=1\nnote="\\u001b[2J"\nsource="\\u202e"\n'))
    assert "\x1b" not in "".join(lines)
    assert "\u202e" not in "".join(lines)


def test_nothing_to_show_is_a_header_and_a_count():
    assert shown(listed(packaged(), provider="nobody", model="x"))[-1].startswith("1 row")  # the one of any provider
    assert shown(listed(DatedRules(())))[-1] == "0 rows"


def test_json_is_what_the_schema_says():
    spelled = render(listed(packaged()))
    answer = json.loads(spelled)
    valid(answer, "simulate-rules")
    assert answer["schema"] == 2
    prices = [one["value"] for one in answer["rules"] if one["rule"] == "price_read"]
    assert 0.025 in prices or 0.25 in prices
    assert all(isinstance(one, int | float) or one is None for one in prices)
