"""`lore check --follow`: findings as soon as their turn is whole, sums at the end."""

from __future__ import annotations

import pytest

from helpers.waiting import Script, add
from lore.judge.policy import Budgets
from lore.model.results import CheckResult
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.run.checking.verdicts import CheckContext
from lore.run.checking.watch import follow_check
from model.making import assistant, body, dumps

WASTE = [dumps(body("one", assistant("two"), system=f"Today is 2026-01-0{n}.")) + b"\n" for n in range(1, 5)]


def judged(path, *actions, budgets=None, heard=None):
    say = (heard if heard is not None else []).append
    found = list(follow_check(str(path), CheckContext(budgets=budgets or Budgets()), say, wait=Script(*actions)))
    return [one for one in found if one is not None]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def test_the_findings_and_sums_are_those_of_a_cold_run(log):
    log.write_bytes(WASTE[0])
    budgets = Budgets(max_breaks=0, min_reuse=0.5)
    *findings, last = judged(log, *[add(log, one) for one in WASTE[1:]], budgets=budgets)
    cold = check([str(log)], budgets, Options()).result
    assert findings == cold.findings
    assert last == CheckResult(summary=cold.summary, top=cold.top, findings=[], problems=cold.problems)
