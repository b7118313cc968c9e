"""Law 9 for many files: the same answer with any number of processes."""

import os
import sys

import pytest

from cli.pooled import pooled
from cli.running import lore, session
from helpers.matrix import some
from run.logs import put_logs

JOBS = ("1", "3")


@pytest.fixture
def folder(desk):
    """A folder of sessions, forks, bodies, damaged files and other files."""
    put_logs()
    return desk


COMMANDS = (
    ("check", "-v", "logs"),
    ("check", "-v", "logs/c", "logs/f.txt", "logs/none"),
    ("check", "--json", "logs/**/*.jsonl", "logs"),
    ("check", "--json", "--min-reuse", "1", "logs"),
    ("check", "logs/c", "-", "logs/a"),
    ("check", "logs/a", "none*"),
)


@pytest.mark.parametrize("command", some([" ".join(parts) for parts in COMMANDS]))
def test_jobs_do_not_change_answer(folder, command):
    words, stdin = command.split(), session(session_id="piped")
    alone = lore(*words, "--jobs", "1", stdin=stdin)
    assert alone.code != 70, alone.err
    assert pooled(*words, "--jobs", "3", stdin=stdin) == alone


def test_jobs_do_not_change_truncated_findings(folder, monkeypatch):
    monkeypatch.setattr("lore.judge.totals.FINDINGS_KEPT", 2)
    alone = lore("check", "--json", "logs", "--jobs", "1")
    patch = "import lore.judge.totals\nlore.judge.totals.FINDINGS_KEPT = 2"
    assert pooled("check", "--json", "logs", "--jobs", "3", patch=patch).out == alone.out
    severities = [finding["severity"] for finding in alone.json["findings"]]
    assert max(map(severities.count, severities)) == 2
    assert alone.json["summary"]["breaks"] > 2


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything is readable here")
def test_unreadable_file_is_same_error_with_any_jobs(folder):
    os.chmod("logs/c/3.jsonl", 0)
    answers = [pooled("check", "logs/c/0.jsonl", "logs/c/3.jsonl", "logs/f.txt", "-j", jobs) for jobs in JOBS]
    assert answers[0].code == 2
    assert len(set(answers)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="processes start another way there")
def test_spawned_processes_give_same_answer(folder):
    patch = "lore.run.checking.pool._method = lambda: 'spawn'"
    assert pooled("check", "--json", "logs", "-j", "2", patch=patch) == lore("check", "--json", "logs", "-j", "1")


def test_results_keep_order_with_one_file_ahead(folder):
    patch = "lore.run.checking.pool.AHEAD = 1"
    assert pooled("check", "--json", "logs", "-j", "2", patch=patch) == lore("check", "--json", "logs", "-j", "1")
