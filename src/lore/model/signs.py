"""Signs: what a recording shows of a request besides its text, and what may move its prefix.

A reader says so with `observed`; the fold keeps it for the chain's next turn; cache models weigh it. The
names are fixed and say what was seen, never what follows from it. No finding of `lore check` reads them.
What a sign names (tools, skills, commands, hooks, servers) is bounded, so that a session's state is.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

MOST_NAMES = 64  # of a sign
LONGEST = 80  # characters of a name or a value

SIGNS: dict[str, str] = {
    "client-version": "the client's version changed",
    "effort": "the reasoning effort changed",
    "tool-reference": "a search for tools named definitions that the prompt now holds",
    "tools-delta": "the client announced other tools",
    "instructions-delta": "the client announced other instructions of tool servers",
    "micro-compaction": "a micro-compaction that names no result",
    "resume": "the session was resumed",
    "hook-context": "a hook's text was put into the prompt",
    "skill": "a skill was loaded",
    "slash-command": "a slash command ran",
    "interrupt": "the request was interrupted",
    "api-error": "the provider answered with an error",
    "permission-mode": "the permission mode changed",
    "image": "an image came in",
}


def bounded(names: Iterable[str]) -> tuple[str, ...]:
    """Return the first `MOST_NAMES` names in order, without repeats and empty ones, each cut to `LONGEST`."""
    return tuple(islice(dict.fromkeys(name[:LONGEST] for name in names if name), MOST_NAMES))
