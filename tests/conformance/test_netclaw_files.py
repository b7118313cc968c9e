"""netclaw's own files: the chat bodies that it sends, recorded at each step of its history (facts 3.1, 3.2), with the
verdict that each step deserves. Each was a regression of the one before.
"""

from __future__ import annotations

from typing import Any

import pytest

from cli.running import lore, put
from helpers.strategies import netclaw
from helpers.strategies.netclaw import Place

PLACES: tuple[Place, ...] = ("leading", "merged", "user", "system", "prepended", "nudge", "nudge behind")
WASTEFUL: tuple[Place, ...] = ("leading", "merged", "prepended")
KEEPING: tuple[Place, ...] = ("user", "system", "nudge", "nudge behind")

pytestmark = pytest.mark.usefixtures("desk")


def judged(place: Place, **more: Any) -> Any:
    """What `lore check` says of a talk."""
    put("talk.jsonl", netclaw.recording(place, **more))
    return lore("check", "talk.jsonl", "--json").lines[0]


def pairs(place: Place, **more: Any) -> list[Any]:
    """What `lore diff-prefix` says of its successive requests."""
    put("talk.jsonl", netclaw.recording(place, **more))
    return lore("diff-prefix", "talk.jsonl", "--json").lines


def names(found: Any, kind: str | None = None) -> list[str]:
    """The names of findings, of this kind."""
    return [one["name"] for one in found["findings"] if kind in (None, one["kind"])]


@pytest.mark.parametrize("place", PLACES)
def test_a_recording_is_one_chain_of_requests_in_openais_shape(place):
    found = pairs(place)
    assert [(one["chain"], one["turn"]) for one in found] == [("main", turn) for turn in (2, 3, 4, 5)]
    assert {one["right"]["dialect"] for one in found} == {"openai-chat"}
    sums = judged(place)["summary"]
    assert (sums["chains"], sums["turns"], sums["problems"]) == (1, 5, 0)


def test_both_leading_system_messages_are_the_system_part():
    """3.2: [0] the persisted prompt, [1] the static block."""
    put("talk.jsonl", netclaw.recording("leading"))
    first = lore("diff-prefix", "talk.jsonl", "--json").lines[0]
    assert (first["divergence"]["section"], first["divergence"]["path"]) == ("system", "messages[1].content")


# 3.1, step by step


@pytest.mark.parametrize(("place", "path"), [("leading", "messages[1].content"), ("merged", "messages[0].content")])
def test_volatile_context_in_the_leading_area_pays_again_in_every_turn(place, path):
    """#608, and #1171: a step that merged all system messages into the leading one."""
    found = judged(place)
    assert set(names(found, "waste")) == {"date-in-prefix", "prefix-moved"}
    assert {one["json_path"] for one in found["findings"]} == {path}
    assert names(found, "unattributable") == ["volatile-before-history"]
    assert found["summary"]["breaks"] >= 3
    assert lore("check", "talk.jsonl").code == 1


def test_a_user_tail_is_replaced_and_reads_as_a_new_users_turn_in_a_loop():
    """#618: the end is replaced, as expected; behind a tool's result nobody wrote it (the "You're right…" spin)."""
    found = judged("user")
    assert names(found, "expected") == ["tail-replaced"] * 4
    assert names(found, "unattributable") == ["text-after-tool-result"]
    assert (found["summary"]["waste"], found["summary"]["breaks"]) == (0, 0)


def test_a_system_tail_is_replaced_and_is_nobodys_turn():
    """#634."""
    found = judged("system")
    assert names(found) == ["tail-replaced"] * 4
    assert lore("check", "talk.jsonl").code == 0


def test_context_put_before_the_users_text_is_gone_in_the_next_turn():
    """#1176: what was wrapped around the last user's message vanishes, and all behind it is paid again."""
    found = judged("prepended")
    assert {"reminder-moved", "date-in-prefix"} <= set(names(found, "waste"))
    assert found["summary"]["breaks"] >= 2


def test_a_nudge_that_was_persisted_costs_nothing():
    """#1178, #1218: written into history before the user's message, at the beginning of the turn."""
    found = judged("nudge")
    assert names(found) == []
    assert lore("check", "talk.jsonl").code == 0


@pytest.mark.parametrize("place", KEEPING)
def test_prompts_extend_each_other_up_to_their_tail(place):
    """3.3: the longest common prefix holds the whole history."""
    found = pairs(place)
    assert [one["relation"] for one in found] == ["extension"] * 4
    assert [one["reuse_ratio"] for one in found] == [1.0] * 4


@pytest.mark.parametrize("place", WASTEFUL)
def test_prompts_part_inside_what_was_sent(place):
    assert "diverged" in {one["relation"] for one in pairs(place)}


def test_each_step_reads_more_than_the_one_before():
    """Hit rates rose from 61.8 and 75 to 93 and 94 %: an oracle of counters, not of texts (law 12)."""
    rates: dict[Place, float] = {}
    for place in ("leading", "prepended", "system", "nudge"):
        put("talk.jsonl", netclaw.recording(place))
        totals = lore("simulate", "talk.jsonl", "--json").lines[0]["totals"]["billed"]
        rates[place] = totals["read_tokens"] / (totals["read_tokens"] + totals["uncached_tokens"])
    assert rates["leading"] < rates["prepended"] < rates["system"] < rates["nudge"]


# 3.2: oddities


def test_layers_of_the_start_break_the_prefix_once():
    """3.3: the known divergence of [1] between turns 1 and 2."""
    found = judged("nudge", startup=True)
    assert [(one["turn"], one["section"]) for one in found["findings"]] == [(2, "system")]
    assert found["summary"]["breaks"] == 1


def test_a_media_notice_before_the_system_prompt_moves_everything():
    """The notice is inserted at index 0 as a user's message: the conversation stays one, and the loss is named."""
    found = judged("nudge", media=True)
    assert found["summary"]["chains"] == 1
    assert [(one["turn"], one["kind"]) for one in found["findings"]] == [(3, "waste"), (4, "waste")]
    assert all(one["lost_tokens"] > 500 for one in found["findings"])
