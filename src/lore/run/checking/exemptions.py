"""Find exemptions that excuse nothing any more, and settings for paths that name no file.

An exemption is reported only if every file that its path names was judged from end to end in this run, or none is left.
So a run over the files of one commit, over `--last`, or with `--select` reports none of the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

from lore.errors import LoreError
from lore.files import current_folder
from lore.judge.base import finding
from lore.judge.totals import RunTotals
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.evidence import Unneeded
from lore.model.patterns import PathPattern
from lore.model.results import Finding
from lore.recording import filesystem
from lore.recording.inputs import inputs
from lore.run.checking.verdicts import CheckContext, key_of, path_of


def unused_exemptions(totals: RunTotals, context: CheckContext) -> Iterator[Finding]:
    """Find the exemptions of the settings that nothing needs any more."""
    policy, unjudged = context.policy, _Unjudged(totals, context.root)
    looks_for, may_be_needed = cache(context.narrowed.looks_for), cache(unjudged.may_match)
    partly = {number for key in totals.partly for number in policy.exempt_paths.numbers(key)}
    needed = {group.path for number, group in enumerate(policy.exempt_groups) if number in partly}
    for number, exempt in enumerate(policy.exempt):
        if totals.excused[number] or exempt.path in needed or not looks_for(exempt.code.upper()):
            continue
        if not may_be_needed(exempt.path):
            where = " ".join(filter(None, (exempt.path, exempt.chain, exempt.json_path)))
            unneeded = Unneeded("exemption", exempt.code, where, exempt.reason)
            place = Place(context.settings or "lore.toml")
            yield finding(Code.EXEMPTION_UNUSED, place, unneeded, json_path=f"check.exempt[{number}]")


def unmatched_paths(totals: RunTotals, context: CheckContext) -> Iterator[str]:
    """Yield what to say of entries of `per_path` whose paths name no file."""
    may_match = _Unjudged(totals, context.root).may_match
    for number, entry in enumerate(context.policy.per_path, 1):
        pattern = PathPattern(entry.path)
        if not any(map(pattern.matches, (*totals.whole, *totals.partly))) and not may_match(entry.path):
            yield f"{context.settings or 'lore.toml'}: check.per_path, entry {number}: no file matches {entry.path!r}"


class _Unjudged:
    """The files in the folder of the settings that a run did not judge.

    Each folder is listed once. Neither `..` nor a link leads out of the folder of the settings.
    """

    def __init__(self, totals: RunTotals, root: str) -> None:
        self._judged, self._root = totals.whole, root
        self._keys = cache(self._list)

    def may_match(self, path: str) -> bool:
        """Return whether the pattern of an exemption may match one of them."""
        pattern = PathPattern(path)
        rest = "" if pattern.is_literal else pattern.text.removeprefix(pattern.folder)
        is_hidden = rest != "." and (rest.startswith(".") or "/." in rest)  # hidden files are not listed
        base = pattern.text if pattern.is_literal else pattern.folder.rstrip("/")
        folder = path_of(base, self._root) if base else self._root or os.curdir
        if filesystem.is_remote(path) or is_hidden or not self._is_inside(folder):
            return True
        return any(map(pattern.matches, self._keys(folder)))

    def _list(self, path: str) -> list[str]:
        """Return the unjudged files at or below a path, relative to the settings."""
        try:
            files = inputs([path])
        except LoreError:  # nothing is there any more
            return []
        keys = [key_of(file.path, self._root) for file in files if os.path.lexists(file.path)]
        return [key for key in keys if key not in self._judged]

    def _is_inside(self, path: str) -> bool:
        root = self._root or current_folder()
        if not root:  # the current folder was deleted: nothing lies in it
            return False
        root, place = os.path.realpath(root), os.path.realpath(path)
        return place == root or place.startswith(os.path.join(root, ""))
