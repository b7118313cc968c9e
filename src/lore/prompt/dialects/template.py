"""Any chat template in Jinja, rendered as inference engines do.

A template needs all messages at once. So `head` and `render` return segments that hold tools and messages as JSON, and
`finish` renders a prompt of them to a prompt of text. The variables are those of Hugging Face transformers and vLLM:
`messages` (content is a string; `tool_calls` with arguments as an object; `reasoning_content` for thinking; tool
messages with `tool_call_id` and `name`), `tools`, `documents` (none), `add_generation_prompt`, `bos_token`,
`eos_token`, `raise_exception`, and `strftime_now` at a given time.

Jinja's sandbox is set up as in `apply_chat_template` of transformers: trimmed blocks, loop controls, `generation`
blocks rendered through, `tojson` without escapes. A template reads its variables and no file; the length of its output
is bounded. Its work is not: it is the user's own file, and Ctrl-C ends a loop in it that never ends.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, ItemsView, Iterable, KeysView, Mapping, ValuesView
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NoReturn, cast

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from msgspec import Raw

from lore.errors import LoreError, Where
from lore.model.canonical import decode, encode
from lore.model.items import ToolCall
from lore.model.limits import RENDERED_CHARACTERS, RENDERED_PER_BYTE
from lore.model.mask import cut_masked, mask
from lore.model.turn import Prompt, Segment
from lore.model.vector import Vector, common_prefix
from lore.prompt import base
from lore.prompt.dialects.chatml import PIECE, TEXT_ANSWERS, RenderedText, result, texts, thoughts, without_surrogates
from lore.prompt.dialects.content import as_function, single_tools
from lore.prompt.system_messages import Does

_LOOKS_AHEAD = len("<end_of_turn>")  # characters after a piece that decide its end

_INJECTED = "context_injection"  # the beginning of an origin of lore's own text, and the role after such a message

# A conversation to try a template with, and the system message that is put after it.
_TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "first of all"},
    {"role": "user", "content": "what the user said"},
    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call00001", "type": "function", "function": {"name": "read", "arguments": {}}},
    ]},
    {"role": "tool", "tool_call_id": "call00001", "name": "read", "content": "what the tool said"},
]  # fmt: skip
_LATE = "a late system message"


_FAILURES = (
    jinja2.TemplateError, ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, MemoryError,
    NameError, RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+")
_MESSAGE_CHARACTERS = 200  # characters of a template's message
_MASKED = 1_600  # characters of it that are searched for credentials, before invisible ones are removed
_DATA = (str, int, float, list, tuple, dict, range, KeysView, ValuesView, ItemsView, jinja2.Undefined)


class _RefusedError(jinja2.TemplateError):
    """The template called `raise_exception`."""


class Sandbox:
    """A compiled template that may call some functions; `file` names it in errors.

    Safe to use again and from several threads. Raises LoreError for a template that does not compile.
    """

    def __init__(self, source: str, functions: Mapping[str, Callable[..., Any]], *, file: str | None = None) -> None:
        self._file = file or "template"
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, finalize=_check_data, loader=jinja2.DictLoader({}),
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )  # fmt: skip
        environment.filters["tojson"] = _tojson
        del environment.filters["random"], environment.globals["lipsum"]  # the text has to be the same every time
        environment.globals.update(cast("dict[str, Any]", {**functions, "raise_exception": _raise}))
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            quotes_secret = mask(source) != source  # Jinja's message quotes words of the source
            reason = "a syntax error" if quotes_secret else clean(error.message or "")
            raise LoreError(
                f"the chat template is not valid: {reason}",
                hint="it must be a Jinja template in a single file",
                where=Where(self._file, error.lineno),
            ) from None
        except _FAILURES as error:
            raise LoreError(f"the chat template does not compile: {_reason(error)}", where=Where(self._file)) from None

    def render(self, variables: Mapping[str, Any], max_output: int = RENDERED_CHARACTERS) -> str:
        """Return the text; raises LoreError if the template fails or writes more than `max_output` characters."""
        pieces, size = list[str](), 0
        try:
            for piece in self._template.generate(dict(variables)):
                size += len(piece)
                if size > max_output:
                    raise LoreError(
                        f"the chat template fails: it writes more than {max_output:,} characters",
                        where=Where(self._file),
                    )
                pieces.append(piece)
        except _RefusedError as error:
            message, hint = clean(str(error)) or "(no reason given)", "the chat template refuses this conversation"
            raise LoreError(message, hint=hint, where=self._where(error)) from None
        except _FAILURES as error:
            raise LoreError(f"the chat template fails: {_reason(error)}", where=self._where(error)) from None
        return "".join(pieces)

    def _where(self, error: BaseException) -> Where:
        """Return the template's innermost line in the traceback, which Jinja rewrites to the template's lines."""
        line, frame = None, error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_filename == "<template>":
                line = frame.tb_lineno
            frame = frame.tb_next
        return Where(self._file, line)


def clean(text: str) -> str:
    """Return text as it may be shown in a message: one short line without invisible characters or credentials."""
    line = _UNSEEN.sub(" ", cut_masked(text, _MASKED)).strip()
    return line if len(line) <= _MESSAGE_CHARACTERS else cut_masked(line, _MESSAGE_CHARACTERS - 1) + "…"


def _reason(error: BaseException) -> str:
    if isinstance(error, jinja2.TemplateNotFound):
        return "it asks for another file"
    if isinstance(error, RecursionError | SyntaxError):  # Python's own limits on blocks and brackets
        return "it nests too deeply"
    if isinstance(error, MemoryError):
        return "it is too large"
    message = clean(re.sub(r" at 0x[0-9a-fA-F]+", "", str(error)))
    return message if isinstance(error, jinja2.TemplateError) and message else f"{type(error).__name__}: {message}"


class _Generation(Extension):
    """`{% generation %}`: marks what to train on; rendered through."""

    tags: ClassVar[set[str]] = {"generation"}  # pyright: ignore[reportIncompatibleVariableOverride]

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: object = "") -> NoReturn:
    raise _RefusedError(clean(str(message)))


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Encode as engines do for chat templates: characters as they are, spaces after commas and colons."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, allow_nan=True
    )


def _check_data(value: Any) -> object:
    """Return a value that the template prints; raises an error if it is not data, whose text has a memory address."""
    if value is not None and not isinstance(value, _DATA):
        raise jinja2.TemplateRuntimeError(f"it prints a {type(value).__name__} as if it were data")
    return cast("object", value)


class JinjaTemplate(RenderedText):
    """Dialect of text rendered by a chat template.

    Call `finish` on each assembled prompt to compare prompts as the text that an engine sees; `write` does it too. Each
    rendering costs O(history). `notes` are warnings about the template. Raises LoreError for one that does not compile.
    """

    capabilities: ClassVar[Mapping[str, base.Capability]] = {
        **base.USUAL,
        **TEXT_ANSWERS,
        base.IN_LOOPS: base.can("after the result, in the text of the last tool message"),
        base.SEVERAL_LEADING: base.can("each in order if the template writes them so; else joined to one"),
        base.IN_CONVERSATION: base.can(
            "on models named by system_in_conversation, if the template writes them in place"
        ),
        "thinking": base.can("as reasoning_content of its message; the template may drop it"),
        "images": base.cannot("left out: content is text"),
        "images in tool results": base.cannot("left out: content is text"),
        "messages of one role in a row": base.can(
            "lore's own text is joined to the user's; the template may refuse others"
        ),
        "tools of another provider": base.can(
            "functions are rewritten with their schema; a provider's own tools stay as they are: a template may fail"
        ),
        "control text in content": base.cannot("kept as it is, unless the template changes it"),
    }  # fmt: skip

    def __init__(
        self, source: str, *, bos_token: str = "", eos_token: str = "", now: str | None = None, file: str | None = None
    ) -> None:
        self._sandbox = Sandbox(source, {"strftime_now": moment(now).strftime}, file=file)
        self._before: tuple[str, list[int], Vector[Segment]] = ("", [], Vector())  # as the last prompt was cut
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        empty_tokens = [name for name, value in self._tokens.items() if not value and re.search(rf"\b{name}\b", source)]
        self.notes = tuple([f"the template names {name}, which is empty: set assemble.{name}" for name in empty_tokens])

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        """Return a segment for each function of the tools and each text (JSON string) of the system prompt."""
        functions = [as_function(tool) for tool in single_tools(tools)]
        listed = [Segment("tools", f"tools[{n}]", function, "tool") for n, function in enumerate(functions)]
        path = "messages[{}].content" if self._takes_several else "messages[0].content[{}]"
        texts = [Segment("system", path.format(number), text, "text") for number, text in enumerate(system)]
        return (*listed, *texts)

    def first(self, head: tuple[Segment, ...]) -> base.Spot:
        """Return the end of the system messages: one for each text, or one if the template takes no more."""
        texts = sum(1 for segment in head if segment.section == "system")
        return base.Spot(texts if self._takes_several else 1, "system") if texts else base.Spot()

    def render(self, unit: base.Unit, place: base.Spot) -> base.Rendered:
        """Return a unit as messages for the template, each one segment.

        The user's text joins a message of lore's own text directly before it, and a unit that `joins` extends the last
        message (of the user or a tool): the added text is then the segment.
        """
        omitted: list[str] = []
        content, thinking = texts(unit.blocks, omitted), thoughts(unit.blocks)
        if content and not thinking and _is_joined(unit, place):
            space = "" if unit.joins else "\n"  # a blank line after lore's own text
            text = encode(space + "\n".join(content))
            block = Segment("messages", f"messages[{place.messages - 1}].content", text)
            after = place if unit.joins else base.Spot(place.messages, _role(unit, "user"), place.blocks + 1)
            return base.Rendered((block,), after, tuple(omitted))
        results = unit.calls if unit.role == "results" else ()
        messages: list[dict[str, object]] = [
            {"role": "tool", "tool_call_id": call.call_id, "name": call.name, "content": result(call, omitted)}
            for call in results
        ]
        if content or thinking or (unit.calls and not results):
            message = {"role": "user" if unit.role == "results" else unit.role, "content": "\n".join(content)}
            if thinking:
                message["reasoning_content"] = "\n".join(thinking)
            calls = {"tool_calls": [_call(call) for call in unit.calls]} if unit.calls and not results else {}
            messages.append({**message, **calls})
        if not messages:
            return base.Rendered((), place, tuple(omitted))
        segments = [
            Segment("messages", f"messages[{number}]", encode(message), "envelope")
            for number, message in enumerate(messages, place.messages)
        ]
        role = _role(unit, str(messages[-1]["role"]))
        return base.Rendered(tuple(segments), base.Spot(place.messages + len(messages), role, 1), tuple(omitted))

    def finish(self, prompt: Prompt) -> Prompt:
        """Return the prompt as text; one that is text already is returned as it is.

        The stable part is the text of head and messages, as far as the whole text begins with it. The tail is the rest:
        volatile context and the opening of the model's answer. Renders twice. Raises LoreError if the template fails.
        """
        if prompt.fidelity == "rendered":
            return prompt
        tools = [_read(segment) for segment in prompt.head if segment.section == "tools"]
        system = [str(_read(segment)) for segment in prompt.head if segment.section == "system"]
        if system and not self._takes_several:
            system = ["\n\n".join(system)]
        before = _messages([{"role": "system", "content": text} for text in system], prompt.messages)
        size = sum(len(segment.data) for segment in prompt)
        max_output = RENDERED_CHARACTERS + RENDERED_PER_BYTE * size
        stable = self._text(before, tools, max_output, opened=False)
        text = self._text(_messages(before, prompt.tail), tools, max_output, opened=True)
        pieces, end = self._cut(stable, text)
        tail = (Segment("messages", "text", end.encode(), "text", origin="what follows history"),) if end else ()
        return Prompt(dialect=self.name, fidelity="rendered", model=prompt.model, messages=pieces, tail=tail)

    def _cut(self, stable: str, text: str) -> tuple[Vector[Segment], str]:
        """Return the pieces in which both texts are equal as segments, and the rest of the whole text."""
        before, ends, pieces = self._before
        same = common_prefix(stable, text)
        shared = bisect_right(ends, min(common_prefix(before, stable) - _LOOKS_AHEAD, same))
        start = ends[shared - 1] if shared else 0
        new = [end for match in PIECE.finditer(stable, start) if (end := match.end()) <= same]
        pieces = pieces.cut(shared).extend(
            [
                Segment("messages", f"text[{number}]", stable[begin:end].encode(), "text")
                for number, (begin, end) in enumerate(pairwise([start, *new]), shared)
            ]
        )
        ends = [*ends[:shared], *new]
        self._before = stable, ends, pieces
        return pieces, text[ends[-1] if ends else 0 :]

    def write(self, prompt: Prompt) -> bytes:
        """Return the text of the prompt, rendered by the template if it is not text yet (`finish`)."""
        return b"".join([segment.data for segment in self.finish(prompt)])

    @cached_property
    def _takes_several(self) -> bool:
        """Whether the template writes two leading system messages in order; tried once."""
        talk = [_TALK[0], {"role": "system", "content": _LATE}, _TALK[1]]
        try:
            text = self._text(talk, [], opened=True)
        except LoreError:
            return False
        places = [text.find(str(message["content"])) for message in talk]
        return places[0] >= 0 and places == sorted(set(places))

    def late_system(self) -> Does | None:
        """Return what the template does with a system message after a user's message or a tool's result.

        None if it renders neither conversation without one.
        """
        after_user = self._try_system_after(_TALK[:2])
        after_tool = self._try_system_after(_TALK)
        return after_tool if after_tool is not None and after_user in ("renders", None) else after_user

    def _try_system_after(self, talk: list[dict[str, Any]]) -> Does | None:
        try:
            self._text(talk, [], opened=True)
        except LoreError:
            return None
        try:
            text = self._text([*talk, {"role": "system", "content": _LATE}], [], opened=True)
        except LoreError:
            return "refuses"
        if _LATE not in text:
            return "ignores"
        return "renders" if text.rindex(_LATE) > text.rindex(str(talk[-1]["content"])) else "merges"

    def _text(
        self, messages: list[dict[str, Any]], tools: list[Any], max_output: int = RENDERED_CHARACTERS, *, opened: bool
    ) -> str:
        variables = {"messages": messages, "tools": tools or None, "documents": None, "add_generation_prompt": opened}
        return without_surrogates(self._sandbox.render({**variables, **self._tokens}, max_output))


def _is_joined(unit: base.Unit, place: base.Spot) -> bool:
    """Return whether a unit extends the last message: it `joins`, or is the user's, and that message is lore's text."""
    if unit.joins:
        return place.role in ("user", "tool", _INJECTED)
    return unit.role == "user" and place.role == _INJECTED  # templates whose roles must alternate refuse two messages


def _role(unit: base.Unit, role: str) -> str:
    """Return the role of the last message; lore's own text in the user's role has a name of its own."""
    return _INJECTED if role == "user" and unit.origin.startswith(_INJECTED) else role


def _call(call: ToolCall) -> dict[str, object]:
    try:
        arguments = decode(bytes(call.input))
    except (ValueError, RecursionError):
        arguments = bytes(call.input).decode("utf-8", "replace")
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _messages(before: list[dict[str, Any]], segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """Return messages and those of the segments; a text that joins the last one replaces it by a longer one."""
    messages = list(before)
    for segment in segments:
        value = _read(segment)
        if segment.kind == "block":
            messages[-1] = {**messages[-1], "content": f"{messages[-1]['content']}\n{value}"}
        else:
            messages.append(cast("dict[str, Any]", value))
    return messages


def _read(segment: Segment) -> Any:
    try:
        return decode(segment.data)
    except (ValueError, RecursionError):
        raise LoreError(
            f"{segment.path} holds JSON that a template cannot take", hint="a number too large, or nested too deeply?"
        ) from None


def moment(text: str | None) -> datetime:
    """Return an ISO date or time in UTC, 1970-01-01 for None; raises LoreError for other text."""
    try:
        time = datetime(1970, 1, 1, tzinfo=UTC) if text is None else datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise LoreError(f"{(text or '')[:40]!r} is no time", hint="write it like 2026-08-01T12:00:00Z") from None
