"""What `lore check` makes of its options, at the edge: environment, clock, working directory, output."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lore.cli.common import tell

if TYPE_CHECKING:
    from rich.console import Console

    from lore.config import Loaded
    from lore.model.codes import Reader
    from lore.model.results import Checked
    from lore.recording.inputs import Input
    from lore.run.check import CheckContext
    from lore.run.reporting import Target
    from lore.run.verdicts import Dated


def held_against(
    loaded: Loaded, *, explicit: bool, select: Sequence[str], ignore: Sequence[str], baseline: str | None, update: bool,
    redact: bool, reader: Reader | None,
) -> CheckContext:  # fmt: skip
    """Put settings and options together: `--select` replaces what is set, `--ignore` adds to it.

    Paths in settings are relative to the file that was found, or to the working directory if it was named.
    """
    import msgspec

    from lore.errors import LoreError
    from lore.judge.policy import Narrowed, Policy
    from lore.recording import corpus
    from lore.run.check import CheckContext

    if update and baseline is None:
        raise LoreError("--update-baseline names no file", hint="give it with --baseline FILE")
    if baseline is not None and (not baseline or baseline == corpus.STDIN):
        raise LoreError("a baseline is a file", hint="--baseline lore-baseline.json")
    narrowed = Narrowed(_listed(select), _listed(ignore))
    Policy(select=narrowed.select, ignore=narrowed.ignore).known("--")
    both = next((one for one in narrowed.select if one.lower() in map(str.lower, narrowed.ignore)), None)
    if both is not None:
        raise LoreError(f"--select and --ignore both name {both}", hint="leave it out of one of them")
    policy = loaded.settings.check.policy
    policy = msgspec.structs.replace(
        policy, select=narrowed.select or policy.select, ignore=(*policy.ignore, *narrowed.ignore)
    )
    file = loaded.file
    return CheckContext(
        policy=policy,
        settings="" if file is None else corpus.show(os.path.relpath(file)),
        root="" if file is None or explicit else str(file.parent),
        path=baseline or "",
        update=update,
        redact=redact,
        narrowed=narrowed,
        dated=dated_rules(loaded),
        reader=reader or loaded.settings.check.reader,
    )


def dated_rules(loaded: Loaded) -> Dated:
    """Say by which rules bills are foreseen: those of the settings, whose path begins at their file."""
    from lore.run.verdicts import Dated

    simulate, file = loaded.settings.simulate, loaded.file
    rules = Path(simulate.rules or "")
    return Dated(str(rules if file is None else file.parent / rules) if simulate.rules else "", simulate.tolerance)


def needed(loaded: Loaded, baseline: str | None) -> dict[str, str]:
    """Name the files of a run that no report may replace."""
    found = {} if loaded.file is None else {"the file of the settings": str(loaded.file)}
    return found if baseline is None else {**found, "the baseline": baseline}


def _listed(given: Sequence[str]) -> tuple[str, ...]:
    """Return selectors, also those that are joined by commas."""
    return tuple(one.strip() for text in given for one in text.split(",") if one.strip())


class Wanted(NamedTuple):
    """Which recordings are wanted."""

    last: bool
    since: str | None
    format: str | None


class Chosen(NamedTuple):
    """What to judge: paths, which of their files, and where recordings were looked for (empty: they were named)."""

    paths: list[str]
    wanted: Callable[[Input], bool] | None = None
    looked: tuple[str, ...] = ()


def chosen(paths: list[str], which: Wanted) -> Chosen:
    """Say which files to judge; where none is named, look for them and say where."""
    from lore.recording import recent

    after = None if which.since is None else recent.since(which.since, time.time())
    wanted = None if after is None else partial(recent.is_as_new, since=after)
    looked: tuple[str, ...] = ()
    if not paths:
        found = recent.whereabouts(os.environ, os.path.expanduser("~"), os.getcwd())
        paths, looked = [found.path or os.curdir], found.looked
        tell(f"no path is given: looked in {recent.said(looked)}; judging {recent.said(paths)}")
    if which.last:
        try:
            paths = [recent.newest(paths, which.format)]
        except recent.NoRecordingError as error:
            raise recent.nothing(looked) if looked else error from None
        tell(f"the newest session is {recent.said(paths)}")
    return Chosen(paths, wanted, looked)


def write(result: Checked, asked: list[Target], paths: list[str], out: Console, *, verbose: bool) -> None:
    """Write all reports: files first, so that a closed pipe loses none of them."""
    from lore.run import reporting

    reporting.write_files(result, asked, [path for path in paths if not Path(path).is_dir()], verbose=verbose)
    reporting.step_summary(result, asked, os.environ, verbose=verbose)
    reporting.write_here(result, asked, out, verbose=verbose)
