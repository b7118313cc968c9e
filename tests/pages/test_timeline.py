"""The timeline of a chain: areas, marks, and a bounded size."""

import re

import pytest

from lore.model.events import Usage
from lore.model.results import CauseResult, UsageResult
from lore.model.results.page import PageTurn
from lore.model.results.simulate import PredictedResult, SimulatedTurn
from lore.report.html.page import COLUMNS, HEIGHT, draw_timeline


def turn(number, read=0, written=0, uncached=0, *, cause=None, lost=0, billed=True, foreseen=None, **more):
    causes = [] if cause is None else [
        CauseResult("LORE128", "cache-expired", cause, None, None, "words", None, "strong", "user", (), (), 0, lost,
                    "recorded", "fix")
    ]  # fmt: skip
    played = SimulatedTurn(
        turn=number, chain="main", at=60.0 * number, model="m", cache="anthropic",
        predicted=PredictedResult(read_tokens=foreseen, write_tokens=0, uncached_tokens=0, confidence="rule"),
        billed=UsageResult.of(Usage(uncached, read, written, 10)) if billed else None,
        verdict=None, causes=causes, cost=None,
        lost_tokens=lost, waste_tokens=0, unexplained_tokens=0, foreseen=None, line=number, path="a",
    )  # fmt: skip
    return PageTurn(played, **more)


def heights(path):
    """Return the height of each column of an outline, in units from the ground."""
    found, height = [], 0
    for kind, number in re.findall(r"([HVhvZ])(\d*)", path):
        if kind == "V":
            height = HEIGHT - int(number)
        elif kind == "h":
            found += [height] * int(number)
    return found


def areas(*turns):
    return {style: heights(path) for style, path in draw_timeline(turns).areas}


def test_areas_are_stacked_and_as_high_as_prompt():
    drawn = areas(turn(1, 0, 50, 50), turn(2, 100, 50, 50), turn(3, 150, 0, 0))
    assert drawn == {"uncached": [50, 100, 75], "written": [25, 75, 75], "read": [0, 50, 75]}


def test_prediction_is_line_beside_usage():
    assert areas(turn(1, 100, foreseen=50), turn(2, 100, foreseen=100))["predicted"] == [50, 100]


def test_prediction_is_drawn_without_usage():
    assert areas(turn(1, billed=False, foreseen=50), turn(2, billed=False, foreseen=100)) == {"read": [50, 100]}


@pytest.mark.parametrize("turns", [COLUMNS + 1, 5_000])
def test_long_chain_is_bounded_and_loses_no_break(turns):
    chain = [turn(number, 1000, 10) for number in range(turns)]
    chain[turns // 2] = turn(turns // 2, 0, 1010, cause="waste", lost=1000)
    drawn = draw_timeline(chain)
    assert drawn.columns <= COLUMNS
    assert areas(*chain)["read"].count(0) == 1
    assert sum(len(path) for _, path in drawn.areas) < COLUMNS * 3 * 8
    assert [(mark.kind, mark.turn) for mark in drawn.marks] == [("waste", turns // 2)]


def test_mark_says_what_happened_and_where():
    chain = [
        turn(1, 0, 100), turn(2, 100, 10, pause=7200.0), turn(3, 100, 10, compacted=True),
        turn(4, 0, 110, cause="unattributable", lost=110), turn(5, 100, 10, model_before="n"),
    ]  # fmt: skip
    marks = {mark.kind: (mark.text, mark.turn, mark.place) for mark in draw_timeline(chain).marks}
    assert marks == {
        "unexplained": ("turn 4: possibly pauses longer than the cache lives: 110 tokens re-billed", 3, 70),
        "compaction": ("turn 3: compaction", 2, 50),
        "pause": ("turn 2: pause 2.0 h", 1, 30),
        "model": ("turn 5: model m, n before", 4, 90),
    }
