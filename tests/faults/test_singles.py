"""Every cause that is put into a stable capture is named: its code, its kind, its turn, its place, its cost."""

from __future__ import annotations

import pytest

from faults.catalogue import FAULTS, Case, singles
from faults.saying import blamed, named, placed, table
from faults.serving import judged
from lore.model.results import Finding


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> list[tuple[Case, list[Finding]]]:
    cases = singles()
    return list(zip(cases, judged([one.capture for one in cases], tmp_path_factory.mktemp("faults")), strict=True))


def test_every_single_cause_is_named_alone_placed_and_costs_what_stands_behind_it(said):
    """One test of all codes: judging the catalogue takes seconds, and each worker of a run would do it again."""
    assert len(said) >= 400
    for dialect in ("anthropic", "openai-chat", "openai-responses", "gemini", "bedrock"):
        assert sum(case.capture.dialect == dialect for case, _ in said) >= 40
    assert {case.faults[0].code for case, _ in said} == {fault.code for fault in FAULTS}, (
        "no capture has a place for it"
    )
    for check in (named, blamed, placed):
        missed = [found for case, findings in said for found in check(case, findings)]
        assert not missed, table(missed, len(said))
