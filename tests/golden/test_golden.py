"""Every command of `cases.txt` prints what it printed before, byte for byte. `make golden` writes anew."""

from __future__ import annotations

import pytest

from golden import cases

KNOWN = cases.cases()


@pytest.mark.parametrize("case", KNOWN, ids=[case.name for case in KNOWN])
def test_a_command_prints_what_it_printed_before(case):
    ran = cases.run(case.command)
    assert ran.exit == case.exit, ran.stderr
    assert case.expected.exists(), "no expected output yet: run `make golden`"
    assert ran.stdout == case.expected.read_bytes(), "another output: read it, then run `make golden`"


def test_every_recording_has_a_case():
    assert cases.uncovered(KNOWN) == []


def test_every_expected_output_has_a_case():
    assert sorted(cases.EXPECTED.glob("*")) == sorted(case.expected for case in KNOWN)
