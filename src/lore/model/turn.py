"""A recorded turn as the judge sees it: the prompt, what was billed, when, and what changed before it."""

from __future__ import annotations

from msgspec import Struct

from lore.model.events import Billed, Verdict
from lore.model.prompt import Prompt
from lore.model.state import Change
from lore.model.vector import Vector


class Turn(Struct, frozen=True):
    """One model request. Times are seconds since the epoch; `answered_at` is the response's first line.

    `changes` are the events since the turn before that entitle the prompt to differ; `line` and `byte`
    say where the recording holds the turn; `omitted` names what the dialect could not express, `unsaid`
    (where asked for) the types of the records in the timeline that no prompt can hold;
    `response_id` is the provider's name for the response, by which a copy of the turn is known.
    """

    chain: str
    number: int
    prompt: Prompt
    changes: tuple[Change, ...] = ()
    at: float | None = None
    answered_at: float | None = None
    usage: Billed | None = None
    verdict: Verdict | None = None
    line: int | None = None
    byte: int | None = None
    omitted: Vector[str] = Vector()
    response_id: str | None = None
    unsaid: Vector[str] = Vector()
