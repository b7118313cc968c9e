"""The extent of a run: of which entries of a baseline, and of which exemptions, it can say that nothing needs them.

In: the files that were looked at, and what was looked for in them. Out: yes or no. Rule: what a run did not look
at, or not look for, or could not read whole, is not gone. So a run over the files of one commit, over `--last`, or
with `--select`, takes nothing out of a baseline, and finds no fault with exemptions of others.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from lore.errors import LoreError
from lore.judge.baseline import Entry
from lore.judge.policy import Exempt, Narrowed, matches_path
from lore.recording import corpus
from lore.recording.inputs import Input, inputs, key_of, path_of
from lore.recording.opening import kind_of

LOOKED_AT = 1000  # files that an exemption names are opened, to see whether they are recordings; with more, it stays


@dataclass(slots=True)
class Extent:
    """Files, relative to `root`: `whole` were judged from end to end, or are no recordings; `partly` were not."""

    whole: set[str] = field(default_factory=set[str])
    partly: set[str] = field(default_factory=set[str])
    narrowed: Narrowed = Narrowed()
    root: str = ""

    def about(self, entry: Entry) -> bool:
        """Tell whether this run could have matched an entry: its file was judged whole for that, or is gone."""
        if not self.narrowed.looks_for(entry.code) or entry.path in self.partly:
            return False
        if entry.path in self.whole:
            return True
        return not corpus.is_stored(entry.path) and not os.path.lexists(path_of(entry.path, self.root))

    def outlived(self, one: Exempt) -> bool:
        """Tell whether an exemption that took nothing out could have: every recording of its was judged whole."""
        if not self.narrowed.looks_for(one.code) or any(matches_path(one.path, key) for key in self.partly):
            return False
        try:
            files = [file for file in inputs([path_of(one.path, self.root)]) if self._unseen(file, one)]
        except LoreError:  # nothing is there any more
            return True
        return len(files) <= LOOKED_AT and not any(map(_may_be_recording, files))

    def _unseen(self, file: Input, one: Exempt) -> bool:
        key = key_of(file.path, self.root)
        return key not in self.whole and matches_path(one.path, key) and os.path.lexists(file.path)


def _may_be_recording(file: Input) -> bool:
    """Tell whether a file is a recording; one that cannot be looked at may be."""
    if file.stream or file.error is not None or os.path.isdir(file.path):
        return True
    try:
        return kind_of(corpus.open_head(file.path).head, None) is not None
    except LoreError:
        return True
