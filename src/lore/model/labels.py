"""The labels that a program's own text opens with: lore's layout writes its own by this table, the guards know all.

In: text. Out: the labels that it holds, and what stands under them. Rules: a label counts at the beginning of a line
(mark-up and a tag before it aside), where programs write it; in the middle of a sentence somebody speaks of it. Labels
are told apart by their case. Settings may add to the table (`[check] tail_labels`). Cost: O(text).

Sources: lore's own layout; netclaw's assembler (its volatile block, its `[system: …]` nudges); the reminders of Claude
Code and of agents after it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

Holds: TypeAlias = Literal[
    "recalled memory", "a clock", "the working context", "a slash command", "an overlay", "a restart notice",
    "a knowledge update", "context from outside", "quoted data", "background jobs", "a nudge", "a reminder",
    "text under a label of the settings",
]  # fmt: skip

# What lore's layout writes: the part of a turn's context, its label.
MEMORY_RECALL, CURRENT_TIME, WORKING_CONTEXT = "[memory-recall]", "[current-time]", "[working-context]"
SLASH_COMMAND, OVERLAY, RESTART_NOTICE = "[slash-command]", "[overlay]", "[restart-notice]"
KNOWLEDGE_UPDATE = "[knowledge update"  # goes on with a token and a bracket
CONTEXT_REFRESH = "[Context refresh"  # goes on with a time and a bracket
DATA = "<<<DATA"  # goes on with a digest

LABELS: dict[str, Holds] = {
    MEMORY_RECALL: "recalled memory",
    CURRENT_TIME: "a clock",
    WORKING_CONTEXT: "the working context",
    SLASH_COMMAND: "a slash command",
    OVERLAY: "an overlay",
    RESTART_NOTICE: "a restart notice",
    KNOWLEDGE_UPDATE: "a knowledge update",
    CONTEXT_REFRESH: "context from outside",
    DATA: "quoted data",
    "[active-background-jobs]": "background jobs",
    "[system:": "a nudge",
    "current_utc": "a clock",
    "<system-reminder": "a reminder",
    "<reminder": "a reminder",
}


_BEFORE = r"[ \t>*#-]{0,8}(?:<[\w-]{1,40}>[ \t]?)?(?:\[system:[ \t]?)?"  # mark-up, a wrapper's tag, a nudge's opening


class Labelled(NamedTuple):
    """What stands under a label, and the line from the label on."""

    holds: Holds
    line: str


def labelled(text: str, more: tuple[str, ...] = ()) -> tuple[Labelled, ...]:
    """Return the labels that a text holds, each kind once, in their order; `more` are those of the settings."""
    found: dict[Holds, Labelled] = {}
    for match in _pattern(more).finditer(text):
        holds = LABELS.get(match["label"], "text under a label of the settings")
        found.setdefault(holds, Labelled(holds, match["line"]))
    return tuple(found.values())


@lru_cache(maxsize=16)
def _pattern(more: tuple[str, ...]) -> re.Pattern[str]:
    """Match a label at the beginning of a line, and the rest of its line; a longer label comes first."""
    names = [
        re.escape(label) + (r"(?![\w-])" if label[-1:].isalnum() else "")
        for label in sorted({*LABELS, *more}, key=lambda label: (-len(label), label))
    ]
    return re.compile(rf"^{_BEFORE}(?P<line>(?P<label>{'|'.join(names)})[^\n]{{0,200}})", re.MULTILINE)
