"""`lore check` with settings, a baseline, reports: what fails, what is said, what is written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from cli.pooled import pooled
from cli.running import lore, put, session
from model.making import assistant, body


def clock(*hours, ask="hello"):
    """Requests with a clock in the system prompt."""
    history = []
    for hour in hours:
        history = [*history, *([assistant("yes")] if history else []), f"{ask} {len(history)}"]
        yield body(*history, system=f"It is 2026-01-01 {hour:02}:00.")


def waste(name="r.jsonl", hours=(1, 2, 3), **fields):
    return put(name, *clock(*hours, **fields))


def settings(text):
    Path("lore.toml").write_text(text, encoding="utf-8")


def sums(*args):
    ran = lore("check", "--json", *args)
    jsonschema.validate(ran.json, json.loads(lore("schema", "check").out))
    return ran.code, ran.json["summary"], [one["code"] for one in ran.json["findings"]]


# select, ignore, exemptions


def test_what_is_ignored_is_no_finding_and_no_bust_and_is_counted():
    code, summary, codes = sums(waste(), "--ignore", "LORE101")
    assert (code, codes) == (0, [])
    assert (summary["pairs"], summary["busts"], summary["waste"], summary["lost_tokens"]) == (2, 0, 0, 0)
    assert summary["ignored"] == 2


@pytest.mark.parametrize("budget", [("--max-busts", "0"), ("--max-lost-tokens", "0"), ("--min-reuse", "1")])
def test_no_budget_counts_what_is_ignored(budget):
    assert sums(waste(), *budget)[0] == 1
    assert sums("r.jsonl", *budget, "--ignore", "date-in-prefix")[0] == 0


def test_selectors_may_be_joined_by_commas_and_given_again():
    assert sums(waste(), "--select", "LORE2,LORE3", "--select", "compaction")[2] == []
    assert sums("r.jsonl", "--select", "LORE2,LORE101")[2] == ["LORE101", "LORE101"]


def test_select_on_the_command_line_replaces_and_ignore_adds():
    settings('[check]\nselect = ["LORE2"]\nignore = ["LORE102"]\n')
    assert sums(waste())[2] == []
    assert sums("r.jsonl", "--select", "LORE1")[2] == ["LORE101", "LORE101"]
    assert sums("r.jsonl", "--select", "LORE1", "--ignore", "LORE101")[2] == []


def test_an_expected_cause_can_count_as_waste():
    settings('[check]\ncount_as_waste = ["compaction"]\n')
    from cli.running import compacted

    code, summary, codes = sums(put("s.jsonl", compacted()))
    assert (code, codes) == (1, ["LORE125"])
    assert (summary["waste"], summary["expected"]) == (1, 0)
    assert summary["lost_tokens"] > 0


def test_settings_of_a_path_hold_for_its_recordings():
    settings('[[check.per_path]]\npath = "old/**"\nignore = ["LORE101"]\n')
    code, summary, codes = sums(waste("old/a.jsonl"), waste("new/a.jsonl"))
    assert (code, codes, summary["ignored"], summary["busts"]) == (1, ["LORE101"] * 2, 2, 2)


def test_budgets_of_a_path_are_for_its_recordings_alone():
    settings('[check]\nmax_busts = 2\n[[check.per_path]]\npath = "old"\nmax_busts = 1\nmin_reuse = 0.999\n')
    waste("old/a.jsonl"), waste("new/a.jsonl")
    _, _, codes = sums("old", "new")
    assert codes.count("LORE402") == 1
    assert codes.count("LORE401") == 2
    ran = lore("check", "old", "new")
    assert "2 unexpected busts in old, the budget is 1" in ran.out


EXEMPT = '[[check.exempt]]\ncode = "LORE101"\npath = "r.jsonl"\nreason = "recorded before the clock was moved"\n'


def test_an_exemption_takes_a_finding_out():
    settings(EXEMPT)
    code, summary, codes = sums(waste())
    assert (code, codes, summary["exempted"], summary["busts"]) == (0, [], 2, 0)


def test_an_exemption_that_excuses_nothing_any_more_is_a_finding():
    settings(EXEMPT)
    put("r.jsonl", body("a"))
    ran = lore("check", "r.jsonl")
    assert ran.code == 1
    assert "LORE404 exemption-unused  lore.toml" in ran.out
    assert "recorded before the clock was moved" in ran.out


def test_an_exemption_for_files_that_were_not_judged_is_left_in_peace():
    settings(EXEMPT)
    waste()
    assert sums(put("other.jsonl", body("a")))[0] == 0
    os.unlink("r.jsonl")
    assert sums("other.jsonl")[2] == ["LORE404"]


def test_paths_of_settings_are_relative_to_their_file(monkeypatch):
    settings(EXEMPT.replace("r.jsonl", "deep/r.jsonl"))
    waste("deep/r.jsonl")
    monkeypatch.chdir("deep")
    assert sums("r.jsonl")[0] == 0


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("[check]\nselct=[]\n", "check.selct", "check.select"),
        ("[[check.per_path]]\npaht='a'\n", "check.per_path.paht", "check.per_path.path"),
        ("[[check.exempt]]\ncode='LORE101'\npath='a'\nreson='r'\n", "check.exempt.reson", "check.exempt.reason"),
        ("[[check.exempt]]\ncode='LORE101'\npath='a'\nreason=' '\n", "reason is empty", ""),
        ("[[check.exempt]]\ncode='LORE101'\npath='a'\n", "reason", ""),
        ("[check]\nignore=['LORE77']\n", "lore.toml: check.ignore", "lore explain"),
        ("[check]\ncount_as_waste=['compation']\n", "check.count_as_waste", "did you mean compaction"),
        ("[check]\nselect='LORE1'\n", "check.select", ""),
    ],
)
def test_what_is_wrong_with_settings_is_said(text, said, hint):
    settings(text)
    ran = lore("check", waste())
    assert ran.code == 2
    assert said in ran.err
    assert hint in ran.err


def test_an_unknown_code_on_the_command_line_is_an_error():
    ran = lore("check", waste(), "--ignore", "date-in-prefx")
    assert (ran.code, "did you mean date-in-prefix?" in ran.err) == (2, True)


# baseline


def update(*paths):
    return lore("check", *paths, "--baseline", "b.json", "--update-baseline")


def test_only_new_findings_fail():
    made = update(waste())
    assert (made.code, made.err) == (0, "b.json knows 2 findings now\n")
    code, summary, codes = sums("r.jsonl", "--baseline", "b.json")
    assert (code, codes, summary["known"], summary["busts"], summary["lost_tokens"]) == (0, [], 2, 0, 0)
    assert "left out of these: 2 known" in lore("check", "r.jsonl", "--baseline", "b.json").out
    waste("new.jsonl")
    assert sums("r.jsonl", "new.jsonl", "--baseline", "b.json")[::2] == (1, ["LORE101", "LORE101"])


def test_a_baseline_knows_as_many_as_it_counts():
    update(waste())
    waste(hours=(1, 2, 3, 4))
    code, summary, codes = sums("r.jsonl", "--baseline", "b.json")
    assert (code, codes, summary["known"]) == (1, ["LORE101"], 2)


def test_findings_are_known_again_in_another_order_and_behind_other_turns():
    first, second = list(clock(1, 2, 3)), list(clock(4, 5, ask="bye"))
    put("r.jsonl", *first, *second)
    update("r.jsonl")
    put("r.jsonl", *second, body("before", system="x"), *first)
    assert sums("r.jsonl", "--baseline", "b.json")[0] == 0


def test_a_baseline_is_the_same_whatever_the_order_of_files():
    waste("a.jsonl"), waste("b.jsonl")
    update("a.jsonl", "b.jsonl")
    before = Path("b.json").read_bytes()
    os.unlink("b.json")
    update("./b.jsonl", os.path.abspath("a.jsonl"))
    assert Path("b.json").read_bytes() == before
    assert [one["path"] for one in json.loads(before)["findings"]] == ["a.jsonl", "b.jsonl"]


def test_an_entry_that_nothing_matches_any_more_is_a_note():
    update(waste())
    put("r.jsonl", body("a"))
    code, _, codes = sums("r.jsonl", "--baseline", "b.json")
    assert (code, codes) == (0, ["LORE405"])


def test_entries_of_files_that_were_not_judged_stay_and_are_not_stale():
    waste("a.jsonl"), waste("b.jsonl")
    update("a.jsonl", "b.jsonl")
    put("b.jsonl", body("a"))
    assert sums("a.jsonl", "--baseline", "b.json")[2] == []
    update("a.jsonl")
    assert len(json.loads(Path("b.json").read_bytes())["findings"]) == 2
    os.unlink("b.jsonl")
    update("a.jsonl")
    assert len(json.loads(Path("b.json").read_bytes())["findings"]) == 1


# A copied turn of a fork used up what the baseline knew of the fork's own turns, where copies went last.
def test_copies_use_nothing_up():
    from formats.claude import answered, asked, counts
    from formats.claude import text as words

    def line(number, before, read, said="one"):
        return [
            asked(f"u{number}", "go", before),
            answered(f"a{number}", f"msg_{number}", words(said), f"u{number}", usage=counts(10, read, 20_000, 5)),
        ]

    shared = [*line(1, None, 0), *line(2, "a1", 0)]
    put("a.jsonl", *[{**one, "sessionId": "one"} for one in shared])
    put("b.jsonl", *[{**one, "sessionId": "two"} for one in (*shared, *line(3, "a2", 0))])
    assert sums("a.jsonl", "b.jsonl")[1]["copied"] == 2
    assert sums("a.jsonl", "b.jsonl")[1]["unattributable"] == 2
    update("a.jsonl", "b.jsonl")
    code, summary, codes = sums("a.jsonl", "b.jsonl", "--baseline", "b.json")
    assert (code, codes, summary["known"]) == (0, [], 2)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--baseline", "none.json"), "there is no baseline none.json"),
        (("--baseline", "bad.json"), "bad.json is no baseline"),
        (("--update-baseline",), "--update-baseline names no file"),
        (("--baseline", "-", "--update-baseline"), "a baseline is a file"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_an_error_with_a_hint(args, said):
    Path("bad.json").write_text("<<<<<<<", encoding="utf-8")
    ran = lore("check", waste(), *args)
    assert ran.code == 2
    assert said in ran.err
    assert "hint:" in ran.err


def test_a_baseline_is_written_whole_or_not_at_all():
    update(waste())
    assert sorted(os.listdir(".")) == ["b.json", "r.jsonl"]


# reports

KINDS = ("terminal", "json", "jsonl", "markdown", "junit", "sarif", "github")


def test_reports_go_to_files_and_a_person_sees_the_findings_too():
    ran = lore("check", waste(), *[f"--report={kind}=out.{kind}" for kind in KINDS])
    assert (ran.code, "LORE101" in ran.out) == (1, True)
    assert all("LORE101" in Path(f"out.{kind}").read_text("utf-8") for kind in KINDS)
    assert Path("out.terminal").read_text("utf-8") == ran.out
    assert Path("out.json").read_text("utf-8") == lore("check", "r.jsonl", "--json").out


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_without_a_file_goes_to_standard_output(kind):
    plain = lore("check", waste(), "--report", kind)
    assert plain.code == 1
    lore("check", "r.jsonl", "--report", f"{kind}=file")
    assert Path("file").read_text("utf-8") == plain.out


def test_a_log_may_hold_two_reports_of_lines():
    ran = lore("check", waste(), "--report", "terminal", "--report", "github")
    assert "✗ LORE101" in ran.out
    assert "::error file=r.jsonl,line=2" in ran.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--report", "xml"), "no report is called 'xml'"),
        (("--report", "junit="), "names no file"),
        (("--report", "junit", "--report", "sarif"), "cannot share standard output"),
        (("--json", "--report", "terminal"), "cannot share standard output"),
        (("--report", "junit=x", "--report", "sarif=./x"), "two reports go to"),
        (("--report", "junit=r.jsonl"), "r.jsonl is a recording"),
        (("--report", "junit=other.jsonl"), "other.jsonl is a recording"),
        (("--baseline", "other.jsonl", "--update-baseline"), "other.jsonl is a recording"),
        (("--report", "junit=none/x"), "cannot write none/x"),
        (("--report", "junit=folder"), "is not a regular file"),
    ],
)
def test_reports_that_cannot_be_are_errors(args, said):
    Path("folder").mkdir()
    before = Path(waste()).read_bytes()
    waste("other.jsonl")
    ran = lore("check", "r.jsonl", *args)
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert Path("r.jsonl").read_bytes() == Path("other.jsonl").read_bytes() == before


def test_a_report_may_go_to_a_device():
    assert lore("check", waste(), "--report", "junit=/dev/null").code == 1


def test_github_gets_a_step_summary(monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    Path("summary.md").write_text("before\n", encoding="utf-8")
    lore("check", waste(), "--report", "github")
    said = Path("summary.md").read_text("utf-8")
    assert said.startswith("before\n## lore check")
    lore("check", "r.jsonl")
    assert Path("summary.md").read_text("utf-8") == said


def test_the_last_lines_are_turns_waste_and_what_cost_most():
    lines = lore("check", waste()).out.splitlines()[-5:]
    assert lines[0].startswith("1 file, 1 chain, 3 turns")
    assert lines[1].startswith("2 busts: 2 waste")
    assert lines[2] == "costliest causes:"
    assert lines[3].startswith("  1. LORE101 date-in-prefix: ")
    assert lines[4].startswith("     fix: Freeze the date")


def test_the_costliest_causes_are_in_json_too():
    (one,) = lore("check", waste(), "--json").json["top"]
    assert (one["code"], one["kind"], one["busts"]) == ("LORE101", "waste", 2)
    assert one["lost_tokens"] == lore("check", "r.jsonl", "--json").json["summary"]["lost_tokens"]


# following


def test_what_means_nothing_while_a_recording_grows_is_refused():
    waste()
    for args in (("--baseline", "b"), ("--since", "1d"), ("--last",), ("--report", "junit"), ("--report", "json=x")):
        assert lore("check", "r.jsonl", "--follow", *args).code == 2


# processes


def test_the_number_of_processes_changes_nothing():
    settings(EXEMPT + '[[check.per_path]]\npath = "d/1*"\nignore = ["LORE101"]\nmax_busts = 0\n')
    for number in range(12):
        waste(f"d/{number}.jsonl", hours=range(number % 4 + 1))
        put(f"e/{number}.jsonl", session(session_id=f"s{number}"))
    update("d/2.jsonl", "d/3.jsonl", "d/4.jsonl")
    for args in (("--baseline", "b.json", "--json"), ("--report", "sarif"), ("--redact", "-v"), ("--ignore", "LORE1")):
        answers = {jobs: pooled("check", "d", "e", "d/1.jsonl", *args, "--jobs", jobs) for jobs in "13"}
        assert answers["1"].code != 70, answers["1"].err
        assert answers["3"] == answers["1"]
    written = []
    for jobs in "13":
        pooled("check", "d", "--baseline", f"{jobs}.json", "--update-baseline", "--jobs", jobs)
        written.append(Path(f"{jobs}.json").read_bytes())
    assert written[0] == written[1]
