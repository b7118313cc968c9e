"""Bare `lore`: what agents spent here, what was re-billed, and what to do first, on one screen."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from cli.running import lore, process, put
from cli.test_help import Terminal
from formats.claude import answered, asked, counts, text
from formats.codex import Rollout
from helpers.schemas import valid
from lore.commands import main as module

MODEL = "claude-opus-4-5"
CLAUDE = "home/.claude/projects/-code-app/{}.jsonl"
ALL = ("--since", "2020-01-01")


def at(day, minute=0):
    return f"2026-01-{day:02}T10:{minute:02}:00.000Z"


def claude(name="a", bills=(), day=1, path=CLAUDE, first=0, project="/code/app", model="", words="", **more):
    """A session of which each request comes a minute after the last; `bills` are (uncached, read, written, output)."""
    made = []
    for number, bill in enumerate(bills):
        before = f"{name}a{number - 1}" if number else None
        made += [
            asked(f"{name}u{number}", f"question {number}{words}", before, timestamp=at(day, number)),
            answered(f"{name}a{number}", f"msg_{name}_{number}", text("yes"), f"{name}u{number}",
                     usage=counts(*bill), timestamp=at(day, number)),
        ]  # fmt: skip
    for line in made:
        line |= {"sessionId": name, "cwd": project, **more}
        if "message" in line and "model" in line["message"]:
            line["message"]["model"] = model or MODEL
    return put(path.format(name), *made)


STEADY = [(10, 0, 10_000, 100), (10, 10_000, 1_000, 100), (10, 11_000, 1_000, 100)]
FALLEN = [*STEADY, (10, 0, 14_000, 100)]


def found(*options, code=0):
    ran = lore(*ALL, "--json", *options)
    assert ran.code == code, ran.err
    valid(ran.json, "overview")
    return ran.json


def test_all_is_summed_and_the_parts_add_up():
    claude("a", FALLEN)
    claude("b", STEADY, day=2, project="/code/other")
    answer = found()
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


def test_the_second_look_reads_nothing_anew_and_says_the_same():
    claude("a", FALLEN)
    first, second, without = found(), found(), found("--no-cache")
    assert (first["kept"], second["kept"], without["kept"]) == (0, 1, 0)
    assert {**second, "kept": 0, "until": 0} == {**first, "until": 0} == {**without, "until": 0}
    (kept,) = Path("home/.cache/lore/ledgers").iterdir()
    claude("a", STEADY)
    assert found()["kept"] == 0
    assert kept.exists()


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("day", ["2026-01-01", "2026-01-02"]),
        ("agent", ["Claude Code", "Codex CLI"]),
        ("model", ["claude-opus-4-5", "gpt-5.4"]),
        ("project", ["/code/app", "/w"]),
    ],
)
def test_groups_add_up_to_all(by, names):
    claude("a", FALLEN)
    made = Rollout().meta().context().user("hello")
    for number in range(2):
        made.message("assistant", "yes").count(9_000 + number, 2_432)
    put("home/.codex/sessions/2026/01/01/rollout-1.jsonl", *made.lines)
    answer = found("--by", by)
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


def test_a_session_is_summed_with_its_subagents_and_copies_count_once():
    claude("a", STEADY)
    claude("agent-1", STEADY[:1], path="home/.claude/projects/-code-app/a/subagents/{}.jsonl", sessionId="a")
    original = Path(CLAUDE.format("a")).read_bytes()
    fork = Path(CLAUDE.format("fork"))
    fork.write_bytes(original)
    os.utime(CLAUDE.format("a"), (1_700_000_000, 1_700_000_000))
    answer = found("--by", "session")
    assert (answer["total"]["requests"], answer["copied"]) == (4, 3)
    (group,) = answer["groups"]
    assert group["name"].endswith("a.jsonl")
    assert (group["subagent_requests"], answer["total"]["sessions"]) == (1, 1)


def test_only_what_was_asked_for_is_summed():
    claude("a", STEADY, day=1)
    claude("b", STEADY, day=20, project="/code/other", path="home/.claude/projects/-code-other/{}.jsonl")
    assert found("--project", "other")["total"]["requests"] == 3
    assert found("--project", "code/app")["total"]["requests"] == 3
    assert found("--project", "ther")["total"]["requests"] == 0
    assert found("--agent", "codex")["total"]["requests"] == 0
    assert lore("--json", "--since", "2026-01-10").json["total"]["requests"] == 3


def test_the_time_before_is_compared(monkeypatch):
    claude("a", STEADY, day=1)
    claude("b", FALLEN, day=12)
    monkeypatch.setattr("time.time", lambda: 1_768_500_000.0)  # 2026-01-15
    answer = lore("--json", "--since", "8d", "--compare").json
    assert (answer["total"]["requests"], answer["before"]["requests"]) == (4, 3)
    shown = lore("--since", "8d", "--compare").out
    assert "before that" in shown
    assert "cost +" in shown
    assert lore("--json", "--since", "8d").json["before"] is None


@pytest.mark.parametrize("chosen", [(), ("--agent", "claude-code"), ("--project", "app x"), ("--by", "session")])
def test_every_command_on_the_screen_works_as_it_is_typed(chosen):
    claude("a", FALLEN, project="/code/app x")
    claude("odd", STEADY, day=3, project="/code/app x", model="a-model-without-a-price")
    put("home/.codex/sessions/2026/01/01/rollout-torn.jsonl", *Rollout().meta().lines, b"{torn\n{}\n")
    typed = {
        line.partition("→ ")[2].rpartition(": ")[2] for line in lore(*ALL, *chosen).out.splitlines() if "→" in line
    }
    commands = [shlex.split(text.replace("~", "home")) for text in typed if text.startswith("lore ")]
    words = {word for command in commands for word in command}
    assert {"--by", "simulate"} <= words
    assert "check" in words or chosen
    for command in commands:
        ran = lore(*command[1:])
        assert ran.code in (0, 1, 3), (command, ran.err)
        assert ran.out, command


def test_nothing_in_the_chosen_part_is_no_reason_to_look_further_back():
    claude("a", STEADY)
    shown = lore(*ALL, "--project", "elsewhere").out
    assert "no requests of project elsewhere" in shown
    assert f"lore --since {ALL[1]} --by project" in shown
    assert "90d" not in shown


def test_a_session_of_long_prompts_is_tried_with_compactions():
    bills = [(10, 8_000 * number, 8_000, 100) for number in range(50)]
    claude("a", bills, words=" and so on" * 3_000)
    biggest = found()["biggest"]
    assert biggest["saving"] > biggest["dollars"] / 10
    assert biggest["compactions"] >= 1
    command = biggest["command"].replace("~", "home", 1).split()
    trial = lore(*command[1:], "--json").json
    assert trial["totals"]["saved"] == pytest.approx(biggest["saving"])
    assert "about $" in lore(*ALL).out


def test_without_recordings_it_says_where_to_go_on():
    ran = lore("--since", "1d")
    assert ran.code == 0
    assert "no recordings of agents" in ran.out
    claude("a", STEADY)
    ran = lore("--since", "1s")
    assert "no requests" in ran.out
    assert "lore --since 90d" in ran.out


def test_what_cannot_be_read_is_said_and_stops_nothing():
    claude("a", STEADY)
    put("home/.codex/sessions/2026/01/01/rollout-bad.jsonl", b"words\n")
    put("home/.cursor/chats/x/y/store.db", b"SQLite format 3\x00")
    ran = lore(*ALL)
    assert (ran.code, found()["total"]["requests"]) == (0, 3)
    put("home/.codex/sessions/2026/01/01/rollout-torn.jsonl", *Rollout().meta().lines, b"{torn\n{}\n")
    assert found(code=3)["problems"] > 0
    torn = lore(*ALL)
    assert "in what was read  → lore check --since 2020-01-01" in torn.out
    assert (torn.code, "rollout-torn.jsonl" in torn.out) == (3, True)
    assert "not read: Cursor" in ran.out


@pytest.mark.parametrize(("terminal", "ci", "helps"), [(False, "", True), (True, "1", True), (True, "", False)])
def test_bare_it_judges_only_for_somebody_who_looks(terminal, ci, helps, monkeypatch, capsys):
    claude("a", STEADY)
    monkeypatch.setenv("CI", ci)
    if terminal:
        monkeypatch.setattr(sys, "stdout", Terminal(sys.stdout))
    assert module.main([]) == 0
    assert ("COMMAND [ARGS]" in capsys.readouterr().out) == helps


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["--by", "moon"], "groupings: day, session, model, project, agent"),
        (["--by", "modle"], "did you mean 'model'?"),
        (["--since", "soon"], "give an age"),
        (["--agent", "nobody"], "agents: "),
        (["--json", "check"], "lore check --json"),
        (["--since", "1d", "sessions"], "lore sessions --since"),
    ],
)
def test_what_means_nothing_is_refused(args, hint):
    ran = lore(*args)
    assert ran.code == 2
    assert hint in ran.err


def test_a_version_has_a_short_option():
    assert lore("-V").out == lore("--version").out


def test_nothing_is_written_beside_the_recordings():
    claude("a", FALLEN)
    before = {path: path.stat().st_mtime_ns for path in Path("home/.claude").rglob("*")}
    ran = process(*ALL, env={**os.environ, "HOME": os.path.abspath("home")})
    assert (ran.code, ran.err) == (0, "")
    assert {path: path.stat().st_mtime_ns for path in Path("home/.claude").rglob("*")} == before


HOSTILE = [
    {"timestamp": "9999-12-31T23:59:59.999+00:00"}, {"timestamp": "0001-01-01T00:00:00Z"},
    {"timestamp": "\x1b[2J"}, {"cwd": "/w/\x1b[31m<b>\u202e"}, {"cwd": "x" * 5_000}, {"sessionId": "../../\x00"},
    {"version": "9" * 400}, {"version": "\x1b]0;title\x07"},
]  # fmt: skip


@pytest.mark.parametrize("fields", HOSTILE, ids=map(str, range(len(HOSTILE))))
@pytest.mark.parametrize("args", [(), ("--by", "day"), ("--by", "project"), ("--by", "session"), ("--compare",)])
def test_nothing_in_a_recording_breaks_the_screen(fields, args):
    claude("a", FALLEN, **fields)
    for command in ([*ALL, *args], ["compare", "home/.claude", "agent:claude-code"]):
        ran = lore(*command)
        assert ran.code == 0, ran.err
        assert not any(sign in ran.out for sign in ("\x1b", "\x07", "\x00", "\u202e"))
