"""`lore sql` over a bucket: recordings and tables there answer as those here do."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from cli.running import lore, put, session
from conftest import ROOT

# Not imported here: conftest freezes what collection made, and DuckDB complains at the end of what was never freed.
pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("duckdb", "pyarrow", "fsspec")), reason="extras: tables, remote"
)
QUERIES = (
    "SELECT count(*), sum(prompt_tokens), min(sent_at), max(sent_at) FROM turns",
    "SELECT * EXCLUDE (path, session) FROM turns ORDER BY ALL",
    "SELECT code, count(*), sum(lost_tokens) FROM findings GROUP BY ALL ORDER BY ALL",
    "SELECT format, sum(requests), sum(bytes) FROM sessions GROUP BY ALL ORDER BY ALL",
)


@pytest.fixture
def both(bucket, tmp_path, monkeypatch):
    """Recordings here and in the bucket; a cache of one's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "fixtures" / "claude-code", tmp_path / "p")
    for file in Path("p").rglob("*.jsonl"):
        bucket.keep(f"b/{file.as_posix()}", file.read_bytes())
    return bucket


def gets(requests, ending):
    return [key for method, key in requests if method == "GET" and key.endswith(ending)]


def test_recordings_in_a_bucket_answer_as_those_here(both):
    assert both
    for query in QUERIES:
        there, here = (lore("sql", query, place, "--json") for place in ("s3://b/p/", "p"))
        assert (there.code, there.json["rows"]) == (here.code, here.json["rows"])
        assert here.json["rows"]


def test_what_was_read_of_a_bucket_is_kept_as_long_as_it_is_the_same(both):
    """Nothing was kept of remote recordings: each question read them all."""
    with both.counted() as requests:
        first = lore("sql", QUERIES[0], "s3://b/p/", "--json")
    assert sorted(gets(requests, ".jsonl")) == sorted(key for key in both.objects["b"] if key.endswith(".jsonl"))
    with both.counted() as requests:
        assert lore("sql", QUERIES[0], "s3://b/p/", "--json").out == first.out
    assert gets(requests, ".jsonl") == []
    both.keep("b/p/new.jsonl", session())
    with both.counted() as requests:
        assert lore("sql", QUERIES[0], "s3://b/p/", "--json").out != first.out
    assert gets(requests, ".jsonl") == ["p/new.jsonl"]


def test_no_file_of_this_machine_names_the_project_of_a_remote_recording(both):
    """A folder `s3:` here was looked into for what its agent keeps beside a log."""
    both.keep("b/p/tmp/x/chats/s.jsonl", session())
    put("s3:/b/p/tmp/x/.project_root", b"/home/somebody")
    rows = lore("sql", "SELECT DISTINCT project FROM sessions", "s3://b/p/tmp/", "--json").json["rows"]
    assert rows == [[None]]


@pytest.fixture
def tables(both):
    """Tables here, in `t`, and in the bucket."""
    assert lore("check", "p", "--report", "parquet=t").code in (0, 1)
    for file in Path("t").iterdir():
        both.keep(f"b/t/{file.name}", file.read_bytes())
    return both


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
def test_tables_in_a_bucket_answer_as_those_here(tables, monkeypatch, client):
    if client == "fsspec":
        pytest.importorskip("s3fs")
    monkeypatch.setenv("LORE_REMOTE", client)
    for query in QUERIES:
        assert lore("sql", query, "s3://b/t/", "--json").out == lore("sql", query, "t", "--json").out
    assert lore("sql", QUERIES[1], "s3://b/t", "--csv").out == lore("sql", QUERIES[1], "t", "--csv").out


def test_another_service_of_s3_answers_alike(tables, moto):
    assert tables
    moto.create_bucket(Bucket="asked")
    for folder in ("t", "p"):
        for file in Path(folder).rglob("*.*"):
            moto.put_object(Bucket="asked", Key=file.as_posix(), Body=file.read_bytes())
    for query in QUERIES:
        here = lore("sql", query, "t", "--json").json
        assert lore("sql", query, "s3://asked/t/", "--json").json == here
        assert lore("sql", query, "s3://asked/p/", "--json").json["rows"] == here["rows"]


ELSEWHERE = (
    "SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM read_text('lore:///etc/passwd')",
    "SELECT * FROM read_text('lore://s3://b/secret.txt')", "SELECT * FROM 'lore://s3://b/t/../secret.txt'",
    "SELECT * FROM read_text('lore://s3://b/t/../secret.txt')", "SELECT * FROM glob('lore://s3://b/*')",
    "COPY turns TO 'lore://s3://b/t/out.parquet'",
)  # fmt: skip


def test_a_query_reads_no_other_object(tables):
    tables.keep("b/secret.txt", b"Tr0ub4dor")
    before = dict(tables.objects["b"])
    for query in ELSEWHERE:
        ran = lore("sql", query, "s3://b/t/", "--json")
        assert "Tr0ub4dor" not in ran.out + ran.err
        assert ran.code == 2, query
        assert tables.objects["b"] == before


def test_what_is_wrong_with_tables_in_a_bucket_is_said(tables):
    whole = tables.objects["b"]["t/turns.parquet"].data
    tables.keep("b/t/turns.parquet", b"PAR1" + bytes(100))
    assert "s3://b/t/turns.parquet cannot be read" in lore("sql", "SELECT 1", "s3://b/t").err
    tables.keep("b/t/turns.parquet", whole)
    assert "name its folder: s3://b/t" in lore("sql", "SELECT 1", "s3://b/t/turns.parquet").err
    tables.fail = lambda request: "denied" if request.key.endswith("sessions.parquet") else None
    ran = lore("sql", "SELECT count(*) FROM sessions", "s3://b/t/")
    assert ran.code == 2
    assert "s3:GetObject" in ran.err
    assert "a secret" not in ran.err


@pytest.mark.parametrize("failure", ["refused", "torn"])
def test_tables_of_a_service_that_is_throttled_are_asked_for_again(tables, failure):
    failures = iter([failure] * 3)
    tables.fail = lambda request: next(failures, None) if request.key == "t/turns.parquet" else None
    assert lore("sql", QUERIES[0], "s3://b/t/", "--json").out == lore("sql", QUERIES[0], "t", "--json").out
    assert next(failures, None) is None
