"""`lore check` reports the findings of a file as soon as it is judged, and counts files that it skips."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from cli.running import lore, put, session
from lore.errors import LoreError
from lore.judge.policy import Budgets
from lore.model.results import Finding
from lore.recording import corpus
from lore.report.console import Console
from lore.report.forms.terminal import FindingsWriter, Terminal
from lore.run.checking.check import CheckRun, check
from lore.run.checking.verdicts import CheckContext

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = [str(ROOT / "fixtures" / name) for name in ("recordings", "claude-code", "causes/*/positive*")]


def plain(file: io.StringIO) -> object:
    return Console(file, colour=False, terminal=False)


@pytest.mark.parametrize(("verbose", "redact"), [(False, True), (True, False)])
def test_streamed_findings_equal_the_whole_report(verbose: bool, redact: bool) -> None:
    whole, parts = io.StringIO(), io.StringIO()
    writer = FindingsWriter(plain(parts), verbose=verbose)
    budgets = Budgets(max_breaks=0)  # found at the end, of the run as a whole
    context = CheckContext(budgets=budgets, redact=redact)
    result = check(FIXTURES, context, CheckRun(on_findings=writer.write)).result
    before = parts.getvalue()
    Terminal(writer).write(result, plain(parts), verbose=verbose)
    Terminal().write(result, plain(whole), verbose=verbose)
    assert before
    assert writer.received == len(result.findings)
    assert parts.getvalue() == whole.getvalue()


@pytest.mark.parametrize("jobs", [1, 2])
def test_findings_are_reported_before_the_last_file(tmp_path: Path, jobs: int) -> None:
    for number in range(6):
        shutil.copy(ROOT / "fixtures" / "recordings" / "clock_in_system.jsonl", tmp_path / f"{number}.jsonl")
    told: list[tuple[str, int]] = []
    done = 0

    def progress(bytes_done: int, _: int) -> None:
        nonlocal done
        done = bytes_done

    def hear(findings: list[Finding]) -> None:
        told.extend((Path(finding.path).name, done) for finding in findings)

    check([str(tmp_path)], run=CheckRun(jobs=jobs, progress=progress, on_findings=hear))
    assert [name for name, _ in told] == sorted(name for name, _ in told)
    assert told[0][1] < told[-1][1]


def test_pass_over_skips_named_unrecognised_file(desk):
    put("rows.jsonl", b'{"a":1}\n')
    put("run.jsonl", session())
    ran = lore("check", "--pass-over", "rows.jsonl", "run.jsonl", "--json")
    assert (ran.code, ran.json["summary"]["skipped"], ran.json["summary"]["files"]) == (0, 1, 1)
    assert lore("check", "rows.jsonl", "run.jsonl").code == 2


def test_only_skipped_files_are_no_error(desk):
    put("rows.jsonl", b'{"a":1}\n')
    ran = lore("check", "--pass-over", "rows.jsonl")
    assert ran.code == 0
    assert "1 file skipped" in ran.out


@pytest.mark.parametrize("name", ["gone.jsonl", "no/such/folder"])
def test_pass_over_rejects_unreadable_name(desk, name):
    assert lore("check", "--pass-over", name).code == 2


def test_problems_before_a_read_error_are_counted(tmp_path, monkeypatch):
    """The problems of a file that failed midway were dropped with it."""
    head = b'{"kind":"session_started","session_id":"s"}\n{"kind":"odd"}\n'

    def torn():
        yield head
        raise LoreError("cannot read it: input/output error")

    (tmp_path / "a.jsonl").write_bytes(head)
    monkeypatch.setattr(corpus, "open_head", lambda _: corpus.Opened(head, torn()))
    outcome = check([str(tmp_path)])
    result, incomplete = outcome.result, outcome.incomplete
    assert ([one.code for one in result.problems], incomplete) == (["LORE203", "LORE215"], True)
