"""Rows of a ledger. That their sums are those of `simulate` is in `tests/laws/test_law_11_same_sums.py`."""

import pytest
from msgspec.structs import replace

from helpers.each import each
from lore.judge.base import TurnVerdict
from lore.judge.sums import CauseSums, Copies, LedgerRequest, make_row, names_in
from lore.model.differences import ParameterChanged, TextChanged, ToolsChanged
from lore.model.events import Usage
from lore.model.evidence import HookText, ModelChanged, Paused, RoutedElsewhere
from lore.model.ledger import LedgerRow, Loss
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run.rules import packaged
from lore.run.spending.ledgers import Ledgers
from model import making


@each("evidence, names", [
    (HookText(2, ("PostToolUse:Edit", "Stop")), ("PostToolUse:Edit", "Stop")),
    (ModelChanged("a", None), ("a",)),
    (ModelChanged("a", "b"), ("a", "b")),
    (Paused(900.0, 300.0), ()),
    (RoutedElsewhere(provider_before="x", provider_after="y"), ("y",)),
    (ToolsChanged(added=("a", "b", "c", "d"), servers=("github",)), ("github",)),
    (ToolsChanged(added=("a", "b", "c", "d")), ("a", "b", "c")),
    (TextChanged("messages[7].content[0]", "", "x", "y"), ("messages[].content[0]",)),
    (ParameterChanged("effort", "low", "high", "effort", "claude", "messages"), ("effort",)),
])  # fmt: skip
def test_names_in_evidence_are_short_and_lasting(evidence, names):
    assert names_in(evidence) == names


def test_unrecognised_file_has_no_ledger(tmp_path):
    (tmp_path / "words.txt").write_text("words")
    assert Ledgers(Options()).make(inputs([str(tmp_path)])[0]) is None
    problem = Ledgers(Options()).make(inputs([str(tmp_path / "words.txt")])[0])
    assert problem is not None
    assert problem.message


def row_with(**fields):
    return LedgerRow(
        "main", 1, 3, None, None, "", "", "", 9, 9, 0, 0, 1, billed=True, spent=None, appended=None, compacted=False,
        **fields,
    )  # fmt: skip


def test_causes_count_every_cache_break_that_check_counts():
    sums, place = CauseSums(), {"session": "s", "agent": "a", "project": "p", "subagent": False, "at": None}
    for loss in (Loss("LORE125", "expected", 500), Loss("LORE125", "expected", 0), Loss("LORE128", "expected", 0)):
        sums.add(LedgerRequest(row_with(loss=loss), **place))
    assert [(cause.code, cause.turns) for cause in sums.results("user", unsure=False)] == [("LORE125", 2)]


@pytest.mark.parametrize(("response_id", "count"), [("msg_1", 1), ("line-3", 0), ("line-3.120", 0), ("", 0)])
def test_only_lasting_ids_make_copies(response_id, count):
    row = replace(row_with(loss=None), response_id=response_id)
    copies = Copies()
    assert [copies.has(row, name) for name in ("a.jsonl", "a.jsonl", "b.jsonl")] == [False, False, bool(count)]
    assert copies.count == count


@pytest.mark.parametrize(("lacking", "expected"), [
    ({"output_tokens": None}, ["output"]),
    ({"read_tokens": None}, ["prompt"]),
    ({"write_tokens": None}, ["writes"]),
    ({"server_tools": (("unknown_tool", 1),)}, ["price"]),
    ({"output_tokens": None, "write_tokens": None}, ["output", "writes"]),
    ({}, []),
])  # fmt: skip
def test_row_names_what_its_cost_leaves_out(lacking, expected):
    usage = Usage(**{"uncached_tokens": 9, "read_tokens": 9, "write_tokens": 9, "output_tokens": 9, **lacking})
    turn = making.turn(making.parsed({**making.body("hi"), "model": "claude-opus-4-5"}), usage=usage)
    assert list(make_row(TurnVerdict(turn), packaged()).unknown) == expected
