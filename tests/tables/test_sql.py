"""`lore sql` and tables: what the guide asks, what a query may do, and what becomes of odd values."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from cli.running import lore
from lore.judge.policy import Budgets
from lore.model.ledger import Ledger, LedgerRow, Loss, Spent
from lore.model.results.tables import TABLES, SqlResult
from lore.recording import corpus
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.report.forms.json_report import render
from lore.report.queried import write_json_rows
from lore.run.checking.check import check
from lore.run.spending import sql, tables
from lore.run.spending.ledgers import Ledgers
from lore.run.spending.sessions import AgentLog

# Not imported here: conftest freezes what collection made, and DuckDB complains at the end of what was never freed.
pytestmark = pytest.mark.skipif(find_spec("duckdb") is None or find_spec("pyarrow") is None, reason="extra: tables")
ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "src" / "lore" / "guide" / "sql.md").read_text("utf-8")
QUESTIONS = {
    title: textwrap.dedent(query)
    for title, query in re.findall(r"^### ([^\n]+)\n\n((?:    [^\n]*\n|\n(?=    ))+)", GUIDE, re.MULTILINE)
}
RECORDINGS = [str(ROOT / "fixtures" / name) for name in ("recordings", "claude-code", "causes", "captures/litellm")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tables of fixtures: of many causes, with bills, times and subagents."""
    folder = str(tmp_path_factory.mktemp("made") / "tables")
    files = inputs(RECORDINGS)
    findings = check(RECORDINGS, Budgets(), Options()).result.findings
    request = tables.TablesRequest([AgentLog(None, file, None) for file in files], findings)
    tables.write_tables(folder, request, Ledgers(Options()))
    return folder


def asked(folder: str, query: str) -> list[list[object]]:
    with sql.asked(folder, query) as found:
        return list(found.rows)


def test_the_guide_has_twelve_questions() -> None:
    assert len(QUESTIONS) == 12


@pytest.mark.parametrize("title", QUESTIONS)
def test_a_question_of_the_guide_has_an_answer(folder: str, title: str) -> None:
    assert asked(folder, QUESTIONS[title])


def test_tables_say_what_ledgers_and_findings_do(folder: str) -> None:
    files = [file.path for file in inputs(RECORDINGS)]
    ledgers = {file.path: ledger for file, ledger in Ledgers(Options()).each(inputs(RECORDINGS))}
    rows = [row for path in files if path in ledgers for row in ledgers[path].rows]
    findings = check(RECORDINGS, Budgets(), Options()).result.findings
    assert asked(folder, "SELECT count(*), sum(prompt_tokens), sum(read_tokens), count(loss_code) FROM turns") == [
        [len(rows), *(sum(getattr(row, name) or 0 for row in rows) for name in ("prompt_tokens", "read_tokens")),
         sum(row.loss is not None for row in rows)]
    ]  # fmt: skip
    assert asked(folder, "SELECT count(*), sum(lost_tokens) FROM findings") == [
        [len(findings), sum(finding.lost_tokens or 0 for finding in findings)]
    ]
    joined = "SELECT count(*) FROM findings f JOIN turns t USING (path, chain, turn) WHERE f.lost_tokens > 0"
    assert asked(folder, joined)[0][0]
    assert asked(folder, "SELECT sum(requests) FROM sessions") == [[len(rows)]]


def test_copies_count_once(folder: str, tmp_path: Path) -> None:
    """A response that two recordings hold was paid once: the overview's sums are those without copies."""
    source = ROOT / "fixtures" / "claude-code"
    first = next(iter(sorted(source.glob("*.jsonl"))))
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(first.read_bytes())
    request = tables.TablesRequest([AgentLog(None, file, None) for file in inputs([str(tmp_path)])])
    tables.write_tables(str(tmp_path / "made"), request, Ledgers(Options()))
    known = "SELECT count(*) FROM turns WHERE response_id <> '' AND copied = "
    copied, kept = (asked(str(tmp_path / "made"), known + flag)[0][0] for flag in ("true", "false"))
    assert copied == kept != 0


def test_every_column_has_a_name_that_needs_no_quotes(folder: str) -> None:
    """`at` and `offset` are words of SQL: a query that named them was a syntax error."""
    from pyarrow import parquet

    for name, columns in TABLES.items():
        asked(folder, f"SELECT {', '.join(column.name for column in columns)} FROM {name} LIMIT 1")  # noqa: S608
        written = parquet.read_schema(tables.table_path(folder, name))
        assert written.names == [column.name for column in columns]
        assert all(written.metadata[column.name.encode()] == column.meaning.encode() for column in columns)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'", "SELECT * FROM glob('/*')",
        "SELECT content FROM read_text('/etc/passwd')", "COPY turns TO 'out.csv'", "ATTACH 'other.db'",
        "INSTALL httpfs", "LOAD httpfs", "SET memory_limit = '1TB'", "CREATE TABLE t (a INTEGER)", "DROP VIEW turns",
        "SELECT 1; SELECT 2", "", ";", "SELEC 1", "SELECT nothing FROM turns", "PRAGMA database_list", "CALL x()",
        "EXPORT DATABASE 'out'", "SELECT * FROM query('COPY turns TO ''out.csv''')",
        "EXPLAIN ANALYZE COPY turns TO 'o'",
        "SELECT * FROM read_parquet('https://example.com/a.parquet')", "SELECT * FROM duckdb_secrets()", "\0",
        "(" * 5_000,
    ],
)  # fmt: skip
def test_a_query_reads_these_tables_alone(
    folder: str, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tables.LoreError) as error:
        asked(folder, query)
    assert "\n" not in error.value.message
    assert not list(tmp_path.iterdir())
    assert sorted(path.name for path in Path(folder).iterdir()) == sorted(f"{name}.parquet" for name in TABLES)


def test_an_error_names_its_place(folder: str) -> None:
    with pytest.raises(tables.LoreError, match=r'Referenced column "dolars".*\(line 2, column 3\)'):
        asked(folder, "SELECT\n  dolars FROM turns")


@pytest.mark.skipif(os.name == "nt", reason="no signal to send")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM range(100000000000) a, range(1000)",
        "SELECT range FROM range(100000000000) WHERE range < 0",
    ],
)
def test_a_query_without_end_ends_at_ctrl_c(folder: str, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB heard no Ctrl-C while it computed: one query could only be killed, another was "a bug in lore"."""

    class Watched(ThreadPoolExecutor):
        def submit(self, *args, **kwargs):
            if not timers:  # of the first call; the second query computes when its first rows are fetched
                timers.append(threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)))
                timers[0].start()
            return super().submit(*args, **kwargs)

    timers = list[threading.Timer]()
    monkeypatch.setattr(sql, "ThreadPoolExecutor", Watched)
    with pytest.raises(KeyboardInterrupt):
        asked(folder, query)


def test_a_time_with_a_zone_is_in_utc_on_every_machine(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`now()` failed with a traceback in its sentence, for want of a package; hours were those of this machine."""
    monkeypatch.setenv("TZ", "America/New_York")
    query = "SELECT TIMESTAMPTZ '2026-01-01 23:30:00-05' AS t, hour(t), now() > t"
    assert asked(folder, query) == [["2026-01-02T04:30:00.000Z", 4, True]]


def test_a_query_that_takes_too_much_memory_says_so(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """It was a page of advice about settings that no query may change; what did not fit went into `.tmp` here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sql, "MEMORY", "50MB")
    with pytest.raises(tables.LoreError, match="^the query needs more than 50MB of memory$"):
        asked(folder, "SELECT list(range) FROM range(50000000)")
    assert asked(folder, "SELECT value FROM duckdb_settings() WHERE name = 'temp_directory'") != [[".tmp"]]
    assert not list(tmp_path.iterdir())


def test_recordings_that_cannot_be_read_are_named(folder: str, tmp_path: Path) -> None:
    """Of what is no recording the answer was an empty table, and exit code 0."""
    (tmp_path / "a.txt").write_text("nothing")
    query, one = "SELECT count(*) FROM turns", tables.table_path(folder, "turns")
    for path, says in ((tmp_path / "a.txt", "no recording"), (tmp_path, "no recordings"), (one, "name its folder")):
        ran = lore("sql", query, str(path))
        assert (ran.code, ran.out) == (2, "")
        assert says in ran.err
    both = lore("sql", query, str(tmp_path / "a.txt"), RECORDINGS[0], "--json")
    assert both.code == 3
    assert "a.txt" in both.err
    assert json.loads(both.out)["rows"][0][0] > 0


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """A ledger as a hostile recording makes it."""
    text = "\x1b[31m\u202e\ud800,=cmd()"
    row = LedgerRow(
        chain=text, number=2**80, line=None, at=1e30, model=text, client=text, gateway=text, response_id=text,
        prompt_tokens=2**70, uncached_tokens=None, read_tokens=-(2**63), write_tokens=2**63, output_tokens=0,
        billed=True, spent=Spent(float("inf"), 0, 0, 0, float("nan")), loss=Loss("LORE101", "waste", 1, (text,)),
        appended=None, compacted=False,
    )  # fmt: skip
    ledger = Ledger("odd", project=text, session=text, message=text, rows=(row,), written=float("inf"))
    monkeypatch.setattr(Ledgers, "each", lambda self, files, *_: ((file, ledger) for file in files))
    return ledger


def test_odd_values_become_null_or_escapes(odd: Ledger, tmp_path: Path) -> None:
    request = tables.TablesRequest(
        [AgentLog(None, inputs([str(ROOT / "fixtures" / "recordings" / "stable.jsonl")])[0], None)]
    )
    tables.write_tables(str(tmp_path / "t"), request, Ledgers(Options()))
    query = "SELECT turn, sent_at, prompt_tokens, read_tokens, write_tokens, dollars, model FROM turns"
    assert asked(str(tmp_path / "t"), query) == [
        [None, None, None, -(2**63), None, None, "\x1b[31m\u202e\\ud800,=cmd()"]
    ]
    shown = lore("sql", "SELECT model, loss_names FROM turns", str(tmp_path / "t"))
    assert not set("\x1b\u202e") & set(shown.out + shown.err)
    assert "\x1b" not in lore("sql", "SELECT model, loss_names FROM turns", str(tmp_path / "t"), "--csv").out


def test_tables_hold_no_credential(odd: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-ant-api03-" + "a1B2" * 10
    ledger = msgspec.structs.replace(odd, message=f"refused: {key}")
    monkeypatch.setattr(Ledgers, "each", lambda self, files, *_: ((file, ledger) for file in files))
    request = tables.TablesRequest(
        [AgentLog(None, inputs([str(ROOT / "fixtures" / "recordings" / "stable.jsonl")])[0], None)]
    )
    tables.write_tables(str(tmp_path / "t"), request, Ledgers(Options()))
    assert key not in str(asked(str(tmp_path / "t"), "SELECT message FROM sessions"))


def test_redacted_tables_hold_no_names(odd: Ledger, tmp_path: Path) -> None:
    request = tables.TablesRequest(
        [AgentLog(None, inputs([str(ROOT / "fixtures" / "recordings" / "stable.jsonl")])[0], None)], redact=True
    )  # fmt: skip
    tables.write_tables(str(tmp_path / "t"), request, Ledgers(Options()))
    found = asked(str(tmp_path / "t"), "SELECT * FROM turns") + asked(str(tmp_path / "t"), "SELECT * FROM sessions")
    assert "cmd()" not in json.dumps(found)


def test_check_writes_tables_whole_or_not_at_all(tmp_path: Path) -> None:
    recordings, folder = str(ROOT / "fixtures" / "recordings"), tmp_path / "t"
    ran = lore("check", recordings, "--report", f"parquet={folder}", "--json")
    assert ran.code == 1
    assert asked(str(folder), "SELECT count(*) FROM findings")[0][0] == len(json.loads(ran.out)["findings"])
    (folder / "turns.parquet").write_bytes(b"a report of somebody else's")
    again = lore("check", recordings, "--report", f"parquet={folder}")
    assert again.code == 2
    assert "no table of lore's" in again.err
    assert (folder / "turns.parquet").read_bytes() == b"a report of somebody else's"


def test_a_table_that_lacks_findings_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run keeps 10,000 findings of a severity: a table of these was called all."""
    recordings, said = str(ROOT / "fixtures" / "recordings"), "holds the first 3 of each severity"
    assert said not in lore("check", recordings, "--report", f"parquet={tmp_path / 'a'}").err
    monkeypatch.setattr(tables, "FINDINGS_KEPT", 3)
    assert said in lore("check", recordings, "--report", f"parquet={tmp_path / 'b'}").err
    assert said in lore("sql", "SELECT count(*) FROM findings", recordings).err


@pytest.mark.parametrize("given", ["parquet", "parquet=", "parquet=-", "parquet=s3://b/tables"])
def test_tables_need_a_folder(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables for a bucket were written into a folder `s3:` here, and said to be there."""
    monkeypatch.chdir(tmp_path)
    assert lore("check", str(ROOT / "fixtures" / "recordings"), "--report", given).code == 2
    assert not list(tmp_path.iterdir())


def test_tables_of_another_version_are_refused(folder: str, tmp_path: Path) -> None:
    from pyarrow import parquet

    path = tables.table_path(folder, "turns")
    table = parquet.read_table(path)
    parquet.write_table(table.replace_schema_metadata({"lore.tables": "99"}), tmp_path / "turns.parquet")
    with pytest.raises(tables.LoreError, match="version 99, not 1"):
        asked(str(tmp_path), "SELECT 1")
    (tmp_path / "turns.parquet").write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(tables.LoreError, match="cannot be read"):
        asked(str(tmp_path), "SELECT 1")


def test_sql_alone_lists_the_tables() -> None:
    listed = json.loads(lore("sql", "--json").out)["tables"]
    assert {name: [column[0] for column in columns] for name, columns in listed.items()} == {
        name: [column.name for column in columns] for name, columns in TABLES.items()
    }


def test_a_damaged_table_is_named(folder: str, tmp_path: Path) -> None:
    """It was "the tables in FOLDER cannot be read", and where a page of it was damaged no file was named at all."""
    shutil.copytree(folder, tmp_path / "t")
    path = tmp_path / "t" / "turns.parquet"
    whole = path.read_bytes()
    for damaged in (b"PAR1" + bytes(100), whole[:-9] + b"\xff" * 5 + b"PAR1", whole[:4] + bytes(8_000) + whole[8_004:]):
        path.write_bytes(damaged)
        ran = lore("sql", "SELECT * FROM turns", str(tmp_path / "t"), "--json")
        assert (ran.code, ran.out) == (2, "")
        assert f"{path} cannot be read: " in ran.err
    path.write_bytes(whole)
    (tmp_path / "t" / "sessions.parquet").write_bytes(b"PAR1")
    assert "sessions.parquet cannot be read" in lore("sql", "SELECT 1 FROM turns", str(tmp_path / "t")).err


def test_rows_are_written_as_json_as_they_come(folder: str) -> None:
    """`--json` held all rows and their text: 10 million numbers took 2 GB."""
    taken = []

    def rows() -> Iterator[list[object]]:
        for number in range(3_500):
            taken.append(number)
            yield [number, 'a "rows":[] \u202e', [None, 1.5]]

    class Heard(io.StringIO):
        def write(self, text: str) -> int:
            lengths.append(len(taken))
            return super().write(text)

    lengths, out = list[int](), Heard()
    columns = ["n", '"rows":[]', "l"]
    write_json_rows(columns, ["BIGINT", "VARCHAR", "DOUBLE[]"], rows(), out)
    every = [[number, 'a "rows":[] \u202e', [None, 1.5]] for number in range(3_500)]
    assert (
        out.getvalue() == render(SqlResult(columns=columns, types=["BIGINT", "VARCHAR", "DOUBLE[]"], rows=every)) + "\n"
    )
    assert lengths[0] == 1_000
    assert lengths == sorted(lengths)
    ran = lore("sql", "SELECT range AS n FROM range(2500)", folder, "--json")
    assert ran.json["rows"] == [[number] for number in range(2_500)]
    empty = lore("sql", "SELECT 1 AS n WHERE false", folder, "--json")
    assert empty.json == {"schema": 2, "columns": ["n"], "types": ["INTEGER"], "rows": [], "more": False}


def test_names_in_rows_are_made_visible_once(folder: str) -> None:
    ran = lore("sql", "SELECT chr(27) || 'x' AS \"a\x1bb\", ['\u202e'] AS l, '##[group]' AS g", folder)
    assert ran.out.splitlines()[:2] == ["a␛b  l             g", '␛x   ["<U+202E>"]  ##<U+005B>group]']


def test_a_recording_is_judged_once_for_its_findings_and_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--report parquet` read each recording again, `lore sql` too where a query named findings."""
    opened = list[str]()
    open_head = corpus.open_head
    monkeypatch.setattr(corpus, "open_head", lambda path: opened.append(path) or open_head(path))
    recordings = str(ROOT / "fixtures" / "recordings")
    for args in (
        ("check", recordings, "--report", f"parquet={tmp_path / 't'}", "--jobs", "1"),
        ("sql", "SELECT code FROM findings", recordings, "--no-cache"),
    ):
        opened.clear()
        assert lore(*args).code in (0, 1)
        assert len(opened) == len(set(opened)) > 1, args


@pytest.mark.parametrize("extra", [("--jobs", "2"), ("--state", "kept"), ("--redact",)])
def test_tables_are_the_same_by_any_means(
    tmp_path: Path, extra: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result that was kept has no ledger: its recording is read for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lore.run.checking.judging.SMALL", 0)
    recordings = str(ROOT / "fixtures" / "claude-code")
    every = [f"SELECT * FROM {name}" for name in TABLES]  # noqa: S608
    kept = [arg for arg in extra if arg == "--redact"]
    assert lore("check", recordings, "--report", "parquet=once", *kept).code in (0, 1)
    for number in range(2 if "--state" in extra else 1):
        assert lore("check", recordings, "--report", f"parquet={number}", *extra).code in (0, 1)
        assert [asked(str(number), query) for query in every] == [asked("once", query) for query in every]


def test_standard_input_becomes_tables(tmp_path: Path) -> None:
    """It could be read once only, and tables needed a second look."""
    data = next(iter(sorted((ROOT / "fixtures" / "recordings").glob("*.jsonl")))).read_bytes()
    assert lore("check", "-", "--report", f"parquet={tmp_path / 't'}", stdin=data).code in (0, 1)
    assert asked(str(tmp_path / "t"), "SELECT count(*) FROM turns")[0][0]


def test_an_interrupted_run_leaves_no_tables_and_those_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings = str(ROOT / "fixtures" / "recordings")
    assert lore("check", recordings, "--report", f"parquet={tmp_path / 't'}").code == 1
    before = {path.name: path.read_bytes() for path in (tmp_path / "t").iterdir()}
    outcome, written = tables.write_judged(
        str(tmp_path / "t"),
        lambda take: check([recordings], Budgets(), Options(), tabled=take, interrupted=lambda: True),
        Ledgers(Options()),
    )
    assert outcome.result.interrupted
    assert written is None
    assert {path.name: path.read_bytes() for path in (tmp_path / "t").iterdir()} == before


def test_no_bar_of_a_slow_query_stands_in_its_answer(folder: str) -> None:
    """DuckDB wrote one to standard output after two seconds, before the JSON."""
    assert asked(folder, "SELECT value FROM duckdb_settings() WHERE name = 'enable_progress_bar'") == [["false"]]
