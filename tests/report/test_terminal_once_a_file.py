"""Unexplained falls of one file are shown once, with their number, their tokens and the worst turns."""

from __future__ import annotations

from lore.judge.base import finding
from lore.model.cause import Place, RuledOut
from lore.model.evidence import ReadFell, Told
from lore.report.forms.terminal import once_a_file


def fell(turn, lost, path="a.jsonl", code="LORE130", **fields):
    reasons = fields.pop("ruled_out", (RuledOut("expiry", out=True, seconds=float(turn)), RuledOut("system", None)))
    return finding(
        code, Place(path), ReadFell(lost, 50_000, 50_000 - lost), turn=turn, line=turn * 10, chain="main",
        lost_tokens=lost, lost_dollars=lost / 1e6, tokens="recorded", ruled_out=reasons, **fields,
    )  # fmt: skip


def test_unexplained_losses_of_a_file_are_grouped():
    (one,) = once_a_file([fell(2, 3_000), fell(7, 9_000), fell(9, 4_000), fell(11, 1_500)])
    assert (one.turn, one.line, one.times, one.lost_tokens) == (None, None, 4, 17_500)
    assert round(one.lost_dollars, 6) == 0.0175
    assert one.message.startswith("the billed read fell in 4 turns though the conversation continued; most in turn 7 "
                                  "(line 70): 9,000 tokens, turn 9 (line 90): 4,000 tokens, turn 2 ")  # fmt: skip
    assert "turn 11" not in one.message
    assert one.message.endswith("ruled out in each: expiry; not recorded: system; each turn: -v")


def test_single_loss_or_other_code_is_not_grouped():
    alone = [fell(2, 3_000), fell(2, 3_000, "b.jsonl"), fell(3, 2_000, code="LORE301")]
    causes = [finding("LORE117", Place("a.jsonl"), Told("rewritten"), turn=turn) for turn in (4, 5)]
    assert once_a_file([*alone, *causes]) == [*alone, *causes]


def test_group_lists_only_reasons_ruled_out_everywhere():
    (one,) = once_a_file([fell(2, 3_000), fell(7, 9_000, ruled_out=(RuledOut("expiry", None, seconds=7.0),))])
    assert "ruled out" not in one.message
