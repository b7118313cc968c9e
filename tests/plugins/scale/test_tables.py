"""The tables of `lore check --report parquet=`: rows and columns, and the queries of the guide."""

import re
import sqlite3
import textwrap
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from cli.running import lore
from conftest import ROOT
from lore.model.ledger import CostParts, Ledger, LedgerRow, Loss
from lore.recording import corpus
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run.checking.check import CheckRun, check
from lore.run.checking.verdicts import CheckContext
from lore.run.spending.ledgers import Ledgers
from lore.run.spending.tables import check_into_tables
from lore_plugins.scale.tables import columns

pytestmark = pytest.mark.skipif(find_spec("pyarrow") is None, reason="extra: tables")
GUIDE = (ROOT / "src" / "lore" / "guide" / "tables.md").read_text("utf-8")
QUERIES = {
    title: textwrap.dedent(query)
    for title, query in re.findall(r"^### ([^\n]+)\n\n((?:    [^\n]*\n|\n(?=    ))+)", GUIDE, re.MULTILINE)
}
NAMES = ("recordings", "claude-code", "causes/*/positive*", "captures/litellm")
RECORDINGS = [str(ROOT / "fixtures" / name) for name in NAMES]
STABLE = str(ROOT / "fixtures" / "recordings" / "stable.jsonl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of fixtures with many causes, usage, times and subagents."""
    folder = tmp_path_factory.mktemp("made") / "tables"
    assert lore("check", *RECORDINGS, "--report", f"parquet={folder}").code == 1
    return folder


def rows(folder: Path, table: str) -> list[dict[str, object]]:
    from pyarrow import parquet  # not at the top: collection freezes what it imported

    return parquet.read_table(folder / f"{table}.parquet").to_pylist()


def written(folder: Path, files: list[str], *, redact: bool = False) -> None:
    check_into_tables("parquet", str(folder), files, CheckContext(redact=redact), CheckRun(), print)


@pytest.fixture(scope="module")
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    """The same tables in SQLite, with lists as text."""

    def held(value: object) -> object:
        return value.isoformat(" ") if isinstance(value, datetime) else str(value) if isinstance(value, list) else value

    with closing(sqlite3.connect(":memory:")) as connection:
        for name, names in columns().items():
            connection.execute(f"CREATE TABLE {name} ({', '.join(names)})")
            marks = ", ".join("?" * len(names))
            values = [[held(row[name]) for name in names] for row in rows(folder, name)]
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", values)
        yield connection


def test_guide_has_six_queries():
    assert len(QUERIES) == 6


@pytest.mark.parametrize("title", QUERIES)
def test_query_of_the_guide_returns_rows(database, title):
    query = re.sub(r"'tables/(\w+)\.parquet'", r"\1", QUERIES[title])
    assert database.execute(query).fetchall()


def test_guide_names_files_that_check_writes(folder):
    named = set(re.findall(r"(\w+\.parquet)", GUIDE))
    assert named == {path.name for path in folder.iterdir()} == {f"{name}.parquet" for name in columns()}


def test_tables_add_up_to_ledgers_and_findings(folder):
    files = inputs(RECORDINGS)
    ledgers = [ledger for _, ledger in Ledgers(Options()).read(files)]
    expected = [row for ledger in ledgers for row in ledger.rows]
    findings = check(RECORDINGS).result.findings
    turns = rows(folder, "turns")
    assert len(turns) == len(expected) == sum(row["requests"] for row in rows(folder, "sessions"))
    for name in ("prompt_tokens", "read_tokens"):
        assert sum(row[name] or 0 for row in turns) == sum(getattr(row, name) or 0 for row in expected)
    assert sum(row["loss_code"] is not None for row in turns) == sum(row.loss is not None for row in expected)
    found = rows(folder, "findings")
    places = [(row["code"], row["path"], row["line"], row["lost_tokens"]) for row in found]
    assert places == [(one.code, one.path, one.line, one.lost_tokens) for one in findings]
    sent = {(row["path"], row["chain"], row["turn"]) for row in turns}
    assert {(row["path"], row["chain"], row["turn"]) for row in found if row["lost_tokens"]} <= sent


def test_copied_response_is_counted_once(tmp_path):
    first = min((ROOT / "fixtures" / "claude-code").glob("*.jsonl"))
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(first.read_bytes())
    written(tmp_path / "made", [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")])
    copied = [row["copied"] for row in rows(tmp_path / "made", "turns") if row["response_id"]]
    assert copied.count(True) == copied.count(False) != 0


def test_metadata_holds_the_meaning_of_columns(folder):
    from pyarrow import parquet

    for name, listed in columns().items():
        schema = parquet.read_schema(folder / f"{name}.parquet")
        assert schema.names == list(listed)
        assert schema.metadata[b"lore.tables"] == b"1"
        assert all(schema.metadata[column.encode()] == meaning.encode() for column, (_, meaning) in listed.items())


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Replace every ledger with one of a hostile recording."""
    text = "\x1b[31m\u202e\ud800,=cmd()"
    row = LedgerRow(
        chain=text, number=2**80, line=None, at=1e30, model=text, client=text, gateway=text, response_id=text,
        prompt_tokens=2**70, uncached_tokens=None, read_tokens=-(2**63), write_tokens=2**63, output_tokens=0,
        billed=True, spent=CostParts(float("inf"), 0, 0, 0, float("nan")), loss=Loss("LORE101", "waste", 1, (text,)),
        appended=None, compacted=False,
    )  # fmt: skip
    ledger = Ledger("odd", project=text, session=text, message=text, rows=(row,), written=float("inf"))
    monkeypatch.setattr("lore.run.spending.tables.placed", lambda *_: ledger)
    return ledger


def test_odd_values_become_null_or_escapes(odd, tmp_path):
    assert odd
    written(tmp_path / "t", [STABLE])
    (row,) = rows(tmp_path / "t", "turns")
    names = ("turn", "sent_at", "prompt_tokens", "read_tokens", "write_tokens", "dollars")
    assert [row[name] for name in names] == [None, None, None, -(2**63), None, None]
    assert row["model"] == "\x1b[31m\u202e\\ud800,=cmd()"


def test_tables_hold_no_credential(odd, tmp_path, monkeypatch):
    key = "sk-ant-api03-" + "a1B2" * 10
    ledger = msgspec.structs.replace(odd, message=f"refused: {key}")
    monkeypatch.setattr("lore.run.spending.tables.placed", lambda *_: ledger)
    written(tmp_path / "t", [STABLE])
    (row,) = rows(tmp_path / "t", "sessions")
    assert "refused" in row["message"]
    assert key not in row["message"]


def test_redacted_tables_hold_no_names(odd, tmp_path):
    assert odd
    written(tmp_path / "t", [STABLE], redact=True)
    assert "cmd()" not in str(rows(tmp_path / "t", "turns") + rows(tmp_path / "t", "sessions"))


def test_check_does_not_replace_other_files(tmp_path):
    (tmp_path / "turns.parquet").write_bytes(b"a report of somebody else's")
    ran = lore("check", RECORDINGS[0], "--report", f"parquet={tmp_path}")
    assert ran.code == 2
    assert "not a table of lore" in ran.err
    assert (tmp_path / "turns.parquet").read_bytes() == b"a report of somebody else's"


def test_incomplete_table_of_findings_is_reported(tmp_path, monkeypatch):
    said = "holds the first 3 of each severity"
    assert said not in lore("check", RECORDINGS[0], "--report", f"parquet={tmp_path / 'a'}").err
    for module in ("lore.judge.totals", "lore.run.spending.tables"):
        monkeypatch.setattr(f"{module}.FINDINGS_KEPT", 3)
    assert said in lore("check", RECORDINGS[0], "--report", f"parquet={tmp_path / 'b'}").err


@pytest.mark.parametrize("given", ["parquet", "parquet=", "parquet=-", "parquet=s3://b/tables"])
def test_tables_need_a_local_folder(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert lore("check", RECORDINGS[0], "--report", given).code == 2
    assert not list(tmp_path.iterdir())


def test_recording_is_read_once_for_tables(tmp_path, monkeypatch):
    opened = list[str]()
    open_head = corpus.open_head
    monkeypatch.setattr(corpus, "open_head", lambda path: opened.append(path) or open_head(path))
    assert lore("check", RECORDINGS[0], "--report", f"parquet={tmp_path / 't'}", "--jobs", "1").code == 1
    assert len(opened) == len(set(opened)) > 1


@pytest.mark.parametrize("extra", [("--jobs", "2"), ("--redact",)])
def test_jobs_and_redaction_give_the_same_tables(tmp_path, extra, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lore.run.checking.verdicts.SMALL", 0)
    kept = [arg for arg in extra if arg == "--redact"]
    assert lore("check", RECORDINGS[1], "--report", "parquet=once", *kept).code in (0, 1)
    assert lore("check", RECORDINGS[1], "--report", "parquet=again", *extra).code in (0, 1)
    for name in columns():
        assert rows(Path("again"), name) == rows(Path("once"), name)


def test_standard_input_becomes_tables(tmp_path):
    data = Path(STABLE).read_bytes()
    assert lore("check", "-", "--report", f"parquet={tmp_path / 't'}", stdin=data).code in (0, 1)
    assert rows(tmp_path / "t", "turns")


def test_interrupted_run_leaves_earlier_tables(tmp_path):
    assert lore("check", RECORDINGS[0], "--report", f"parquet={tmp_path / 't'}").code == 1
    before = {path.name: path.read_bytes() for path in (tmp_path / "t").iterdir()}
    run, told = CheckRun(interrupted=lambda: True), []
    outcome = check_into_tables("parquet", str(tmp_path / "t"), [RECORDINGS[0]], CheckContext(), run, told.append)
    assert outcome.result.interrupted
    assert told == []
    assert {path.name: path.read_bytes() for path in (tmp_path / "t").iterdir()} == before


def test_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    ran = lore("check", RECORDINGS[0], "--report", f"parquet={tmp_path / 'file'}")
    assert (ran.code, "is not a folder" in ran.err) == (2, True)


def test_unreadable_recording_has_a_row_with_the_reason(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_bytes(Path(STABLE).read_bytes())
    (tmp_path / "logs" / "b.jsonl").symlink_to("b.jsonl")
    assert lore("check", str(tmp_path / "logs"), "--report", f"parquet={tmp_path / 't'}").code in (1, 3)
    sessions = rows(tmp_path / "t", "sessions")
    assert [(row["path"][-7:], row["requests"] > 0, bool(row["message"])) for row in sessions] == [
        ("a.jsonl", True, False),
        ("b.jsonl", False, True),
    ]
