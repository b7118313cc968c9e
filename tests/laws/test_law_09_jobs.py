"""Law 9, for many files: the same bytes whatever the number of processes that judge them."""

from __future__ import annotations

import os
import sys

import pytest

from cli.pooled import pooled
from cli.running import put, session
from formats.claude import answered, asked, counts, text
from helpers.matrix import some
from model.making import body, record

JOBS = ("1", "3")


def _family(name, *own):
    """A session of Claude Code that begins with the history of its family."""
    shared = [
        asked("u1", "begin"),
        answered("a1", "msg_1", text("one"), "u1", usage=counts(10, 0, 20_000, 5)),
        asked("u2", "go on", "a1"),
        answered("a2", "msg_2", text("two"), "u2", usage=counts(10, 0, 20_000, 5)),
    ]
    new = [
        line
        for one in own
        for line in (
            asked(f"u{one}", "and", "a2"),
            answered(f"a{one}", f"msg_{one}", text(one), f"u{one}", usage=counts(10, 20_000, 50, 5)),
        )
    ]
    return [{**line, "sessionId": name} for line in (*shared, *new)]


@pytest.fixture
def folder(desk):
    """Sessions, forks, bodies, waste, damage, things that are no recordings."""
    put("logs/a/parent.jsonl", *_family("one", "3"))
    put("logs/a/fork.jsonl", *_family("two", "4", "5"))
    put("logs/b/fork.jsonl", *_family("three", "6"))
    for number in range(6):
        put(f"logs/c/{number}.jsonl", session(session_id=f"s{number}"))
        put(f"logs/d/{number}.jsonl", body("a", system=f"2026-01-0{number + 1}"), body("a", system="2026-02-01"))
    put("logs/e.jsonl", session(record("odd")) + b"{nope}\n")
    put("logs/f.txt", b"no recording")
    put("logs/g é.json", b"\x00\x01")
    return desk


COMMANDS = (
    ("check", "-v", "logs"),
    ("check", "-v", "logs/c", "logs/f.txt", "logs/none"),
    ("check", "--json", "logs/**/*.jsonl", "logs"),
    ("check", "--json", "--min-reuse", "1", "--max-breaks", "0", "logs"),
    ("check", "logs/c", "-", "logs/a"),
    ("check", "logs/a", "none*"),
)


@pytest.mark.parametrize("command", some([" ".join(one) for one in COMMANDS], 2))
def test_the_answer_is_the_same_for_any_number_of_jobs(folder, command):
    answers = {jobs: pooled(*command.split(), "--jobs", jobs, stdin=session(session_id="piped")) for jobs in JOBS}
    assert answers["1"].code != 70, answers["1"].err
    assert answers["3"] == answers["1"]


def test_the_answer_is_the_same_where_more_is_found_than_is_kept(folder):
    patch = "import lore.judge.totals\nlore.judge.totals.FINDINGS_KEPT = 2"
    answers = {jobs: pooled("check", "--json", "logs", "--jobs", jobs, patch=patch) for jobs in JOBS}
    assert len({one.out for one in answers.values()}) == 1
    severities = [one["severity"] for one in answers["1"].json["findings"]]
    assert max(map(severities.count, severities)) == 2
    assert answers["1"].json["summary"]["breaks"] > 2


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything is readable here")
def test_a_file_that_cannot_be_read_is_the_same_error_for_any_number_of_jobs(folder):
    os.chmod("logs/c/3.jsonl", 0)
    answers = [pooled("check", "logs/c/0.jsonl", "logs/c/3.jsonl", "logs/f.txt", "-j", jobs) for jobs in JOBS]
    assert answers[0].code == 2
    assert len(set(answers)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="processes start another way there")
def test_processes_that_start_anew_give_the_same_answer(folder):
    patch = "lore.run.pool._method = lambda: 'spawn'"
    assert pooled("check", "--json", "logs", "-j", "2", patch=patch) == pooled("check", "--json", "logs", "-j", "1")
