"""The catalogue of the judge's rules: complete, without repetition, and true to the modules that it names."""

import inspect
from collections import Counter
from pathlib import Path

from lore.judge import rules
from lore.model.codes import CODES

OF_JUDGE = {code for code in CODES if code.startswith(("LORE1", "LORE3"))}


def test_every_code_of_judge_is_in_the_catalogue():
    assert {code for stage in rules.STAGES for row in stage.rows for code in row.codes} == OF_JUDGE


def test_no_stage_has_a_rule_twice():
    for stage in rules.STAGES:
        checks = [getattr(row, "ask", None) or row.find for row in stage.rows]
        assert len({repr(check) for check in checks}) == len(checks), stage.name
        assert all(count == 1 for row in stage.rows for count in Counter(row.codes).values()), stage.name


def test_every_table_of_rules_is_a_stage():
    kinds = rules.Step, rules.EvidenceRule
    tables = [value for value in vars(rules).values() if isinstance(value, tuple) and isinstance(value[0], kinds)]
    staged = [row for stage in rules.STAGES for row in stage.rows]
    assert [row for table in tables for row in table if row not in staged] == []


def test_rows_name_codes_that_their_package_reports():
    """A row with a code that its package no longer mentions is out of date."""
    for row in (row for part in (rules.BYTES, rules.CHAINS, rules.RECORDINGS) for row in part.rows):
        package = Path(inspect.getfile(row.ask)).parent
        text = "".join(path.read_text("utf-8") for path in package.glob("*.py"))
        missing = [code for code in row.codes if f"Code.{CODES[code].name.upper().replace('-', '_')}" not in text]
        assert not missing, (row.ask, missing)
