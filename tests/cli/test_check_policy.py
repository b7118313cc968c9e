"""`lore check` with settings and reports: exit codes, messages, files."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli.policies import clock, settings, sums, update, waste
from cli.pooled import pooled
from cli.running import lore, put, session
from formats.claude import asked, log_bytes
from helpers import sarif_rules
from lore.recording.inputs import inputs
from model.making import body, dumps

# select, ignore, exemptions


def test_ignored_finding_counts_as_ignored_only():
    code, summary, codes = sums(waste(), "--ignore", "LORE101")
    assert (code, codes) == (0, [])
    assert (summary["pairs"], summary["breaks"], summary["waste"], summary["lost_tokens"]) == (2, 0, 0, 0)
    assert summary["ignored"] == 2


def test_selectors_are_joined_by_commas_or_repeated():
    assert sums(waste(), "--select", "LORE2,LORE3", "--select", "compaction")[2] == []
    assert sums("r.jsonl", "--select", "LORE2,LORE101")[2] == ["LORE101", "LORE101"]


def test_select_option_replaces_settings_and_ignore_adds():
    settings('[check]\nselect = ["LORE2"]\nignore = ["LORE102"]\n')
    assert sums(waste())[2] == []
    assert sums("r.jsonl", "--select", "LORE1")[2] == ["LORE101", "LORE101"]
    assert sums("r.jsonl", "--select", "LORE1", "--ignore", "LORE101")[2] == []


EXEMPT = '[[check.exempt]]\ncode = "LORE101"\npath = "r.jsonl"\nreason = "recorded before the clock was moved"\n'


def test_exemption_of_unjudged_file_is_not_reported():
    settings(EXEMPT)
    waste()
    assert sums(put("other.jsonl", body("a")))[0] == 0
    os.unlink("r.jsonl")
    assert sums("other.jsonl")[2] == ["LORE404"]


@pytest.mark.parametrize(("path", "says", "line"), [
    ("r.jsonl", "the exemption from LORE101 in r.jsonl is unused: there is no such finding", 3),
    ("gone/*.jsonl", "the exemption from LORE101 matches no recording: gone/*.jsonl", 3),
])  # fmt: skip
def test_unused_exemption_names_its_line_and_reason(path, says, line):
    settings("[check]\n\n" + EXEMPT.replace("r.jsonl", path))
    (finding,) = lore("check", put("r.jsonl", body("a")), "--json").json["findings"]
    assert (finding["code"], finding["line"], finding["message"].startswith(says)) == ("LORE404", line, True)
    assert ("Correct the path" in finding["fix"]) is (path != "r.jsonl")


# A commit hook judges the files of a commit: every exemption for the others failed it.
def test_exemption_is_unused_if_all_files_were_judged():
    settings(EXEMPT.replace('"r.jsonl"', '"logs"'))
    waste("logs/a.jsonl"), put("logs/b.jsonl", body("a")), put("logs/notes.txt", b"words")
    assert sums("logs/b.jsonl")[2] == []
    assert sums("logs/a.jsonl")[1]["exempted"] == 2
    put("logs/a.jsonl", body("a"))
    assert sums("logs/a.jsonl", "logs/b.jsonl")[2] == []
    assert sums("logs")[2] == ["LORE404"]


# With --select LORE1 every exemption of another code was said to be unused, and failed.
def test_exemption_of_excluded_code_is_not_reported():
    settings(EXEMPT)
    waste()
    assert sums("r.jsonl", "--select", "LORE2")[2] == []
    assert sums("r.jsonl", "--ignore", "LORE101")[2] == []
    put("r.jsonl", body("a"))
    assert sums("r.jsonl", "--select", "LORE2")[2] == []
    assert sums("r.jsonl", "--select", "LORE1")[2] == ["LORE404"]


def test_exemption_of_damaged_file_is_not_reported():
    settings(EXEMPT)
    put("r.jsonl", body("a"), b"{broken\n")
    assert sums("r.jsonl")[2] == ["LORE201"]


@pytest.mark.parametrize("path", ["out", "out/*.jsonl", "inner"])
def test_links_out_of_settings_folder_are_not_followed(path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    os.rename(put("r.jsonl", body("a")), outside / "r.jsonl")
    os.symlink(outside, "out")
    os.mkdir("inner")
    os.symlink(outside / "r.jsonl", "inner/r.jsonl")
    settings(EXEMPT.replace("r.jsonl", path))
    assert sums(put("other.jsonl", body("a")))[2] == []


def test_many_exemptions_list_their_folder_once(monkeypatch):
    put("logs/other.txt", b"words")
    settings("".join(EXEMPT.replace("r.jsonl", f"logs/*{number}*.jsonl") for number in range(200)))
    listed = []
    monkeypatch.setattr(
        "lore.run.checking.check.inputs", lambda paths, *how: listed.extend(paths) or inputs(paths, *how)
    )
    assert sums(put("other.jsonl", body("a")))[2] == ["LORE404"] * 200
    assert listed == ["other.jsonl", os.path.abspath("logs")]


@pytest.mark.parametrize("path", ["**/r.jsonl", "deep/*", "deep/r.json?", ".hidden/*.jsonl", "*/.hidden/r.jsonl"])
def test_exemption_stays_while_pattern_names_unjudged_recording(path):
    settings(EXEMPT.replace("r.jsonl", path))
    for folder in ("deep", ".hidden", "deep/.hidden"):
        put(f"{folder}/r.jsonl", body("a"))
    assert sums(put("other.jsonl", body("a")))[2] == []


def test_paths_of_settings_are_relative_to_their_file(monkeypatch):
    settings(EXEMPT.replace("r.jsonl", "deep/r.jsonl"))
    waste("deep/r.jsonl")
    monkeypatch.chdir("deep")
    assert sums("r.jsonl")[0] == 0


@pytest.mark.parametrize(("text", "message", "hint"), [
    ("[[check.per_path]]\npaht='a'\n", "check.per_path.paht", "check.per_path.path"),
    ("[[check.exempt]]\ncode='LORE101'\npath='a'\nreson='r'\n", "check.exempt.reson", "check.exempt.reason"),
    ("[[check.exempt]]\ncode='LORE101'\npath='a'\nreason=' '\n", "reason is empty", ""),
    ("[[check.exempt]]\ncode='LORE101'\npath='a'\n", "reason", ""),
    ("[check]\nmax_breaks=true\n", "check.max_breaks is true or false, and has to be a whole number", ""),
    ("[check.exempt]\ncode='LORE101'\n", "check.exempt is a table", "write [[check.exempt]]"),
    ("[check]\nper_path=['a']\n", "check.per_path, entry 1 is a text", "write [[check.per_path]]"),
    ("[[check.exempt]]\ncode='LORE101'\npath='a'\n", "check.exempt, entry 1: reason is missing", 'reason = "…"'),
])  # fmt: skip
def test_wrong_settings_are_an_error_with_hint(text, message, hint):
    settings(text)
    result = lore("check", waste())
    assert result.code == 2
    assert message in result.err
    assert hint in result.err


def test_unknown_code_in_option_is_an_error():
    result = lore("check", waste(), "--ignore", "date-in-prefx")
    assert (result.code, "did you mean date-in-prefix?" in result.err) == (2, True)


# reports


@pytest.mark.parametrize("command", ["check", "lint", "simulate"])
def test_recording_cut_in_its_first_request_exits_2(command):
    """The exit code is 3 if another recording was judged."""
    whole = put("whole.jsonl", *unmarked(2, is_billed=False))
    put("cut.jsonl", Path(waste()).read_bytes().splitlines()[0][:-5])
    for names, code in ((["cut.jsonl"], 2), (["cut.jsonl", whole], 3)):
        result = lore(command, *names)
        assert (result.code, "not judged: cut.jsonl:1: unreadable line" in result.err) == (code, True)


@pytest.mark.parametrize("command", ["simulate", "diff-prefix", "fold"])
def test_answer_about_damaged_recording_exits_3(command):
    first, *others = unmarked(2, is_billed=False)
    put("r.jsonl", b"\n".join((first, b'{"cut', *others)))
    result = lore(command, "r.jsonl")
    assert (result.code, "r.jsonl:2" in result.out + result.err) == (3, True)


def test_session_without_requests_says_nothing_was_judged():
    put("empty.jsonl", log_bytes(asked("u1", "a question")))
    result = lore("check", "empty.jsonl")
    assert (result.code, result.err) == (0, "nothing was judged: no answered request in 1 recording\n")
    assert "no request is recorded: nothing can be predicted\n" in lore("simulate", "empty.jsonl").out


def unmarked(
    lines: int, *, is_billed: bool, cached_title: bool = False, second: str = "three", requests: int = 3,
    repeats: bool = True,
) -> list[bytes]:  # fmt: skip
    """Requests of one conversation without cache breakpoints, and perhaps a short call that reads a cache."""
    usage = {"input_tokens": 9 * lines, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    texts = ["one", "two", second, "four", "five"]
    bodies = [
        {"model": "claude-opus-4-8", "max_tokens": 900,
         "system": ("" if repeats else f"{count}. ") + "Read the code before you write. " * lines,
         "messages": [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts[:count])]}
        for count in (1, 3, 5)[:requests]
    ]  # fmt: skip
    records = [{"request": request, **({"usage": usage} if is_billed else {})} for request in bodies]
    if cached_title:
        title = {**bodies[0], "system": "Name this.", "messages": [{"role": "user", "content": "a title?"}]}
        records.insert(1, {"request": title, "usage": {**usage, "cache_read_input_tokens": 2000}})
    return list(map(dumps, records))


@pytest.mark.parametrize(("fields", "severity"), [
    ({"lines": 900, "is_billed": True}, "error"),
    ({"lines": 900, "is_billed": False}, "error"),
    ({"lines": 200, "is_billed": True}, "error"),  # near the minimum by the estimate, above it by the usage
    ({"lines": 9, "is_billed": False, "second": "A log. " * 4_000}, "error"),  # the first request was too short
    ({"lines": 900, "is_billed": True, "cached_title": True}, "warning"),
    ({"lines": 900, "is_billed": True, "repeats": False}, ""),  # a breakpoint alone would save nothing
    ({"lines": 900, "is_billed": True, "requests": 1}, "note"),  # nothing is sent again
])  # fmt: skip
def test_check_exits_1_if_no_request_is_cached(fields, severity):
    put("a.jsonl", b"\n".join(unmarked(**fields)))
    result = lore("check", "a.jsonl", "--json")
    found = [finding["severity"] for finding in result.json["findings"] if finding["code"] == "LORE114"]
    assert (result.code, found) == (int(severity == "error"), [severity] if severity else [])


def test_named_empty_file_is_a_finding_beside_others():
    put("empty.jsonl", b"")
    findings = lore("check", "empty.jsonl", waste(), "--json").json["findings"]
    (empty,) = [finding for finding in findings if finding["path"] == "empty.jsonl"]
    assert (empty["code"], empty["actor"], empty["fix"]) == ("LORE215", "author", "Record it again, or leave it out.")
    assert "LORE101" in [finding["code"] for finding in findings]


def test_hidden_folders_with_logs_are_named():
    put("home/a.jsonl", body("a"))
    for name in (".claude/projects/p/b.jsonl", "u/.local/share/opencode/opencode.db", ".git/x", ".codex/config.toml"):
        put(f"home/{name}", b"")
    hint = "2 hidden folders with logs skipped: home/.claude, home/u/.local; name them to judge them"
    result = lore("check", "home")
    assert (result.code, hint in result.err, ".git" in result.err) == (0, True, False)
    assert "home/.git: a hidden folder, skipped" in lore("check", "home", "-v").err.splitlines()

    Path("home/a.jsonl").unlink()
    result = lore("check", "home")
    assert (result.code, f"hint: {hint}" in result.err) == (2, True)


@pytest.mark.parametrize(("path", "code"), [("logs", 3), ("logs/a.jsonl", 2)])
@pytest.mark.parametrize("text", [b"\0" * 300, b"\0" * 9 + b"\n\0", b"\xef\xbb\xbf\0\0"])
def test_recording_of_nul_bytes_is_damaged(path, code, text):
    put("logs/a.jsonl", text)
    put("logs/b.jsonl", body("a"))
    put("logs/other.bin", text)
    result = lore("check", path)
    assert (result.code, "holds NUL bytes and no text" in result.err) == (code, True)


@pytest.mark.parametrize(("whole", "code"), [(False, 2), (True, 1)])
def test_unreadable_line_exits_1_beside_a_request(whole, code):
    put("r.jsonl", *([body("a")] if whole else []), dumps(body("b")).replace(b"b", b"\xff") + b"\n")
    assert lore("check", "r.jsonl").code == code


def test_quiet_check_prints_findings_only():
    quiet, whole = lore("check", waste(), "-q"), lore("check", "r.jsonl")
    assert whole.out.startswith(quiet.out)
    assert quiet.out.splitlines()[-1].startswith("    fix (agent author): ")
    assert lore("check", put("a.jsonl", body("a")), "-q")[:2] == (0, "")
    assert lore("check", "r.jsonl", "-q", "-v").code == 2


KINDS = ("terminal", "json", "jsonl", "markdown", "junit", "sarif", "github")


# The help texts of a SARIF log quote members of requests, so the log of the last run was taken for a recording.
def test_sarif_log_is_valid_and_can_be_replaced():
    causes = str(Path(__file__).parents[2] / "fixtures/causes")
    for paths in (causes, f"{causes}/LORE125"):
        assert lore("check", paths, "-v", "--report", "sarif=out.sarif").code in (0, 1)
        sarif_rules.check(json.loads(Path("out.sarif").read_text("utf-8")))


def test_reports_in_files_keep_the_terminal_report():
    result = lore("check", waste(), *[f"--report={kind}=out.{kind}" for kind in KINDS])
    assert (result.code, "LORE101" in result.out) == (1, True)
    assert all("LORE101" in Path(f"out.{kind}").read_text("utf-8") for kind in KINDS)
    assert Path("out.terminal").read_text("utf-8") == result.out
    assert Path("out.json").read_text("utf-8") == lore("check", "r.jsonl", "--json").out


@pytest.mark.parametrize(("args", "said"), [
    (("--report", "xml"), "no report is called 'xml'"),
    (("--report", "junit="), "names no file"),
    (("--report", "junit", "--report", "sarif"), "cannot share standard output"),
    (("--json", "--report", "terminal"), "cannot share standard output"),
    (("--report", "junit=x", "--report", "sarif=./x"), "two reports go to"),
    (("--report", "html=x.html", "--report", "html=y.html"), "--report html is given twice"),
    (("--report", "junit=r.jsonl"), "r.jsonl is a recording"),
    (("--report", "junit=other.jsonl"), "other.jsonl is a recording"),
    (("--baseline", "other.jsonl", "--update-baseline"), "other.jsonl is a recording"),
    (("--report", "junit=none/x"), "cannot write none/x: there is no folder none"),
    (("--report", "junit=folder"), "folder is a folder"),
    (("--baseline", "folder", "--update-baseline"), "folder is a folder"),
    (("--baseline", "folder"), "folder is a folder"),
    (("--json", "--report", "json"), "json is asked for twice"),
    (("--report", "sarif=b.json", "--baseline", "./b.json", "--update-baseline"), "b.json is the baseline"),
    (("--select", "LORE1,LORE2", "--ignore", "lore2"), "--select and --ignore both name LORE2"),
])  # fmt: skip
def test_impossible_report_target_is_an_error(args, said):
    Path("folder").mkdir()
    before = Path(waste()).read_bytes()
    waste("other.jsonl")
    result = lore("check", "r.jsonl", *args)
    assert (result.code, said in result.err) == (2, True), result.err
    assert Path("r.jsonl").read_bytes() == Path("other.jsonl").read_bytes() == before


# A slip of the tab key replaced the settings by a report, and the run said that all was well.
def test_report_never_replaces_the_settings():
    settings("[check]\nmax_breaks = 9\n")
    result = lore("check", waste(), "--report", "json=lore.toml")
    assert (result.code, "lore.toml is the file of the settings" in result.err) == (2, True)
    assert Path("lore.toml").read_text("utf-8") == "[check]\nmax_breaks = 9\n"


def test_report_is_written_to_a_device():
    assert lore("check", waste(), "--report", "junit=/dev/null").code == 1


def test_github_report_appends_a_step_summary(monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    Path("summary.md").write_text("before\n", encoding="utf-8")
    lore("check", waste(), "--report", "github")
    summary = Path("summary.md").read_text("utf-8")
    assert summary.startswith("before\n## lore check")
    lore("check", "r.jsonl")
    assert Path("summary.md").read_text("utf-8") == summary


def test_change_that_lost_nothing_is_a_note():
    read = {"input_tokens": 9, "cache_read_input_tokens": 5000, "cache_creation_input_tokens": 0, "output_tokens": 1}
    tool = {"name": "ls", "description": "d", "input_schema": {"type": "object"}}
    bodies = [body("hello", tools=tools, max_tokens=9) for tools in ([tool], [tool, {**tool, "name": "cat"}])]
    path = put("read.jsonl", *({"request": row, "usage": read} for row in bodies))
    result = lore("check", path, "--json")
    assert (result.code, result.json["summary"]["lost_tokens"], result.json["top"]) == (0, 0, [])
    by_code = {row["code"]: row for row in result.json["findings"]}
    assert (by_code["LORE103"]["severity"], by_code["LORE103"]["qualifiers"]) == ("note", ["nothing-lost"])


# processes


def test_number_of_processes_does_not_change_answer(monkeypatch):
    monkeypatch.setattr("lore.run.checking.verdicts.SMALL", 0)
    settings(EXEMPT + '[[check.per_path]]\npath = "d/1*"\nignore = ["LORE101"]\nmax_breaks = 0\n')
    for number in range(6):
        waste(f"d/{number}.jsonl", hours=range(number % 4 + 1))
        put(f"e/{number}.jsonl", session(session_id=f"s{number}"))
    update("d/2.jsonl", "d/3.jsonl", "d/4.jsonl")
    for args in (("--baseline", "b.json", "--json"), ("--redact", "-v", "--ignore", "LORE1")):
        alone = lore("check", "d", "e", "d/1.jsonl", *args, "--jobs", "1")
        assert alone.code != 70, alone.err
        assert pooled("check", "d", "e", "d/1.jsonl", *args, "--jobs", "3") == alone
    written = []
    for run, jobs in ((lore, "1"), (pooled, "3")):
        run("check", "d", "--baseline", f"{jobs}.json", "--update-baseline", "--jobs", jobs)
        written.append(Path(f"{jobs}.json").read_bytes())
    assert written[0] == written[1]


# rules of the user's own


def test_minimums_come_from_rules_of_the_settings():
    short = (Path(__file__).parents[2] / "fixtures/causes/LORE306/positive.jsonl").read_bytes()
    put("a.jsonl", short)
    assert [finding["code"] for finding in lore("check", "a.jsonl", "--json").json["findings"]] == ["LORE306"]
    put("lore.toml", b'[simulate]\nrules = "own.toml"\n')
    put("own.toml", b'[[rules]]\nrule = "minimum_tokens"\nprovider = "anthropic"\nvalue = 64\n')
    assert lore("check", "a.jsonl", "--json").json["findings"] == []


def test_unreadable_rules_are_an_error():
    put("a.jsonl", b"{}\n")
    put("lore.toml", b'[simulate]\nrules = "own.toml"\n')
    result = lore("check", "a.jsonl")
    assert (result.code, "own.toml" in result.err) == (2, True)


@pytest.mark.parametrize(("command", "is_text"), [("check", True), ("lint", True), ("check", False)])
def test_run_that_ends_early_still_writes_reports(command, is_text):
    put("bad.jsonl", b"a text\n" if is_text else dumps(body("a" * 200))[:80])
    run_result = lore(command, "bad.jsonl", "--report=junit=j.xml", "--report=sarif=s.json", "--report=github")
    assert run_result.code == 2
    case = ElementTree.parse("j.xml").find(".//testcase")
    assert case is not None
    assert (case.get("name"), [part.tag for part in case][:1]) == ("bad.jsonl", ["error"])
    (result,) = json.loads(Path("s.json").read_text("utf-8"))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bad.jsonl"
    assert "::warning file=bad.jsonl" in run_result.out


@pytest.mark.parametrize(("path", "is_error"), [("r.jsonl", False), ("lgos/**", True), ("logs/*.json", True)])
def test_settings_for_a_path_without_files_are_named(path, is_error):
    waste()
    put("logs/other.jsonl", Path("r.jsonl").read_bytes())
    settings(f'[[check.per_path]]\npath = "logs/**"\n[[check.per_path]]\npath = "{path}"\nignore = ["LORE101"]\n')
    result = lore("check", "r.jsonl")
    assert (f"check.per_path[1]: no file matches '{path}'" in result.err) is is_error
    assert "per_path[0]" not in result.err


def test_only_new_findings_fail():
    update_run = update(waste())
    before = lore("check", "r.jsonl", "--json").json["summary"]
    code, summary, codes = sums("r.jsonl", "--baseline", "b.json")
    assert (update_run.code, before["waste_tokens"]) == (0, summary["known_tokens"])
    assert summary.get("known_dollars") == before["waste_dollars"]
    cost = "2 findings in the baseline"  # of 0 tokens: such short prompts are not cached
    assert f"baseline written: {cost.replace(' in the baseline', '')}" in update_run.err
    assert (code, codes, summary["known"], summary["breaks"], summary["lost_tokens"]) == (0, [], 2, 0, 0)
    assert f"not counted: {cost}" in lore("check", "r.jsonl", "--baseline", "b.json").out
    waste("new.jsonl")
    assert sums("r.jsonl", "new.jsonl", "--baseline", "b.json")[::2] == (1, ["LORE101", "LORE101"])


COMPRESSED = str(Path(__file__).parents[2] / "fixtures/causes/LORE222/positive.json")  # its request cannot be decoded


def test_update_baseline_makes_next_run_pass():
    settings('[check]\nmin_reuse = 1.0\nmax_breaks = 0\n'
             '[[check.exempt]]\ncode = "LORE103"\npath = "r.jsonl"\nreason = "there is none"\n')  # fmt: skip
    os.symlink("nowhere", put("logs/a.jsonl", body("a")) + "l")
    paths = (waste(), "logs", COMPRESSED)
    before = lore("check", *paths, "--json")
    codes = {finding["code"] for finding in before.json["findings"] if finding["severity"] != "note"}
    assert codes >= {"LORE101", "LORE215", "LORE222", "LORE401", "LORE402", "LORE404"}
    assert update(*paths).code == 0
    assert sums(*paths, "--baseline", "b.json")[::2] == (0, [])


def test_baseline_knows_findings_of_a_moved_recording():
    update("logs", waste("logs/r.jsonl"))
    os.makedirs("logs/2026")
    os.rename("logs/r.jsonl", "logs/2026/renamed.jsonl")
    assert sums("logs", "--baseline", "b.json")[::2] == (0, [])
    waste("logs/r.jsonl")  # the file of the baseline is there again, so the other is a copy that it does not have
    code, summary, _ = sums("logs", "--baseline", "b.json")
    assert (code, summary["known"], summary["waste"]) == (1, 2, 2)


@pytest.mark.parametrize("begin", ["", "Read the code before you write. " * 100])  # 3,200 bytes, the hour after them
def test_baseline_takes_no_other_recording_for_a_deleted_one(begin):
    def record(name, *hours):
        return put(name, *(body("a", "b", "c", system=f"{begin}It is {hour}:30 now.") for hour in hours))

    update(record("r.jsonl", 1, 2, 3))
    os.remove("r.jsonl")
    code, summary, codes = sums(record("new.jsonl", 4, 5, 6), "--baseline", "b.json")
    assert (code, summary["known"], codes[:2]) == (1, 0, ["LORE101", "LORE101"])


def test_baseline_holds_in_another_folder(monkeypatch):
    update(waste("logs/r.jsonl"))
    monkeypatch.chdir("logs")
    assert sums("r.jsonl", "--baseline", "../b.json")[::2] == (0, [])


def test_exit_3_names_file_and_reason():
    result = lore("check", COMPRESSED, "--ignore", "LORE2", "-q")
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith(f"not judged: {COMPRESSED}:1: the body of a request to ")


def test_baseline_matches_findings_in_any_order():
    first, second = list(clock(1, 2, 3)), list(clock(4, 5, ask="bye"))
    put("r.jsonl", *first, *second)
    update("r.jsonl")
    put("r.jsonl", *second, body("before", system="x"), *first)
    assert sums("r.jsonl", "--baseline", "b.json")[0] == 0


def test_baseline_keeps_entries_of_unjudged_files():
    waste("a.jsonl"), waste("b.jsonl")
    update("a.jsonl", "b.jsonl")
    put("b.jsonl", body("a"))
    assert sums("a.jsonl", "--baseline", "b.json")[2] == []
    update("a.jsonl")
    assert len(json.loads(Path("b.json").read_bytes())["findings"]) == 2
    os.unlink("b.jsonl")
    update("a.jsonl")
    assert len(json.loads(Path("b.json").read_bytes())["findings"]) == 1


def test_fixed_findings_of_baseline_are_named():
    waste("a.jsonl"), waste("b.jsonl")
    update("a.jsonl", "b.jsonl")
    put("b.jsonl", body("a"))
    known = lore("check", "a.jsonl", "b.jsonl", "--baseline", "b.json", "-q")
    assert known.code == 0
    assert "fixed, and still listed in the baseline: LORE101 b.jsonl system" in known.err
    assert "(--update-baseline removes them)" in known.err
    written = update("a.jsonl", "b.jsonl").err
    assert "fixed, and removed from the baseline: LORE101 b.jsonl\n" in written
    assert "fixed" not in lore("check", "a.jsonl", "b.jsonl", "--baseline", "b.json").err


# `--update-baseline --select LORE2` dropped all that was known of the others, without a word.
def test_baseline_keeps_codes_that_select_excludes():
    update(waste())
    before = Path("b.json").read_bytes()
    update_run = lore("check", "r.jsonl", "--baseline", "b.json", "--update-baseline", "--select", "LORE2")
    assert update_run.err == "baseline written: 0 findings, and 2 kept that this run did not look for\n"
    assert Path("b.json").read_bytes() == before
    assert sums("r.jsonl", "--baseline", "b.json", "--select", "LORE2")[2] == []


# A line that a full disk had cut removed its findings from the baseline; once repaired, the file failed.
def test_baseline_keeps_entries_of_damaged_file():
    update(waste())
    lines = Path("r.jsonl").read_bytes().splitlines(keepends=True)
    put("r.jsonl", lines[0], lines[1], lines[2][:40] + b"\n")
    update("r.jsonl")
    counts = {finding["code"]: finding["count"] for finding in json.loads(Path("b.json").read_bytes())["findings"]}
    assert counts == {"LORE101": 2, "LORE201": 1}


def test_baseline_drops_file_that_is_not_a_recording():
    waste("logs/a.jsonl"), waste("logs/b.jsonl")
    update("logs")
    put("logs/a.jsonl", b"words")
    update("logs")
    assert [finding["path"] for finding in json.loads(Path("b.json").read_bytes())["findings"]] == ["logs/b.jsonl"]


# `--baseline package.json --update-baseline` replaced package.json.
@pytest.mark.parametrize("data", [b'{"name":"package"}', b"words", b"{}", b'{"lore_baseline":1,\n<<<<<<< HEAD\n'])
def test_update_baseline_never_replaces_another_file(data):
    Path("b.json").write_bytes(data)
    update_run = update(waste())
    assert (update_run.code, Path("b.json").read_bytes()) == (2, data)
    assert "hint:" in update_run.err


def test_empty_file_becomes_a_baseline():
    Path("b.json").touch()
    assert update(waste()).code == 0


def test_linked_baseline_stays_a_link():
    waste()
    Path("real.json").touch()
    Path("b.json").symlink_to("real.json")
    assert update("r.jsonl").code == 0
    assert Path("b.json").is_symlink()
    assert b"LORE101" in Path("real.json").read_bytes()


def test_read_only_baseline_is_an_error(monkeypatch):
    update(waste())
    monkeypatch.setattr("os.access", lambda *_: False)  # whoever runs the tests may write everywhere
    result = update("r.jsonl")
    assert (result.code, "b.json is read-only" in result.err) == (2, True)


# A copied turn of a fork used up what the baseline knew of the fork's own turns, where copies went last.
def test_copied_turns_use_up_no_baseline_entry():
    from formats.claude import answered, asked, counts
    from formats.claude import text as words

    def line(number, before, read, content="one"):
        return [
            asked(f"u{number}", "go", before),
            answered(f"a{number}", f"msg_{number}", words(content), f"u{number}", usage=counts(10, read, 20_000, 5)),
        ]

    shared = [*line(1, None, 0), *line(2, "a1", 0)]
    put("a.jsonl", *[{**shared_line, "sessionId": "one"} for shared_line in shared])
    put("b.jsonl", *[{**shared_line, "sessionId": "two"} for shared_line in (*shared, *line(3, "a2", 0))])
    assert sums("a.jsonl", "b.jsonl")[1]["copied"] == 2
    assert sums("a.jsonl", "b.jsonl")[1]["unattributable"] == 2
    update("a.jsonl", "b.jsonl")
    code, summary, codes = sums("a.jsonl", "b.jsonl", "--baseline", "b.json")
    assert (code, codes, summary["known"]) == (0, [], 2)


def test_baseline_knows_findings_of_copies_by_their_path():
    capture = b"".join(
        dumps({"request": request, "response": {"id": f"msg_{number}", "content": [], "usage": {
            "input_tokens": 9, "output_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 900,
        }}}) + b"\n" for number, request in enumerate(clock(1, 2, 3))
    )  # fmt: skip
    put("a.jsonl", capture), put("b.jsonl", capture)
    assert update("a.jsonl", "b.jsonl").err.startswith("baseline written: 2 findings (")  # as many as the run has
    for paths in (("a.jsonl",), ("b.jsonl",), ("a.jsonl", "b.jsonl")):
        assert sums(*paths, "--baseline", "b.json")[::2] == (0, [])
    assert sums("a.jsonl")[2] == sums("a.jsonl", "b.jsonl")[2]  # a chain of copies is not warned of again


def test_baseline_knows_unjudged_file_whatever_is_selected():
    put("logs/a.jsonl", b"")
    update("logs", waste())
    for more in ((), ("--update-baseline",)):
        assert lore("check", "logs", "r.jsonl", "--baseline", "b.json", "--select", "LORE102", *more).code == 0


@pytest.mark.parametrize(("args", "said"), [
    (("--baseline", "none.json"), "there is no baseline none.json"),
    (("--baseline", "bad.json"), "bad.json is no baseline"),
    (("--update-baseline",), "--update-baseline names no file"),
    (("--baseline", "-", "--update-baseline"), "a baseline is a file"),
])  # fmt: skip
def test_unusable_baseline_is_an_error_with_hint(args, said):
    Path("bad.json").write_text("<<<<<<<", encoding="utf-8")
    result = lore("check", waste(), *args)
    assert result.code == 2
    assert said in result.err
    assert "hint:" in result.err


def test_report_of_a_missing_baseline_names_the_baseline():
    lore("check", waste(), "--baseline", "none.json", "--report", "junit=r.xml")
    assert 'name="none.json"' in Path("r.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize("wrap", [
    lambda body: {"request": body},
    lambda body: {"request": {"method": "POST", "url": "https://api.anthropic.com/v1/messages", "body": body}},
])  # fmt: skip
def test_finding_names_its_line_in_a_document(wrap):
    Path("c.json").write_text(json.dumps([*map(wrap, clock(1, 2))], indent=2), encoding="utf-8")
    lines = Path("c.json").read_text(encoding="utf-8").splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if "02:00" in text]
    assert f"::error file=c.json,line={line},title=LORE101" in lore("check", "c.json", "--report", "github").out


def test_document_in_one_line_is_not_searched_for_lines(monkeypatch):
    Path("c.json").write_text(json.dumps([{"request": body} for body in clock(1, 2)]), encoding="utf-8")
    monkeypatch.setattr("lore.run.checking.verdicts.value_at", None)
    assert "file=c.json,line=1,title=LORE101" in lore("check", "c.json", "--report", "github").out


def test_annotation_names_the_missing_file(desk):
    name = waste()
    result = lore("check", f"old/{name}", "--report", "github")
    assert (result.code, f"file=old/{name}" in result.out) == (2, True)
    result = lore("check", name, f"old/{name}", "--report", "github")
    assert (result.code, f"::warning file=old/{name}" in result.out) == (1, True)
