"""What a status line says without judging is what judging says, at each answer of a log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from formats.claude import answered, asked, counts, joined, text
from lore.errors import LoreError
from lore.formats.claude.answers import FORMAT, answers
from lore.judge.ledger import RunningSums
from lore.model.cause import Place
from lore.model.running import Running, gone_on
from lore.recording.opening import Options
from lore.run.checking.verdicts import verdicts
from lore.run.dated import PACKAGED

FIXTURES = Path(__file__).parents[2] / "fixtures" / "claude-code"


def steps(path):
    """Yield what a log came to after each answer, and where the lines of that answer begin."""
    recording = Options().open(str(path))
    if recording.reader.name != FORMAT:
        return
    sums = RunningSums(PACKAGED.rules, lambda cause: cause)
    for verdict, _ in verdicts(recording, PACKAGED.judge(quick=True), Place("")):
        if verdict is not None:
            sums.take(verdict, "user")
            yield verdict.turn.byte, sums.result(FORMAT, "")


def differences(path):
    """Count the answers that went on, and return those that came to something else than judging says.

    Chains that are written side by side are judged in another order than they stand: those places are left out.
    """
    data, every = Path(path).read_bytes(), list(steps(path))
    went_on, wrong = 0, []
    for number, ((earlier, before), (begin, after)) in enumerate(zip(every, every[1:], strict=False)):
        end = every[number + 2][0] if number + 2 < len(every) else len(data)
        if not earlier < begin < end:
            continue
        found = answers(data[begin:end])
        running = None if found is None else gone_on(before, found)
        went_on += running is not None
        if running is not None and running != after:
            wrong.append((number, running, after))
    return went_on, wrong


@pytest.mark.parametrize("path", sorted(FIXTURES.rglob("*.jsonl")), ids=lambda path: path.name)
def test_fixtures_go_on_as_they_are_judged(path):
    assert differences(path)[1] == []


def test_recordings_go_on_as_they_are_judged(recording):
    try:
        went_on, wrong = differences(recording)
    except LoreError:
        pytest.skip("no recording")
    assert wrong == []
    assert went_on or len(list(steps(recording))) < 200


def turns(*bills, model="claude-opus-5"):
    made = []
    for number, bill in enumerate(bills):
        time = f"2026-01-01T00:{number:02}:00Z"
        made += [
            asked(f"u{number}", "q", f"a{number - 1}" if number else None, timestamp=time),
            answered(f"a{number}", f"m{number}", text("yes"), f"u{number}", usage=counts(*bill), timestamp=time,
                     model=model),
        ]  # fmt: skip
    return made


STOOD = Running(FORMAT, model="claude-opus-5", stood=1100, response="m0", requests=1, turn=1, lifetime=300.0)


def test_an_answer_that_read_all_goes_on():
    went = gone_on(STOOD, answers(joined(*turns((5, 0, 1100, 1), (5, 1100, 200, 9)))[0:]))
    assert went == STOOD._replace(
        turn=2, requests=2, response="m1", prompt_tokens=1305, read_tokens=1100, stood=1300, used_at=1767225660.0,
        lifetime=300.0, billed=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "lines",
    [
        turns((5, 0, 1100, 1), (5, 1099, 200, 9)),
        turns((5, 0, 1100, 1), (5, 1100, 200, 9), model="claude-haiku-5"),
        [{**line, "isSidechain": True} for line in turns((5, 1100, 200, 9))],
        [answered("a", "m9", text("no"), model="<synthetic>", usage=counts(0, 0, 0, 0))],
        [answered("a", "m9", text("no"), usage={**counts(5, 1100, 9, 1), "iterations": [{}]})],
        [answered("a", "m9", text("no"), usage={**counts(5, 1100, 9, 1), "server_tool_use": {"web": 1}})],
        [answered("a", "m9", text("no"), usage={**counts(5, 1100, 9, 1), "cache_read_input_tokens": True})],
        [answered("a", "m9", text("no"), usage={**counts(5, 1100, 9, 1), "input_tokens": -1})],
        [answered("a", "m9", text("no"), usage={**counts(5, 1100, 9, 1), "input_tokens": "9"})],
        [answered("a", "m9", text("no"), usage=counts(5, 10**400, 9, 1))],
        [answered("a", "m9", text("no"), usage=counts(5, 1100, 9, 1), timestamp="0001-01-01T00:00:00+23:59")],
        [answered("a", "m9", text("no"), usage=counts(5, 1100, 9, 1), timestamp="2026-01-01T00:00:00")],
        [answered("a", "m9", text("no"))],
        [{"type": "system", "subtype": "compact_boundary"}],
    ],
    ids=[
        "fell",
        "model",
        "sidechain",
        "synthetic",
        "passes",
        "tools",
        "flag",
        "negative",
        "text",
        "huge",
        "early",
        "zoneless",
        "unbilled",
        "boundary",
    ],
)
def test_what_is_not_plain_is_left_to_the_judge(lines):
    found = answers(joined(*lines))
    assert found is None or gone_on(STOOD, found) is None


@pytest.mark.parametrize(
    "data", [b'{"type":"assistant"\n', b"not json\n", b'["usage"]\n[' + b"[" * 99_999 + b'"usage"\n']
)
def test_damage_is_left_to_the_judge(data):
    assert answers(data) is None


def test_text_that_speaks_of_usage_is_no_answer():
    said = json.dumps(asked("u", 'the "usage" of "assistant"', "a")).encode()
    assert answers(said + b"\n") == []
