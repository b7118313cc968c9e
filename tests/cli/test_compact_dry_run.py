"""`lore compact --dry-run`: policies tried on recordings."""

from pathlib import Path

import pytest

from cli.compacting import POLICY, USAGE, dry, talk
from cli.running import lore, put
from lore.model.fact import format_money
from lore.report.commands import compaction_setting
from model.making import call, dumps, header, log, record

pytestmark = pytest.mark.usefixtures("desk", "state")


@pytest.fixture(autouse=True)
def files(desk):
    put("s.jsonl", talk())
    put("p.toml", POLICY)


def test_compaction_is_credited_with_later_turns_only():
    assert [(trigger["cost"]["turns"], trigger["cost"]["saved"] is None) for trigger in dry()["triggers"]] == [
        (2, False),
        (2, False),
        (None, True),
    ]


def test_impossible_usage_is_counted_on_neither_side():
    odd = {**USAGE, "write_1h_tokens": 1_000_000}
    put("s.jsonl", talk(), record_line("turn_started", turn=7), record_line("turn_completed", turn=7, usage=odd))
    totals = dry()["totals"]
    assert totals["unbilled"] == 1
    assert totals["saved"] < totals["without"]["cost"] < 1


def test_policy_of_the_settings_is_tried():
    put("lore.toml", b"[compaction]\n" + POLICY)
    assert len(lore("compact", "s.jsonl", "--dry-run", "--json").json["triggers"]) == 3


def test_without_policy_answer_has_a_command_to_run():
    Path("lore.toml").unlink(missing_ok=True)
    out = lore("compact", "s.jsonl", "--dry-run").out
    assert "To try one: lore compact s.jsonl --dry-run --window 200000" in out


def test_policy_without_a_compaction_says_how_near():
    put("p.toml", b"continuous_interval = 9\ngap_secs = 1800\nwindow = 100000\n")
    near = "6 user exchanges (continuous_interval 9), longest pause 25 s (gap_secs 1,800)"
    assert dry()["notes"] == [
        f"closest to a trigger: {near}, longest prompt 6,010 tokens (overflow above 70,000)",
        "assumes a window of 100,000 tokens: an overflow is a prompt of over 70,000, 70 % of it",
    ]
    put("p.toml", b"gap_secs = 1800\n")
    put("s.jsonl", talk(1))
    assert dry()["notes"] == ["closest to a trigger: no pause (gap_secs 1,800)"]


def test_overflow_row_shows_what_the_trigger_compared():
    path = str(Path(__file__).parents[2] / "fixtures" / "compaction" / "two_days.jsonl")
    triggers = lore("compact", path, "--dry-run", "--window", "10000", "--json").json["triggers"]
    assert triggers
    assert all(one["before_tokens"] > 7_000 > one["after_tokens"] for one in triggers)


def record_line(kind, **fields):
    return dumps(record(kind, **fields)) + b"\n"


def test_pruned_calls_are_not_problems():
    late = record_line("tool_result_cleared", call_ids=["c1"])
    call_line = record_line("append", item=call("t1", "c1", status="completed", output="z"))
    head = log(header(model="claude-sonnet-4-5"))
    put("s.jsonl", head + call_line + talk(4)[len(log(header(model="claude-sonnet-4-5", user_id="ada"))) :] + late)
    assert dry()["problems"] == []


def test_unknown_price_is_null():
    put("s.jsonl", talk(model="nobody-knows"))
    totals = dry()["totals"]
    assert (totals["saved"], totals["without"]["cost"], totals["unpriced"]) == (None, None, 6)
    assert dry()["answer"].startswith("Unknown in money")


def test_summary_of_unknown_price_is_not_free():
    put("p.toml", POLICY + b'summarizer = "command"\ncommand = ["never-run"]\n')
    totals = dry()["totals"]
    assert (totals["summaries"], totals["saved"]) == (None, None)
    assert totals["saved_without_summaries"] is not None
    assert "(unknown)" in dry()["answer"]


def test_sources_are_never_asked_in_a_dry_run():
    put("p.toml", POLICY + b'[[context_sources]]\nname = "x"\ncommand = ["touch", "ran"]\n')
    trigger = dry()["triggers"][0]
    assert not Path("ran").exists()
    assert trigger["context_tokens"] is None
    assert trigger["after_tokens"] > 2_000  # counted with the most that they may say


def test_a_dry_run_changes_nothing():
    before = Path("s.jsonl").read_bytes()
    dry()
    assert Path("s.jsonl").read_bytes() == before


def test_verbose_dry_run_explains_triggers():
    result = lore("compact", "s.jsonl", "--policy", "p.toml", "--dry-run", "-v")
    assert "after turn 2: cadence fires: 2 finished exchanges (continuous_interval = 2)" in result.err
    assert (
        "after turn 3: cadence skipped: 3 finished exchanges are no multiple of 2 (continuous_interval)" in result.err
    )
    assert "cadence" not in lore("compact", "s.jsonl", "--policy", "p.toml", "--dry-run").err


def test_dry_run_states_the_cost_of_summaries():
    (note,) = [note for note in dry()["notes"] if "summaries" in note]
    assert note.startswith(
        "assumes that summaries cost nothing: the extractive summarizer asks no model; an agent's own"
    )
    totals, before = dry()["totals"]["without"], sum(event["before_tokens"] for event in dry()["triggers"])
    read = before * totals["by_price"]["read"] / totals["billed"]["read_tokens"]
    written = len(dry()["triggers"]) * 1_024 * totals["by_price"]["output"] / totals["billed"]["output_tokens"]
    assert f"about {format_money(read + written)} in all if the cache is warm" in note
    put("p.toml", POLICY + b'summarizer = "openai"\nendpoint = "https://api.openai.com/v1"\nmodel = "gpt-4.1"\n')
    (note,) = [note for note in dry()["notes"] if "openai" in note]
    assert note.startswith("assumes that summaries are made by openai, which was not asked")
    assert ", their cost is estimated at $0.0" in note


def test_dry_run_names_window_tokens_and_lasting_setting():
    path = str(Path(__file__).parents[2] / "fixtures" / "compaction" / "two_days.jsonl")
    notes = lore("compact", path, "--dry-run", "--window", "8000", "--json").json["notes"]
    assert notes[:4] == [
        "assumes a window of 8,000 tokens: an overflow is a prompt of over 5,600, 70 % of it",
        "the longest prompt has 8,353 tokens, so the model's window is larger: --window tries another one",
        "to make it last, for an agent on lore: window = 8000 in [compaction], or lore.CompactionPolicy(window=8000)",
        "tokens of prompts are as they were billed; those of removed and added text are estimated from its bytes",
    ]


def test_dry_run_names_the_window_of_a_1m_model():
    put("s.jsonl", talk(model="claude-sonnet-4-5[1m]"))
    notes = lore("compact", "s.jsonl", "--dry-run", "--window", "8000", "--json").json["notes"]
    assert "the model claude-sonnet-4-5[1m] has a window of 1,000,000 tokens: --window 1000000 tries that one" in notes


@pytest.mark.parametrize(("log_format", "setting"), [
    ("claude-code", '"autoCompactWindow": 140000 in ~/.claude/settings.json'),
    ("codex", "model_auto_compact_token_limit = 140000 in ~/.codex/config.toml"),
    ("kimi-code", "lore knows no setting of this agent; compact by hand above 140,000 tokens"),
])  # fmt: skip
def test_advice_names_the_setting_of_the_agent(log_format, setting):
    assert setting in compaction_setting(log_format, 200_000)
