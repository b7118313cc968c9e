"""Law 11: one verdict. Every command, report and plugin shows the same causes of a turn, with the same cost.

`check`, `simulate`, `diff-prefix` and the pytest plugin agree in code, kind, section, lost tokens and
their source, evidence and words. Tried on every fixture, on real recordings, and on every generated fault (in
`make test` one of some causes); of small files every pair of turns.
"""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.running import lore
from faults.catalogue import FAULTS, Case, alone
from faults.expected import EXPECTED, Happened, happening
from faults.pairs import pairs as of_two
from faults.serving import Injected, spelled, written
from helpers.each import each
from helpers.matrix import some
from laws.law_11 import FIXTURES, LOOK_ALIKE, OWN, READ, REAL_CASES, reader_of, short
from lore.commands.diff_prefix import TurnComparison, compare_names
from lore.formats.registry import READERS
from lore.model.cause import Place
from lore.model.results import Finding
from lore.pytest_plugin.judging import judge_records
from lore.recording.base import Problems, UnrecognisedError
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.run.checking.verdicts import CheckContext, verdicts
from lore.run.rules import PACKAGED
from lore.run.simulation import simulate

OF_TURNS = ("LORE1", "LORE3")  # LORE2xx is about files, LORE4xx about runs
SMALL, SAMPLE = 40, 8  # turns of a file whose pairs are all compared; pairs of a longer one


class Shown(NamedTuple):
    """A cause as a command shows it."""

    code: str
    kind: str
    section: str | None
    actor: str | None
    strength: str | None
    lost_tokens: int | None
    lost_dollars: float | None
    tokens: str | None
    evidence: object
    message: str


Verdicts = dict[tuple[str, int], Counter[Shown]]


def count_causes(causes) -> Counter[Shown]:
    """Count the causes of one turn, without their order: some commands show the leading cause first."""
    return Counter(Shown(*(getattr(cause, field) for field in Shown._fields)) for cause in causes)


def by_turn(findings: list[Finding]) -> Verdicts:
    """Return findings about turns, by turn."""
    grouped = defaultdict(list)
    for finding in findings:
        if finding.turn is not None and finding.code.startswith(OF_TURNS):
            grouped[finding.chain, finding.turn].append(finding)
    return {turn: count_causes(causes) for turn, causes in grouped.items()}


def checked(path: str, options: Options = READ) -> Verdicts:
    """Return the verdicts of `lore check`."""
    return by_turn(check([path], CheckContext(options=options)).result.findings)


def simulated(path: str, *caches: str, options: Options = READ) -> Verdicts:
    """Return the verdicts of `lore simulate`, with predictions by these `caches`."""
    (result,) = simulate([path], CheckContext(options=options), caches=caches)
    return {(turn.chain, turn.turn): count_causes(turn.causes) for turn in result.turns if turn.causes}


def of_session(path: str, options: Options = READ) -> Verdicts:
    """Return the verdicts of `lore diff-prefix SESSION`."""
    return {
        (comparison.chain, comparison.turn): count_causes(comparison.causes)
        for comparison in compare_names(path, None, TurnComparison(options))
    }


class Two(NamedTuple):
    """Two turns that are compared."""

    right: tuple[str, int]  # chain and number of the later one
    names: tuple[str, str]  # of both, as `lore diff-prefix` takes them


def pairs(path: str, options: Options = READ) -> list[Two]:
    """Return all pairs of turns that are compared; failed turns are in none."""
    recording = options.open(path, Problems())
    compared = []
    for verdict, _ in verdicts(recording, PACKAGED.judge(), Place(path)):
        pair = None if verdict is None else verdict.pair
        if pair is not None and not pair.current.call.inherited_from:  # else `check` leaves it to the fork's parent
            names = tuple(f"{path}#{turn.chain}:{turn.number}" for turn in (pair.previous, pair.current))
            compared.append(Two((pair.current.chain, pair.current.number), names))
    return compared


def sampled(every: list[Two], expected: Verdicts) -> list[Two]:
    """Return all pairs of a small file; of a longer one some with causes, and others at equal distances."""
    if len(every) <= SMALL:
        return every
    broken = [two for two in every if two.right in expected]
    plain = [two for two in every if two.right not in expected]
    return [*broken[:SAMPLE], *plain[:: max(1, len(plain) // SAMPLE)]][:SAMPLE]


def assert_agrees(path: str, options: Options = READ) -> Verdicts:
    """Assert the law on one recording; return its verdicts."""
    try:
        every = pairs(path, options)
    except UnrecognisedError:
        pytest.skip("no recording")
    expected = checked(path, options)
    assert simulated(path, options=options) == expected
    rights = {two.right for two in every}
    of_pairs = {turn: causes for turn, causes in expected.items() if turn in rights}
    for two in sampled(every, expected):
        (diff,) = compare_names(*two.names, TurnComparison(options))
        assert count_causes(diff.causes) == expected.get(two.right, Counter()), two.names
    if every:
        together = of_session(path, options)
        assert {turn: causes for turn, causes in together.items() if causes and turn in rights} == of_pairs
    return expected


@pytest.mark.parametrize("path", [
    pytest.param(path, id=short(path), marks=[pytest.mark.soak] if path.endswith(LOOK_ALIKE) else []) for path in OWN
])  # fmt: skip
def test_commands_agree_on_each_turn(path):
    assert_agrees(path)


@pytest.mark.parametrize("path", REAL_CASES)
def test_commands_agree_on_real_turns(path):
    assert_agrees(str(path))


@pytest.mark.parametrize("cache", some(["anthropic", "openai"]))
def test_chosen_cache_changes_no_verdict(cache, tmp_path):
    for path in [recording for recording in OWN if reader_of(recording) in ("lore", "claude-code")]:
        assert simulated(path, cache) == checked(path), path
    log = tmp_path / "unserved.jsonl"  # the cache of its model is unknown
    log.write_bytes(
        (FIXTURES / "causes/LORE158/positive.jsonl").read_bytes().replace(b"claude-sonnet-4-5", b"own-model")
    )
    assert simulated(str(log), cache) == checked(str(log)) != {}


def bodies(path: str) -> list[tuple[bytes, bool]]:
    """Return the requests of a file of bodies, as the pytest plugin records them."""
    return [(line, False) for line in Path(path).read_bytes().split(b"\n")]


def is_bodies(path: str) -> bool:
    """Return whether a file holds request bodies, one a line."""
    return Path(path).is_file() and path.endswith(".jsonl") and reader_of(path) == "bodies"


def assert_plugin_agrees(path: str) -> None:
    """Assert that `lore check` and the pytest plugin agree on a file of bodies.

    The plugin also fails prompts that are too short to be cached, as prompts of tests are.
    """
    findings = [
        finding for finding in check([path], CheckContext(options=READ)).result.findings
        if finding.turn is not None and finding.code.startswith(OF_TURNS)
    ]  # fmt: skip
    judged = judge_records(bodies(path))
    assert judged.codes == {finding.code for finding in findings}
    moved = [finding for moved in judged.moved for finding in moved.findings]
    # the prompts of tests are short: the plugin reports what would be lost if they were longer
    long, expected = ([one for one in part if "under-minimum" not in one.qualifiers] for part in (moved, findings))
    assert count_causes(one for one in long if one.kind == "waste") == count_causes(
        one for one in expected if one.kind == "waste"
    )
    assert not count_causes(long) - count_causes(expected)
    assert all(finding.kind in ("waste", "unattributable") for finding in long)


@each([path for path in OWN if is_bodies(path)])
def test_pytest_plugin_agrees_with_check(path):
    assert_plugin_agrees(path)


# generated faults

CODES = sorted({one.code for one in FAULTS})
HAPPENS = {one.name: number for number, one in enumerate(EXPECTED)}


@pytest.fixture
def injected(monkeypatch) -> Options:
    """Options that read generated captures."""
    monkeypatch.setitem(READERS, Injected.name, Injected)
    return Options(format=Injected.name)


def assert_case_agrees(case: Case | Happened, folder: Path, options: Options) -> set[str]:
    """Assert the law on a capture and on its bodies alone; return the codes found in the capture."""
    path, alone = folder / "capture.jsonl", folder / "bodies.jsonl"
    path.write_bytes(written(case.capture))
    verdicts = assert_agrees(str(path), options)
    alone.write_bytes(b"".join(spelled(case.capture, turn).encode() + b"\n" for turn in case.capture.turns))
    assert_plugin_agrees(str(alone))
    return {cause.code for causes in verdicts.values() for cause in causes}


def first(code: str) -> Case:
    """Return one case of a cause, of its first form that can be injected; causes use different dialects."""
    forms = (alone(number) for number, fault in enumerate(FAULTS) if fault.code == code)
    cases = next(filter(None, forms))
    return cases[CODES.index(code) % len(cases)]


EACH_OR_ALL = [False, pytest.param(True, marks=pytest.mark.soak)]


@pytest.mark.parametrize("every", EACH_OR_ALL, ids=["one", "all"])
@pytest.mark.parametrize("code", some(CODES, 6))
def test_commands_agree_on_fault(code, every, injected, tmp_path):
    cases = (
        [case for number, fault in enumerate(FAULTS) if fault.code == code for case in alone(number)] if every else []
    )
    for case in cases or [first(code)]:
        assert code in assert_case_agrees(case, tmp_path, injected) or every, case.name


@pytest.mark.parametrize("every", EACH_OR_ALL, ids=["one", "all"])
@pytest.mark.parametrize("name", some(HAPPENS, 4))
def test_commands_agree_on_expected_event(name, every, injected, tmp_path):
    cases = happening(HAPPENS[name])
    for case in cases if every else [cases[HAPPENS[name] % len(cases)]]:
        assert_case_agrees(case, tmp_path, injected)


@pytest.mark.parametrize("every", EACH_OR_ALL, ids=["some", "all"])
def test_commands_agree_on_two_faults_in_turn(every, injected, tmp_path):
    """Each of the two causes was shown with the loss of both by all commands except `check`."""
    for case in of_two() if every else of_two(1)[::19]:
        assert assert_case_agrees(case, tmp_path, injected), case.name


@pytest.mark.parametrize("path", [
    "causes/LORE157/positive.jsonl", "causes/LORE152/positive.jsonl", "recordings/clock_in_system.jsonl",
])  # fmt: skip
def test_json_of_commands_agrees(path):
    name = str(FIXTURES / path)
    rows = [row for row in lore("check", "-v", name, "--json").json["findings"] if row["turn"] is not None]
    fields = Shown._fields[:-2]
    expected = Counter((row["chain"], row["turn"], *(row[field] for field in fields)) for row in rows)
    turns = lore("simulate", name, "--json").json["turns"]
    assert expected == Counter(
        (turn["chain"], turn["turn"], *(row[field] for field in fields)) for turn in turns for row in turn["causes"]
    )
    answers = [json.loads(line) for line in lore("diff-prefix", name, "--json", "--no-tokens").out.splitlines()]
    diffs = [answer for answer in answers if "error" not in answer]  # of one turn: there is no pair
    rights = {(row["chain"], row["turn"]) for row in diffs}
    assert Counter({row: times for row, times in expected.items() if row[:2] in rights}) == Counter(
        (diff["chain"], diff["turn"], *(row[field] for field in fields)) for diff in diffs for row in diff["causes"]
    )


def test_configured_rules_hold_for_every_command(desk):
    """`simulate` used the packaged rules, `check` those of the settings."""
    name = str(FIXTURES / "causes" / "LORE306" / "positive.jsonl")
    row = 'rule = "minimum_tokens"\nprovider = "anthropic"\nvalue = 1\nvalid_from = 2020-01-01\n'
    (desk / "own.toml").write_text(f'[[rules]]\n{row}source = "measured"\nevidence = "M"\n')
    codes = []
    for settings in ("", '[simulate]\nrules = "own.toml"\n'):
        (desk / "lore.toml").write_text(settings)
        codes_of_check = {entry["code"] for entry in lore("check", name, "--json").json["findings"]}
        turns = lore("simulate", name, "--json").json["turns"]
        assert codes_of_check == {entry["code"] for turn in turns for entry in turn["causes"]}
        codes.append("LORE306" in codes_of_check)
    assert codes == [True, False]
