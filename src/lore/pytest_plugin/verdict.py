"""Judge cassettes as `lore check` does, apart those that marked tests alone use; say it in lines.

What fails: a finding of severity error, a cassette that cannot be judged whole, nothing at all to judge.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from io import StringIO
from typing import NamedTuple

from lore.config import Loaded
from lore.errors import LoreError
from lore.model.results import Checked
from lore.recording.corpus import show
from lore.recording.opening import Options
from lore.report.console import console
from lore.report.plain import visible
from lore.report.registry import REPORTS
from lore.run.check import CheckContext, Outcome, check


class Verdict(NamedTuple):
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
) -> Verdict:  # fmt: skip
    """Judge files or folders; `users` names the tests of each file, with their reasons to move the prefix.

    `moved` names the tests that moved something else, so that their mark is needed.
    """
    excused = [path for path in paths if path in users and all(users[path].values())]
    others = [path for path in paths if path not in excused]
    try:
        strict, loose = (_outcome(some, loaded) for some in (others, excused))
    except LoreError as error:
        return Verdict(what, [visible(error.message)], _shown(error))
    lines = [*_lines(strict, users), *_excused(loose, excused, users, moved)]
    return Verdict(what, lines, _reason(strict, any_path=bool(paths)))


def _outcome(paths: list[str], loaded: Loaded) -> Outcome | None:
    if not paths:
        return None
    settings, file = loaded
    against = CheckContext(
        settings.check.policy,
        settings="" if file is None else show(os.path.relpath(file)),
        root="" if file is None else str(file.parent),
    )
    return check(paths, settings.check.budgets, Options(rules=settings.assemble), against=against, pass_over=True)


def _shown(error: LoreError) -> str:
    return visible(f"lore: {error.message}{error.hint and f' ({error.hint})'}")


def _reason(outcome: Outcome | None, *, any_path: bool) -> str:
    if not any_path:
        return "lore: there is no cassette to judge"
    if outcome is not None and outcome.failed:
        return "lore: cassettes waste their prompt cache"
    if outcome is not None and outcome.incomplete:
        return "lore: not every cassette could be judged"
    return ""


def _lines(outcome: Outcome | None, users: Mapping[str, Mapping[str, str]]) -> list[str]:
    if outcome is None:
        return []
    lines = _report(outcome.result)
    wrong = dict.fromkeys(one.path for one in outcome.result.findings if one.severity == "error")
    return lines + [f"{path} is used by {', '.join(users[path])}" for path in wrong if any(users.get(path, ()))]


def _report(result: Checked) -> list[str]:
    text = StringIO()
    REPORTS["terminal"].write(result, console(text, colour=False, terminal=False), verbose=False)
    return text.getvalue().splitlines()


def _excused(
    outcome: Outcome | None, paths: list[str], users: Mapping[str, Mapping[str, str]], moved: Collection[str]
) -> list[str]:
    """Say what the cassettes of marked tests hold, and which mark nothing needed."""
    if outcome is None:
        return []
    lines: list[str] = []
    for path in paths:
        found = [one for one in outcome.result.findings if one.path == path and one.severity == "error"]
        tests = ", ".join(f"{test} (reason: {reason})" for test, reason in users[path].items())
        if found:
            lines += [f"moved, as marked: {path} of {tests}", *(f"  {one.code} {one.name}" for one in found[:3])]
        elif not any(test in moved for test in users[path]):
            lines.append(f"marked, and moves nothing: {path} of {tests}; take the mark away")
    return [visible(line) for line in lines]
