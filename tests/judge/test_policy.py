"""The policy: which findings are selected, ignored or exempted, and which count as waste."""

import pytest
from msgspec.structs import replace

from helpers.each import each
from lore.errors import LoreError
from lore.judge.findings import finding
from lore.judge.policy import BudgetEntries, Exempt, PerPath, Policy, Ruling
from lore.model.cause import Place
from lore.model.evidence import TailReplaced, Told

PLACE = Place("logs/a.jsonl")
DATE = finding("LORE101", PLACE, Told("m"), chain="agent-7", json_path="system[1].text")
GONE = finding("LORE128", PLACE, Told("m"))


def ruled(policy, finding, path="logs/a.jsonl"):
    return policy.ruling(path).decide(finding)


@each("select, ignore, out", [
    ((), (), ""),
    (("LORE101",), (), ""),
    (("lore101",), (), ""),
    (("date-in-prefix",), (), ""),
    (("LORE1",), (), ""),
    (("LORE2", "LORE3"), (), "unselected"),
    ((), ("LORE1",), "ignored"),
    ((), ("date-in-prefix",), "ignored"),
    (("LORE1",), ("LORE101",), "ignored"),
    (("LORE101",), ("LORE1",), ""),
    (("LORE101",), ("LORE101",), "ignored"),
])  # fmt: skip
def test_longest_selector_wins_and_ignore_breaks_ties(select, ignore, out):
    assert ruled(Policy(select=select, ignore=ignore), DATE).out == out


# With `select = ["LORE1"]` a budget in the same table would silently never fail.
def test_selecting_causes_does_not_switch_budgets_off():
    over = finding("LORE402", PLACE, Told("m"))
    assert ruled(Policy(select=("LORE1",)), over).out == ""
    assert ruled(Policy(select=("LORE1",), ignore=("LORE402",)), over).out == "ignored"


@each("narrowed, selector, all_of_it", [
    (Ruling(), "LORE1", True),
    (Ruling(select=("LORE1",)), "LORE101", True),
    (Ruling(select=("LORE101",)), "LORE1", False),
    (Ruling(select=("LORE101",)), "date-in-prefix", True),
    (Ruling(ignore=("LORE101",)), "LORE1", False),
    (Ruling(ignore=("LORE101",)), "LORE102", True),
])  # fmt: skip
def test_narrowed_run_covers_only_its_selection(narrowed, selector, all_of_it):
    assert narrowed.looks_for(selector) is all_of_it


def test_code_counted_as_waste_is_an_error():
    ruled_finding = ruled(Policy(count_as_waste=("cache-expired",)), GONE).finding
    assert (ruled_finding.kind, ruled_finding.severity) == ("waste", "error")
    assert ruled(Policy(count_as_waste=("LORE125",)), GONE).finding == GONE


def test_policy_uses_the_kind_of_the_finding():
    harmless = finding("LORE101", PLACE, Told("m"), kind="expected")
    assert ruled(Policy(count_as_waste=("LORE101",)), harmless).finding.severity == "error"
    assert ruled(Policy(), harmless).finding.severity == "note"


@pytest.mark.parametrize(("policy", "tokens", "severity"), [
    (Policy(), 2_000, "note"),
    (Policy(), 2_001, "warning"),
    (Policy(max_tail_tokens=50), 50, "note"),
    (Policy(max_tail_tokens=50), 51, "warning"),
    (Policy(max_tail_tokens=9_000), 9_000, "note"),
])  # fmt: skip
def test_tail_over_budget_warns_the_author(policy, tokens, severity):
    tail = finding("LORE156", PLACE, TailReplaced("messages[1]", 4 * tokens, tokens, "user"))
    ruled_finding = ruled(policy, tail).finding
    assert (ruled_finding.kind, ruled_finding.severity) == ("expected", severity)
    assert ruled_finding.actor == ("author" if severity == "warning" else tail.actor)


def test_settings_of_a_path_apply_there_only():
    policy = Policy(ignore=("LORE2",), per_path=(PerPath(path="logs/old/**", ignore=("LORE101",)),))
    assert ruled(policy, DATE, "logs/old/a.jsonl").out == "ignored"
    assert ruled(policy, DATE, "logs/new/a.jsonl").out == ""
    assert ruled(policy, finding("LORE201", PLACE, Told("m")), "logs/old/a.jsonl").out == "ignored"


def test_path_budgets_replace_those_of_the_run():
    entries = PerPath(path="logs", min_reuse=0.1, max_breaks=5), PerPath(path="logs/x", max_breaks=7)
    policy = Policy(min_reuse=0.9, max_lost_tokens=1, per_path=entries)
    ruling = policy.ruling("logs/x/a.jsonl")
    assert (ruling.min_reuse, ruling.limited) == (0.1, BudgetEntries(max_breaks=1, max_lost_tokens=-1))
    assert policy.ruling("a.jsonl").min_reuse == 0.9


@each("fields, out", [
    ({}, "exempted"),
    ({"chain": "agent-7"}, "exempted"),
    ({"chain": "main"}, ""),
    ({"json_path": "system[1].text"}, "exempted"),
    ({"json_path": "system[*"}, "exempted"),
    ({"json_path": "system[2].text"}, ""),
    ({"path": "other"}, ""),
    ({"code": "LORE102"}, ""),
])  # fmt: skip
def test_exemption_excuses_matching_findings(fields, out):
    exempt = Exempt(**{"code": "date-in-prefix", "path": "logs/*", "reason": "old", **fields})
    assert ruled(Policy(exempt=(exempt,)), DATE).out == out


def test_first_exemption_that_names_finding_counts():
    fields = {"path": "logs/*", "reason": "old"}
    policy = Policy(
        exempt=(
            Exempt(code="LORE101", chain="main", **fields),
            Exempt(code="LORE1", json_path="system[*].text", **fields),
            Exempt(code="LORE101", **fields),
            Exempt(code="date-in-prefix", path="logs", reason="old"),
        )
    )
    assert ruled(policy, DATE).by == 1
    assert ruled(policy, replace(DATE, json_path="tools[0]")).by == 2


@pytest.mark.parametrize("path", ["../logs", "logs/../../x", "../../../../../", ".."])
def test_exempted_path_may_not_leave_folder_of_settings(path):
    fault = Policy(exempt=(Exempt(code="LORE101", path=path, reason="r"),)).fault()
    assert fault == f"exempt, entry 1: path {path!r} leaves the folder of these settings"
    assert Policy(per_path=(PerPath(path=path),)).fault() == ""


@pytest.mark.parametrize("name", ["code", "path", "reason"])
def test_exemption_needs_code_path_and_reason(name):
    exemption = Exempt(**{"code": "LORE101", "path": "a", "reason": "old", name: " "})
    assert Policy(exempt=(exemption,)).fault() == f"exempt, entry 1: {name} is empty"


# Each was taken without a word and matched nothing: the first on any machine, the others on some.
@pytest.mark.parametrize("path", ["/srv/logs", "~/logs", "C:/logs", "logs\\**"])
def test_path_that_matches_nothing_is_refused(path):
    fault = Policy(per_path=(PerPath(path=path),)).fault()
    assert fault.startswith(f"per_path, entry 1: path {path!r}")
    assert "write " in fault
    assert Policy(per_path=(PerPath(path=" "),)).fault() == "per_path, entry 1: path is empty"
    assert Policy(exempt=(Exempt(code="LORE101", path=path, reason="r"),)).fault().startswith("exempt, entry 1: path ")


@each("policy, option, near", [
    (Policy(select=("LORE10l",)), "select", "did you mean LORE"),
    (Policy(ignore=("date-in-prefx",)), "ignore", "date-in-prefix"),
    (Policy(count_as_waste=("compactin",)), "count_as_waste", "compaction"),
    (Policy(per_path=(PerPath(path="a", ignore=("x",)),)), "per_path.ignore", "lore explain"),
    (Policy(exempt=(Exempt(code="LORE1O1", path="a", reason="r"),)), "exempt.code", "did you mean LORE101?"),
    (Policy(select=("",)), "select", "lore explain"),
])  # fmt: skip
def test_unknown_selector_is_an_error_with_suggestion(policy, option, near):
    with pytest.raises(LoreError) as caught:
        policy.check_selectors("check.")
    assert f"check.{option}: " in caught.value.message
    assert near in caught.value.hint
