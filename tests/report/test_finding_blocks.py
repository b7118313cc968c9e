"""The terminal writes findings of one cause at one place as one block, and of a session the pairs that differ."""

import io

import pytest
from msgspec.structs import replace

from lore.judge.findings import finding
from lore.model.cause import Place
from lore.model.differences import TextChanged
from lore.model.evidence import OverBudget, ProviderSaid, ReadFell
from lore.model.results import DiffResult, DiffSide, PromptLengths, UsageResult
from lore.report.console import Console
from lore.report.diff import DiffWriter
from lore.report.forms.terminal import group_findings, write_blocks
from lore.report.plain import place_of
from lore.report.sentences import cause_result, format_fix, format_loss


def moved(turn, lost=1_000, **fields):
    change = TextChanged("system[1]", "date", f"it is 09:{turn:02}", f"it is 09:{turn + 1:02}")
    return finding(
        "LORE101", Place("a.jsonl"), change, turn=turn, line=turn, chain="main", json_path="system[1].text",
        lost_tokens=lost, lost_dollars=lost / 1e5, tokens="recorded", is_break=True, **fields,
    )  # fmt: skip


def written(findings, *, verbose=False):
    out = io.StringIO()
    write_blocks(findings, Console(out, colour=False, terminal=False), verbose=verbose)
    return out.getvalue()


def test_turns_with_one_cause_are_one_block():
    lines = written([moved(2), moved(3, 4_000), moved(4)]).splitlines()
    assert lines[:2] == ["✗ LORE101 date-in-prefix in turns 2, 3, 4 at system[1].text", "    a.jsonl:2"]
    assert lines[2].startswith("    turn 2: a date or time in system[1] changed")
    assert lines[3:5] == ["      - …it is 09:02…", "      + …it is 09:03…"], "the turn of the line that is named"
    assert "    6,000 tokens re-billed ($0.0600) in 3 turns (-v: each turn)" in lines
    assert lines[-1].startswith("    fix (agent author): ")


def test_verbose_report_has_a_block_for_each_turn():
    text = written([moved(2), moved(3)], verbose=True)
    assert [text.count(place) for place in ("turn 2 at", "turn 3 at", "turns")] == [1, 1, 0]


@pytest.mark.parametrize(
    "other",
    [{"path": "b.jsonl"}, {"code": "LORE102"}, {"json_path": "system[0].text"}, {"severity": "warning"}],
)  # fmt: skip
def test_findings_of_different_places_are_different_blocks(other):
    assert len(group_findings([moved(2), replace(moved(3), **other)])) == 2


def test_messages_of_any_number_are_one_place():
    texts = [replace(moved(turn), json_path=f"messages[{turn}].content") for turn in (2, 3, 4)]
    assert written(texts).splitlines()[0].endswith(" in turns 2, 3, 4 at messages[2].content and 2 more places")


def test_one_cause_in_many_conversations_is_one_block():
    lines = written([moved(1), replace(moved(1), chain="chain-2"), replace(moved(1), chain="chain-3")]).splitlines()
    assert lines[0] == "✗ LORE101 date-in-prefix in 3 turns of 3 chains at system[1].text"
    assert [line for line in lines if "LORE101" in line] == lines[:1]


def test_worst_turn_is_shown_below_required_reuse():
    low = [replace(moved(turn), code="LORE401", evidence=OverBudget("reuse", share, 0.9), message=f"{share}")
           for turn, share in ((2, 0.65), (3, 0.52), (4, 0.6))]  # fmt: skip
    assert written(low).splitlines()[1:3] == ["    a.jsonl:3", "    turn 3: 0.52"]


@pytest.mark.parametrize(("severity", "first"), [("error", "b.jsonl"), ("warning", "a.jsonl")])
def test_errors_come_first_then_the_costliest(severity, first):
    cheap, dear = moved(2, 1_000), replace(moved(3, 9_000), path="b.jsonl", severity=severity)
    assert written([cheap, dear]).splitlines()[1].startswith(f"    {first}")


def test_turns_with_other_verdicts_are_other_blocks():
    """One block once said `system_changed` of a turn for which the provider reports `messages_changed`."""
    said = [replace(moved(turn), code="LORE159", evidence=ProviderSaid(reason))
            for turn, reason in ((2, "system_changed"), (3, "messages_changed"), (4, "system_changed"))]  # fmt: skip
    assert [len(group) for group in group_findings(said)] == [2, 1]


def test_turns_beyond_six_are_counted():
    (heading, *_) = written([moved(turn) for turn in range(2, 12)]).splitlines()
    assert "turns 2, 3, 4, 5, 6, 7 and 4 more at system[1].text" in heading


def test_unexplained_falls_of_a_file_are_one_block():
    falls = [replace(moved(turn, 1_000 * turn), code="LORE301", json_path=None) for turn in (2, 7, 9)]
    lines = written(falls).splitlines()
    assert lines[0].endswith("LORE301 date-in-prefix in turns 2, 7, 9")
    assert "    18,000 tokens re-billed ($0.18) in 3 turns (-v: each turn)" in lines
    text = written([falls[0], replace(falls[1], chain="agent-1"), replace(falls[2], path="b.jsonl")])
    assert "in 2 turns of 2 chains\n    a.jsonl:2\n" in text
    assert "in turn 9\n    b.jsonl:9\n" in text


@pytest.mark.parametrize(("fields", "text"), [
    ({}, "1,000 tokens re-billed ($0.0100)"),
    ({"lost_dollars": None}, "1,000 tokens re-billed"),
    ({"tokens": "estimated"}, "about 1,000 tokens re-billed ($0.0100, estimated)"),
    ({"is_break": False}, "1,000 tokens could have been read from a cache ($0.0100)"),
])  # fmt: skip
def test_loss_shows_certainty_cost_and_kind(fields, text):
    assert format_loss(replace(moved(2), **fields)) == text


def test_fix_that_only_records_is_headed_as_a_search():
    possible = finding("LORE117", Place("a.jsonl"), ProviderSaid("messages_changed"), kind="unattributable")
    assert format_fix(possible)[0] == "to find the cause"
    assert format_fix(moved(2))[0] == "fix (agent author)"
    assert format_fix(finding("LORE130", Place("a.jsonl"), ReadFell(900, 1_000, 100)))[0] == "what you can do"


LENGTHS = PromptLengths(1_000, 1_100, 1_000, 4, 0, 1_000)
FULL_READ = UsageResult(uncached_tokens=2, read_tokens=500, write_tokens=10, output_tokens=5)


def pair(turn, relation="extension", causes=(), fidelity="wire", lacks=""):
    sides = [DiffSide(f"s.jsonl#main:{n}", "bodies", "anthropic", "m", fidelity, lacks=lacks) for n in (turn - 1, turn)]
    return DiffResult(
        left=sides[0], right=sides[1], file=None, prompt=LENGTHS, relation=relation, divergence=None, reuse_ratio=1.0,
        causes=[cause_result(cause) for cause in causes], caches=[], billed=FULL_READ, verdict=None, problems=[],
        chain="main", turn=turn,
    )  # fmt: skip


def compared(*pairs, every=False):
    out = io.StringIO()
    writer = DiffWriter(Console(out, colour=False, terminal=False), every=every)
    for diff in pairs:
        writer.write(diff)
    writer.finish()
    return out.getvalue()


def test_continuing_pairs_are_counted_without_all():
    pairs = [pair(2), pair(3, "diverged"), pair(4, causes=[moved(4)]), pair(5)]
    text = compared(*pairs)
    assert [f"turn {turn - 1} → turn {turn}" in text for turn in (2, 3, 4, 5)] == [False, True, True, False]
    assert text.endswith("2 of 4 pairs without a difference or loss (--all shows every pair)\n")
    every = compared(*pairs, every=True)
    assert all(f"turn {turn - 1} → turn {turn}" in every for turn in (2, 3, 4, 5))
    assert "--all" not in every


@pytest.mark.parametrize("side", [{"fidelity": "reconstructed"}, {"lacks": "the system prompt"}])
@pytest.mark.parametrize("code", ["LORE301", "LORE128", "LORE158"])
def test_rebuilt_prompt_with_lost_read_begins_with_usage(side, code):
    """The first line was "all bytes unchanged"; a cause that contradicted it followed."""
    text = compared(pair(2, causes=[replace(moved(2), code=code)], **side))
    rows = [line.split()[0] for line in text.splitlines()[1:] if line[2:3].strip()]
    assert rows == ["usage", "cause", "prefix"]
    assert "  prefix     unchanged as far as it is recorded (1,000 bytes)" in text


def test_session_names_its_recording_once_and_sums_losses():
    text = compared(pair(2, causes=[moved(2)]), pair(3), pair(4, causes=[moved(4)]))
    assert text.count("s.jsonl") == text.count("fix (agent author)") == 1
    assert "\nre-billed: 2,000 tokens ($0.0200) in 2 turns\n" in text


@pytest.mark.parametrize(("folder", "shown"), [
    ("", "~/.claude/a.jsonl:3"),  # above the home folder
    ("ann", "~/.claude/a.jsonl:3"),
    ("ann/.claude", "a.jsonl:3"),
    ("ann/app", "~/.claude/a.jsonl:3"),
])  # fmt: skip
def test_place_below_home_is_shortened_in_one_way(tmp_path, monkeypatch, folder, shown):
    home = tmp_path / "ann"
    for name in ("app", ".claude"):
        (home / name).mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path / folder)
    assert place_of(str(home / ".claude/a.jsonl"), 3) == shown
