"""`lore check` counts files that it skips, and names what could not be judged."""

from pathlib import Path

import pytest

from cli.running import lore, put, session
from lore.errors import LoreError
from lore.recording import corpus
from lore.run.checking.check import check

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = [str(ROOT / "fixtures" / name) for name in ("recordings", "claude-code", "causes/*/positive*")]


def test_pass_over_skips_named_unrecognised_file(desk):
    put("rows.jsonl", b'{"a":1}\n')
    put("run.jsonl", session())
    ran = lore("check", "--pass-over", "rows.jsonl", "run.jsonl", "--json")
    assert (ran.code, ran.json["summary"]["skipped"], ran.json["summary"]["files"]) == (0, 1, 1)
    assert lore("check", "rows.jsonl", "run.jsonl").code == 2


@pytest.mark.parametrize("bad", [b"", b'{"broken'])
def test_damaged_recording_in_a_folder_is_unjudged(desk, bad):
    put("z/run.jsonl", session())
    put("z/rows.jsonl", b'{"a":1}\n')
    assert lore("check", "z").code == 0
    put("z/bad.jsonl", bad)
    ran = lore("check", "z")
    assert ran.code == 3
    assert ran.err.splitlines()[-1] == f"not judged: z/bad.jsonl: {'unrecognised format' if bad else 'is empty'}"
    assert lore("check", "z", "--pass-over").code == 0


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
