"""Every cause that is put into a stable capture is named: its code, its kind, its turn, its place, its cost."""

from __future__ import annotations

import pytest

from faults.catalogue import FAULTS, Case, singles
from faults.saying import blamed, named, placed, table
from faults.serving import judged
from lore.model.results import Finding

CODES = sorted({one.code for one in FAULTS})


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> list[tuple[Case, list[Finding]]]:
    cases = singles()
    return list(zip(cases, judged([one.capture for one in cases], tmp_path_factory.mktemp("faults")), strict=True))


def _of(said, code):
    mine = [(case, findings) for case, findings in said if case.faults[0].code == code]
    assert mine, "no capture has a place for it"
    return mine


def test_there_are_hundreds_of_faults_in_every_dialect(said):
    assert len(said) >= 400
    for dialect in ("anthropic", "openai-chat", "openai-responses", "gemini", "bedrock"):
        assert sum(case.capture.dialect == dialect for case, _ in said) >= 40


@pytest.mark.parametrize("code", CODES)
def test_a_single_cause_is_named(said, code):
    missed = [one for case, findings in _of(said, code) for one in named(case, findings)]
    assert not missed, table(missed, len(_of(said, code)))


@pytest.mark.parametrize("code", CODES)
def test_nothing_else_is_blamed(said, code):
    missed = [one for case, findings in _of(said, code) for one in blamed(case, findings)]
    assert not missed, table(missed, len(_of(said, code)))


@pytest.mark.parametrize("code", CODES)
def test_a_single_cause_is_placed_and_costs_what_stands_behind_it(said, code):
    missed = [one for case, findings in _of(said, code) for one in placed(case, findings)]
    assert not missed, table(missed, len(_of(said, code)))
