"""The catalogue of causes: each row has a code or a reason, each code a page and recordings that show it, and not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from golden.cases import missing_plugin
from helpers.each import each
from lore.commands.main import main
from lore.model.codes import CODES

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures" / "causes"
PAGES = ROOT / "src" / "lore" / "judge" / "pages"
CASES = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
ROWS = range(1, 36)
# These are found in a turn, a chain or a whole recording, not in two requests alone, or need more than a body.
NO_PAIR = frozenset(
    f"LORE{n}" for n in (107, 113, 114, 123, 128, 129, 131, 132, 134, *range(148, 156), 170, 172, 304, 305, 306, 307)
)
# Causes outside any file of a repository: a file that cannot be opened (tests/cli/test_many.py), a line of 12 MiB
# (tests/hostile/test_size.py). And what logs of engines show, which `lore check` does
# not read (tests/formats/test_engine_logs.py).
NO_FIXTURE = frozenset(("LORE215", "LORE217", "LORE230"))
OF_VERDICTS = [
    f"LORE{n}" for n in (*range(156, 160), *range(161, 167), 170, 171)
]  # what signs of a log, pauses, verdicts and replaced ends show
OF_LINT = [f"LORE{n}" for n in range(182, 186)]  # risks of one request, which a pair would confirm
SECTIONS = ("## Meaning", "## Example", "## Certainty", "## Fix")
PARTS = ("### Agent author", "### User")
FIXED_BY = {
    "author": "Fixed by: the agent author.", "user": "Fixed by: the user.", "provider": "Fixed by: the provider.",
    "nobody": "No fix needed",
}  # fmt: skip


def found(capsys, path):
    """Return the codes of all findings and problems, with the settings and baseline next to the recording.

    `lint` reports the findings on single requests.
    """
    if path.parent.name in OF_LINT:
        main(["lint", str(path), "--json"])
        return {one["code"] for one in json.loads(capsys.readouterr().out)["findings"]}
    beside = {"--config": path.parent / "lore.toml", "--baseline": path.parent / "baseline.json"}
    given = [word for option, file in beside.items() if file.is_file() for word in (option, str(file))]
    main(["check", str(path), "--json", *given])
    answer = json.loads(capsys.readouterr().out)
    return {one["code"] for one in answer["findings"]} | {one["code"] for one in answer["problems"]}


def recordings(code, kind):
    """The files or folders of one kind; a code may need a format of its own."""
    return sorted(path for path in (FIXTURES / code).iterdir() if path.name.startswith(kind))


@pytest.mark.parametrize("code", CASES)
def test_positive_recording_shows_the_code(code, capsys, monkeypatch):
    if missing := missing_plugin(f"causes/{code}"):
        pytest.skip(f"needs lore's plug-in {missing!r}")
    monkeypatch.chdir(ROOT)  # paths in a baseline are relative
    assert recordings(code, "positive")
    for path in recordings(code, "positive"):
        assert code in found(capsys, path), path


@pytest.mark.parametrize("code", CASES)
def test_negative_recording_does_not_show_it(code, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert recordings(code, "negative")
    for path in recordings(code, "negative"):
        assert code not in found(capsys, path), path


OF_PAIRS = [code for code in CASES if code < "LORE149" and code not in NO_PAIR]


@pytest.mark.parametrize("code", [*OF_PAIRS, *OF_VERDICTS])
def test_diff_prefix_names_the_cause_of_a_pair(code, capsys):
    for path in recordings(code, "positive"):
        assert main(["diff-prefix", str(path), "--json", "--no-tokens"]) in (0, 3)
        lines = capsys.readouterr().out.splitlines()
        assert any(cause["code"] == code for line in lines for cause in json.loads(line)["causes"])


@pytest.mark.parametrize("code", OF_VERDICTS)
def test_check_and_simulate_report_the_same_turns(code, capsys):
    for kind in ("positive", "negative"):
        (path,) = recordings(code, kind)
        main(["check", "-v", str(path), "--json"])
        checked = [one["turn"] for one in json.loads(capsys.readouterr().out)["findings"] if one["code"] == code]
        assert main(["simulate", str(path), "--json"]) == 0
        turns = json.loads(capsys.readouterr().out)["turns"]
        assert checked == [turn["turn"] for turn in turns for one in turn["causes"] if one["code"] == code]
        assert bool(checked) == (kind == "positive")


@pytest.mark.parametrize("code", OF_LINT)
def test_check_reports_advice_of_lint(code, capsys):
    main(["check", str(FIXTURES / code / "positive.jsonl"), "-v", "--json"])
    assert code in {finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]}


@each(ROWS)
def test_each_catalogue_row_has_code_and_page(row):
    code = f"LORE{100 + row}"
    assert code in CODES
    assert (PAGES / f"{code}.md").is_file()


@each(sorted(CODES))
def test_each_code_has_a_page_with_a_fix(code):
    page = (PAGES / f"{code}.md").read_text("utf-8")
    assert page.startswith(f"# {code} {CODES[code].name}\n")
    assert [line for line in page.splitlines() if line in SECTIONS] == list(SECTIONS)


@each(sorted(CODES))
def test_each_page_advises_authors_and_users(code):
    _, _, after = (PAGES / f"{code}.md").read_text("utf-8").partition("\n## Fix\n")
    _, author, user = re.split("^(?:" + "|".join(PARTS) + ")$", after, flags=re.MULTILINE)
    assert after.index(PARTS[0]) < after.index(PARTS[1])
    assert author.strip()
    assert user.strip()


@each(sorted(CODES))
def test_page_names_who_fixes_it(code):
    _, _, after = (PAGES / f"{code}.md").read_text("utf-8").partition("\n## Fix\n\n")
    assert after.startswith(FIXED_BY[CODES[code].actor])


@each(sorted(CODES))
def test_page_has_at_most_40_lines(code):
    assert len((PAGES / f"{code}.md").read_text("utf-8").splitlines()) <= 40


@each(sorted(CODES))
def test_each_code_has_recordings(code):
    assert (code in CASES) != (code in NO_FIXTURE)
