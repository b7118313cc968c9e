"""`lore compact --dry-run`: policies tried on recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.compacting import POLICY, USAGE, dry, talk
from cli.running import lore, put
from model.making import call, dumps, header, log, record

pytestmark = pytest.mark.usefixtures("desk", "state")


@pytest.fixture(autouse=True)
def files(desk):
    put("s.jsonl", talk())
    put("p.toml", POLICY)


def test_a_firing_is_credited_with_the_turns_behind_it_and_no_other():
    """The turn that had just ended was credited to the compaction behind it: one after the last turn "saved"."""
    assert [(one["cost"]["turns"], one["cost"]["saved"] is None) for one in dry()["triggers"]] == [
        (2, False),
        (2, False),
        (None, True),
    ]


def test_a_bill_that_cannot_be_is_counted_on_no_side():
    """It was summed as recorded and left out under the policy: what nobody was billed was "saved"."""
    odd = {**USAGE, "write_1h_tokens": 1_000_000}
    put("s.jsonl", talk(), record_line("turn_started", turn=7), record_line("turn_completed", turn=7, usage=odd))
    totals = dry()["totals"]
    assert totals["unbilled"] == 1
    assert totals["saved"] < totals["without"]["cost"] < 1


def test_the_settings_have_a_policy_too():
    put("lore.toml", b"[compaction]\n" + POLICY)
    assert len(lore("compact", "s.jsonl", "--dry-run", "--json").json["triggers"]) == 3


def test_a_policy_that_never_fires_says_how_near_it_came():
    """It said No, and left a person to guess which number to change."""
    put("p.toml", b"continuous_interval = 9\ngap_secs = 1800\nwindow = 100000\n")
    near = "6 user exchanges (continuous_interval 9), longest pause 25 s (gap_secs 1,800)"
    assert dry()["notes"] == [f"how near it came: {near}, longest prompt 6,010 tokens (overflow above 70,000)"]
    put("p.toml", b"gap_secs = 1800\n")
    put("s.jsonl", talk(1))
    assert dry()["notes"] == ["how near it came: no pause (gap_secs 1,800)"]


def record_line(kind, **fields):
    return dumps(record(kind, **fields)) + b"\n"


def test_calls_and_results_of_pruned_items_are_no_problem_of_the_recording():
    late = record_line("tool_result_cleared", call_ids=["c1"])
    begun = record_line("append", item=call("t1", "c1", status="completed", output="z"))
    head = log(header(model="claude-sonnet-4-5"))
    put("s.jsonl", head + begun + talk(4)[len(log(header(model="claude-sonnet-4-5", user_id="ada"))) :] + late)
    assert dry()["problems"] == []


def test_what_has_no_price_is_null_and_the_answer_says_so():
    put("s.jsonl", talk(model="nobody-knows"))
    totals = dry()["totals"]
    assert (totals["saved"], totals["without"]["cost"], totals["unpriced"]) == (None, None, 6)
    assert dry()["answer"].startswith("Unknown in money")


def test_a_summary_of_unknown_price_makes_the_sum_unknown_and_not_free():
    put("p.toml", POLICY + b'summarizer = "command"\ncommand = ["never-run"]\n')
    totals = dry()["totals"]
    assert (totals["summaries"], totals["saved"]) == (None, None)
    assert totals["saved_without_summaries"] is not None
    assert "(unknown)" in dry()["answer"]


def test_sources_are_never_asked_in_a_dry_run():
    put("p.toml", POLICY + b'[[context_sources]]\nname = "x"\ncommand = ["touch", "ran"]\n')
    one = dry()["triggers"][0]
    assert not Path("ran").exists()
    assert one["context_tokens"] is None
    assert one["after_tokens"] > 2_000  # counted with the most that they may say


def test_a_dry_run_changes_nothing():
    before = Path("s.jsonl").read_bytes()
    dry()
    assert Path("s.jsonl").read_bytes() == before


def test_verbose_dry_run_explains_triggers():
    ran = lore("compact", "s.jsonl", "--policy", "p.toml", "--dry-run", "-v")
    assert "after turn 2: cadence fires: 2 finished exchanges (continuous_interval = 2)" in ran.err
    assert "after turn 3: cadence skipped: 3 finished exchanges (continuous_interval = 2)" in ran.err
    assert "cadence" not in lore("compact", "s.jsonl", "--policy", "p.toml", "--dry-run").err


def test_dry_run_states_the_cost_of_summaries():
    assert "assumes that summaries cost nothing: the extractive summarizer asks no model" in dry()["notes"]
    put("p.toml", POLICY + b'summarizer = "openai"\nendpoint = "https://api.openai.com/v1"\nmodel = "gpt-4.1"\n')
    (note,) = [note for note in dry()["notes"] if "openai" in note]
    assert note.startswith("assumes that summaries are made by openai, which was not asked")
    assert ", their cost is estimated at $0.0" in note
