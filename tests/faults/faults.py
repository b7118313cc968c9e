"""Faults: a cause put into one turn of a stable capture, and the expected finding.

Rules: an injector changes the turns from number `k` on (0 is the first) and, where something is volatile,
puts its old form into those before; it raises Nowhere where the capture has no place for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from faults.bodies import DIALECTS
from faults.script import Capture, Request, Turn

CLAUDE = ("anthropic",)
WITH_BREAKPOINTS = ("anthropic", "bedrock")
OPENAI = ("openai-chat", "openai-responses")
TEXTS = ("anthropic", "openai-chat", "openai-responses")  # whose content may be a string
OBJECTS = ("anthropic", "gemini", "bedrock")  # whose calls' inputs are objects


class Nowhere(Exception):  # noqa: N818 - it says that there is nothing to do
    """A capture has no place for a fault at this turn."""


@dataclass(frozen=True)
class Fault:
    """A cause in one form."""

    code: str
    form: str
    inject: Callable[[Capture, int], None]
    dialects: tuple[str, ...] = DIALECTS
    content: bool = True  # bytes of the prompt move, so place and cost can be computed
    anywhere: bool = False  # the finding is about the capture, not the turn
    kind: str = "waste"  # of the finding; empty if any is right
    setup: dict[str, Any] = field(default_factory=dict)  # arguments of `stable`
    repeats: bool = False  # later turns have it, too

    @property
    def name(self) -> str:
        return f"{self.code} {self.form}"


FAULTS: list[Fault] = []


def fault(code: str, form: str, inject: Callable[[Capture, int], None], **options: Any) -> None:
    """Add a fault to the catalogue."""
    FAULTS.append(Fault(code, form, inject, **options))


def left_of(capture: Capture, k: int) -> Request:
    """Return the previous request: a changed part must have been sent."""
    return capture.turns[k - 1].request


def since(capture: Capture, k: int) -> list[Turn]:
    return capture.turns[k:]


def choose(capture: Capture, places: list[Any]) -> Any:
    if not places:
        raise Nowhere
    return capture.chance.choice(places)


def blocks_of(capture: Capture, k: int, kind: str, *, role: str = "", first: int = 1) -> list[tuple[int, int]]:
    """Return the places of sent blocks of a kind, without the last message if it alone is cached."""
    request = left_of(capture, k)
    last = len(request.messages) - (1 if "gpt-5.6" in request.model else 0)
    return [
        (number, place)
        for number, message in enumerate(request.messages[:last])
        for place, block in enumerate(message.blocks)
        if number >= first and block["kind"] == kind and (not role or message.role == role)
    ]


def volatile(
    place: str, form: Callable[[Any], tuple[str, str]], *, block: bool = False
) -> Callable[[Capture, int], None]:
    """Put a text that moves into the system prompt or into a message of the user; `block`: as one of its own."""

    def inject(capture: Capture, k: int) -> None:
        old, new = form(capture.chance)
        if place == "system":
            at = capture.chance.randrange(len(capture.turns[0].request.system))
            for number, turn in enumerate(capture.turns):
                _into_system(turn.request, at, new if number >= k else old, block=block)
        else:
            message, at = choose(capture, blocks_of(capture, k, "text", role="user", first=2))
            for number, turn in enumerate(capture.turns):
                if message < len(turn.request.messages):
                    text_block = turn.request.messages[message].blocks[at]
                    text_block["text"] = f"{text_block['text']}\n\n{new if number >= k else old}\n\nGo on with that."

    return inject


def _into_system(request: Request, at: int, words: str, *, block: bool) -> None:
    if block:
        request.system.insert(at, words)
        request.breakpoints = [
            ("system", point[1] + 1) if point[0] == "system" else point for point in request.breakpoints
        ]
    else:
        request.system[at] = f"{request.system[at]}\n\n{words}\n\nBe brief."
