"""The timeline of a chain: what is drawn and marked, whatever its length."""

from __future__ import annotations

import re

import pytest

from lore.model.events import Usage
from lore.model.results import CauseResult, UsageResult
from lore.model.results.page import PageChain, PageTurn
from lore.model.results.simulate import PredictedResult, SimulatedTurn
from lore.report.html.lanes import COLUMNS, HEIGHT, lane_of


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


def lane(*turns, trials=()):
    return lane_of(PageChain("main", False, list(turns)), "0", trials)  # noqa: FBT003


def heights(path):
    """Return the height of each column of an outline, in units from the ground."""
    found, height = [], 0
    for kind, number in re.findall(r"([HVhvZ])(\d*)", path):
        if kind == "V":
            height = HEIGHT - int(number)
        elif kind == "h":
            found += [height] * int(number)
    return found


def test_areas_stand_on_one_another_and_reach_as_high_as_the_prompt():
    made = dict(lane(turn(1, 0, 50, 50), turn(2, 100, 50, 50), turn(3, 150, 0, 0)).outlines)
    assert heights(made["uncached"]) == [50, 100, 75]
    assert heights(made["written"]) == [25, 75, 75]
    assert heights(made["read"]) == [0, 50, 75]


def test_what_is_predicted_is_a_line_beside_the_bill_and_stands_for_it_where_there_is_none():
    both = lane(turn(1, 100, foreseen=50), turn(2, 100, foreseen=100))
    assert heights(dict(both.outlines)["foreseen"]) == [50, 100]
    bare = lane(turn(1, billed=False, foreseen=50), turn(2, billed=False, foreseen=100))
    assert not bare.billed
    assert [heights(path) for style, path in bare.outlines if style == "read"] == [[50, 100]]


@pytest.mark.parametrize("turns", [COLUMNS + 1, 5_000])
def test_a_long_chain_is_drawn_in_bounded_room_and_loses_no_break(turns):
    chain = [turn(number, 1000, 10) for number in range(turns)]
    chain[turns // 2] = turn(turns // 2, 0, 1010, cause="waste", lost=1000)
    made = lane(*chain)
    assert made.columns <= COLUMNS
    assert heights(dict(made.outlines)["read"]).count(0) == 1
    assert sum(len(path) for _, path in made.outlines) < COLUMNS * 3 * 8
    assert [(mark.kind, mark.number) for mark in made.marks] == [("waste", turns // 2)]


def test_a_mark_says_what_happened_and_leads_to_it():
    chain = [
        turn(1, 0, 100), turn(2, 100, 10, pause=7200.0), turn(3, 100, 10, compacted=True),
        turn(4, 0, 110, cause="unattributable", lost=110), turn(5, 100, 10, model_before="n"),
    ]  # fmt: skip
    found = {mark.kind: mark for mark in lane(*chain, trials=((3, "overflow"),)).marks}
    assert set(found) == {"pause", "compaction", "unexplained", "model", "trial"}
    assert found["pause"].text == "turn 2: after a pause of 2 h 0 min" or "2" in found["pause"].text
    assert found["unexplained"].text.startswith("turn 4: pauses longer than the cache lives (unattributable), 110")
    assert found["model"].text == "turn 5: n before, m now"
    assert [found[kind].href for kind in ("pause", "unexplained")] == ["#r0-1", "#r0-3"]
    assert [mark.place for mark in found.values()] == [pytest.approx(place) for place in (70, 50, 30, 90, 50)]
