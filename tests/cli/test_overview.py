"""Bare `lore`: spending of agents, re-billed tokens by cause, and the first thing to change."""

import io
import json
import os
import re
import shlex
import sqlite3
import sys
import time
from pathlib import Path

import pytest
from msgspec import convert
from msgspec.structs import replace

from cli.running import lore, process, put
from cli.test_help import Terminal
from formats.claude import answered, asked, counts, text
from formats.codex import Rollout
from formats.pi import Pages
from helpers.matrix import crossed
from helpers.schemas import valid
from lore.commands import main as module
from lore.judge.sums import Sums
from lore.model.codes import fix_of
from lore.model.results import Surcharge
from lore.model.results.overview import CostChange, Overview, SpendingCause
from lore.report.commands import OverviewSelection
from lore.report.console import Console
from lore.report.overview import money, write_overview
from lore.report.sentences import cause_in_words, describe_change
from lore.run import compaction

MODEL = "claude-opus-4-5"
CLAUDE = "home/.claude/projects/-code-app/{}.jsonl"
ALL = ("--since", "2020-01-01")


def at(day, minute=0):
    return f"2026-01-{day:02}T{10 + minute // 60:02}:{minute % 60:02}:00.000Z"


def claude(name="a", bills=(), day=1, path=CLAUDE, project="/code/app", model="", words="", minutes=1, **more):
    """Write a session with a request every `minutes`; `bills` are (uncached, read, written, output)."""
    records = []
    for number, bill in enumerate(bills):
        before = f"{name}a{number - 1}" if number else None
        records += [
            asked(f"{name}u{number}", f"question {number}{words}", before, timestamp=at(day, number * minutes)),
            answered(f"{name}a{number}", f"msg_{name}_{number}", text("yes"), f"{name}u{number}",
                     usage=counts(*bill), timestamp=at(day, number * minutes)),
        ]  # fmt: skip
    for line in records:
        line |= {"sessionId": name, "cwd": project, **more}
        if "message" in line and "model" in line["message"]:
            line["message"]["model"] = model or MODEL
    return put(path.format(name), *records)


def codex():
    """Write a session of Codex with two requests."""
    rollout = Rollout().meta().context().user("hello")
    for number in range(2):
        rollout.message("assistant", "yes").count(9_000 + number, 2_432)
    return put("home/.codex/sessions/2026/01/01/rollout-1.jsonl", *rollout.lines)


CAUSE = SpendingCause(
    code="LORE158", name="hook-text-moved", kind="waste", actor="user", names=[], lifetime=None, sessions=1, turns=1,
    tokens=1, dollars=None, says="", fix="", command="",
)  # fmt: skip
STEADY = [(10, 0, 10_000, 100), (10, 10_000, 1_000, 100), (10, 11_000, 1_000, 100)]
FALLEN = [*STEADY, (10, 0, 14_000, 100)]


def run_overview(*options, code=0):
    result = lore(*ALL, "--json", *options)
    assert result.code == code, result.err
    valid(result.json, "overview")
    return result.json


def test_overview_parts_add_up_to_simulated_cost():
    claude("a", FALLEN)
    claude("b", STEADY, day=2, project="/code/other")
    answer = run_overview()
    total = answer["total"]
    assert (total["sessions"], total["requests"], total["unbilled"], total["unpriced"]) == (2, 7, 0, 0)
    simulated = lore("simulate", "home/.claude", "--json").json["totals"]["cost"]["billed"]
    assert total["dollars"] == pytest.approx(simulated, abs=1e-5)
    parts = ("reading", "context", "output", "tools", "paid_again", "unexplained")
    assert sum(total[name] for name in parts) == pytest.approx(total["dollars"], abs=1e-5)
    assert total["unexplained_tokens"] + total["paid_again_tokens"] > 10_000
    assert [cause["code"] for cause in answer["causes"] + answer["unexplained"]]
    assert (answer["files"], answer["kept"], answer["copied"]) == (2, 0, 0)
    assert answer["biggest"]["path"].endswith("a.jsonl")


def test_cold_warm_and_grown_overviews_are_equal():
    claude("a", FALLEN[:-2])
    claude("b", STEADY)
    short = run_overview()
    claude("a", FALLEN)
    grown, warm, cold = run_overview(), run_overview(), run_overview("--no-cache")
    assert (short["kept"], grown["kept"], warm["kept"], cold["kept"]) == (0, 1, 2, 0)
    assert short["total"] != grown["total"]
    assert {**grown, "kept": 0, "until": 0} == {**warm, "kept": 0, "until": 0} == {**cold, "until": 0}
    assert Path("home/.cache/lore/ledgers.sqlite").exists()


@pytest.mark.parametrize(("by", "names"), [
    ("day", ["2026-01-01", "2026-01-02"]),
    ("agent", ["Claude Code", "Codex CLI"]),
    ("model", ["claude-opus-4-5", "gpt-5.4"]),
    ("project", ["/code/app", "/w"]),
])  # fmt: skip
def test_groups_add_up_to_total(by, names):
    claude("a", FALLEN)
    codex()
    answer = run_overview("--by", by)
    assert sum(group["requests"] for group in answer["groups"]) == answer["total"]["requests"] == 6
    if by == "day":
        assert sorted(group["name"] for group in answer["groups"]) == [group["name"] for group in answer["groups"]]
    elif by == "model":
        assert names[0] in [group["name"] for group in answer["groups"]]
    else:
        assert [group["name"] for group in answer["groups"]] == names
    table = lore(*ALL, "--by", by).out
    for group in answer["groups"]:
        assert any(row.endswith(f"  {group['name']}") for row in table.splitlines())


def test_session_includes_subagents_and_counts_copies_once():
    claude("a", STEADY)
    claude("agent-1", STEADY[:1], path="home/.claude/projects/-code-app/a/subagents/{}.jsonl", sessionId="a")
    original = Path(CLAUDE.format("a")).read_bytes()
    fork = Path(CLAUDE.format("fork"))
    fork.write_bytes(original)
    os.utime(CLAUDE.format("a"), (1_700_000_000, 1_700_000_000))
    answer = run_overview("--by", "session")
    assert answer["total"]["requests"] == 4
    (group,) = answer["groups"]
    assert group["name"].endswith("a.jsonl")
    assert (group["subagent_requests"], answer["total"]["sessions"]) == (1, 1)


def pi(name, **fields):
    made = Pages(id=name, **fields)
    for number in range(3):
        made.user(f"go {number}").answer("yes")
    return made


def test_requests_inherited_from_an_absent_session_are_named():
    parent, fork = pi("s-parent"), pi("s-fork", parentSession="s-parent")
    fork.lines[0]["timestamp"] = fork.lines[-1]["timestamp"]  # all but the last request are older
    folder = "home/.pi/agent/sessions/--w--/{}.jsonl"
    put(folder.format("1_s-fork"), *fork.lines)
    put(folder.format("2_s-copy"), fork.lines[0] | {"id": "s-copy"}, *fork.lines[1:])
    answer = run_overview()
    assert answer["total"]["requests"] == 1
    assert answer["inherited"] == {"requests": 2, "sessions": 1, "dollars": 0.0016, "recorded_dollars": 0.2}
    line = "not in the cost: 2 requests inherited from a session whose log is not here, $0.20 as recorded\n"
    assert line in lore(*ALL).out
    put(folder.format("0_s-parent"), *parent.lines)
    assert run_overview()["inherited"] is None


def called(name, agent, **details):
    """Write a session that calls a subagent."""
    path = claude(name, STEADY)
    lines = Path(path).read_text().splitlines()
    record = asked(f"{name}r", "notice", f"{name}a0", timestamp=at(1, 0), sessionId=name) | {
        "toolUseResult": {"agentId": agent, **details}
    }
    Path(path).write_text("\n".join([*lines[:2], json.dumps(record), *lines[2:]]) + "\n")
    return path


def test_subagents_without_logs_make_the_cost_at_least():
    called("a", "a1", totalTokens=70_000)
    total = run_overview()["total"]
    assert (total["absent_subagents"], total["absent_subagent_tokens"]) == (1, 70_000)
    shown = lore(*ALL).out
    assert ": at least $" in shown
    assert "not in the cost: 1 subagent whose logs were not read (70k tokens)\n" in shown
    path = run_overview()["biggest"]["path"]
    simulated = lore("simulate", path).out
    assert "note: not in the cost: 1 subagent whose logs were not read (70k tokens)\n" in simulated
    assert "\ncost: at least $" in simulated
    lore("simulate", path, "--report", "html=page.html")
    assert "1 subagent whose logs were not read (70k tokens)." in Path("page.html").read_text()
    assert "at least $" in lore("sessions").out
    path = CLAUDE.format("a")
    assert lore("compare", path, path, "--json").json["left"]["spending"]["absent_subagents"] == 1


def test_subagents_with_logs_are_in_the_cost():
    called("a", "a1", totalTokens=70_000)
    claude("agent-a1", STEADY[:1], path="home/.claude/projects/-code-app/a/subagents/{}.jsonl", sessionId="a")
    assert run_overview()["total"]["absent_subagents"] == 0
    assert "at least" not in lore(*ALL).out


def test_tokens_of_background_subagent_are_in_its_notice():
    path = called("a", "a1", status="async_launched")
    notice = "<task-notification><task-id>a1</task-id><usage><subagent_tokens>{}</subagent_tokens></usage>"
    with Path(path).open("a") as log:
        for number, tokens in enumerate((900, 1_500)):
            record = asked(f"n{number}", notice.format(tokens), "aa2", timestamp=at(1, 9), sessionId="a")
            log.write(json.dumps(record) + "\n")
    total = run_overview()["total"]
    assert (total["absent_subagents"], total["absent_subagent_tokens"]) == (1, 1_500)


def test_unlogged_compaction_makes_the_cost_at_least():
    path = claude("a", STEADY)
    boundary = {
        "type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None, "sessionId": "a",
        "timestamp": at(1, 9), "compactMetadata": {"trigger": "manual", "preTokens": 297_190},
    }  # fmt: skip
    with Path(path).open("a") as log:
        log.write(json.dumps(boundary) + "\n")
    total = run_overview()["total"]
    assert (total["absent_compactions"], total["absent_compaction_tokens"]) == (1, 297_190)
    assert "1 compaction whose requests no log holds (297k tokens)" in lore(*ALL).out
    claude("agent-acompact-1", STEADY[:1], path="home/.claude/projects/-code-app/a/subagents/{}.jsonl", sessionId="a")
    assert run_overview()["total"]["absent_compactions"] == 0


def test_overview_sums_only_selected_requests():
    claude("a", STEADY, day=1)
    claude("b", STEADY, day=20, project="/code/other", path="home/.claude/projects/-code-other/{}.jsonl")
    assert run_overview("--project", "other")["total"]["requests"] == 3
    assert run_overview("--project", "code/app")["total"]["requests"] == 3
    assert run_overview("--project", "ther")["total"]["requests"] == 0
    assert run_overview("--agent", "codex")["total"]["requests"] == 0
    assert lore("--json", "--since", "2026-01-10").json["total"]["requests"] == 3


def test_compare_separates_output_from_longer_prompts(monkeypatch):
    claude("a", STEADY, day=1)
    claude("b", [(*counts, output + 1_000) for *counts, output in STEADY], day=12)
    monkeypatch.setattr("time.time", lambda: 1_768_500_000.0)  # 2026-01-15
    change = lore("--json", "--since", "8d", "--compare").json["change"]
    assert change["output"] == pytest.approx(1_000 * len(STEADY) * 25 / 1e6)
    assert change["dollars"] == pytest.approx(sum(part for name, part in change.items() if name != "dollars"))
    assert change["prompts"] == pytest.approx(0, abs=1e-6)
    comparison = lore("--since", "8d", "--compare").out
    assert re.search(
        r"more\n  \+\$0\.07\d* by more output in each request \([\d,.k]+ tokens instead of \d+\)\n", comparison
    )


def test_printed_reasons_of_a_change_add_up():
    change = CostChange(
        dollars=125.52, requests=3.39, models=22.66, prompts=63.21, tokens=0.0, output=19.50, surcharges=0.47,
        rebilled=16.29,
    )  # fmt: skip
    sums = Sums().result("")
    first, *shown = describe_change("now", change, sums, sums)
    assert (first, shown[-1]) == ("now $125.52 more", "  +$0.47 by smaller differences")
    assert sum(float(part) for part in re.findall(r"[+]\$([\d.]+)", "".join(shown))) == pytest.approx(125.52)


def test_reason_against_the_means_names_no_means():
    """Within each model prompts were shorter, but the model with the longer ones got more requests."""
    change = CostChange(
        dollars=-0.3, requests=0, models=0, prompts=-0.1, tokens=0.2, output=-0.4, surcharges=0, rebilled=0
    )
    earlier, later = (
        replace(Sums().result(""), requests=10, uncached_tokens=uncached, read_tokens=read, output_tokens=output)
        for uncached, read, output in ((8_000, 1_000, 500), (10_000, 9_000, 900))
    )
    assert describe_change("now", change, earlier, later)[1:] == [
        "  -$0.40 by less output in each request of the same models",
        "  +$0.20 by share read and prices of the same models",
        "  -$0.10 by shorter prompts of the same models",
    ]


def test_compare_sums_the_time_before(monkeypatch):
    claude("a", STEADY, day=1)
    claude("b", FALLEN, day=12)
    monkeypatch.setattr("time.time", lambda: 1_768_500_000.0)  # 2026-01-15
    answer = lore("--json", "--since", "8d", "--compare").json
    assert (answer["total"]["requests"], answer["before"]["requests"]) == (4, 3)
    output = lore("--since", "8d", "--compare").out
    assert "before that" in output
    assert re.search(r"now \$[\d.]+ more\n  \+", output)
    assert "lore compare 16d..8d 8d.." in output
    assert lore("--json", "--since", "8d").json["before"] is None
    alone = lore("--since", "5d", "--compare").out
    assert "no requests in the same length of time" in alone
    assert "lore compare" not in alone, "it would fail: one side has no requests"


def rows(out):
    """Return the first table on the screen as lists of cells, its head first."""
    lines = out.splitlines()
    first = next(place for place, line in enumerate(lines) if line.split()[:2] == ["cost", "requests"])
    table = lines[first : lines.index("", first)]
    return [re.split(r"\s{2,}", line.strip()) for line in table]


def test_table_sums_tokens_and_cost_by_agent():
    claude("a", FALLEN)
    codex()
    head, first, second, total = rows(lore(*ALL).out)
    assert head[:4] == ["cost", "requests", "uncached", "cached read"]
    assert head[4:] == ["written", "output", "share read", "re-billed", "agent"]
    assert first[1:-1] == ["4", "40", "21k", "26k", "400", "45 %", "$0.07"]
    assert [row[-1] for row in (first, second, total)] == ["Claude Code", "Codex CLI", "all agents"]
    answer = run_overview()
    assert total[:2] == [f"${answer['total']['dollars']:.2f}", "6"]


def test_requests_without_price_are_counted_by_reason():
    claude("a", STEADY)
    claude("odd", STEADY[:2], day=2, model="a-model-without-a-price")
    unbilled = claude("none", STEADY[:1], day=3)
    Path(unbilled).write_text(Path(unbilled).read_text().replace('"usage"', '"used"'))
    first, second = lore(*ALL).out.splitlines()[:2]
    assert ": at least $" in first
    assert first.endswith("; 3 sessions, 6 requests")
    assert second == "not in the cost: 2 requests without a known price, 1 request without recorded tokens"


def test_row_says_that_few_requests_have_tokens():
    log = Path(claude("a", STEADY))
    log.write_text(log.read_text().replace('"cache_read_input_tokens"', '"unknown"', 2))
    assert rows(lore(*ALL).out)[1][-1] == "Claude Code (1 of 3 requests have recorded input tokens)"


def test_causes_are_ranked_and_unattributable_is_apart():
    claude("a", FALLEN)
    claude("b", [*STEADY, (10, 0, 2_000, 100)], day=2, minutes=60)
    answer, out = run_overview(), lore(*ALL).out
    dollars = [cause["dollars"] for cause in answer["causes"]]
    assert dollars == sorted(dollars, reverse=True)
    table = out[out.index("\nre-billed: ") :].split("\n\n")[0].splitlines()
    assert len([line for line in table if "no certain cause, in" in line]) == 1
    everything = lore(*ALL, "-v").out
    assert all(cause["says"] in everything for cause in answer["causes"] + answer["unexplained"])


def test_causes_without_price_are_ranked_by_tokens():
    claude("a", FALLEN, model="a-model-without-a-price")
    out = lore(*ALL).out
    assert "re-billed: 12k tokens that were cached and had to be paid for again\n" in out
    assert "$" not in out[out.index("re-billed: ") :]


def test_screen_names_the_first_thing_to_change():
    claude("a", [*STEADY, (10, 0, 14_000, 100)], minutes=30)
    (cause, *_) = run_overview()["causes"]
    out = lore(*ALL).out
    assert f"do first: {cause['fix']}\n" in out
    assert f"  lore check {CLAUDE.replace('home', '~').format('a')} --select {cause['code']} -v\n" in out
    assert f"{cause['code']} " in lore("check", CLAUDE.format("a"), "--select", cause["code"], "-v").out
    assert re.search(r"\$0.07 re-billed as expected: .*, in 1 turn of app\n", out)


def test_cause_of_cents_is_no_action():
    claude("a", FALLEN, minutes=30)
    result = convert(run_overview(), Overview)
    rich = replace(result.total, dollars=1_000.0)
    out = io.StringIO()
    write_overview(replace(result, total=rich), Console(out, colour=False, terminal=False), OverviewSelection())
    text = out.getvalue()
    assert "do first" not in text
    assert "costliest session: " in text


def test_costliest_session_has_its_first_and_last_day():
    claude("a", FALLEN, minutes=30)
    result = convert(run_overview(), Overview)
    assert result.biggest is not None
    assert result.biggest.at is not None
    assert result.biggest.latest_at is not None
    assert result.biggest.at < result.biggest.latest_at
    noon = time.mktime((2026, 1, 5, 12, 0, 0, 0, 0, -1))
    for days, span in ((0, "2026-01-05, "), (1, "2026-01-05 to 2026-01-06, ")):
        biggest = replace(result.biggest, at=noon, latest_at=noon + days * 86_400)
        total, out = replace(result.total, dollars=1_000.0), io.StringIO()
        console = Console(out, colour=False, terminal=False)
        write_overview(replace(result, total=total, biggest=biggest), console, OverviewSelection())
        assert re.search(rf"costliest session: .* \(app, {span}", out.getvalue())


def test_since_in_the_future_is_named():
    answer = lore("--since", "2999-01-01")
    assert answer.code == 2
    assert "error: --since 2999-01-01 is in the future" in answer.err


PAUSES = [
    replace(CAUSE, code="LORE128", kind="expected", actor="nobody", says=says, fix="/compact before", dollars=dollars)
    for says, dollars in (("5 minutes", 2.0), ("an hour", 1.5))
]  # fmt: skip


@pytest.mark.parametrize(("others", "chosen"), [
    ([], "/compact before\n  $3.50 re-billed as expected: 5 minutes, an hour"),
    ([("waste", "user", "drop it", 3.0)], "drop it\n  $3.00 re-billed as waste: x"),
    ([("waste", "user", "drop it", 0.1)], "/compact before\n  $3.50 "),
    ([("waste", "author", "report it", 3.0)], "/compact before\n  $3.50 "),
    ([("unattributable", "user", "mark it", 5.0)], "/compact before\n  $3.50 "),
])  # fmt: skip
def test_first_to_do_is_what_saves_most(others, chosen):
    claude("a", FALLEN)
    causes = [replace(CAUSE, kind=kind, actor=actor, says="x", fix=fix, dollars=dollars, tokens=9)
              for kind, actor, fix, dollars in others]  # fmt: skip
    result = replace(
        convert(run_overview(), Overview), causes=sorted([*PAUSES, *causes], key=lambda cause: -(cause.dollars or 0))
    )
    out = io.StringIO()
    write_overview(result, Console(out, colour=False, terminal=False), OverviewSelection())
    assert f"do first: {chosen}" in out.getvalue()


def test_rebilled_cost_without_some_prices_is_at_least():
    claude("a", FALLEN)
    claude("odd", FALLEN, day=2, model="a-model-without-a-price")
    answer, out = run_overview(), lore(*ALL).out
    by_cause = [cause["unpriced_tokens"] for cause in answer["causes"] + answer["unexplained"]]
    assert answer["total"]["unpriced_tokens"] == sum(by_cause) == 12_000
    assert "\nre-billed: at least $0.07 of at least $" in out
    assert lore("sessions").out.count("at least") == 0, "each session has a price, or none"


@pytest.mark.parametrize(("dollars", "is_part", "expected"), [
    (0.002, False, "<$0.01"), (0.002, True, "at least $0.0020"), (1.5, True, "at least $1.50"),
])  # fmt: skip
def test_small_part_of_a_cost_is_no_upper_bound(dollars, is_part, expected):
    assert money(dollars, is_part=is_part) == expected


def test_until_ends_the_sums():
    claude("a", STEADY, day=1)
    claude("b", STEADY, day=20)
    assert run_overview("--until", "2026-01-01")["total"]["requests"] == 3
    assert run_overview("--until", "2026-01-01T10:01:00+00:00")["total"]["requests"] == 1
    assert lore(*ALL, "--until", "2026-01-05").out.startswith("2020-01-01 to 2026-01-05: $")


@pytest.mark.parametrize(("by", "names"), [("day", ["2026-01-04", "2026-01-05"]), ("week", ["2026-W01", "2026-W02"]),
                                           ("month", ["2026-01"])])  # fmt: skip
def test_days_are_those_of_the_local_zone(by, names, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # 14 hours ahead of UTC
    time.tzset()
    try:
        claude("a", STEADY[:1], day=3)
        claude("b", STEADY, day=4)
        assert [group["name"] for group in run_overview("--by", by)["groups"]] == names
    finally:
        monkeypatch.undo()
        time.tzset()


NOW = 1_784_000_000.0


def limited(*windows, at):
    """A Codex log whose last response shows windows: (minutes, percent used, seconds until it resets)."""
    limits = [
        {"window_minutes": minutes, "used_percent": used, "resets_at": int(at + seconds)}
        for minutes, used, seconds in windows
    ]
    event = {
        "type": "token_count",
        "info": None,
        "rate_limits": dict(zip(("primary", "secondary"), limits, strict=True)),
    }
    rollout = Rollout().meta().context().user("hello").message("assistant", "yes").count(9_000, 2_432)
    return put(
        "home/.codex/sessions/2026/01/01/rollout-1.jsonl", *rollout.lines, {"type": "event_msg", "payload": event}
    )


def test_limits_of_a_plan_are_shown_until_reset(monkeypatch):
    monkeypatch.setattr("time.time", lambda: NOW)
    path = limited((300, 17.0, 3_600), (10_080, 54.0, 200_000), at=NOW)
    os.utime(path, (NOW, NOW))
    block, week = lore(*ALL, "--json").json["limits"]
    assert (block["agent"], block["minutes"], block["used_percent"]) == ("Codex CLI", 300, 17.0)
    assert (block["requests"], week["resets_at"]) == (0, NOW + 200_000)
    out = lore(*ALL).out
    assert re.search(r"Codex CLI: 83 % of the five-hour block left, resets \d\d:\d\d \(in 60 min\); 0 tokens", out)
    assert "Codex CLI: 46 % of the week left, resets " in out
    monkeypatch.setattr("time.time", lambda: NOW + 3_601)
    assert [limit["minutes"] for limit in lore(*ALL, "--json").json["limits"]] == [10_080]
    assert lore(*ALL, "--json", "--until", "2026-07-01").json["limits"] == []


@pytest.mark.parametrize(("plan", "shown"), [("pro", " (pro)"), ("acme-internal", ""), (None, "")])
def test_costs_under_a_subscription_are_called_api_prices(plan, shown, monkeypatch):
    """A user of a plan read $71 as the sum that was paid."""
    monkeypatch.setattr("time.time", lambda: NOW)
    path = limited((300, 17.0, 3_600), (10_080, 54.0, 200_000), at=NOW)
    lines = Path(path).read_text().replace('"rate_limits":{', f'"rate_limits":{{"plan_type":{json.dumps(plan)},')
    Path(path).write_text(lines)
    note = f"Codex CLI is used on a subscription{shown}: its cost here is what its tokens cost at API prices\n"
    for command in (ALL, ("sessions",), ("simulate", path), ("compare", path, path)):
        assert lore(*command).out.count(note) == 1, command
    assert "acme" not in lore(*ALL).out
    claude("a", STEADY)
    assert "subscription" not in lore(*ALL, "--agent", "claude-code").out
    assert "subscription" not in lore("compare", "agent:claude-code", "model:claude").out
    for number in range(20):  # newer logs of another agent
        claude(f"n{number}", STEADY[:1])
    assert note in lore(*ALL).out


def test_reached_limit_of_claude_code_is_shown(monkeypatch):
    path = claude("a", STEADY)
    message = text(f"Claude AI usage limit reached|{int(NOW) + 600}")
    error = answered("e", "msg_e", message, "aa2", timestamp=at(1, 9)) | {"isApiErrorMessage": True, "sessionId": "a"}
    put(path, *map(json.loads, Path(path).read_text().splitlines()), error)
    monkeypatch.setattr("time.time", lambda: NOW)
    os.utime(path, (NOW, NOW))
    (limit,) = lore(*ALL, "--json").json["limits"]
    assert (limit["minutes"], limit["used_percent"], limit["resets_at"]) == (300, 100.0, NOW + 600)


@pytest.mark.parametrize("chosen", [(), ("--agent", "claude-code"), ("--project", "app x"), ("--by", "session")])
def test_commands_on_screen_work_as_typed(chosen):
    claude("a", FALLEN, project="/code/app x")
    claude("odd", STEADY, day=3, project="/code/app x", model="a-model-without-a-price")
    put("home/.codex/sessions/2026/01/01/rollout-torn.jsonl", *Rollout().meta().lines, b"{torn\n{}\n")
    typed = {line.strip() for line in lore(*ALL, *chosen).out.splitlines() if line.startswith("  lore ")}
    commands = [shlex.split(text.replace("~", "home")) for text in typed]
    words = {word for command in commands for word in command}
    assert {"--by", "simulate"} <= words
    assert "check" in words or chosen
    for command in commands:
        result = lore(*command[1:])
        assert result.code in (0, 1, 3), (command, result.err)
        assert result.out, command


def test_empty_project_names_projects_instead_of_dates():
    claude("a", STEADY)
    output = lore(*ALL, "--project", "elsewhere").out
    assert "no requests of project elsewhere" in output
    assert f"lore --since {ALL[1]} --by project" in output
    assert "90d" not in output


def test_costliest_session_shows_savings_of_compaction():
    bills = [(10, 8_000 * number, 8_000, 100) for number in range(50)]
    claude("a", bills, words=" and so on" * 3_000)
    biggest = run_overview()["biggest"]
    assert biggest["saving"] > biggest["dollars"] / 10
    assert biggest["compactions"] >= 1
    command = biggest["command"].replace("~", "home", 1).split()
    trial = lore(*command[1:], "--json").json
    assert trial["totals"]["saved"] == pytest.approx(biggest["saving"])
    text, amount = lore(*ALL).out, money(biggest["saving"]).replace("$", r"\$")
    action = r"do first: compact long sessions earlier\n"
    assert re.search(rf"{action}  about {amount} less with \d compactions? in a window of \d+k tokens", text)


def test_compaction_trial_is_kept_until_its_log_changes(monkeypatch):
    bills = [(10, 8_000 * number, 8_000, 100) for number in range(50)]
    claude("a", bills, words=" and so on" * 3_000)
    trials, dry_run = list[str](), compaction.dry_run
    monkeypatch.setattr(compaction, "dry_run", lambda path, *rest: trials.append(path) or dry_run(path, *rest))
    first, second = run_overview(), run_overview()
    assert first["biggest"] == second["biggest"]
    assert len(trials) == 1
    claude("a", bills[:-1], words=" and so on" * 3_000)
    assert run_overview()["biggest"]["saving"] != first["biggest"]["saving"]
    with sqlite3.connect("home/.cache/lore/ledgers.sqlite") as database:
        database.execute("update ledgers set ledger = x'ff'")
    assert run_overview()["biggest"]["saving"]
    assert len(trials) == 3


def test_savings_of_compaction_are_summed_over_costliest_sessions():
    for name in ("a", "b"):
        claude(name, [(10, 8_000 * number, 8_000, 100) for number in range(50)], words=" and so on" * 3_000)
    claude("c", STEADY)
    answer = run_overview()
    assert answer["compacted_sessions"] == 2
    assert answer["compaction_saving"] == pytest.approx(2 * answer["biggest"]["saving"])
    saving = money(answer["compaction_saving"]).replace("$", r"\$")
    said = rf"about {saving} less with earlier compactions in 2 of the costliest sessions"
    assert re.search(said, lore(*ALL).out)
    lore(*ALL, "--report", "html=page.html")
    assert re.search(said, Path("page.html").read_text("utf-8"), re.IGNORECASE)


def test_requests_outside_the_span_save_nothing_by_compacting():
    """The trial of the whole log saved $62 of the $72 that a fork's own requests cost."""
    claude("a", [(10, 8_000 * number, 8_000, 100) for number in range(50)], words=" and so on" * 3_000)
    whole, half = run_overview()["biggest"], run_overview("--until", "2026-01-01T10:40+00:00")["biggest"]
    assert half["saving"] == pytest.approx(whole["saving"] * half["dollars"] / whole["dollars"], abs=1e-5)
    assert half["dollars"] < 0.7 * whole["dollars"]


def test_fast_mode_is_an_action_if_it_costs_most():
    claude("a", FALLEN, minutes=30)
    result = convert(run_overview(), Overview)
    for dollars, expected in ((900.0, "do first: switch fast mode off"), (0.0001, "do first: ")):
        total = replace(result.total, surcharges=[Surcharge("fast mode", 51, dollars), Surcharge("batches", 1, 999.0)])
        out = io.StringIO()
        write_overview(replace(result, total=total), Console(out, colour=False, terminal=False), OverviewSelection())
        assert expected in out.getvalue()
        assert ("51 requests cost $900.00 more than at the list price" in out.getvalue()) == (dollars == 900.0)
        assert out.getvalue().count("switch fast mode off") == (dollars == 900.0)


def test_commands_read_no_more_than_the_span_on_screen():
    """`lore check` and `lore simulate` have no --until: their sums were those of more recordings."""
    claude("a", FALLEN)
    claude("b", STEADY, day=20, version="2.1.20")
    lines = Path(CLAUDE.format("a"))
    lines.write_bytes(lines.read_bytes().replace(b"\n", b"", 1))  # a problem
    out = lore(*ALL, "--until", "2026-01-05", "-v").out
    assert "1 problem in these recordings\n" in out
    commands = [line for line in out.splitlines() if line.startswith("  lore ")]
    assert commands
    assert not [command for command in commands if "--since" in command and "--until" not in command]
    advice = OverviewSelection("7d", "2026-01-05").advice("how often: lore simulate --by reliability", "a.jsonl")
    assert advice == "how often: lore simulate a.jsonl --by reliability"


def test_overview_without_recordings_names_next_commands():
    result = lore("--since", "1d")
    assert result.code == 0
    assert "no sessions of agents that lore reads in their usual folders on this machine, such as ~/" in result.out
    assert "\n  lore check fixtures/recordings\n  lore formats\n" in result.out
    claude("a", STEADY)
    result = lore("--since", "1s")
    assert "no requests" in result.out
    assert "the newest request was sent on 2026-01-01" in result.out
    assert "the 7 days up to it:\n  lore --since 2025-12-26\n" in result.out
    assert "lore --since 90d" not in lore("--since", "90d").out


def test_overview_of_empty_folders_names_next_commands():
    Path("home/.claude/projects").mkdir(parents=True)
    out = lore().out
    assert "no requests\nno earlier one was found; list the sessions here, or name a recording:\n" in out
    assert "\n  lore sessions\n  lore check PATH\n" in out


def test_copied_log_does_not_hide_newest_request():
    """A log that was copied has a new file, and old requests: a later request is in an older file."""
    copied, later = Path(claude("a", STEADY, day=3)), Path(claude("b", STEADY, day=4))
    os.utime(later, (1_767_600_000, 1_767_600_000))  # 5 January 2026
    os.utime(copied)
    assert "the newest request was sent on 2026-01-04" in lore().out


def test_empty_span_names_newest_request_after_it():
    claude("a", STEADY, day=3)
    claude("b", STEADY, day=4)
    result = lore("--since", "2025-01-01", "--until", "2025-02-01", "--agent", "claude-code")
    assert "the newest request was sent on 2026-01-04" in result.out
    assert "lore --since 2025-12-29 --agent claude-code" in result.out


def test_uncached_tokens_that_could_be_read_are_priced():
    path = claude("a", [(10_000 + 2_000 * number, 0, 0, 100) for number in range(8)])
    assert "LORE307 read-plateau in 7 turns, the first of them turn 2\n" in lore("check", path).out
    answer = run_overview()
    (missed,) = answer["missed"]
    assert (missed["code"], missed["turns"], answer["total"]["paid_again_tokens"]) == ("LORE307", 7, 0)
    assert missed["most"]["turns"] == 7
    assert missed["dollars"] == pytest.approx(missed["tokens"] * (5 - 0.5) / 1e6)
    assert "could have been read from a cache: up to $0.50, " in lore(*ALL).out
    assert "if the endpoint caches at all" in lore(*ALL).out


def test_commands_count_the_same_sessions_requests_and_problems():
    path = Path(claude("a", FALLEN))
    path.write_bytes(path.read_bytes() + b'{"type":\n' * 30 + b'{"type":"assist')
    title = {"type": "summary", "summary": "fork", "leafUuid": "aa2"}
    put(CLAUDE.format("fork"), title, path.read_bytes())  # with a copy of each request, and of the damage
    put(CLAUDE.format("equal"), path.read_bytes())
    put(CLAUDE.format("login"), asked("x", "/login", None, sessionId="login"))
    put("home/.claude/projects/-code-app/a/subagents/agent-1.jsonl", b"")
    claude("1", STEADY, path="home/.claude/projects/-code-app/a/subagents/agent-{}.jsonl", day=2)
    claude("b", STEADY, day=3)
    spent, checked = run_overview(code=3), lore("check", "home/.claude/projects", "--json").json["summary"]
    listed = lore("sessions", "--all", "--json").json["sessions"]
    simulated = lore("simulate", "home/.claude/projects", "--json").json
    assert spent["total"]["sessions"] == checked["sessions"] == sum(row["requests"] > 0 for row in listed) == 3
    requests = spent["total"]["requests"], checked["turns"], len(simulated["turns"])
    assert {*requests, sum(row["requests"] for row in listed)} == {len(FALLEN) + 2 * len(STEADY)}
    assert spent["problems"] == checked["problems"] == simulated["totals"]["problems"] == 62


def test_empty_log_of_an_agent_is_no_failure():
    claude("a", FALLEN)
    for name in "xyz":
        put(f"home/.claude/projects/-code-app/{name}.jsonl", b"")
        put(f"copy/{name}.jsonl", b"")
    assert lore("check", "home/.claude/projects", *ALL).code == 0
    result = lore("check", "copy")
    assert (result.code, result.err) == (2, "not judged: copy/x.jsonl and 2 more files (-v names them): is empty\n")


@pytest.mark.parametrize(("turns", "is_named"), [(25, True), (5, False)])
def test_check_and_simulate_name_compact_for_long_prompts(turns, is_named):
    path = claude("a", [(10, 150_000 + 1_000 * number, 1_000, 100) for number in range(turns)])
    command = f"lore compact {path} --dry-run --window 200000"
    for args in (("check",), ("simulate",), ("simulate", "--what-if")):
        out = lore(*args, path).out
        assert (command in out) == is_named
        assert ("25 prompts have over 140,000 tokens" in out) == is_named


def test_every_cause_has_its_kind():
    claude("a", [*STEADY, (10, 0, 14_000, 100)], minutes=30)
    assert "pauses longer than 5 minutes (expected), in 1 turn" in lore(*ALL).out


def test_unexplained_tokens_name_their_fix_and_session():
    claude("a", FALLEN)
    out = lore(*ALL).out
    assert re.search(
        r"costliest without a certain cause: .*, \$0.07 in 1 turn of app\n  \w.*\n"
        r"  lore check \S+ --select LORE", out
    )  # fmt: skip
    command = f"\n  lore simulate --since {ALL[1]} --what-if\n"
    assert command in out
    assert command not in lore(*ALL, "--project", "app").out


@pytest.mark.parametrize(("detail", "fix"), [("", "ask whether the endpoint"), ("engine", "raise what the cache")])
def test_fix_of_unread_prompts_depends_on_server(detail, fix):
    assert cause_in_words(replace(CAUSE, code="LORE307", fix=fix_of("LORE307", "user", detail=detail))).fix.startswith(
        fix
    )


THINKING = {"level": "high", "disabled": False, "triggers": []}
ASIDES = {3: "Implement the following plan:\\n\\n# Export", 5: "Implement the following plan:\\n\\n# Import"}


def switching(name="a"):
    """Write a session in which two accepted plans switch thinking off, each until the next prompt."""
    bills = [
        *STEADY,
        (3, 9_000, 14_000, 100),
        (3, 9_500, 14_500, 100),
        (3, 9_700, 15_000, 100),
        (3, 9_800, 15_500, 100),
    ]
    path = Path(claude(name, bills, version="2.1.33", thinkingMetadata=THINKING))
    lines = path.read_text()
    for number, prompt in ASIDES.items():
        lines = lines.replace(f"question {number}", prompt)
    path.write_text(lines)
    return str(path)


@pytest.mark.parametrize("options", [(), ("--redact",)])
def test_thinking_switched_by_client_is_one_cause(options):
    switching()
    (cause,) = run_overview(*options)["causes"]
    assert (cause["code"], cause["turns"], cause["names"]) == ("LORE120", 4, [])
    assert cause["says"] == "Claude Code switched thinking for skills, commands or plans"
    assert cause["fix"] == "update Claude Code to 2.1.38 or later"


def test_thinking_switched_by_client_is_fixed_by_update():
    findings = lore("check", "-v", "--json", switching()).json["findings"]
    switched = [finding for finding in findings if finding["code"] == "LORE120"]
    assert any("the value alternates" in finding["message"] for finding in switched)
    assert all(finding["fix"].startswith("Update Claude Code") for finding in switched)


def test_cost_of_partial_output_is_at_least():
    claude("a", STEADY, version="2.1.20")
    assert run_overview()["total"]["at_least"] == 3
    output = lore(*ALL).out
    assert "at least $" in output
    assert "not in the cost: output that the logs omit (in 3 requests)" in output
    listed = lore("sessions").out
    assert listed.count("not in the cost: output that the logs omit (in 3 requests)\n") == 1
    assert lore("simulate", "--json", CLAUDE.format("a")).json["totals"]["cost"]["at_least"] is True


def test_problems_are_those_of_the_shown_project():
    claude("a", STEADY)
    other = claude("b", STEADY, project="/code/other", path="home/.claude/projects/-code-other/{}.jsonl")
    Path(other).write_bytes(Path(other).read_bytes() + b"{torn\n{}\n")
    problems = [run_overview("--project", project, code=3)["problems"] for project in ("other", "app")]
    assert problems == [2, 0]


def test_unreadable_logs_are_named_and_exit_3():
    claude("a", STEADY)
    put("home/.codex/sessions/2026/01/01/rollout-bad.jsonl", b"words\n")
    put("home/.cursor/chats/x/y/store.db", b"SQLite format 3\x00")
    result = lore(*ALL)
    assert (result.code, run_overview()["total"]["requests"]) == (0, 3)
    lines = Path("home/.claude/projects/-code-app/a.jsonl")
    lines.write_bytes(lines.read_bytes().replace(b"\n", b"", 1))  # two records on a line: both are read
    Path("home/.codex/sessions/2026/01/01/rollout-bad.jsonl").unlink()
    assert "1 problem in these recordings:\n  lore check" in lore(*ALL).out
    put("home/.codex/sessions/2026/01/01/rollout-torn.jsonl", *Rollout().meta().lines, b"{torn\n{}\n")
    assert run_overview(code=3)["problems"] > 0
    torn = lore(*ALL)
    assert " in these recordings:\n  lore check --since 2020-01-01 --select LORE2 -v" in torn.out
    assert (torn.code, "rollout-torn.jsonl" in torn.out) == (3, True)
    assert "not read: Cursor" in result.out


@pytest.mark.parametrize(("terminal", "ci", "helps"), [(False, "", False), (True, "1", True), (True, "", False)])
def test_bare_lore_shows_help_only_in_ci(terminal, ci, helps, monkeypatch, capsys):
    claude("a", STEADY)
    monkeypatch.setenv("CI", ci)
    if terminal:
        monkeypatch.setattr(sys, "stdout", Terminal(sys.stdout))
    assert module.main([]) == 0
    assert ("COMMAND [ARGS]" in capsys.readouterr().out) == helps


@pytest.mark.parametrize(("args", "hint"), [
    (["--by", "xyz"], "groupings: day, week, month, session, model, project, agent"),
    (["--by", "modle"], "did you mean 'model'?"),
    (["--since", "soon"], "give an age"),
    (["--agent", "nobody"], "agents: "),
    (["--json", "check"], "lore check --json"),
    (["--since", "1d", "sessions"], "lore sessions --since"),
    (["--until", "later"], "--until 'later' is not a time"),
    (["--since", "2026-02-01", "--until", "2026-01-01"], "name a later time"),
])  # fmt: skip
def test_overview_rejects_meaningless_options(args, hint):
    result = lore(*args)
    assert result.code == 2
    assert hint in result.err


def test_overview_changes_no_recording():
    claude("a", FALLEN)
    before = {path: path.stat().st_mtime_ns for path in Path("home/.claude").rglob("*")}
    result = process(*ALL, env={**os.environ, "HOME": os.path.abspath("home")})
    assert (result.code, result.err) == (0, "")
    assert {path: path.stat().st_mtime_ns for path in Path("home/.claude").rglob("*")} == before


HOSTILE = [
    {"timestamp": "9999-12-31T23:59:59.999+00:00"}, {"timestamp": "0001-01-01T00:00:00Z"},
    {"timestamp": "\x1b[2J"}, {"cwd": "/w/\x1b[31m<b>\u202e"}, {"cwd": "x" * 5_000}, {"sessionId": "../../\x00"},
    {"version": "9" * 400}, {"version": "\x1b]0;title\x07"},
]  # fmt: skip


@crossed("number, args", range(len(HOSTILE)), ["", "--by day", "--by project", "--by session", "--compare"])
def test_hostile_fields_are_shown_harmlessly(number, args):
    claude("a", FALLEN, **HOSTILE[number])
    for command in ([*ALL, *args.split()], ["compare", "home/.claude", "agent:claude-code"]):
        result = lore(*command)
        assert result.code == 0, result.err
        assert not any(sign in result.out for sign in ("\x1b", "\x07", "\x00", "\u202e"))


def test_uncached_input_is_no_reason_to_be_content():
    claude("a", [(120_000, 0, 0, 100)])
    assert "no prompt was read from a cache" not in lore(*ALL).out  # the first request has no cache to read
    claude("a", [(60_000, 0, 0, 100), (61_000, 0, 0, 100)])
    out = lore(*ALL, "--report", "html=page.html").out + lore(*ALL).out
    assert "no prompt was read from a cache" in out
    assert "no prompt was read from a cache" in Path("page.html").read_text()
    assert "lore check --since" in out
    assert "to keep it so" not in out


def test_page_of_overview_names_costliest_cause_of_sessions():
    claude("a", FALLEN)
    claude("b", STEADY)
    lore(*ALL, "--report", "html=page.html")
    row = re.findall(r"<tr data-project.*?</tr>", Path("page.html").read_text("utf-8"), re.DOTALL)[0]
    assert f"<td>{run_overview()['unexplained'][0]['says']}</tr>" in row


def test_page_of_session_lists_findings_without_cache_break():
    path = claude("a", [(10_000 + 2_000 * number, 0, 0, 100) for number in range(8)])
    assert lore("check", path, "--report", "html=page.html").code == 0
    page = Path("page.html").read_text("utf-8")
    (row,) = re.findall(r"<tr><td[^>]*>LORE307 read-plateau.*?</tr>", page, re.DOTALL)
    assert [part in row for part in (">request<", ">2<", "Keep to one provider")] == [True] * 3
