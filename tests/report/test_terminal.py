"""What a person reads: findings, comparisons, timelines."""

import io
import json
import os
import sys
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from lore.judge.findings import finding
from lore.judge.messages import in_words
from lore.model.cause import Place, RuledOut
from lore.model.codes import Problem
from lore.model.evidence import ReadFell, Told
from lore.model.items import AssistantMessage, RawBlock, TextBlock
from lore.model.results import CheckResult, DiffResult, DiffSide, DivergenceResult, PromptLengths, Summary
from lore.model.results.store import FoldResult, InjectedResult, SessionResult, SessionUsage
from lore.report import diff, timeline
from lore.report.console import Console
from lore.report.forms.base import REPORTS, render
from lore.report.sentences import cause_result
from lore.report.simulation import count_notes
from lore.report.timeline import write_row
from model.making import Fold, append, started, user

PLACE = Place("a.jsonl")


def found(code, text, **fields):
    return finding(code, PLACE, Told(text), **fields)


FOUND = [
    found("LORE100", "it moved", line=3, chain="agent-1", turn=2, json_path="messages[0]", lost_tokens=1200,
            lost_bytes=4800, tokens="estimated"),
    found("LORE301", "it fell", turn=4, chain="main"),
    found("LORE125", "compacted"),
]  # fmt: skip


def shown(write):
    out = io.StringIO()
    write(Console(out, colour=False, terminal=False))
    return out.getvalue()


def report(result, *, verbose=False):
    return shown(lambda out: REPORTS["terminal"].write(result, out, verbose=verbose))


def test_next_command_names_the_costliest_file(monkeypatch):
    summary = Summary(files=2, breaks=2, waste=2, waste_tokens=1300)
    found = [*FOUND, msgspec.structs.replace(FOUND[0], path="my logs/b.jsonl", lost_tokens=9_000)]
    assert "next: lore simulate 'my logs/b.jsonl' --what-if (" in report(checked(summary, found))
    home = os.path.expanduser("~")
    found = [msgspec.structs.replace(FOUND[0], path=f"{home}/logs/b.jsonl")]
    monkeypatch.chdir(os.path.dirname(home))  # the home folder is below the current one: all paths begin with `~`
    assert "next: lore simulate ~/logs/b.jsonl --what-if (" in report(checked(summary, found))
    streamed = report(checked(summary, [msgspec.structs.replace(FOUND[0], path="<stdin>")]))
    assert "next: lore explain LORE100" in streamed
    assert "lore simulate" not in streamed


# Three problems were counted below two that were shown, and nothing said where the third one was.
def test_hidden_problems_and_notes_are_counted():
    codes = ("LORE204", "LORE203", "LORE125")
    result = checked(Summary(problems=2), [found(code, "nobody") for code in codes])
    assert "2 problems in the recordings (--select LORE2 -v shows them)\n" in report(result)
    assert "2 notes hidden (-v shows them)\n" in report(result)
    assert "2 problems in the recordings\n" in report(result, verbose=True)


LENGTHS = PromptLengths(1000, 1100, 400, 4, 100, 500, 250, 275, 100, "o200k_base")
SIDES = (DiffSide("a", "bodies", "anthropic", "m", "wire"), DiffSide("b", "bodies", "anthropic", "m", "wire"))
DIVERGENCE = DivergenceResult("system", "system[0].text", 7, 400, "Day 1", "Day 2")
CAUSE = cause_result(
    found("LORE101", "a date", section="system", lost_bytes=500, lost_tokens=125, tokens="estimated", is_break=True)
)


def checked(summary, findings):
    return CheckResult(summary=summary, findings=findings, problems=[])


def a_diff(lengths=None, relation=None, divergence=None, ratio=None, causes=()):
    return DiffResult(
        left=SIDES[0], right=SIDES[1], file=None, prompt=lengths, relation=relation, divergence=divergence,
        reuse_ratio=ratio, causes=list(causes), caches=[], billed=None, verdict=None, problems=[],
    )  # fmt: skip


def compared(**fields):
    made = a_diff(LENGTHS, "diverged", DIVERGENCE, 0.4444, [CAUSE])
    return shown(lambda out: diff.DiffWriter(out).write(msgspec.structs.replace(made, **fields)))


def test_almost_complete_reuse_is_not_shown_as_complete():
    assert "99.9 %" in compared(reuse_ratio=0.99999)
    assert "100.0 %" not in compared(reuse_ratio=0.99999)


def test_compacted_prompt_is_not_called_unrelated():
    compaction = msgspec.structs.replace(CAUSE, code="LORE125", kind="expected")
    assert "prefix     compacted: " in compared(relation="unrelated", causes=[compaction])


def test_escapes_in_a_divergence_are_not_obeyed():
    assert "\x1b" not in compared(divergence=msgspec.structs.replace(DIVERGENCE, left="\x1b[2J", right="\x1b[31m"))


def told(*events, **fields):
    items = [entry.item for entry in Fold(started(), *events).state.main().entries]
    session = SessionResult("s", "lore", "reconstructed", "m", [])
    result = FoldResult(
        session=session, timeline=[], item_turns=[0] * len(items), injected=fields.pop("injected", []), pruned=["p"],
        turns=fields.pop("turns", []), problems=[],
        usage=fields.pop("usage", SessionUsage.sum_of((), turns=2)),
    )  # fmt: skip
    return shown(lambda out: timeline.write(result, items, out, **fields))


@pytest.mark.parametrize(("record", "shown"), [
    ({"type": "attachment", "attachment": {"type": "nested_memory"}}, "other      attachment nested_memory "),
    ({"type": "attachment", "attachment": 5}, "other      attachment "),
    ({"type": 7, "attachment": {"type": ["x"]}}, 'other      7 ["x"] '),
    ({"type": "attachment", "attachment": {"type": "e\x1b[31mf"}}, "attachment e␛[31mf "),
    ({}, "other       2 bytes"),
])  # fmt: skip
def test_timeline_names_kind_of_attachment(record, shown):
    """All attachments of a session were shown alike."""
    assert shown in told(append({"type": "opaque", "uuid": "o", "record": record}))


def test_credential_at_end_of_line_is_masked():
    for secret in ("AIza" + "Sy_-" * 9, "AKIAABCD2345EFGH6789", "ghp_" + "a1B2" * 9):
        for before in range(75, 100):
            assert secret[4:12] not in told(append(user("u", "x" * before + " " + secret)))


# A problem that quoted half a surrogate pair from a recording ended `--json` as a bug in lore.
@pytest.mark.parametrize("half", ["\ud800", "\udfff x", "naïve \udc80\n"])
def test_json_keeps_half_a_surrogate_pair(half):
    def made(text):
        fell = [found("LORE301", text, turn=4)]
        whole = CheckResult(summary=Summary(), findings=fell, problems=[Problem("LORE201", text, "a")])
        return whole, InjectedResult(text, 0, 1, 0, saved=True, content=Raw(b'{"n": 1.0}'))

    for odd, plain in zip(made(half), made("@@"), strict=True):
        assert json.loads(render(odd)) == json.loads(render(plain).replace("@@", json.dumps(half)[1:-1]))


def test_explained_cause_is_repeated_without_reasons():
    cause = msgspec.structs.replace(CAUSE, message="the read fell: a date; ruled out: expiry", code="LORE301")
    made = a_diff(LENGTHS, "diverged", DIVERGENCE, 0.4444, [cause])

    def write(out):
        writer = diff.DiffWriter(out)
        writer.write(made), writer.write(made)

    first, again = shown(write).split("a → b")[1:]
    assert "LORE301 date-in-prefix (waste): the read fell: a date\n             ruled out: expiry\n" in first
    assert "LORE301 date-in-prefix (waste): a date (-v: what is ruled out)\n" in again
    assert "about 125 tokens re-billed (estimated); 500 bytes of the previous prompt follow the change" in again
    assert ("Freeze the date" in first, "Freeze the date" in again) == (True, False)


def test_bytes_after_a_change_exceed_lost_tokens():
    few = msgspec.structs.replace(CAUSE, lost_tokens=22, lost_bytes=4_733)
    written = shown(lambda out: diff.DiffWriter(out).write(a_diff(LENGTHS, "diverged", DIVERGENCE, 0.4444, [few])))
    text = " ".join(written.split())
    assert "about 22 tokens re-billed (estimated); 4,733 bytes of the previous prompt follow the change" in text


def test_fix_of_expected_break_is_shown_once():
    paused = msgspec.structs.replace(CAUSE, code="LORE128", kind="expected", fix="Compact before a long pause.")
    made = a_diff(LENGTHS, "diverged", DIVERGENCE, 0.4444, [paused])
    made = msgspec.structs.replace(made, chain="main", turn=2)

    def write(out):
        writer = diff.DiffWriter(out)
        writer.write(made), writer.write(made)

    assert shown(write).count("Compact before a long pause.") == 1


def test_next_command_is_on_one_line():
    stream = io.StringIO()
    result = checked(Summary(waste=1, waste_tokens=9), [msgspec.structs.replace(FOUND[0], path="a/" * 40)])
    REPORTS["terminal"].write(result, Console(stream, colour=False, terminal=True, width=60), verbose=False)
    lines = stream.getvalue().splitlines()
    assert lines[-1] == f"next: lore simulate {'a/' * 40} --what-if (the saving of each fix)"
    assert "next: lore explain LORE100 (its meaning and its fix)" in lines


@pytest.mark.parametrize(("path", "typed"), [
    ("s3://b/it's here/a b.jsonl", "'s3://b/it'\"'\"'s here/a b.jsonl'"),
    ("-x.jsonl", "./-x.jsonl"),
    ("s3://b/a\n::error::b.jsonl", None),
    ("s3://b/\x1b[31mred.jsonl", None),
    ("https://h/a?X-Amz-Signature=***", None),
    ("b\\xff.jsonl", None),
    ("sk-ant-api03-" + "a1B2" * 10, None),
])  # fmt: skip
def test_next_command_quotes_file_for_the_shell(path, typed):
    """A key with a line feed was shown as a sign, and the command that named it found nothing."""
    result = checked(Summary(waste=1, waste_tokens=9), [msgspec.structs.replace(FOUND[0], path=path)])
    commands = [line for line in report(result).splitlines() if line.startswith("next: lore simulate")]
    assert commands == ([] if typed is None else [f"next: lore simulate {typed} --what-if (the saving of each fix)"])


def test_what_is_ruled_out_is_written_once():
    fell = ReadFell(900, 1_000, 100)
    falls = [msgspec.structs.replace(found("LORE301", "", turn=4, lost_tokens=9), path=f"{name}.jsonl", evidence=fell,
                                     ruled_out=(RuledOut("expiry", out=True),)) for name in "abcd"]  # fmt: skip
    text = report(checked(Summary(), [in_words(each) for each in falls]))
    assert text.count("900 of 1,000 cached tokens were not read again") == text.count("to find the cause: ") == 2
    assert "! LORE301 billed-read-fell, 2 more in 2 files: " in text
    assert text.count("\n      ruled out: ") == text.count("ruled out: ") == 1  # on a line of its own
    every = report(checked(Summary(), [in_words(each) for each in falls]), verbose=True)
    assert every.count("ruled out: ") == 4


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}, "[encrypted reasoning]"),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look first."}], "encrypted_content": "g"},
         "[reasoning: Look first.]"),
        ({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}, "[reasoning: hm]"),
        ({"type": "reasoning", "summary": []}, "[reasoning]"),
        ({"type": "reasoning", "summary": 7, "content": [7, {"text": 7}]}, "[reasoning]"),
        ({"type": "redacted_thinking", "data": "EmwK"}, "[encrypted redacted_thinking]"),
        ({"type": "compaction", "encrypted_content": "gAAAA"}, "[encrypted compaction]"),
        ({"type": "web_search_call", "id": "x"}, '[{"type": "web_search_call", "id": "x"}]'),
    ],
)  # fmt: skip
def test_encrypted_block_is_named_with_its_summary(block: dict[str, Any], shown: str, capsys):
    blocks = (RawBlock(Raw(json.dumps(block).encode()), "openai-responses"),)
    write_row(AssistantMessage("a", blocks=blocks), Console(sys.stdout, colour=False, terminal=False))
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize(("terminal", "width", "size"), [(True, 60, 49), (True, 140, 129), (False, 60, 100)])
def test_timeline_text_is_cut_to_one_line(terminal, width, size, capsys):
    words = "word " * 100
    blocks = (TextBlock(Raw(json.dumps(words).encode())),)
    write_row(AssistantMessage("a", blocks=blocks), Console(sys.stdout, colour=False, terminal=terminal, width=width))
    (shown,) = capsys.readouterr().out.splitlines()
    assert shown == f"assistant  {words[: size - 1]}…"


def test_simulation_counts_notes_that_begin_alike():
    notes = ["cause=LORE103: together with LORE166", "not counted: 2 turns", "cause=LORE117: together with LORE103"]
    assert count_notes(notes) == ["2 notes on changes that overlap (-v shows them)", "not counted: 2 turns"]
    assert count_notes(notes[:2]) == notes[:2]
