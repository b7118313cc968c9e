"""What the reader of Kimi CLI's sessions remembers, of both files of a session."""

from __future__ import annotations

from msgspec import Raw, Struct, field

from lore.formats.kimi_content import Usage
from lore.formats.transcripts import TranscriptMemory, TranscriptTurns
from lore.model.items import NULL


class Mark(Struct, gc=False, omit_defaults=True):
    """A bill (`name`: its message's id), a compaction (begun, ended) or a sign; when it came, when it was asked for."""

    kind: str
    at: str | None
    asked_at: str | None = None
    name: str = ""
    before: str = ""
    after: str = ""
    usage: Usage | None = None


class Prompt(Struct, gc=False):
    """What a user said, until a step shows that it was sent."""

    uuid: str
    at: str | None
    content: Raw


class WireChain(Struct):
    """What is remembered of a chain of the screen's log.

    `response` names the step under way (empty: none has answered), `asked_at` says when it began, `messages` has the
    items of each message that stands; `command` says that the last prompt asks for a compaction.
    """

    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    prompts: list[Prompt] = []
    asked_at: str | None = None
    response: str = ""
    messages: list[list[str]] = []
    command: bool = False
    planning: bool | None = None


class Sent(Struct, gc=False):
    """A line of the model's log: its length and checksum, the items that it made, whether it is a message."""

    digest: int
    items: tuple[str, ...] = ()
    is_message: bool = False


class Request(Struct):
    """The request under way in the model's log: its number, its bill, its whole input, whether its answer came."""

    turn: int
    bill: Mark | None = None
    asked: int | None = None
    answered: bool = False


class ContextState(Struct):
    """What is remembered of the model's log.

    `lines` are those of the file that is read, `before` those of the file that it took the place of: as long as
    `phase` is `same`, its first `same` lines are those of this file; `parted` at a line that is none of them, and no
    message; `kept` while so many messages that a compaction kept follow its `summary` (then `before` are messages
    alone, of which the next may be at one of `places`); `restored` while other messages follow it that were answered
    before; then `new`.
    """

    file: str = ""
    lines: list[Sent] = []
    before: list[Sent] = []
    phase: str = "same"
    same: int = 0
    kept: int = 0
    places: list[int] = []
    summary: Raw = NULL
    divider: str = ""
    asked: int | None = None
    request: Request | None = None
    played: int = 0


class KimiMemory(TranscriptMemory):
    """All of it; `joined` says that messages come from the model's log, for which `marks` of the screen's wait."""

    started: bool = False
    joined: bool = False
    dialect: str = "openai-chat"
    chains: dict[str, WireChain] = {}
    marks: list[Mark] = []
    context: ContextState = field(default_factory=ContextState)
