"""The catalogue of causes: each row has a code or a reason, each code a page and recordings that show it, and not."""

import json
import re
from pathlib import Path

import pytest

from golden.cases import missing_plugin
from helpers.each import each
from lore.commands.main import main
from lore.model.codes import CODES, actor_of
from lore.model.evidence import OverBudget, Unneeded

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures" / "causes"
PAGES = ROOT / "src" / "lore" / "judge" / "pages"
CASES = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
# Causes outside any file of a repository: a file that cannot be opened (tests/cli/test_many.py), a line of 12 MiB
# (tests/hostile/test_size.py). And what logs of engines show, which `lore check` does
# not read (tests/formats/test_engine_logs.py).
NO_FIXTURE = frozenset(("LORE215", "LORE217", "LORE230"))
OF_LINT = [f"LORE{n}" for n in range(182, 186)]  # risks of one request, which a pair would confirm
SECTIONS = ("## Meaning", "## Example", "## Certainty", "## Fix")
PARTS = ("### Agent author", "### User")
FIXED_BY = {
    "author": "Fixed by: the agent author.", "user": "Fixed by: the user.", "provider": "Fixed by: the provider.",
    "nobody": ("No fix needed.", "Nothing is broken; these steps make it rarer or cheaper."),
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


REASON = "recorded before the clock was moved into the tail"


@each("code, evidence", [
    ("LORE401", OverBudget("reuse", 0.341, 0.9)),
    ("LORE402", OverBudget("breaks", 5, 2)),
    ("LORE403", OverBudget("lost-tokens", 81_240, 50_000)),
    ("LORE404", Unneeded("exemption", "LORE101", "recordings/legacy/**", REASON)),
    ("LORE404", Unneeded("path", "LORE101", "recordings/legcay/**", REASON)),
    ("LORE405", Unneeded("baseline", "LORE101", "recordings/night.jsonl system[0].text", entries=3, left=2)),
])  # fmt: skip
def test_page_of_a_budget_quotes_a_real_message(code, evidence):
    assert f"    {evidence.sentence()}\n" in (PAGES / f"{code}.md").read_text()


@pytest.mark.parametrize("code", CASES)
def test_positive_recording_shows_the_code(code, capsys, monkeypatch):
    if missing := missing_plugin(f"causes/{code}"):
        pytest.skip(f"needs lore's plug-in {missing!r}")
    monkeypatch.chdir(ROOT)  # paths in a baseline are relative
    assert recordings(code, "positive")
    for path in recordings(code, "positive"):
        assert code in found(capsys, path), path


@pytest.mark.parametrize("code", CASES)
def test_negative_recording_has_no_finding_of_its_code(code, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert recordings(code, "negative")
    for path in recordings(code, "negative"):
        assert code not in found(capsys, path), path


@pytest.mark.parametrize("code", OF_LINT)
def test_check_reports_advice_of_lint(code, capsys):
    main(["check", str(FIXTURES / code / "positive.jsonl"), "-v", "--json"])
    assert code in {finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]}


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
    facts = CODES[code]
    is_both = facts.actor == "author" and actor_of(code, facts.kind, "user") == "user"
    assert after.startswith("Fixed by: the agent author, or the user." if is_both else FIXED_BY[facts.actor])


def test_pauses_are_not_said_to_need_no_fix():
    """`lore` may name them as the first thing to do."""
    assert "No fix needed" not in (PAGES / "LORE128.md").read_text("utf-8")


@each(sorted(CODES))
def test_page_has_at_most_40_lines(code):
    assert len((PAGES / f"{code}.md").read_text("utf-8").splitlines()) <= 40


@each(sorted(CODES))
def test_each_code_has_recordings(code):
    assert (code in CASES) != (code in NO_FIXTURE)
