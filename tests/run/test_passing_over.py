"""`pass_over`: named files that are no recordings are counted, and are no error; all else stays as it is."""

import pytest

from cli.running import lore, put, session


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
