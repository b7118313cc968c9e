"""All pairs of a session, and problems after the last one."""

import json

import pytest

from lore.commands.diff_prefix import TurnComparison, diff_session
from lore.errors import LoreError
from lore.recording.opening import Options
from model.making import assistant, body

TOOLS = [{"name": "ls", "input_schema": {}}]


def written(path, *records):
    path.write_text("".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records))
    return str(path)


def record(*messages, **fields):
    return {"request": body(*messages, **fields)}


def test_problem_after_last_pair_is_reported_with_it(tmp_path):
    """A broken line at the end of a session was shown by no pair."""
    path = written(
        tmp_path / "s.jsonl", record("a"), record("a", "b"), '{"request": [}', record("a", "b", "c"), "{oops}"
    )
    comparisons = list(diff_session(path, TurnComparison(Options())))
    assert [[problem.line for problem in comparison.problems] for comparison in comparisons] == [[], [3, 5]]


def test_session_with_restarted_chain_compares_both(tmp_path):
    path = written(
        tmp_path / "s.jsonl",
        record("a", tools=TOOLS),
        record("a", assistant("b"), "sum up"),
        record("a", assistant("b"), "c", tools=TOOLS),
        record("a", assistant("b"), "sum up", assistant("d"), "thanks"),
    )
    pairs = list(diff_session(path, TurnComparison(Options())))
    assert [(pair.left.name.rpartition("#")[2], pair.right.name.rpartition("#")[2]) for pair in pairs] == [
        ("1", "chain-2:1"), ("1", "2"), ("chain-2:1", "chain-2:2"),
    ]  # fmt: skip
    assert [[cause.code for cause in pair.causes] for pair in pairs] == [["LORE154"], [], []]
    assert all(pair.columns is not None for pair in pairs)


def test_session_without_pair_reports_turn_count(tmp_path):
    path = written(tmp_path / "s.jsonl", record("a"))
    with pytest.raises(LoreError, match="holds 1 turn and no pair"):
        list(diff_session(path, TurnComparison(Options())))


def test_separate_requests_are_named_for_comparison(tmp_path):
    """The hint for eight single requests was to name "a session of several turns"."""
    path = written(tmp_path / "s.jsonl", record("one letter"), record("another letter"))
    with pytest.raises(LoreError, match="holds 2 turns and no pair") as raised:
        list(diff_session(path, TurnComparison(Options())))
    previous, right = raised.value.hint.split("such as ")[1].split()
    assert previous.endswith("s.jsonl#1")
    assert right.endswith("s.jsonl#chain-2:1")


def test_changed_text_is_not_called_the_same_content(tmp_path):
    """A finding said both "the content does not" differ and "the decoded text differs"."""
    marked = {"cache_control": {"type": "ephemeral"}}
    rows = record("a", system="one\ntwo", **marked), record("a", assistant("b"), "c", system="one\r\ntwo", **marked)
    path = written(tmp_path / "s.jsonl", *rows)
    (pair,) = diff_session(path, TurnComparison(Options()))
    assert [cause.code for cause in pair.causes] == ["LORE106"]
    assert "the decoded text differs" in pair.causes[0].message
    assert "the content does not" not in pair.causes[0].message
