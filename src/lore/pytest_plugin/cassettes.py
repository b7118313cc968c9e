"""`--lore-cassettes`: judge the recordings of a suite after its tests.

Judged are the cassettes that VCR opened in this run, with the tests that did; else all below folders named `cassettes`;
or all below a folder that was given. Other files than recordings are skipped. A section at the end shows the findings;
the exit status is 1 if `lore check` would not answer 0, and then a last line names the failure and the next command.
Cassettes that only marked tests use are reported and fail nothing. Under xdist workers send the names of their
cassettes, and the controller judges. The run fails by a finding of severity error, by a cassette that cannot be judged
whole, and without any cassette.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Generator
from fnmatch import fnmatch
from functools import wraps
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from lore.config import find
from lore.errors import LoreError
from lore.model.results import Finding
from lore.pytest_plugin.recorder import MOVED, PROCESS
from lore.report.console import Console
from lore.report.forms.base import REPORTS
from lore.report.plain import visible
from lore.run.checking.check import CheckOutcome, CheckRun, check
from lore.run.checking.verdicts import CheckContext

FOLDER = "cassettes"
_OUTPUT_KEY = "lore_cassettes"
_MOST_LISTED = 3  # codes and paths in the last line
_OVER = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)

Used = dict[str, dict[str, str]]  # file -> test -> its reason to move the prefix, or an empty text


class CassetteVerdict(NamedTuple):
    """The result of judging cassettes."""

    what: str  # which cassettes were judged
    lines: list[str]
    reason: str  # why the run fails; empty if it does not


class Cassettes:
    """Collects the cassettes of a run, and judges them."""

    def __init__(self, config: pytest.Config, folder: str) -> None:
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        path = os.path.join(config.invocation_params.dir, folder)
        if not os.path.isdir(path):
            fault = "is not a folder" if os.path.exists(path) else "does not exist"
            raise pytest.UsageError(f"--lore-cassettes={folder} {fault}")
        self._folder = _shown_path(path) if folder else None
        try:
            self._settings = find(None, config.rootpath)
        except LoreError as error:
            raise pytest.UsageError(f"{error.message}{error.hint and f' ({error.hint})'}") from None
        self._used: Used = {}
        self._moved: set[str] = set()  # marked tests whose own assertions reported something
        self._verdict: CassetteVerdict | None = None
        self._watch()

    def _watch(self) -> None:
        """Wrap the constructor of VCR's cassettes, if VCR is installed, to note their files."""
        try:
            owner: Any = import_module("vcr.cassette").Cassette
        except ImportError:
            return
        original = owner.__init__

        @wraps(original)
        def noting(cassette: Any, *args: Any, **kwargs: Any) -> None:
            original(cassette, *args, **kwargs)
            path = kwargs.get("path", args[0] if args else None)
            if isinstance(path, str | os.PathLike):
                self._note(os.path.abspath(os.fspath(cast("str", path))))

        owner.__init__ = noting
        self._config.add_cleanup(lambda: setattr(owner, "__init__", original))

    def _note(self, path: str) -> None:
        test = PROCESS.test
        if test is not None:
            test.cassettes = True
        name, reason = ("", None) if test is None else (test.name, test.reason)
        self._used.setdefault(path, {})[name] = reason or ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a marked test that moved the prefix of its own requests: it needs its mark."""
        if any(name == MOVED for name, _ in report.user_properties):
            self._moved.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the cassettes that a worker used."""
        for path, tests in getattr(node, "workeroutput", {}).get(_OUTPUT_KEY, {}).items():
            self._used.setdefault(path, {}).update(tests)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Judge; a worker only sends the names of its cassettes."""
        if self._is_worker:
            cast("Any", self._config).workeroutput[_OUTPUT_KEY] = self._used
        elif exitstatus not in _OVER and not self._config.option.collectonly:
            self._verdict = self._judge()
            if self._verdict.reason and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, Any, Any]:
        """Write the findings after all other plugins, and as the last line why the run fails by them."""
        result = yield
        if self._verdict is not None:
            terminalreporter.section(f"lore: cassettes, {self._verdict.what}")
            for line in self._verdict.lines:
                terminalreporter.write_line(line)
            if self._verdict.reason:
                terminalreporter.write_line(self._verdict.reason, red=True, bold=True)
        return result

    def _judge(self) -> CassetteVerdict:
        used: Used = {}
        if self._folder is not None:
            what, paths = f"all below {self._folder}", [self._folder]
        elif used := {_shown_path(path): tests for path, tests in self._used.items() if os.path.isfile(path)}:
            what, paths = "those that this run used", sorted(used)
        else:
            what, paths = f"all below folders named {FOLDER}", self._folders()
        excused = [path for path in paths if path in used and all(used[path].values())]
        try:
            strict, loose = (
                check(some, CheckContext.of(self._settings), CheckRun(pass_over=True)) if some else None
                for some in ([path for path in paths if path not in excused], excused)
            )
        except LoreError as error:
            hint = f" ({error.hint})" if error.hint else ""
            return CassetteVerdict(what, [visible(error.message)], visible(f"lore: {error.message}{hint}"))
        lines = [] if strict is None else _lines(strict, used)
        lines += [] if loose is None else self._excused_lines(loose, excused, used)
        reason = "" if strict is None else _reason(strict)
        if not paths:
            reason = "lore: there is no cassette to judge: name their folder, --lore-cassettes=DIR"
        return CassetteVerdict(what, lines, reason)

    def _folders(self) -> list[str]:
        """Return the folders of cassettes below the root, without folders that pytest does not search."""
        avoided: list[str] = self._config.getini("norecursedirs")
        cassette_folders: list[str] = []
        for path, folders, files in os.walk(self._config.rootpath):
            if "pyvenv.cfg" in files:
                folders.clear()
            if FOLDER in folders:
                cassette_folders.append(_shown_path(os.path.join(path, FOLDER)))
            folders[:] = sorted(
                name for name in folders if name != FOLDER and not any(fnmatch(name, pattern) for pattern in avoided)
            )
        return cassette_folders

    def _excused_lines(self, outcome: CheckOutcome, paths: list[str], used: Used) -> list[str]:
        """Return what the cassettes of marked tests hold, and which marks were not needed."""
        lines: list[str] = []
        for path in paths:
            wrong = [finding for finding in _errors(outcome) if finding.path == path]
            has_break = any(finding.path == path and finding.is_break for finding in outcome.result.findings)
            tests = ", ".join(f"{test} (reason: {reason})" for test, reason in used[path].items())
            if wrong:
                lines.append(f"moved, as marked: {path} of {tests}")
                lines += [f"  {finding.code} {finding.name}" for finding in wrong[:3]]
            elif not has_break and self._moved.isdisjoint(used[path]):
                lines.append(f"marked, and moves nothing: {path} of {tests}; take the mark away")
        return [visible(line) for line in lines]


def _shown_path(path: str) -> str:
    """Return a path relative to the current folder if it is below."""
    folder = Path.cwd()
    return os.path.relpath(path, folder) if Path(path).is_relative_to(folder) else path


def _errors(outcome: CheckOutcome) -> list[Finding]:
    return [finding for finding in outcome.result.findings if finding.severity == "error"]


def _reason(outcome: CheckOutcome) -> str:
    """Return the last line: the failing codes, how often, where, and the next command; empty if the run passes."""
    if not (outcome.failed or outcome.incomplete):
        return ""
    result, wrong = outcome.result, _errors(outcome)
    if outcome.failed and wrong:
        codes = Counter(f"{finding.code} {finding.name}" for finding in wrong).most_common()
        paths = list(dict.fromkeys(finding.path for finding in wrong))
        verb = "waste their prompt cache" if not any(finding.code.startswith("LORE2") for finding in wrong) else "fail"
        failing = len({*paths} & {*outcome.recordings})  # other paths are those of settings
        what = f"{failing} of {result.summary.files} cassettes {verb}" if failing else "the cassettes fail"
        causes = _list([f"{times}x {code}" for code, times in codes])
        return visible(f"lore: {what}: {causes}, in {_list(paths)}; type: lore explain {codes[0][0].partition(' ')[0]}")
    paths = list(dict.fromkeys(problem.file for problem in outcome.unjudged if problem.file))
    where = f": {_list(paths)}; type: lore check {shlex.quote(paths[0])}" if paths else ""
    return visible(f"lore: not every cassette could be judged{where}")


def _list(words: list[str]) -> str:
    more = f" and {len(words) - _MOST_LISTED} more" if len(words) > _MOST_LISTED else ""
    return ", ".join(words[:_MOST_LISTED]) + more


def _lines(outcome: CheckOutcome, users: Used) -> list[str]:
    """Return the report, and the tests of each failing cassette."""
    text = StringIO()
    REPORTS["terminal"].write(outcome.result, Console(text, colour=False, terminal=False), verbose=False)
    wrong = dict.fromkeys(finding.path for finding in _errors(outcome))
    used = [f"{path} is used by {', '.join(users[path])}" for path in wrong if any(users.get(path, ()))]
    return text.getvalue().splitlines() + used
