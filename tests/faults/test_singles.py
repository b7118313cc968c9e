"""Every cause that is put into a stable capture is named: its code, its kind, its turn, its place, its cost."""

import pytest

from faults.catalogue import FAULTS, Case, sample, singles
from faults.saying import false_findings, missed_faults, place_errors, table
from faults.serving import judged
from lore.model.results import Finding


def of_each() -> list[Case]:
    """Return a case of each fault."""
    return list(filter(None, map(sample, range(len(FAULTS)))))


@pytest.mark.parametrize(
    ("cases", "least"), [pytest.param(of_each, 15, id="one of each"),
                         pytest.param(singles, 40, id="all", marks=pytest.mark.soak)],
)  # fmt: skip
def test_every_single_cause_is_named_placed_and_measured(cases, least, tmp_path):
    all_cases = cases()
    judged_cases: list[tuple[Case, list[Finding]]] = list(
        zip(all_cases, judged([case.capture for case in all_cases], tmp_path), strict=True)
    )
    for dialect in ("anthropic", "openai-chat", "openai-responses", "gemini", "bedrock"):
        assert sum(case.capture.dialect == dialect for case, _ in judged_cases) >= least
    assert {case.faults[0].code for case, _ in judged_cases} == {fault.code for fault in FAULTS}, (
        "no capture has a place for it"
    )
    for check in (missed_faults, false_findings, place_errors):
        missed = [miss for case, findings in judged_cases for miss in check(case, findings)]
        assert not missed, table(missed, len(judged_cases))
