"""Any chat template in Jinja, rendered as inference engines do.

A template needs all messages at once, so this dialect works in two steps: `head` and `render` give segments
that hold tools and messages as JSON, and `finish` renders a prompt of them to a prompt of text. The variables
are those of Hugging Face transformers and vLLM: `messages` (content a string, `tool_calls` with arguments as
an object, `reasoning_content` for thinking, tool messages with `tool_call_id` and `name`), `tools` (or none),
`documents` (none), `add_generation_prompt`, `bos_token`, `eos_token`, `raise_exception`, and `strftime_now` at
a given time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

from msgspec import Raw

from lore.errors import LoreError
from lore.model.canonical import decode, encode
from lore.model.items import ToolCall
from lore.model.prompt import Fidelity, Prompt, Segment
from lore.model.vector import Vector
from lore.prompt.base import Breakpoint, Capability, Memo, Place, Rendered, Unit, can, cannot
from lore.prompt.dialects.chatml import parsed
from lore.prompt.dialects.content import apart
from lore.prompt.dialects.text import function, result, texts, thoughts, whole
from lore.prompt.sandbox import WORK, Sandbox
from lore.prompt.strftime import moment, strftime

# Where text is cut into segments: at line ends, and around what parts messages in the usual templates. A longer
# text is cut at the same places, so that what was stable stays the same segments.
_PIECE = re.compile(
    r"\n|.+?(?:\n|\|>|｜>|</s>|\[/INST\]|<end_of_turn>|(?=<\||<｜|</s>|\[INST\]|<end_of_turn>))", re.DOTALL
)

_INJECTED = "context_injection"  # what an origin begins with, and the role of a place behind such a message


class JinjaTemplate:
    """Dialect of text rendered by a chat template.

    Call `finish` on each assembled prompt to compare prompts as the text that an engine sees; `write` does
    it where it was not done. A rendering reads the whole history: O(history) a turn, so all turns of a
    session cost O(turns x history). `notes` is what a user should be told of the template, once. Raises
    LoreError where it does not compile.
    """

    name: ClassVar[str] = "template"
    capabilities: ClassVar[Mapping[str, Capability]] = {
        "system messages in mid-conversation": cannot(
            "the context of a turn goes in the user's role: templates may refuse them"
        ),
        "thinking": can("as reasoning_content of its message; the template decides what it keeps"),
        "images": cannot("left out: content is text"),
        "images in tool results": cannot("left out: content is text"),
        "messages of one role in a row": can(
            "what lore puts in is joined to the user's; the template may refuse others"
        ),
        "blocks of another provider": cannot("their text where they have one, else left out"),
        "tools of another provider": can(
            "functions are rewritten, their schema as spelled; a provider's own stand as recorded: a template may fail"
        ),
        "parameters of another provider": cannot("left out: text carries none"),
        "cache breakpoints": cannot("text carries none: engines reuse the longest common prefix"),
        "control text in content": cannot("kept as it stands, unless the template changes it"),
    }

    def __init__(
        self, source: str, *, bos_token: str = "", eos_token: str = "", now: str | None = None, file: str | None = None
    ) -> None:
        time = moment(now)

        def strftime_now(format: str) -> str:
            return strftime(time, format)

        self._sandbox = Sandbox(source, {"strftime_now": strftime_now}, file=file)
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self.notes: tuple[str, ...] = _notes(source, self._tokens)

    def recognises(self, body: dict[str, bytes]) -> bool:
        return False  # text has no members to be recognised by

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        return parsed(self.name, body)

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        listed = [Segment("tools", f"tools[{n}]", function(tool), "tool") for n, tool in enumerate(apart(tools))]
        texts = [Segment("system", f"messages[0].content[{n}]", text, "text") for n, text in enumerate(system)]
        return (*listed, *texts)

    def first(self, head: tuple[Segment, ...]) -> Place:
        return Place(1, "system") if any(one.section == "system" for one in head) else Place()

    def render(self, unit: Unit, place: Place) -> Rendered:
        omitted: list[str] = []
        said = texts(unit.blocks, omitted)
        thought = thoughts(unit.blocks)
        if said and not thought and _is_joined(unit, place):
            space = "" if unit.joins else "\n"  # what is injected is parted from the user's words by a blank line
            text = encode(space + "\n".join(said))
            block = Segment("messages", f"messages[{place.messages - 1}].content", text)
            after = place if unit.joins else Place(place.messages, _role(unit), place.blocks + 1)
            return Rendered((block,), after, tuple(omitted))
        messages = [_result(call, omitted) for call in unit.calls] if unit.role == "results" else []
        if said or thought or (unit.calls and not messages):
            messages.append(_message(unit, said, thought))
        if not messages:
            return Rendered((), place, tuple(omitted))
        segments = tuple(
            [
                Segment("messages", f"messages[{number}]", encode(message), "envelope")
                for number, message in enumerate(messages, place.messages)
            ]
        )
        return Rendered(segments, Place(place.messages + len(messages), _role(unit, messages[-1]), 1), tuple(omitted))

    def breakpoint(self, model: str | None, ttl: str) -> Breakpoint | None:
        return None

    def takes_breakpoint(self, segment: Segment) -> bool:
        return False

    def finish(self, prompt: Prompt) -> Prompt:
        """Return the prompt as text: what is rendered without the tail, and the rest.

        The stable part is the text of head and messages as far as the whole text begins with it, the tail
        all behind it: volatile context, and what opens the model's answer. A prompt that is text already is
        returned as it is. Renders twice; cost O(history). Raises LoreError where the template fails.
        """
        if prompt.fidelity == "rendered":
            return prompt
        tools = [_read(one) for one in prompt.head if one.section == "tools"]
        before = _messages(_system(prompt.head), prompt.messages)
        work = _work(prompt)
        stable = self._text(before, tools, work, opened=False)
        text = self._text(_messages(before, prompt.tail), tools, work, opened=True)
        pieces, rest = _cut(stable, text)
        tail = (Segment("messages", "text", rest.encode(), "text", origin="what follows history"),) if rest else ()
        return Prompt(dialect=self.name, fidelity="rendered", model=prompt.model, messages=Vector(pieces), tail=tail)

    def write(self, prompt: Prompt) -> bytes:
        return b"".join([segment.data for segment in self.finish(prompt)])

    def _text(self, messages: list[dict[str, Any]], tools: list[Any], work: int, *, opened: bool) -> str:
        given = {"messages": messages, "tools": tools or None, "documents": None, "add_generation_prompt": opened}
        return whole(self._sandbox.render({**given, **self._tokens}, work))


def _notes(source: str, tokens: Mapping[str, str]) -> tuple[str, ...]:
    """Say which tokens a template names that nothing was given for: its text then lacks them."""
    missing = [name for name, value in tokens.items() if not value and re.search(rf"\b{name}\b", source)]
    return tuple([f"the template names {name}, which is empty: set assemble.{name}" for name in missing])


def _is_joined(unit: Unit, place: Place) -> bool:
    """Tell whether a text extends the last message: it asks to, or what lore put in stands before a user's words.

    Templates whose roles must alternate would refuse two messages of the user.
    """
    if unit.joins:
        return place.role in ("user", "tool", _INJECTED)
    return unit.role == "user" and place.role == _INJECTED


def _role(unit: Unit, message: Mapping[str, object] | None = None) -> str:
    """Name the role of the last message; one that was put in is known by a name of its own."""
    role = "user" if message is None else str(message["role"])
    return _INJECTED if role == "user" and unit.origin.startswith(_INJECTED) else role


def _message(unit: Unit, said: list[str], thought: list[str]) -> dict[str, object]:
    message: dict[str, object] = {"role": "user" if unit.role == "results" else unit.role, "content": "\n".join(said)}
    if thought:
        message["reasoning_content"] = "\n".join(thought)
    if unit.calls and unit.role != "results":
        message["tool_calls"] = [_call(call) for call in unit.calls]
    return message


def _call(call: ToolCall) -> dict[str, object]:
    try:
        arguments = decode(bytes(call.input))
    except (ValueError, RecursionError):
        arguments = bytes(call.input).decode("utf-8", "replace")
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _result(call: ToolCall, omitted: list[str]) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call.call_id, "name": call.name, "content": result(call, omitted)}


def _system(head: Iterable[Segment]) -> list[dict[str, Any]]:
    found = [str(_read(one)) for one in head if one.section == "system"]
    return [{"role": "system", "content": "\n\n".join(found)}] if found else []


def _messages(before: list[dict[str, Any]], segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """Return messages with those of the segments; what joins the last one makes a new version of it."""
    found = list(before)
    for segment in segments:
        value = _read(segment)
        if segment.kind == "block":
            found[-1] = {**found[-1], "content": f"{found[-1]['content']}\n{value}"}
        else:
            found.append(cast("dict[str, Any]", value))
    return found


def _read(segment: Segment) -> Any:
    try:
        return decode(segment.data)
    except (ValueError, RecursionError):
        raise LoreError(
            f"{segment.path} holds JSON that a template cannot take", hint="a number too large, or nested too deeply?"
        ) from None


def _work(prompt: Prompt) -> int:
    """Return what rendering this prompt may cost: a fixed part, and the rest by its size."""
    size = sum(len(segment.data) for segment in prompt)
    tools = sum(len(segment.data) for segment in prompt.head if segment.section == "tools")
    return WORK + 20_000 * len(prompt) + 4 * size + 100 * tools


def _cut(stable: str, text: str) -> tuple[list[Segment], str]:
    """Cut the common start of both texts into segments; what is left of the whole text is the rest.

    Where the whole text leaves the stable one in the middle of a piece, that piece is no longer stable.
    """
    same = _common(stable, text)
    ends = [found.end() for found in _PIECE.finditer(stable) if found.end() <= same]
    if same == len(stable) > (ends[-1] if ends else 0):
        ends.append(same)
    pieces = [
        Segment("messages", f"text[{number}]", stable[start:end].encode(), "text")
        for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]
    return pieces, text[ends[-1] if ends else 0 :]


def _common(left: str, right: str) -> int:
    """Return the length of the common start; O(n) character comparisons at the speed of slices."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if left[low:middle] == right[low:middle] else (low, middle)
    return low
