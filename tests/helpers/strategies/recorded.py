"""Real recordings as timelines."""

from functools import cache

from lore.fold.step import Folding
from lore.formats.claude.reader import ClaudeCode
from lore.model.codes import Problem
from lore.model.state import FoldedSession


@cache
def entries_of(path):
    """The main chain's entries of a Claude Code session; none for other recordings."""
    if path.parent.name != "claude-code":
        return ()
    reader, folding = ClaudeCode(), Folding(FoldedSession())
    for item in reader.read([path.read_bytes()]):
        if not isinstance(item.value, Problem):
            folding.apply(item.value)
    return tuple(folding.state().main().entries)
