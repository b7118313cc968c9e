"""Find exemptions that excuse nothing any more.

An exemption is reported only if every recording that its path names was judged whole in this run, or none is left.
A run over the files of one commit, over `--last`, or with `--select` reports none of the others. Only the folder of
the settings is searched: neither `..` nor a link leads out of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

from lore.errors import LoreError
from lore.files import current_folder
from lore.judge.base import finding
from lore.judge.policy import NarrowedRun, Policy
from lore.judge.totals import RunTotals
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.evidence import Unneeded
from lore.model.limits import EXEMPTED_FILES
from lore.model.patterns import PathPattern
from lore.model.results import Finding
from lore.recording import corpus, filesystem
from lore.recording.inputs import Input, inputs
from lore.recording.opening import kind_of
from lore.run.checking.places import key_of, path_of


def unused_exemptions(
    totals: RunTotals, policy: Policy, settings: str, root: str, narrowed: NarrowedRun
) -> Iterator[Finding]:  # fmt: skip
    """Find the exemptions of `settings`, a file in the folder `root`, that nothing needs any more."""
    unjudged = _Unjudged(totals, policy, root)
    looks_for = cache(narrowed.looks_for)
    for number, exempt in enumerate(policy.exempt):
        if totals.excused[number] or not looks_for(exempt.code.upper()) or unjudged.may_need(exempt.path):
            continue
        where = " ".join(filter(None, (exempt.path, exempt.chain, exempt.json_path)))
        unneeded = Unneeded("exemption", exempt.code, where, exempt.reason)
        yield finding(
            Code.EXEMPTION_UNUSED, Place(settings or "lore.toml"), unneeded, json_path=f"check.exempt[{number}]"
        )


class _Unjudged:
    """The files that exemptions name and that a run did not judge whole; each folder is listed once."""

    def __init__(self, totals: RunTotals, policy: Policy, root: str) -> None:
        self._totals, self._policy, self._root = totals, policy, root
        partly = {number for key in totals.partly for number in policy.exempt_paths.numbers(key)}
        self._needed = {group.path: number in partly for number, group in enumerate(policy.exempt_groups)}
        self._searched: dict[str, bool] = {}  # path of a group -> whether an unjudged recording may need it
        self._listed: dict[str, list[tuple[str, Input]]] = {}
        self._recordings: dict[str, bool] = {}

    def may_need(self, path: str) -> bool:
        """Return whether a recording that was not judged whole may need an exemption for this path."""
        if self._needed[path] or filesystem.is_remote(path):
            return True
        if path not in self._searched:
            self._searched[path] = self._search(PathPattern(path))
        return self._searched[path]

    def _search(self, pattern: PathPattern) -> bool:
        if pattern.is_literal:
            return self._search_in(pattern.text, pattern)
        rest = pattern.text.removeprefix(pattern.folder)
        if rest != "." and (rest.startswith(".") or "/." in rest):  # hidden files are not listed
            return True
        return self._search_in(pattern.folder.rstrip("/"), pattern)

    def _search_in(self, base: str, pattern: PathPattern) -> bool:
        path = path_of(base, self._root) if base else self._root or os.curdir
        if not self._is_inside(path):
            return True
        files = [file for key, file in self._files(path) if pattern.matches(key)]
        return len(files) > EXEMPTED_FILES or any(map(self._may_be_recording, files))

    def _files(self, path: str) -> list[tuple[str, Input]]:
        """List the files at or below a path that were not judged whole, with their paths relative to the settings."""
        if path not in self._listed:
            try:
                files = inputs([path])
            except LoreError:  # nothing is there any more
                files = []
            keyed = [(key_of(file.path, self._root), file) for file in files if os.path.lexists(file.path)]
            self._listed[path] = [(key, file) for key, file in keyed if key not in self._totals.whole]
        return self._listed[path]

    def _is_inside(self, path: str) -> bool:
        root = self._root or current_folder()
        if not root:  # the current folder was deleted: nothing lies in it
            return False
        root, place = os.path.realpath(root), os.path.realpath(path)
        return place == root or place.startswith(os.path.join(root, ""))

    def _may_be_recording(self, file: Input) -> bool:
        """Return whether a file is a recording; one that cannot be looked at, or is elsewhere, may be."""
        if file.path not in self._recordings:
            self._recordings[file.path] = not self._is_inside(file.path) or _may_be_recording(file)
        return self._recordings[file.path]


def _may_be_recording(file: Input) -> bool:
    if file.stream or file.error is not None or os.path.isdir(file.path):
        return True
    try:
        return kind_of(corpus.open_head(file.path).head, None) is not None
    except LoreError:
        return True
