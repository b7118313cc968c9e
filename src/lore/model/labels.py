"""Labels that programs write before text that they add to a prompt, and what follows each label.

lore's layout writes its labels from this table; checks look for all of them. A label counts at the beginning of a line,
after mark-up or one tag: in the middle of a sentence, a person writes about it. Case matters. Settings add labels
(`[check] tail_labels`). Costs O(text).

Sources: lore's own layout; netclaw's assembler (its volatile block, its `[system: …]` nudges); the reminders of Claude
Code and of similar agents.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, TypeAlias

Holds: TypeAlias = Literal[
    "recalled memory", "a clock", "the working context", "a slash command", "an overlay", "a restart notice",
    "a knowledge update", "context from outside", "quoted data", "background jobs", "a nudge", "a reminder",
    "text under a label of the settings",
]  # fmt: skip

# Labels that lore's layout writes
MEMORY_RECALL, CURRENT_TIME, WORKING_CONTEXT = "[memory-recall]", "[current-time]", "[working-context]"
SLASH_COMMAND, OVERLAY, RESTART_NOTICE = "[slash-command]", "[overlay]", "[restart-notice]"
KNOWLEDGE_UPDATE = "[knowledge update"  # a token and a bracket follow
CONTEXT_REFRESH = "[Context refresh"  # a time and a bracket follow
DATA = "<<<DATA"  # a digest follows

LABELS: dict[str, Holds] = {
    MEMORY_RECALL: "recalled memory", CURRENT_TIME: "a clock", WORKING_CONTEXT: "the working context",
    SLASH_COMMAND: "a slash command", OVERLAY: "an overlay", RESTART_NOTICE: "a restart notice",
    KNOWLEDGE_UPDATE: "a knowledge update", CONTEXT_REFRESH: "context from outside", DATA: "quoted data",
    "[active-background-jobs]": "background jobs", "[system:": "a nudge", "current_utc": "a clock",
    "<system-reminder": "a reminder", "<reminder": "a reminder",
}  # fmt: skip
_BEFORE = r"[ \t>*#-]{0,8}(?:<[\w-]{1,40}>[ \t]?)?(?:\[system:[ \t]?)?"  # mark-up, a wrapper's tag, a nudge's opening


def find_labels(text: str, more: tuple[str, ...] = ()) -> dict[Holds, str]:
    """Return what the labels in a text hold, in their order, each with the first line from such a label on.

    `more` are the labels of the settings.
    """
    lines: dict[Holds, str] = {}
    for match in _pattern(more).finditer(text):
        lines.setdefault(LABELS.get(match["label"], "text under a label of the settings"), match["line"])
    return lines


@lru_cache(maxsize=16)
def _pattern(more: tuple[str, ...]) -> re.Pattern[str]:
    """Match a label at the beginning of a line, and the rest of its line; a longer label comes first."""
    names = [
        re.escape(label) + (r"(?![\w-])" if label[-1:].isalnum() else "")
        for label in sorted({*LABELS, *more}, key=lambda label: (-len(label), label))
    ]
    return re.compile(rf"^{_BEFORE}(?P<line>(?P<label>{'|'.join(names)})[^\n]{{0,200}})", re.MULTILINE)
