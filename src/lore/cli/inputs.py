"""What a command that takes recordings judges: the paths that are given, or what is found where agents keep logs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lore.cli.common import surroundings, tell

if TYPE_CHECKING:
    from lore.recording.inputs import Input


class Chosen(NamedTuple):
    """What to judge: paths, which of their files, and where recordings were looked for (empty: they were named)."""

    paths: list[str]
    wanted: Callable[[Input], bool] | None = None
    looked: tuple[str, ...] = ()


def chosen_inputs(
    paths: list[str], *, last: bool = False, since: str | None = None, format: str | None = None
) -> Chosen:
    """Say which files to judge; where none is named, look for them and say where."""
    from lore.recording import recent

    after = None if since is None else recent.since(since, time.time())
    wanted = None if after is None else partial(recent.is_as_new, since=after)
    looked: tuple[str, ...] = ()
    if not paths:
        found = recent.whereabouts(surroundings())
        paths, looked = [*found.paths] or [os.curdir], found.looked
        tell(f"no path is given: judging {recent.shown_places(paths)}")
    if last:
        try:
            paths = [recent.newest(paths, format)]
        except recent.NoRecordingError as error:
            raise recent.nothing(looked) if looked else error from None
        tell(f"the newest session is {recent.shown_places(paths)}")
    return Chosen(paths, wanted, looked)
