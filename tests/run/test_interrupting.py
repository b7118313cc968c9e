"""Interrupted runs return a partial result."""

import json
import os

import pytest
from msgspec import UNSET

from cli.running import lore, put, session
from lore.judge.what_if import TTL
from lore.model.results import Interruption
from lore.run.checking.check import CheckRun, check
from lore.run.checking.verdicts import CheckContext
from lore.run.simulation import simulate

FILES = ["a.jsonl", "b.jsonl", "c.jsonl"]  # of two turns each


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        put(name, session(session_id=name))


def after(questions: int):
    """Return a function that reports an interrupt after `questions` calls."""
    answers = iter([False] * questions)
    return lambda: next(answers, True)


def test_interrupted_check_returns_files_judged_so_far():
    whole = check(FILES).result
    result = check(FILES, run=CheckRun(interrupted=after(4))).result
    assert (whole.interrupted, whole.summary.turns) == (UNSET, 6)
    assert result.interrupted == Interruption(2, 3)
    assert (result.summary.files, result.summary.turns) == (2, 3)


def test_interrupted_check_ignores_files_not_judged():
    """Neither `no recordings`, nor a baseline that forgets, nor an exemption that excuses nothing."""
    result = check(["."], run=CheckRun(interrupted=lambda: True)).result
    assert (result.interrupted, result.findings) == (Interruption(0, 3), [])
    context = CheckContext(baseline="baseline.json", renews_baseline=True)
    outcome = check(FILES, context, CheckRun(interrupted=after(2)))
    assert outcome.baselined is None
    assert not os.path.exists("baseline.json")


def simulated(questions: int, *changes: str):
    return list(simulate(FILES, CheckContext(), CheckRun(interrupted=after(questions)), changes=changes))


def test_interrupted_simulation_returns_turns_so_far():
    [result] = simulated(4)
    assert result.interrupted == Interruption(2, 3)
    assert len(result.turns) == 4
    assert result.what_if == []


def test_interrupted_change_reports_no_saving():
    [result] = simulated(12, TTL)
    assert result.interrupted == Interruption(3, 3)
    assert len(result.turns) == 6
    assert result.what_if == []


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_interrupt_is_reported_with_exit_130(command, monkeypatch):
    """The signal comes while the second file is read."""
    from lore.recording import corpus

    opened, pieces = [], corpus.open_head

    def open_head(path, *args):
        opened.append(path)
        if path == "b.jsonl" and opened.count(path) == 1:
            os.kill(os.getpid(), 2)
        return pieces(path, *args)

    monkeypatch.setattr(corpus, "open_head", open_head)
    result = lore(command, *FILES, *(["--jobs", "1"] if command == "check" else []))
    assert result.code == 130
    assert "interrupted: this is partial, 2 of 3 files" in result.out
    assert "c.jsonl" not in opened
    opened.clear()
    result = lore(command, *FILES, "--json")
    assert result.code == 130
    assert json.loads(result.out)["interrupted"] == {"files": 2, "of": 3}
    assert "interrupted: this is partial" in result.err


def test_interrupted_run_replaces_no_report(monkeypatch):
    from lore.run.checking import check as judging

    judge = judging.judge_file

    def judged(*args):
        os.kill(os.getpid(), 2)
        return judge(*args)

    monkeypatch.setattr(judging, "judge_file", judged)
    put("report.json", b"whole")
    result = lore("check", *FILES, "--jobs", "1", "--report", "json=report.json")
    assert result.code == 130
    assert "no file is written" in result.err
    with open("report.json", "rb") as file:
        assert file.read() == b"whole"
