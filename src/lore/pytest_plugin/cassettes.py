"""`--lore-cassettes`: judge the recordings of a suite when its tests have run.

In: the cassettes that VCR opened in this run, with the tests that did; else all below folders named
`cassettes`; or all below a folder that was given. Out: a section at the end, exit status 1 where `lore check` would
not answer 0, and then a last line that says what failed and what to type next. Rules: whatever lore recognises counts,
the rest is passed over; what only marked tests use is reported and fails nothing; under xdist workers say what they
used and the controller judges. What fails: a finding of severity error, a cassette that cannot be judged whole, nothing
at all to judge.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Collection, Generator, Mapping
from fnmatch import fnmatch
from functools import wraps
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from lore.config import Loaded, find
from lore.errors import LoreError
from lore.model.results import CheckResult
from lore.pytest_plugin.running import MOVED, RUNNING
from lore.recording.corpus import show
from lore.recording.opening import Options
from lore.report.console import console
from lore.report.forms.registry import REPORTS
from lore.report.plain import visible
from lore.run.checking.check import CheckOutcome, CheckRun, check
from lore.run.checking.verdicts import CheckContext

FOLDER = "cassettes"
_SENT = "lore_cassettes"
_SHOWN = 3  # codes and paths in the last line
_OVER = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)

Used = dict[str, dict[str, str]]  # file -> test -> its reason to move the prefix, or nothing


class Cassettes:
    """Collects what is used, and judges it."""

    def __init__(self, config: pytest.Config, folder: str) -> None:
        self._config = config
        self._worker = hasattr(config, "workerinput")
        self._folder = self._given(folder) if folder else None
        try:
            self._settings = find(None, config.rootpath)
        except LoreError as error:
            raise pytest.UsageError(f"{error.message}{error.hint and f' ({error.hint})'}") from None
        self._used: Used = {}
        self._moved: set[str] = set()  # marked tests whose own assertions reported something
        self._verdict: CassetteVerdict | None = None
        self._watch()

    def _given(self, folder: str) -> str:
        path = os.path.join(self._config.invocation_params.dir, folder)
        if not os.path.isdir(path):
            fault = "is no folder" if os.path.exists(path) else "does not exist"
            raise pytest.UsageError(
                f"--lore-cassettes={folder} {fault}; to judge without a folder, put the option last"
            )
        return _path_shown(path)

    def _watch(self) -> None:
        """Listen to VCR, if it is installed: each cassette that is made names its file."""
        try:
            owner: Any = import_module("vcr.cassette").Cassette
        except ImportError:
            return
        original = owner.__init__

        @wraps(original)
        def made(cassette: Any, *args: Any, **kwargs: Any) -> None:
            original(cassette, *args, **kwargs)
            path = kwargs.get("path", args[0] if args else None)
            if isinstance(path, str | os.PathLike):
                self._note(os.path.abspath(os.fspath(cast("str", path))))

        owner.__init__ = made
        self._config.add_cleanup(lambda: setattr(owner, "__init__", original))

    def _note(self, path: str) -> None:
        test = RUNNING.test
        if test is not None:
            test.cassettes = True
        name, reason = ("", None) if test is None else (test.name, test.reason)
        self._used.setdefault(path, {})[name] = reason or ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember which marks were needed already."""
        if any(name == MOVED for name, _ in report.user_properties):
            self._moved.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker used."""
        sent: Used = getattr(node, "workeroutput", {}).get(_SENT, {})
        for path, tests in sent.items():
            self._used.setdefault(path, {}).update(tests)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Judge; a worker only says what it used."""
        if self._worker:
            cast("Any", self._config).workeroutput[_SENT] = self._used
            return
        if exitstatus in _OVER or self._config.option.collectonly:
            return
        self._verdict = self._judge()
        if self._verdict.failed and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _judge(self) -> CassetteVerdict:
        if self._folder is not None:
            return judged(f"all below {self._folder}", [self._folder], {}, self._settings)
        used = {_path_shown(path): tests for path, tests in self._used.items() if os.path.isfile(path)}
        if used:
            return judged("those that this run used", sorted(used), used, self._settings, moved=self._moved)
        return judged(f"all below folders named {FOLDER}", self._folders(), {}, self._settings)

    def _folders(self) -> list[str]:
        """List the folders of cassettes below the root, apart from where pytest does not look either."""
        avoided: list[str] = self._config.getini("norecursedirs")
        found: list[str] = []
        for path, folders, files in os.walk(self._config.rootpath):
            if "pyvenv.cfg" in files:
                folders.clear()
                continue
            if FOLDER in folders:
                found.append(_path_shown(os.path.join(path, FOLDER)))
            keep = (
                folder for folder in folders if folder != FOLDER and not any(fnmatch(folder, each) for each in avoided)
            )
            folders[:] = sorted(keep)
        return found

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was found."""
        verdict = self._verdict
        if verdict is None:
            return
        terminalreporter.section(f"lore: cassettes, {verdict.what}")
        for line in verdict.lines:
            terminalreporter.write_line(line)

    def ending(self) -> str:
        """Say why the run fails by its cassettes; empty where it does not."""
        return self._verdict.reason if self._verdict is not None else ""


class Ending:
    """Writes why cassettes fail as the last line, behind pytest's own short summary."""

    def __init__(self, cassettes: Cassettes) -> None:
        self._cassettes = cassettes

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, Any, Any]:
        """Let all others write, and write last."""
        result = yield
        if line := self._cassettes.ending():
            terminalreporter.ensure_newline()
            terminalreporter.write_line(line, red=True, bold=True)
        return result


def _path_shown(path: str) -> str:
    """Return a path from here where it is below, as a person would name it."""
    folder = Path.cwd()
    return os.path.relpath(path, folder) if Path(path).is_relative_to(folder) else path


class CassetteVerdict(NamedTuple):
    """What was judged, the lines to print, and why it fails (empty: it does not)."""

    what: str
    lines: list[str]
    reason: str

    @property
    def failed(self) -> bool:
        """Whether the run fails by it."""
        return bool(self.reason)


def judged(
    what: str, paths: list[str], users: Mapping[str, Mapping[str, str]], loaded: Loaded, *,
    moved: Collection[str] = (),
) -> CassetteVerdict:  # fmt: skip
    """Judge files or folders; `users` names the tests of each file, with their reasons to move the prefix.

    `moved` names the tests that moved something else, so that their mark is needed.
    """
    excused = [path for path in paths if path in users and all(users[path].values())]
    others = [path for path in paths if path not in excused]
    try:
        strict, loose = (_outcome(some, loaded) for some in (others, excused))
    except LoreError as error:
        return CassetteVerdict(what, [visible(error.message)], _shown(error))
    lines = [*_lines(strict, users), *_excused(loose, excused, users, moved)]
    return CassetteVerdict(what, lines, _reason(strict, any_path=bool(paths)))


def _outcome(paths: list[str], loaded: Loaded) -> CheckOutcome | None:
    if not paths:
        return None
    settings, file = loaded.settings, loaded.file
    context = CheckContext(
        settings.check.policy,
        settings="" if file is None else show(os.path.relpath(file)),
        root="" if file is None else str(file.parent),
        budgets=settings.check.budgets,
        options=Options(rules=settings.assemble),
    )
    return check(paths, context, CheckRun(pass_over=True))


def _shown(error: LoreError) -> str:
    return visible(f"lore: {error.message}{error.hint and f' ({error.hint})'}")


def _reason(outcome: CheckOutcome | None, *, any_path: bool) -> str:
    """Return the last line: what failed, how many, where, and what to type next."""
    if not any_path:
        return "lore: there is no cassette to judge: name their folder, --lore-cassettes=DIR"
    if outcome is None or not (outcome.failed or outcome.incomplete):
        return ""
    result = outcome.result
    wrong = [finding for finding in result.findings if finding.severity == "error"]
    if outcome.failed and wrong:
        codes = Counter(f"{finding.code} {finding.name}" for finding in wrong).most_common()
        paths = list(dict.fromkeys(finding.path for finding in wrong))
        what = f"{len(paths)} of {result.summary.files} cassettes waste their prompt cache"
        found = _listed([f"{times}x {code}" for code, times in codes])
        return visible(f"lore: {what}: {found}, in {_listed(paths)}; type: lore explain {wrong[0].code}")
    paths = list(dict.fromkeys(problem.file for problem in result.problems if problem.file))
    where = f": {_listed(paths)}; type: lore check {shlex.quote(paths[0])}" if paths else ""
    return visible(f"lore: not every cassette could be judged{where}")


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


def _lines(outcome: CheckOutcome | None, users: Mapping[str, Mapping[str, str]]) -> list[str]:
    if outcome is None:
        return []
    lines = _report(outcome.result)
    wrong = dict.fromkeys(finding.path for finding in outcome.result.findings if finding.severity == "error")
    return lines + [f"{path} is used by {', '.join(users[path])}" for path in wrong if any(users.get(path, ()))]


def _report(result: CheckResult) -> list[str]:
    text = StringIO()
    REPORTS["terminal"].write(result, console(text, colour=False, terminal=False), verbose=False)
    return text.getvalue().splitlines()


def _excused(
    outcome: CheckOutcome | None, paths: list[str], users: Mapping[str, Mapping[str, str]], moved: Collection[str]
) -> list[str]:
    """Say what the cassettes of marked tests hold, and which mark nothing needed."""
    if outcome is None:
        return []
    lines: list[str] = []
    for path in paths:
        found = [finding for finding in outcome.result.findings if finding.path == path and finding.severity == "error"]
        tests = ", ".join(f"{test} (reason: {reason})" for test, reason in users[path].items())
        if found:
            lines.append(f"moved, as marked: {path} of {tests}")
            lines += [f"  {finding.code} {finding.name}" for finding in found[:3]]
        elif not any(test in moved for test in users[path]):
            lines.append(f"marked, and moves nothing: {path} of {tests}; take the mark away")
    return [visible(line) for line in lines]
