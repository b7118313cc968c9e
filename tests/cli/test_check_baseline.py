"""`lore check` with a baseline: known and new findings, kept entries, files that are never replaced."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.policies import clock, settings, sums, update, waste
from cli.running import lore, put
from model.making import body


def test_only_new_findings_fail():
    made = update(waste())
    assert (made.code, made.err) == (0, "baseline written: 2 findings\n")
    code, summary, codes = sums("r.jsonl", "--baseline", "b.json")
    assert (code, codes, summary["known"], summary["breaks"], summary["lost_tokens"]) == (0, [], 2, 0, 0)
    assert "not counted: 2 in the baseline" in lore("check", "r.jsonl", "--baseline", "b.json").out
    waste("new.jsonl")
    assert sums("r.jsonl", "new.jsonl", "--baseline", "b.json")[::2] == (1, ["LORE101", "LORE101"])


COMPRESSED = str(Path(__file__).parents[2] / "fixtures/causes/LORE222/positive.json")  # its request cannot be decoded


def test_update_baseline_makes_next_run_pass():
    settings('[check]\nmin_reuse = 1.0\nmax_breaks = 0\n'
             '[[check.exempt]]\ncode = "LORE103"\npath = "r.jsonl"\nreason = "there is none"\n')  # fmt: skip
    os.symlink("nowhere", put("logs/a.jsonl", body("a")) + "l")
    paths = (waste(), "logs", COMPRESSED)
    before = lore("check", *paths, "--json")
    codes = {finding["code"] for finding in before.json["findings"] if finding["severity"] != "note"}
    assert codes >= {"LORE101", "LORE215", "LORE222", "LORE401", "LORE402", "LORE404"}
    assert update(*paths).code == 0
    assert sums(*paths, "--baseline", "b.json")[::2] == (0, [])


def test_baseline_of_another_folder_is_pointed_out(monkeypatch):
    update(waste("logs/r.jsonl"))
    assert "no finding" not in lore("check", "logs", waste("new.jsonl"), "--baseline", "b.json").err
    monkeypatch.chdir("logs")
    ran = lore("check", "r.jsonl", "--baseline", "../b.json")
    assert (ran.code, "no finding of this run is in ../b.json; its paths count from" in ran.err) == (1, True)


def test_exit_3_names_file_and_reason():
    ran = lore("check", COMPRESSED, "--ignore", "LORE2", "-q")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(f"not judged: {COMPRESSED}:1: the body of a request to ")


def test_baseline_matches_findings_in_any_order():
    first, second = list(clock(1, 2, 3)), list(clock(4, 5, ask="bye"))
    put("r.jsonl", *first, *second)
    update("r.jsonl")
    put("r.jsonl", *second, body("before", system="x"), *first)
    assert sums("r.jsonl", "--baseline", "b.json")[0] == 0


def test_baseline_keeps_entries_of_unjudged_files():
    waste("a.jsonl"), waste("b.jsonl")
    update("a.jsonl", "b.jsonl")
    put("b.jsonl", body("a"))
    assert sums("a.jsonl", "--baseline", "b.json")[2] == []
    update("a.jsonl")
    assert len(json.loads(Path("b.json").read_bytes())["findings"]) == 2
    os.unlink("b.jsonl")
    update("a.jsonl")
    assert len(json.loads(Path("b.json").read_bytes())["findings"]) == 1


# `--update-baseline --select LORE2` dropped all that was known of the others, without a word.
def test_baseline_keeps_codes_that_select_excludes():
    update(waste())
    before = Path("b.json").read_bytes()
    made = lore("check", "r.jsonl", "--baseline", "b.json", "--update-baseline", "--select", "LORE2")
    assert made.err == "baseline written: 2 findings, 2 of them kept: not looked for in this run\n"
    assert Path("b.json").read_bytes() == before
    assert sums("r.jsonl", "--baseline", "b.json", "--select", "LORE2")[2] == []


# A line that a full disk had cut removed its findings from the baseline; once repaired, the file failed.
def test_baseline_keeps_entries_of_damaged_file():
    update(waste())
    lines = Path("r.jsonl").read_bytes().splitlines(keepends=True)
    put("r.jsonl", lines[0], lines[1], lines[2][:40] + b"\n")
    update("r.jsonl")
    found = {one["code"]: one["count"] for one in json.loads(Path("b.json").read_bytes())["findings"]}
    assert found == {"LORE101": 2, "LORE201": 1}


def test_baseline_drops_file_that_is_not_a_recording():
    waste("logs/a.jsonl"), waste("logs/b.jsonl")
    update("logs")
    put("logs/a.jsonl", b"words")
    update("logs")
    assert [one["path"] for one in json.loads(Path("b.json").read_bytes())["findings"]] == ["logs/b.jsonl"]


# `--baseline package.json --update-baseline` replaced package.json.
@pytest.mark.parametrize("data", [b'{"name":"package"}', b"words", b"{}", b'{"lore_baseline":1,\n<<<<<<< HEAD\n'])
def test_update_baseline_never_replaces_another_file(data):
    Path("b.json").write_bytes(data)
    made = update(waste())
    assert (made.code, Path("b.json").read_bytes()) == (2, data)
    assert "hint:" in made.err


def test_empty_file_becomes_a_baseline():
    Path("b.json").touch()
    assert update(waste()).code == 0


def test_linked_baseline_stays_a_link():
    waste()
    Path("real.json").touch()
    Path("b.json").symlink_to("real.json")
    assert update("r.jsonl").code == 0
    assert Path("b.json").is_symlink()
    assert b"LORE101" in Path("real.json").read_bytes()


def test_read_only_baseline_is_an_error(monkeypatch):
    update(waste())
    monkeypatch.setattr("os.access", lambda *_: False)  # whoever runs the tests may write everywhere
    ran = update("r.jsonl")
    assert (ran.code, "b.json is read-only" in ran.err) == (2, True)


# A copied turn of a fork used up what the baseline knew of the fork's own turns, where copies went last.
def test_copied_turns_use_up_no_baseline_entry():
    from formats.claude import answered, asked, counts
    from formats.claude import text as words

    def line(number, before, read, said="one"):
        return [
            asked(f"u{number}", "go", before),
            answered(f"a{number}", f"msg_{number}", words(said), f"u{number}", usage=counts(10, read, 20_000, 5)),
        ]

    shared = [*line(1, None, 0), *line(2, "a1", 0)]
    put("a.jsonl", *[{**one, "sessionId": "one"} for one in shared])
    put("b.jsonl", *[{**one, "sessionId": "two"} for one in (*shared, *line(3, "a2", 0))])
    assert sums("a.jsonl", "b.jsonl")[1]["copied"] == 2
    assert sums("a.jsonl", "b.jsonl")[1]["unattributable"] == 2
    update("a.jsonl", "b.jsonl")
    code, summary, codes = sums("a.jsonl", "b.jsonl", "--baseline", "b.json")
    assert (code, codes, summary["known"]) == (0, [], 2)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--baseline", "none.json"), "there is no baseline none.json"),
        (("--baseline", "bad.json"), "bad.json is no baseline"),
        (("--update-baseline",), "--update-baseline names no file"),
        (("--baseline", "-", "--update-baseline"), "a baseline is a file"),
    ],
)
def test_unusable_baseline_is_an_error_with_hint(args, said):
    Path("bad.json").write_text("<<<<<<<", encoding="utf-8")
    ran = lore("check", waste(), *args)
    assert ran.code == 2
    assert said in ran.err
    assert "hint:" in ran.err
