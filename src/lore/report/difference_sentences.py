"""One sentence for each kind of difference between two prompts (`lore.model.differences`).

In: evidence whose content is masked, or replaced by hashes. Out: text. Rules: what is so, where; a table of functions
by type, and nothing reads a sentence back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lore.model import differences as d
from lore.model.fields import Fact


def _words(one: d.Words) -> str:
    return one.text


def _header(one: d.HeaderChanged) -> str:
    if one.dropped:
        return "the billing header is another; the Claude API takes it out, so nothing is lost"
    return "the billing header is another, and here it is content like all other"


def _partial_prompt(_: d.PartialPrompt) -> str:
    return "it continues a response that is not recorded whole: both prompts may be the same there"


def _behind_breakpoint(_: d.BehindBreakpoint) -> str:
    return "the change is behind the last cache breakpoint"


def _tail_without_breakpoint(_: d.TailWithoutBreakpoint) -> str:
    return "the last message was rewritten, and nothing before it has a breakpoint: nothing is read again"


DIFFERENCES: dict[type[Fact], Callable[[Any], str]] = {
    d.Words: _words,
    d.HeaderChanged: _header,
    d.PartialPrompt: _partial_prompt,
    d.BehindBreakpoint: _behind_breakpoint,
    d.TailWithoutBreakpoint: _tail_without_breakpoint,
}
