"""Strict checks of a program's events, and JSON of their values. Errors for misspellings name the nearest valid name.

Functions `*_json` and `json_of` return a value as JSON text, or raise `MisuseError`. Each costs O(the value).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from inspect import CO_VARKEYWORDS
from types import UnionType
from typing import ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar, cast

import msgspec
from msgspec import Raw

from lore.errors import MisuseError, bad_name, did_you_mean, kind_of, nearest_name
from lore.formats.lines import fault, is_crowded, too_many, too_much
from lore.model import events as e
from lore.model import items as i
from lore.model import lenient
from lore.model.canonical import encode, text_of
from lore.model.jsonslice import members_at
from lore.model.limits import RECORD_BYTES
from lore.model.mask import cut_masked
from lore.model.times import parse_timestamp
from lore.prompt.layout import CONTEXT
from lore.sdk.objects import GIVEN, describe_class, is_model, plain

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W", bound=str)
JSON: TypeAlias = "None | bool | int | float | str | Sequence[JSON] | Mapping[str, JSON]"
Members: TypeAlias = Mapping[str, object]  # a JSON object; type checkers accept a TypedDict, too


class Model(Protocol):
    """An object of an SDK: a pydantic model."""

    def model_dump(self, *, mode: str, by_alias: bool, exclude_unset: bool) -> dict[str, object]: ...


JsonObject: TypeAlias = Members | Model
Tools: TypeAlias = (
    Sequence[JsonObject] | Mapping[str, JsonObject]
)  # tools in any provider's shape; a mapping is by name
RECALLED = ("id", "title", "content", "score", "sensitivity")  # members of an entry of a context's `memory_recall`
_WORKING = ("project_dir", "recent_files")  # members of a context's `working_context`
STATUSES = ("running", "completed", "failed")  # of a tool call
_PUBLIC_NAMES = {"open_session": "lore.open"}  # of functions that `lore` exports under another name
_TOOL = "a tool is a mapping, or an object of an SDK, with its name, its description and the JSON schema of its input"


class Common(TypedDict, total=False):
    """Fields that every event may have."""

    at: str | None  # RFC 3339
    chain: str
    agent_id: str | None


def reject_unknown_names(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that an unknown keyword raises MisuseError, which names the nearest parameter."""
    code = function.__code__
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    label = f"{_PUBLIC_NAMES.get(name, name)}()"
    names = [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name != "self"]
    names += Common.__annotations__ if code.co_flags & CO_VARKEYWORDS else ()

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in names:
                raise bad_name(label, name, names)
        return function(*args, **kwargs)

    return checked


def strict(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function that makes an event or item: also raise MisuseError if a field of its result has a wrong type.

    A UUID or a time becomes its text.
    """
    function = reject_unknown_names(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        try:
            line = msgspec.json.encode(result)
            decoded = lenient.decode(type(result), line)
        except (ValueError, TypeError, RecursionError) as error:
            raise MisuseError(f"{function.__name__}(): {error}", hint=f"see lore.events.{function.__name__}") from None
        check_line(line, function.__name__)
        return result if decoded == result else decoded

    return checked


def check_line(line: bytes, name: str) -> None:
    """Raise MisuseError if no reader accepts an event's line: it is too long, has too many values, or is not text."""
    reason = too_much() if len(line) > RECORD_BYTES else too_many() if is_crowded(line) else fault(line)
    if reason:
        raise MisuseError(f"{name} is not a line of a log: {reason}", hint="write less content in one event")


def require_word(value: W, choices: Sequence[str], field: str) -> W:
    """Return `value` if it is one of `choices`, else raise MisuseError, which names the nearest one."""
    if value not in choices:
        raise MisuseError(f"{field} {value!r} is unknown", hint=did_you_mean(value, choices))
    return value


def expect(value: object, kinds: type | UnionType | tuple[type, ...], field: str, make: str) -> None:
    """Raise MisuseError, with the advice to give `make`, if a value is not of these types; a bool is not an int."""
    if not isinstance(value, kinds) or (kinds is int and isinstance(value, bool)):
        raise MisuseError(f"{field} is {kind_of(value)}", hint=f"give {make}")


def json_of(value: object, field: str) -> Raw:
    """Return a value of plain types as JSON."""
    try:
        raw = encode(value)
        if b"null" in raw:  # NaN is written as null; `dumps` rejects it
            with suppress(TypeError):
                json.dumps(value, allow_nan=False)
        return Raw(raw)
    except (TypeError, ValueError, RecursionError) as error:
        raise MisuseError(f"{field} is not JSON: {error}", hint="give text, numbers, lists and mappings") from None


def object_json(value: object, field: str) -> Raw:
    """Return a value as JSON, with the members of pydantic models in it."""
    with suppress(RecursionError):  # `json_of` reports it
        value = _dump_models(value, field)
    return json_of(value, field)


def _dump_models(value: object, field: str) -> object:
    """Return a value with its pydantic models as mappings; raise MisuseError for a class."""
    if isinstance(value, Mapping):
        return {key: _dump_models(inner, field) for key, inner in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_dump_models(inner, field) for inner in cast("Sequence[object]", value)]
    if isinstance(value, type):
        raise MisuseError(f"{field} is not JSON: {describe_class(value)}")
    return plain(value, GIVEN) if is_model(value) else value


def text_json(value: object, field: str) -> Raw:
    """Return a text as JSON; raise MisuseError for any other value."""
    if not isinstance(value, str):
        hint = "give a text" + ("; an image is base64" if isinstance(value, bytes) else "")
        raise MisuseError(f"{field} is {kind_of(value)}, expected a text", hint=hint)
    return Raw(encode(value))


def optional_json(value: object, field: str) -> Raw:
    """Return a value as JSON; for None `items.NULL`, which means that the content is absent."""
    return i.NULL if value is None else json_of(value, field)


def id_list(ids: Sequence[str], field: str) -> tuple[str, ...]:
    """Return the ids as a tuple; raise MisuseError for a text, which would give its characters."""
    if isinstance(ids, str):
        raise MisuseError(f"{field} is a text, expected a list of ids", hint="put it in a list")
    return tuple(ids)


def system_json(system: str | Sequence[str] | None) -> Raw:
    """Return a system prompt (a text or a list of texts) as JSON; for None `items.NULL`."""
    if system is None or isinstance(system, str):
        return optional_json(system, "system")
    texts = cast("Sequence[object]", system)
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in cast("list[object]", texts)):
        raise MisuseError("system is a text, or a list of texts", hint="blocks and cache breakpoints are lore's to set")
    return json_of(list(system), "system")


def tools_json(tools: Tools | None) -> tuple[Raw, ...] | None:
    """Return each tool as JSON, those of a mapping ordered by name; None for None. Raise MisuseError otherwise."""
    if tools is None:
        return None
    if isinstance(tools, Mapping):
        if "name" in tools or "type" in tools or "function" in tools:
            raise MisuseError("tools is one tool, expected a list of tools", hint="put it in a list")
        tools = [tools[name] for name in sorted(tools)]
    some: object = tools
    if not isinstance(some, list | tuple):
        raise MisuseError(f"tools is {kind_of(some)}, expected a list of tools", hint=_TOOL)
    for tool in cast("Sequence[object]", some):
        if not isinstance(tool, Mapping) and not is_model(tool):
            what = f"the class {tool.__name__}" if isinstance(tool, type) else kind_of(tool)
            raise MisuseError(f"{what} is among the tools", hint=_TOOL)
    encoded = tuple([object_json(tool, "tools") for tool in tools])
    shapes = [members_at(tool) for tool in encoded]  # OpenAI's chat API and Bedrock put the name into a member
    shapes = [members_at(tool, "function") or members_at(tool, "toolSpec") or tool for tool in shapes]
    names = [tool["name"] for tool in shapes if "name" in tool]
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise MisuseError(
            f"two tools have the name {text_of(twice)!r}", hint="providers refuse a name that comes again"
        )
    for tool in tools:
        if not isinstance(tool, Mapping):
            continue
        _check_tool(tool)
        if "name" in tool:
            continue
        is_schema = tool.get("type") == "object"  # of a tool's input alone, as a pydantic class returns it
        # A tool that the provider runs may be named by its one nested member: {"google_search": {}}.
        is_nested = any(isinstance(value, Mapping | list | tuple) or is_model(value) for value in tool.values())
        if is_schema or ("type" not in tool and not is_nested):
            raise MisuseError(f"a tool has no name: it has {', '.join(tool) or 'no members'}", hint=_TOOL)
    return encoded


# Members of a tool in any API, of what is in it, and of its schema; those of `properties` are the tool's own.
_TOOL_MEMBERS = (
    "name", "description", "type", "input_schema", "inputSchema", "parameters", "parametersJsonSchema",
    "parameters_json_schema", "function", "toolSpec", "functionDeclarations", "function_declarations", "strict",
    "cache_control", "cachePoint", "json", "required", "properties",
)  # fmt: skip


def _check_tool(tool: Members) -> None:
    """Raise MisuseError for a misspelled member of a tool, of a function in it, or of its schema."""
    refuse_misspelling("a tool", tool, _TOOL_MEMBERS)
    for name in _TOOL_MEMBERS[:-1]:
        inner = tool.get(name)
        for part in cast("Sequence[object]", inner if isinstance(inner, list | tuple) else [inner]):
            if isinstance(part, Mapping):
                _check_tool(cast("Members", part))


def refuse_misspelling(where: str, members: Members, known: Sequence[str]) -> None:
    """Raise MisuseError for an unknown member that is spelled nearly like a known one, which is missing.

    Other unknown members may be a provider's own.
    """
    for name in members:
        if name not in known and nearest_name(name, [other for other in known if other not in members], 0.8):
            raise bad_name(where, name, known)


def context_json(context: Members | None) -> Raw:
    """Return a turn's volatile context as JSON, `items.NULL` if empty; raise MisuseError for an unknown part."""
    if not context:
        return i.NULL
    expect(context, Mapping, "context", "a mapping: text by name")
    for name in cast("Iterable[object]", context):
        if not isinstance(name, str):
            raise MisuseError(f"context is not JSON: {name!r} is not a name", hint=f"known: {', '.join(CONTEXT)}")
        if name not in CONTEXT:
            hint = did_you_mean(name, CONTEXT)
            if nearest_name(name, CONTEXT) is None:
                hint += "; a parameter of the API belongs in params, an option of the SDK in its call"
            raise MisuseError(f"{name!r} is not a part of a turn's context", hint=hint)
    recalled = context.get("memory_recall")
    parts = [("working_context", _WORKING, context.get("working_context"))]
    if isinstance(recalled, list | tuple):
        parts += [("an entry of memory_recall", RECALLED, entry) for entry in cast("Iterable[object]", recalled)]
    for what, names, members in parts:
        for name in cast("Iterable[str]", members) if isinstance(members, Mapping) else ():
            if name not in names:
                raise bad_name(what, name, names)
    return json_of(dict(context), "context")


def check_event(event: object) -> None:
    """Raise MisuseError if an object is not an event."""
    if not isinstance(event, e.Envelope):
        hint = "make one with a function of lore.events"
        raise MisuseError(f"expected an event, not {kind_of(event)}", hint=hint)


def check_time(at: str, who: str) -> str:
    """Return `at` if it is a time (RFC 3339), else raise MisuseError, whose message begins with `who`."""
    if not isinstance(at, str) or parse_timestamp(at) is None:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MisuseError(
            f"{who} {cut_masked(str(at), 80)!r} ({kind_of(at)}): not an RFC 3339 text",
            hint="datetime.now(UTC).isoformat() is one",
        )
    return at
