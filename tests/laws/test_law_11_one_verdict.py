"""Law 11. One verdict: every command, report and plugin shows the same causes of a turn, with the same cost.

What `check` finds of a turn is what `simulate`, `diff-prefix`, `check --follow` and the pytest plugin say of it: code,
kind, section, tokens lost, whether those are recorded or estimated, evidence, words. Every recording of the project is
asked, and the real ones; small files pair by pair; and every generated fault, one of each cause in `make test`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.running import lore
from conftest import CORPUS, ROOT, recordings
from faults.catalogue import FAULTS, Case, alone
from faults.expected import EXPECTED, Happened, happening
from faults.pairs import pairs as of_two
from faults.serving import Injected, spelled, written
from lore.errors import LoreError
from lore.formats.registry import READERS, is_by_time
from lore.judge.policy import Budgets
from lore.model.cause import Place
from lore.model.results import Finding
from lore.pytest_plugin.judging import RequestEntry, judge
from lore.recording.base import Problems, UnrecognisedError
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.run.checking.verdicts import verdicts
from lore.run.checking.watch import follow_check
from lore.run.dated import PACKAGED
from lore.run.diff import TurnComparison, compared
from lore.run.rules import packaged
from lore.run.simulate import SimulateRequest, simulate

FIXTURES = ROOT / "fixtures"
FOLDERS = ("causes", "recordings", "sessions", "claude-code", "captures")
OF_TURNS = ("LORE1", "LORE3")  # LORE2xx is about files, LORE4xx about runs
LOOK_ALIKE = ("negative", "negative.jsonl")  # of a code: what `tests/test_catalogue.py` holds apart from it
SMALL, SAMPLE = 40, 8  # turns of a file of which every pair is asked for; pairs of a longer one
READ = Options()


def listed(*folders: Path) -> list[str]:
    """The recordings below folders, each file or packed folder once."""
    every = inputs([str(folder) for folder in folders if folder.is_dir()])
    return [one.path for one in every if reader_of(one.path) is not None]


def reader_of(path: str) -> str | None:
    """Name the format of a file; None where it is no recording."""
    try:
        return READ.open(path).reader.name
    except LoreError:
        return None


def short(path: str) -> str:
    """Name a case."""
    below = CORPUS if Path(path).is_relative_to(CORPUS) else FIXTURES
    return Path(path).relative_to(below).as_posix()


OWN = listed(*(FIXTURES / name for name in FOLDERS))
REAL_CASES = recordings(map(Path, listed(CORPUS)))


class Said(NamedTuple):
    """What a view says of one cause."""

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


Verdicts = dict[tuple[str, int], Counter[Said]]


def said(causes) -> Counter[Said]:
    """What a view says of one turn, in any order: a command may show the leading cause first."""
    return Counter(Said(*(getattr(one, field) for field in Said._fields)) for one in causes)


def by_turn(findings: list[Finding]) -> Verdicts:
    """Put findings about turns by their turns."""
    found = defaultdict(list)
    for one in findings:
        if one.turn is not None and one.code.startswith(OF_TURNS):
            found[one.chain, one.turn].append(one)
    return {turn: said(causes) for turn, causes in found.items()}


def checked(path: str, options: Options = READ) -> Verdicts:
    """What `lore check` says."""
    return by_turn(check([path], Budgets(), options).result.findings)


def simulated(path: str, *caches: str, options: Options = READ) -> Verdicts:
    """What `lore simulate` says; `caches` are asked for, whoever served."""
    (result,) = simulate(SimulateRequest([path], caches), options, packaged())
    return {(one.chain, one.turn): said(one.causes) for one in result.turns if one.causes}


def followed(path: str, options: Options = READ) -> Verdicts:
    """What `lore check --follow` says of a log that grows no more."""
    every = list(follow_check(path, Budgets(), options, [].append, wait=lambda: False))
    return by_turn([one for one in every if isinstance(one, Finding)])


def grows(path: str, options: Options = READ) -> bool:
    """Tell whether a recording is one that is written on: no folder or archive, in the order in which it was asked."""
    return Path(path).is_file() and not path.endswith(".eval") and not is_by_time(options.format or reader_of(path))


def of_session(path: str, options: Options = READ) -> Verdicts:
    """What `lore diff-prefix SESSION` says."""
    return {(one.chain, one.turn): said(one.causes) for one in compared(path, None, TurnComparison(options))}


class Two(NamedTuple):
    """Two turns that follow one another, as names."""

    right: tuple[str, int]
    names: tuple[str, str]


def pairs(path: str, options: Options = READ) -> list[Two]:
    """Every two turns that are compared; a turn that failed is no side of a pair."""
    recording = options.open(path, Problems())
    found = []
    for verdict, _ in verdicts(recording, PACKAGED.judge(), Place(path)):
        pair = None if verdict is None else verdict.pair
        if pair is not None:
            names = tuple(f"{path}#{one.chain}:{one.number}" for one in (pair.left, pair.right))
            found.append(Two((pair.right.chain, pair.right.number), names))
    return found


def sampled(every: list[Two], expected: Verdicts) -> list[Two]:
    """All pairs of a small file; of a longer one those with causes first, then those at equal distances."""
    if len(every) <= SMALL:
        return every
    told = [one for one in every if one.right in expected]
    plain = [one for one in every if one.right not in expected]
    return [*told[:SAMPLE], *plain[:: max(1, len(plain) // SAMPLE)]][:SAMPLE]


def alike(path: str, options: Options = READ) -> Verdicts:
    """Hold the law over one recording; return what every command says."""
    try:
        every = pairs(path, options)
    except UnrecognisedError:
        pytest.skip("no recording")
    expected = checked(path, options)
    assert simulated(path, options=options) == expected
    if grows(path, options):
        assert followed(path, options) == expected
    rights = {one.right for one in every}
    of_pairs = {turn: causes for turn, causes in expected.items() if turn in rights}
    for one in sampled(every, expected):
        (diff,) = compared(*one.names, TurnComparison(options))
        assert said(diff.causes) == expected.get(one.right, Counter()), one.names
    if every:
        together = of_session(path, options)
        assert {turn: causes for turn, causes in together.items() if causes and turn in rights} == of_pairs
    return expected


@pytest.mark.parametrize("path", [
    pytest.param(path, id=short(path), marks=[pytest.mark.soak] if path.endswith(LOOK_ALIKE) else []) for path in OWN
])  # fmt: skip
def test_every_command_says_the_same_of_each_turn(path):
    alike(path)


@pytest.mark.parametrize("path", REAL_CASES)
def test_every_command_says_the_same_of_each_real_turn(path):
    alike(str(path))


@pytest.mark.parametrize("cache", ["anthropic", "openai"])
def test_a_cache_that_is_asked_for_changes_no_verdict(cache, tmp_path):
    """A prediction by another cache knows other things of a turn than the verdict rests on."""
    for path in [one for one in OWN if reader_of(one) in ("lore", "claude-code")]:
        assert simulated(path, cache) == checked(path), path
    log = tmp_path / "unserved.jsonl"  # nobody knows the cache of its model
    log.write_bytes(
        (FIXTURES / "causes/LORE158/positive.jsonl").read_bytes().replace(b"claude-sonnet-4-5", b"own-model")
    )
    assert simulated(str(log), cache) == checked(str(log)) != {}


def bodies(path: str) -> list[RequestEntry]:
    """The requests of a file of bodies, as a test hands them to the plugin."""
    return [RequestEntry(line, must=False) for line in Path(path).read_bytes().split(b"\n")]


def is_bodies(path: str) -> bool:
    """Tell whether a file holds request bodies, one a line."""
    return Path(path).is_file() and path.endswith(".jsonl") and reader_of(path) == "bodies"


def alike_in_a_test(path: str) -> None:
    """Hold the law between `lore check` and the plugin's judge over a file of bodies."""
    found = [
        one for one in check([path], Budgets(), READ).result.findings
        if one.turn is not None and one.code.startswith(OF_TURNS)
    ]  # fmt: skip
    judged = judge(bodies(path))
    assert judged.codes == {one.code for one in found}
    counted = [one for moved in judged.moved for one in moved.findings]
    assert said(one for one in counted if one.kind == "waste") == said(one for one in found if one.kind == "waste")
    assert not said(counted) - said(found)
    assert all(one.kind in ("waste", "unattributable") for one in counted)


@pytest.mark.parametrize("path", [path for path in OWN if is_bodies(path)], ids=short)
def test_the_plugin_counts_what_check_fails_by(path):
    alike_in_a_test(path)


# generated faults

CODES = sorted({one.code for one in FAULTS})
HAPPENS = {one.name: number for number, one in enumerate(EXPECTED)}


@pytest.fixture
def injected(monkeypatch) -> Options:
    """Options that read what the catalogue of faults writes."""
    monkeypatch.setitem(READERS, Injected.name, Injected)
    return Options(format=Injected.name)


def alike_with(case: Case | Happened, folder: Path, options: Options) -> set[str]:
    """Hold the law over a capture, and over its bodies alone; return the codes that are found in the capture."""
    path, alone = folder / "capture.jsonl", folder / "bodies.jsonl"
    path.write_bytes(written(case.capture))
    verdicts = alike(str(path), options)
    alone.write_bytes(b"".join(spelled(case.capture, turn).encode() + b"\n" for turn in case.capture.turns))
    alike_in_a_test(str(alone))
    return {one.code for causes in verdicts.values() for one in causes}


def first(code: str) -> Case:
    """One case of a cause: of its first form that has a place; the causes take turns in the dialects."""
    forms = (alone(number) for number, one in enumerate(FAULTS) if one.code == code)
    cases = next(filter(None, forms))
    return cases[CODES.index(code) % len(cases)]


@pytest.mark.parametrize("code", CODES)
def test_every_command_says_the_same_of_a_fault(code, injected, tmp_path):
    assert code in alike_with(first(code), tmp_path, injected)


@pytest.mark.soak
@pytest.mark.parametrize("code", CODES)
def test_every_command_says_the_same_of_every_fault(code, injected, tmp_path):
    for number, one in enumerate(FAULTS):
        for case in alone(number) if one.code == code else ():
            assert alike_with(case, tmp_path, injected), case.name


@pytest.mark.parametrize("name", HAPPENS)
def test_every_command_says_the_same_of_what_is_expected(name, injected, tmp_path):
    cases = happening(HAPPENS[name])
    alike_with(cases[HAPPENS[name] % len(cases)], tmp_path, injected)


@pytest.mark.soak
@pytest.mark.parametrize("name", HAPPENS)
def test_every_command_says_the_same_of_all_that_is_expected(name, injected, tmp_path):
    for case in happening(HAPPENS[name]):
        alike_with(case, tmp_path, injected)


@pytest.mark.soak
def test_every_command_says_the_same_of_two_faults_in_one_turn(injected, tmp_path):
    for case in of_two():
        assert alike_with(case, tmp_path, injected), case.name


@pytest.mark.parametrize("path", [
    "causes/LORE157/positive.jsonl", "causes/LORE152/positive.jsonl", "recordings/clock_in_system.jsonl",
])  # fmt: skip
def test_the_command_line_says_it(path):
    """The same through JSON, once for each command."""
    name = str(FIXTURES / path)
    rows = [one for one in lore("check", "-v", name, "--json").json["findings"] if one["turn"] is not None]
    fields = Said._fields[:-2]
    expected = Counter((one["chain"], one["turn"], *(one[field] for field in fields)) for one in rows)
    turns = lore("simulate", name, "--json").json["turns"]
    assert expected == Counter(
        (turn["chain"], turn["turn"], *(one[field] for field in fields)) for turn in turns for one in turn["causes"]
    )
    diffs = [json.loads(line) for line in lore("diff-prefix", name, "--json", "--no-tokens").out.splitlines()]
    rights = {(one["chain"], one["turn"]) for one in diffs}
    assert Counter({one: times for one, times in expected.items() if one[:2] in rights}) == Counter(
        (diff["chain"], diff["turn"], *(one[field] for field in fields)) for diff in diffs for one in diff["causes"]
    )


def test_the_rules_of_the_settings_hold_for_every_command(desk):
    """`simulate` judged by the packaged rules where `check` took those that the settings name."""
    name = str(FIXTURES / "causes" / "LORE306" / "positive.jsonl")
    row = 'rule = "minimum_tokens"\nprovider = "anthropic"\nvalue = 1\nvalid_from = 2020-01-01\n'
    (desk / "own.toml").write_text(f'[[rules]]\n{row}source = "measured"\nevidence = "M"\n')
    codes = []
    for settings in ("", '[simulate]\nrules = "own.toml"\n'):
        (desk / "lore.toml").write_text(settings)
        found = {one["code"] for one in lore("check", name, "--json").json["findings"]}
        turns = lore("simulate", name, "--json").json["turns"]
        assert found == {one["code"] for turn in turns for one in turn["causes"]}
        codes.append("LORE306" in found)
    assert codes == [True, False]
