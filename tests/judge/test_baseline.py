"""Baselines: which findings they hold, their text, and the errors for damaged ones."""

import json
import random

import pytest
from msgspec.structs import replace

from helpers.each import each
from lore.errors import LoreError
from lore.judge import baseline as store
from lore.judge.findings import finding
from lore.model.cause import Place
from lore.model.evidence import Told


def date_finding(code="LORE101", path="a.jsonl", **fields):
    return finding(code, Place(path, path), Told("10:30"), **fields)


def baseline(*findings):
    recorder = store.BaselineRecorder()
    for current_finding in findings:
        recorder.add(current_finding, current_finding.path)
    return store.encode(recorder.entries())


SOME = [
    date_finding(json_path="messages[3].content[0].text", section="messages", chain="chain-2"),
    date_finding(json_path="messages[5].content[0].text", section="messages", chain="main"),
    date_finding(json_path="system[0].text", section="system", chain="agent-9"),
    date_finding("LORE104", "b/c.jsonl", json_path="tools[2].description", section="tools"),
]


def test_baseline_is_independent_of_order():
    whole = baseline(*SOME)
    for seed in range(6):
        assert baseline(*random.Random(seed).sample(SOME, len(SOME))) == whole


def test_baseline_file_is_readable():
    entries = json.loads(baseline(*SOME))["findings"]
    assert [(entry["path"], entry["code"], entry["count"]) for entry in entries] == [("a.jsonl", "LORE101", 2),
        ("a.jsonl", "LORE101", 1), ("b/c.jsonl", "LORE104", 1)]  # fmt: skip
    assert entries[0]["message"] == "date-in-prefix in messages"
    assert (entries[0]["json_path"], entries[0]["chain"]) == ("messages[].content[0].text", None)
    assert b"10:30" not in baseline(*SOME)


def test_known_finding_is_used_up():
    known_findings = store.KnownFindings(store.decode(b"\xef\xbb\xbf" + baseline(*SOME[:2]), "b"))
    assert [known_findings.take(SOME[0], SOME[0].path) for _ in range(3)] == [True, True, False]
    assert not known_findings.take(SOME[3], SOME[3].path)


def test_unmatched_entry_is_stale():
    known_findings = store.KnownFindings(store.decode(baseline(*SOME), "b"))
    known_findings.take(SOME[0], SOME[0].path)
    messages = [
        entry.message for entry in store.find_stale(known_findings, Place("b"), lambda entry: entry.path == "a.jsonl")
    ]
    assert messages == [
        "LORE101 a.jsonl messages[].content[0].text: 1 of 2 still occur",
        "LORE101 a.jsonl system[0].text: no finding matches it",
    ]


def test_entry_doubled_by_merge_counts_once():
    entry = store.BaselineEntry(fingerprint="f", code="LORE101", path="a", count=2)
    known_findings = store.KnownFindings(store.Baseline(findings=(entry, entry)))
    known = replace(SOME[0], fingerprint="f")
    assert [known_findings.take(known, known.path) for _ in range(3)] == [True, True, False]


def test_finding_of_a_moved_session_is_known_once():
    recorder = store.BaselineRecorder()
    recorder.add(SOME[0], "a.jsonl", "session 1")
    known_findings = store.KnownFindings(store.Baseline(findings=tuple(recorder.entries())), lambda _: True)
    moved = replace(SOME[0], fingerprint="of another path")
    sessions = "", "session 2", "session 1", "session 1"
    assert [known_findings.take(moved, "new.jsonl", session) for session in sessions] == [False, False, True, False]


@each("code, fields, known", [
    ("LORE101", {"severity": "error"}, True),
    ("LORE301", {"severity": "warning"}, True),
    ("LORE101", {"severity": "note", "is_break": True}, True),  # a small loss, which counts against budgets
    ("LORE125", {"severity": "note", "is_break": True}, False),
    ("LORE203", {"severity": "note"}, False),
    ("LORE402", {"severity": "error"}, False),
])  # fmt: skip
def test_baseline_has_what_can_fail_a_run(code, fields, known):
    assert store.can_have_entry(replace(finding(code, Place("a"), Told("m")), **fields)) is known


def test_baseline_writes_a_path_with_lone_surrogate():
    finding = date_finding(json_path="tools[0].\ud83d", section="tools")
    assert json.loads(baseline(finding))["findings"][0]["json_path"] == "tools[0].\\ud83d"


@each([
    b"[]",
    b"{}x",
    b"<<<<<<< HEAD\n",
    b'{"lore_baseline":2,"findings":[]}',
    b'{"findings":[{"code":"LORE101","path":"a"}]}',
    b'{"findings":[{"fingerprint":"f","code":"LORE101","path":"a","count":0}]}',
    b'{"findings":[{"fingerprint":"f","code":"LORE101","path":"a","odd":0}]}',
    b'{"findings":{}}',
    b'{"findings":' + b"[" * 100_000,
    b"\xff",
])  # fmt: skip
def test_damaged_baseline_error_says_what_to_do(data):
    with pytest.raises(LoreError) as caught:
        store.decode(data, "b.json")
    assert "b.json" in caught.value.message
    assert "--update-baseline" in caught.value.hint


# `{}` and `{"findings": []}` were taken for baselines that know nothing, whatever they were.
@each("data, words, hint", [
    (b"", "b.json is empty", "--update-baseline"),
    (b"{}", "states no version", "name a file"),
    (b'{"findings":[]}', "states no version", "name a file"),
    (b'{"name":"package"}', "is no baseline", "name a file"),
    (b'{"lore_baseline":1,"findings":3}', "is no baseline", "delete it"),
    (b'{"lore_baseline":2,"findings":[]}', "version 2", "another lore"),
    (b'{\n"lore_baseline":1,\n<<<<<<< HEAD\n=======\n>>>>>>> x\n}', "marks of a merge", "repair it"),
])  # fmt: skip
def test_other_file_is_an_error_naming_it(data, words, hint):
    with pytest.raises(LoreError) as caught:
        store.decode(data, "b.json")
    assert words in caught.value.message
    assert hint in caught.value.hint


def test_recording_with_own_entries_takes_no_others():
    """Both begin alike, and the first one was deleted: what is new in the second is not known."""
    recorder = store.BaselineRecorder()
    for path in ("a.jsonl", "b.jsonl"):
        recorder.add(date_finding(path=path), path, "beginning")
    known_findings = store.KnownFindings(
        store.Baseline(findings=tuple(recorder.entries())), lambda entry: entry.path == "a.jsonl"
    )
    second = date_finding(path="b.jsonl")
    assert [known_findings.take(second, "b.jsonl", "beginning") for _ in range(2)] == [True, False]
