"""Responses of several passes: the first that answered met what stood in the cache, the last is gone on from.

Anthropic's `usage.iterations`: each pass of a model within one response. What it read of the passes before it, in the
same response, says nothing of what was lost since the turn before.
"""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from judge.captures import asks, call, judged, text, told, usage
from lore.cache.counts import first_pass_read
from lore.cache.prices import Price
from lore.judge.base import paid_again
from lore.judge.what_if import read_more
from lore.model.events import Usage

FALLBACK = "claude-sonnet-4-6"


def passed(kind, read, write, **fields):
    return {**usage(read, write), "type": kind, **fields}


def of_passes(*passes):
    """A bill whose counts beside its passes are those of the last one."""
    last = {key: value for key, value in passes[-1].items() if key not in ("type", "model")}
    return {**last, "iterations": list(passes)}


def two(folder, *bills, **fields):
    """Judge two requests, the second of which extends the first, and a third where there is a bill for it."""
    words = [text("user", "Begin."), text("assistant", "done"), text("user", "Go on."), text("assistant", "done"),
             text("user", "And now?")]  # fmt: skip
    calls = [call(30.0 * at, asks(*words[: 2 * at + 1], **fields), one) for at, one in enumerate(bills)]
    found, _ = judged(folder, *calls)
    return found


def test_what_the_first_pass_did_not_find_is_lost(tmp_path):
    _, broke, fine = two(
        tmp_path, usage(0, 6_000), of_passes(passed("message", 0, 6_500), passed("message", 6_500, 1_000)),
        usage(7_500, 300),
    )  # fmt: skip
    assert (told(broke), broke.lost_tokens) == (["LORE301"], 6_000)
    assert (told(fine), fine.lost_tokens) == ([], 0), "the last pass left 7,500 tokens"


def test_what_the_first_pass_found_is_not_lost_though_the_last_one_reads_another_count(tmp_path):
    _, fine = two(tmp_path, usage(0, 6_000), of_passes(passed("message", 6_000, 500), passed("message", 6_500, 1_000)))
    assert (told(fine), fine.lost_tokens) == ([], 0)


def test_a_pass_that_sums_up_meets_nothing_for_the_answer():
    summary, own = Usage(9, 180_000, 0, 1, kind="compaction"), Usage(1, 20_000, 500)
    assert first_pass_read(replace(own, iterations=(summary,))) == 20_000
    assert first_pass_read(replace(own, iterations=(summary, Usage(1, 19_000, 1_000, kind="message")))) == 19_000
    assert first_pass_read(None) is None


@pytest.mark.parametrize("kinds", [("fallback_message",), ("message", "fallback_message")])
def test_a_fallback_that_answers_is_another_model(kinds, tmp_path):
    passes = [passed(kind, 0, 6_500, model=FALLBACK if kind != "message" else "claude-opus-5") for kind in kinds]
    passes[0]["output_tokens"] = 0 if len(passes) > 1 else 20
    _, broke, back = two(tmp_path, usage(0, 6_000), of_passes(*passes), usage(6_000, 900))
    assert (told(broke), broke.lost_tokens) == (["LORE119"], 6_000)
    assert told(back) == [], "500 tokens are within what needs no cause"


def test_an_answer_of_the_model_that_was_asked_is_no_change_of_model(tmp_path):
    _, broke = two(tmp_path, usage(0, 6_000), of_passes(passed("message", 0, 6_500), passed("message", 6_500, 10)))
    assert told(broke) == ["LORE301"]
    assert "model" in [reason.reason for reason in broke.causes[0].ruled_out if reason.out]


def test_what_is_read_again_in_a_play_is_read_by_the_first_pass():
    first = Usage(2, 0, 31_500, 50, 0, 31_500, kind="message")
    paid = Usage(2, 31_500, 1_000, 50, 0, 1_000, iterations=(first,))
    other = read_more(paid, 31_000)
    assert (other.read_tokens, other.write_1h_tokens) == (31_500, 1_000)
    assert (other.first_pass.read_tokens, other.first_pass.write_1h_tokens) == (31_000, 500)
    price = Price(*map(Decimal, (5, "0.5", "6.25", "6.25", 10, 25)))
    assert paid_again(price, paid, 31_000) == pytest.approx(31_000 * 9.5 / 1e6)
