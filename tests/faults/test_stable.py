"""Stable captures, changes of breakpoints alone and expected causes give no waste at all."""

import pytest

from faults.bodies import DIALECTS
from faults.expected import EXPECTED, happening
from faults.faults import Nowhere
from faults.inject_call import beside_results, frozen, own_id
from faults.saying import Missed, table
from faults.serving import judged, stable, waste


@pytest.mark.parametrize("dialect", DIALECTS)
def test_stable_capture_has_no_waste_and_no_break(dialect, tmp_path):
    captures = [stable(dialect, seed) for seed in range(1, 7)]
    findings_by_capture = judged(captures, tmp_path)
    assert [waste(findings) for findings in findings_by_capture] == [[]] * len(captures)
    assert [
        finding.code for findings in findings_by_capture for finding in findings if finding.code.startswith("LORE10")
    ] == []


@pytest.mark.parametrize(
    "part", [pytest.param(slice(1), id="some"), pytest.param(slice(1, None), id="others", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("number", range(len(EXPECTED)), ids=[event.name for event in EXPECTED])
def test_expected_event_is_no_waste_and_named(number, part, tmp_path):
    cases = happening(number)[part]
    assert cases, "no capture has a place for it"
    judged_cases = list(zip(cases, judged([case.capture for case in cases], tmp_path), strict=True))
    missed = [Missed(case.name, line) for case, findings in judged_cases for line in waste(findings)]
    missed += [
        Missed(case.name, f"{case.code} not named, but {[(finding.code, finding.turn) for finding in findings][:5]}")
        for case, findings in judged_cases
        if case.code and case.code not in {finding.code for finding in findings}
    ]
    assert not missed, table(missed, len(judged_cases))


@pytest.mark.parametrize("inject", [pytest.param(beside_results, id="a reminder in the message of results"),
                                    pytest.param(own_id, id="the session's own id"),
                                    *(pytest.param(inject, id=name) for name, inject in frozen.items())])  # fmt: skip
def test_allowed_text_makes_no_finding(inject, tmp_path):
    captures = []
    for seed in range(1, 9):
        capture = stable("anthropic" if seed % 2 else "bedrock", seed)
        try:
            inject(capture, 3)
        except Nowhere:
            continue
        captures.append(capture)
    findings_by_capture = judged(captures, tmp_path)
    assert len(findings_by_capture) >= 4
    assert [
        finding.code for findings in findings_by_capture for finding in findings if finding.severity != "note"
    ] == []
