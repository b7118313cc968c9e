"""Rows of a ledger: what a request cost, split so that nothing is counted twice, as `simulate` counts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lore.judge.sums import Copies, named_by
from lore.model.differences import ParameterChanged, TextChanged, ToolsChanged
from lore.model.evidence import HookText, ModelChanged, Paused, RoutedElsewhere
from lore.model.ledger import LedgerRow
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run.dated import PACKAGED
from lore.run.simulate import SimulateRequest, simulate
from lore.run.spending.ledgers import Ledgers

FIXTURES = sorted(
    str(path)
    for folder in ("recordings", "causes", "claude-code", "captures")
    for path in (Path(__file__).parents[2] / "fixtures" / folder).rglob("*")
    if path.suffix in (".jsonl", ".json", ".yaml", ".har") and path.is_file()
)


def requests(path):
    """Return every row of a recording and of its subagents' files; no rows if it is unreadable."""
    made = [Ledgers(Options()).made(file) for file in inputs([str(path)])]
    if any(ledger is None or ledger.message is not None for ledger in made):
        return []
    return [row for ledger in made for row in ledger.rows]


def played(path):
    (result,) = simulate(SimulateRequest([str(path)]), Options(), PACKAGED.rules())
    return result


def holds(path):
    """Sums of a ledger are those of `simulate`: two ways to count the same bills."""
    every = requests(path)
    if not every:
        return 0
    result = played(path)
    rows = [row for row in every if row.spent is not None]
    totals = result.totals
    assert len(every) >= totals.turns
    if len(every) != totals.turns:  # a file that holds a response twice: simulate counts it once
        return 0
    if totals.cost.billed is not None:
        assert sum(row.spent.total for row in rows) == pytest.approx(totals.cost.billed, abs=1e-5)
    assert sum(row.loss.tokens for row in rows if row.loss and row.loss.kind == "waste") <= totals.waste_tokens
    for row in rows:
        assert min(row.spent.reading, row.spent.context, row.spent.output, row.spent.tools, row.spent.again) >= -1e-9
    for row, turn in zip(every, result.turns, strict=True):
        if row.spent is not None and row.loss is not None and row.loss.kind == "waste":
            assert row.spent.again <= (turn.cost.waste or 0.0) + 1e-6
    return len(rows)


def test_ledger_sums_equal_those_of_simulate():
    assert sum(map(holds, FIXTURES[::3])) > 20  # every sum of each: `tests/laws/test_law_11_same_sums.py`


@pytest.mark.parametrize(
    ("evidence", "names"),
    [
        (HookText(2, ("PostToolUse:Edit", "Stop")), ("PostToolUse:Edit", "Stop")),
        (ModelChanged("a", None), ("a",)),
        (ModelChanged("a", "b"), ("a", "b")),
        (Paused(900.0, 300.0), ()),
        (RoutedElsewhere(provider_before="x", provider_after="y"), ("y",)),
        (ToolsChanged(added=("a", "b", "c", "d"), servers=("github",)), ("github",)),
        (ToolsChanged(added=("a", "b", "c", "d")), ("a", "b", "c")),
        (TextChanged("messages[7].content[0]", "", "x", "y"), ("messages[].content[0]",)),
        (ParameterChanged("effort", "low", "high", "effort", "claude", "messages"), ("effort",)),
    ],
)
def test_names_in_evidence_are_short_and_lasting(evidence, names):
    assert named_by(evidence) == names


def test_unrecognised_file_has_no_ledger(tmp_path):
    (tmp_path / "words.txt").write_text("words")
    assert Ledgers(Options()).made(inputs([str(tmp_path)])[0]) is None
    named = Ledgers(Options()).made(inputs([str(tmp_path / "words.txt")])[0])
    assert named is not None
    assert named.message


@pytest.mark.parametrize(("response_id", "count"), [("msg_1", 1), ("line-3", 0), ("line-3.120", 0), ("", 0)])
def test_only_lasting_ids_make_copies(response_id, count):
    row = LedgerRow(
        "main", 1, 3, None, None, "", "", response_id, 9, 9, 0, 0, 1, billed=True, spent=None, loss=None,
        appended=None, compacted=False,
    )  # fmt: skip
    copies = Copies()
    assert [copies.has(row, name) for name in ("a.jsonl", "a.jsonl", "b.jsonl")] == [False, False, bool(count)]
    assert copies.count == count
