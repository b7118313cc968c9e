"""Responses of several passes: the first pass that answered shows the cache hit, the last is continued.

Anthropic's `usage.iterations`: each pass of a model within one response. Reads of an earlier pass's
writes, in the same response, do not show a loss since the previous turn.
"""

from decimal import Decimal

import pytest
from msgspec.structs import replace

from judge.captures import asks, break_codes, call, judged, text, usage
from lore.cache.counts import first_pass_read
from lore.cache.rules import Price
from lore.judge.prices import paid_again
from lore.judge.what_if import read_more
from lore.model.events import Usage

FALLBACK = "claude-sonnet-4-6"


def passed(kind, read, write, **fields):
    return {**usage(read, write), "type": kind, **fields}


def of_passes(*passes):
    """Return a usage whose own counts are those of its last pass."""
    last = {key: value for key, value in passes[-1].items() if key not in ("type", "model")}
    return {**last, "iterations": list(passes)}


def two(folder, *bills, **fields):
    """Judge one request for each usage, each extending the previous one."""
    words = [text("user", "Begin."), text("assistant", "done"), text("user", "Go on."), text("assistant", "done"),
             text("user", "And now?")]  # fmt: skip
    calls = [call(30.0 * at, asks(*words[: 2 * at + 1], **fields), usage) for at, usage in enumerate(bills)]
    verdicts, _ = judged(folder, *calls)
    return verdicts


def test_prefix_unread_by_first_pass_is_lost(tmp_path):
    _, broke, fine = two(
        tmp_path, usage(0, 6_000), of_passes(passed("message", 0, 6_500), passed("message", 6_500, 1_000)),
        usage(7_500, 300),
    )  # fmt: skip
    assert (break_codes(broke), broke.lost_tokens) == (["LORE301"], 6_000)
    assert (break_codes(fine), fine.lost_tokens) == ([], 0), "the last pass left 7,500 tokens"


def test_prefix_read_by_first_pass_is_not_lost(tmp_path):
    _, fine = two(tmp_path, usage(0, 6_000), of_passes(passed("message", 6_000, 500), passed("message", 6_500, 1_000)))
    assert (break_codes(fine), fine.lost_tokens) == ([], 0)


def test_compaction_pass_is_not_the_first_pass():
    summary, response_usage = Usage(9, 180_000, 0, 1, kind="compaction"), Usage(1, 20_000, 500)
    assert first_pass_read(replace(response_usage, iterations=(summary,))) == 20_000
    assert (
        first_pass_read(replace(response_usage, iterations=(summary, Usage(1, 19_000, 1_000, kind="message"))))
        == 19_000
    )
    assert first_pass_read(None) is None


@pytest.mark.parametrize("kinds", [("fallback_message",), ("message", "fallback_message")])
def test_answering_fallback_is_another_model(kinds, tmp_path):
    passes = [passed(kind, 0, 6_500, model=FALLBACK if kind != "message" else "claude-opus-5") for kind in kinds]
    passes[0]["output_tokens"] = 0 if len(passes) > 1 else 20
    _, broke, back = two(tmp_path, usage(0, 6_000), of_passes(*passes), usage(6_000, 900))
    assert (break_codes(broke), broke.lost_tokens) == (["LORE119"], 6_000)
    assert break_codes(back) == [], "500 tokens are within what needs no cause"


def test_answer_of_requested_model_is_no_model_change(tmp_path):
    _, broke = two(tmp_path, usage(0, 6_000), of_passes(passed("message", 0, 6_500), passed("message", 6_500, 10)))
    assert break_codes(broke) == ["LORE301"]
    assert "model" in [reason.reason for reason in broke.causes[0].ruled_out if reason.out]


def test_what_if_adds_reads_to_the_first_pass():
    first = Usage(2, 0, 31_500, 50, 0, 31_500, kind="message")
    paid = Usage(2, 31_500, 1_000, 50, 0, 1_000, iterations=(first,))
    other = read_more(paid, 31_000)
    assert (other.read_tokens, other.write_1h_tokens) == (31_500, 1_000)
    assert (other.first_pass.read_tokens, other.first_pass.write_1h_tokens) == (31_000, 500)
    price = Price(*map(Decimal, (5, "0.5", "6.25", "6.25", 10, 25)))
    assert paid_again(price, paid, 31_000) == pytest.approx(31_000 * 9.5 / 1e6)
