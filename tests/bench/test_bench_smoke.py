"""The benchmarks run: the generator repeats itself, the page names all rows, one is measured. Nothing is timed here."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench import agents, generate, many, recordings, run, verdicts, waiting
from faults.sessions import Session
from formats.opencode import Export
from lore.formats.lore_log import LoreLog
from lore.model.codes import Problem
from lore.model.events import TurnStarted
from lore.run.checking.check import check


def test_generated_log_reads_without_problems():
    short, long = (list(generate.lines(turns)) for turns in (12, 100))
    assert short == list(generate.lines(12)) == long[: len(short)]
    assert 9_000 < len(b"".join(long)) / 100 < 11_500
    reads = list(LoreLog().read(short))
    assert not [one for one in reads if isinstance(one.value, Problem)]
    assert sum(isinstance(one.value, TurnStarted) for one in reads) == 12


def test_bench_docstring_names_every_measure():
    names = run.__doc__.partition("Names: ")[2].partition(".")[0].replace("\n", " ").split(", ")
    assert names == [*run.MEASURES]


def test_one_measure_can_be_chosen(capsys):
    assert run.main(["--quick", "--only", "small"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[:2] == run.HEADER.splitlines()
    assert len(table) == 3
    assert "`lore check` of one file" in table[2]
    assert table[2].endswith("| not judged |")


def test_rows_of_many_sessions_are_measured(tmp_path, monkeypatch):
    log = Session()
    log.ask("Do it.")
    log.answer(20_000, 5_000)
    (tmp_path / "log.jsonl").write_bytes(log.written())
    monkeypatch.setattr(many, "sessions", lambda: [tmp_path / "log.jsonl"])
    rows = [*many.gigabyte(tmp_path, run.lore(), 10_000), *many.peers(tmp_path, run.lore(), 1, 1)]
    names = [row[0].partition(",")[0].partition(":")[0] for row in rows]
    assert (
        names[:6]
        == ["first output of `lore` without a cache", "first output of `lore check` in two processes"]
        + ["peak memory of each process"] * 4
    )
    assert names[6] == "`lore check` in two processes against `orjson.loads`"
    assert names[7].startswith("`lore`")


def test_agent_reads_are_measured_against_naive_rule(monkeypatch, tmp_path):
    made = Export()
    for read in (0, 9_984, 9_984, 0):
        made.user("go on").answer("x", bill=(10_000 - read, read, 5))
    (tmp_path / "opencode").mkdir()
    (tmp_path / "opencode" / "a.json").write_bytes(made.data())
    monkeypatch.setattr(agents, "CORPUS", tmp_path)
    rows = {row[0]: row[1:] for row in agents.reads()}
    name = "reads of OpenCode within 2 %, against 'the previous input'"
    assert rows.pop(name) == (
        "67%, and more than the rule",
        "66.7% against 66.7%; 'the previous read' 33.3%, either 66.7%; n 3",
        False,
    )
    assert {row[1:] for row in rows.values()} == {("n 0", None)}


TOLD = (("system_changed", 0), ("", 28_000), ("messages_changed", 20_000))  # verdicts and reads of the fourth request


@pytest.fixture
def three(monkeypatch, tmp_path):
    """Return the rows for three sessions of four requests, the last with a person's prompt."""
    folder = tmp_path / "claude-code"
    folder.mkdir()
    for number, (verdict, read) in enumerate(TOLD):
        log = Session()
        log.ask("Do it.")
        log.answer(20_000, 5_000, calls=("Read",))
        log.results()
        log.answer(25_000, 3_000, calls=("Read",))
        log.wait(20)
        log.results()
        log.answer(28_000, 3_000)
        log.wait(20)
        log.ask("Go on.")
        log.answer(read, 31_500 - read, verdict=verdict, missed=31_000 - read if verdict else None)
        (folder / f"{number}.jsonl").write_bytes(log.written())
    monkeypatch.setattr(verdicts, "CORPUS", tmp_path)
    return {row[0]: row[1:] for rows in verdicts.ROWS.values() for row in rows()}


def test_truth_rows_count_turns_of_the_sessions(three):
    assert three["reads of transcripts, all transitions"][1].startswith("6 of 9, 66.67%")
    assert three["… within a turn of the user"][1].startswith("6 of 6, 100.00%")
    assert three["… at a new prompt of the user"][1].startswith("0 of 3, 0.00%")
    assert three["… at a new prompt of the user"][2] is False
    assert three["… at a new prompt, without a drop"][1] == "n 0"
    assert three["predicted drops over 1,000 tokens, other than expiry and compaction"][1:] == ("0 of 3, 0.00%", False)
    stated = next(row for name, row in three.items() if name.startswith("stated losses"))
    assert stated[1].startswith("3 of 3, 100.00%")
    assert three["verdicts of the provider that the leading cause contradicts"][1].endswith("of 2, 0.00%")
    assert three["section of a miss, with the provider's verdict cut out"][1].endswith("of 2, 0.00%")
    assert three["breaks missed in pairs called fine"][1] == "0 of 6, 0.00%"


def test_blind_removes_the_provider_verdict_of_a_line():
    log = Session()
    log.answer(0, 5_000, verdict="tools_changed", missed=9)
    for line in log.written().splitlines(keepends=True):
        cut = verdicts.blind(line)
        assert b"tools_changed" in line
        assert b"tools_changed" not in cut
        assert json.loads(cut)["message"]["usage"] == json.loads(line)["message"]["usage"]


def test_rows_without_corpus_say_so(monkeypatch, tmp_path):
    for module in (recordings, verdicts):
        monkeypatch.setattr(module, "CORPUS", tmp_path)
    rows = [recordings.parse(1, None), *recordings.logs(1)]
    rows += [row for measured in verdicts.ROWS.values() for row in measured()]
    assert len(rows) >= 23
    assert {row[2:] for row in rows} == {(recordings.ABSENT, None)}


def test_sessions_of_generated_home_are_all_different(tmp_path):
    made = waiting.home(tmp_path, 25, datetime(2026, 11, 1, tzinfo=UTC))
    summary = check([str(made / ".claude" / "projects")]).result.summary
    assert (summary.files, summary.sessions, summary.turns, summary.copied, summary.problems) == (25, 25, 100, 0, 0)


# A module of the bench had the name of a folder of tests: started as a program, it found the module and ended.
def test_bench_starts_as_a_program():
    program = Path(__file__).with_name("run.py")
    done = subprocess.run([sys.executable, str(program), "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--quick" in done.stdout
