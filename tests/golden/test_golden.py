"""Commands print the golden outputs, and readers return the golden events. `make golden` writes both again."""

import pytest

from conftest import CORPUS, recordings
from golden import cases, digests, scripts
from golden.commands import results
from helpers.each import each

KNOWN = cases.cases()
SCRIPTS = [(file.stem, script) for file in scripts.FILES for script in scripts.scripts(file)]
INPUTS = digests.inputs()
# Recordings without a cause are judged by `tests/test_catalogue.py`.
CASES = [pytest.param(name, marks=[pytest.mark.soak] if "/negative" in name else []) for name in INPUTS]
RESULTS = digests.load(digests.FIXTURE_RESULTS)
CORPUS_ENTRIES = digests.load(digests.CORPUS_RESULTS)
STALE = "other than before: compare with `make compare`, then run `make golden`"


def skip_without_plugin(text):
    if missing := cases.missing_plugin(text):
        pytest.skip(f"needs lore's plug-in {missing!r}")


@pytest.mark.parametrize("case", KNOWN, ids=[case.name for case in KNOWN])
def test_command_prints_golden_output(case):
    skip_without_plugin(case.command)
    ran = cases.run(case.command)
    assert ran.exit == case.exit, ran.stderr
    assert case.expected.exists(), "no expected output yet: run `make golden`"
    assert ran.stdout == case.expected.read_bytes(), "another output: read it, then run `make golden`"


def test_every_recording_has_a_case():
    assert cases.uncovered(KNOWN) == []


def test_every_expected_output_has_a_case():
    assert sorted(cases.EXPECTED.glob("*")) == sorted(case.expected for case in KNOWN)


@each(INPUTS)
def test_reader_returns_golden_events(fixture):
    if cases.missing_plugin(fixture):
        return
    expected = digests.rows_file(fixture)
    assert expected.exists(), "no golden events yet: run `make golden`"
    assert digests.rows(fixture).decode() == expected.read_text("utf-8"), STALE


@pytest.mark.parametrize("fixture", CASES)
def test_commands_give_golden_results(fixture):
    skip_without_plugin(fixture)
    assert results(fixture, cases.ROOT) == RESULTS.get(fixture), STALE


def test_golden_files_name_existing_fixtures():
    files = [path for path in digests.EVENTS.rglob("*") if path.is_file()]
    assert sorted(files) == sorted(map(digests.rows_file, INPUTS))
    assert sorted(RESULTS) == INPUTS


@pytest.mark.parametrize("file", recordings(map(CORPUS.joinpath, digests.corpus_names())))
def test_corpus_recording_gives_golden_results(file):
    name = file.relative_to(CORPUS).as_posix()
    skip_without_plugin(name)
    assert digests.corpus_entry(name) == CORPUS_ENTRIES.get(name), STALE


@pytest.mark.parametrize(("name", "script"), SCRIPTS, ids=[f"{name}: {script['name']}" for name, script in SCRIPTS])
def test_script_prints_golden_output(name, script, tmp_path):
    skip_without_plugin(name)
    assert scripts.played(script, tmp_path) == script, script.get("why", STALE)
