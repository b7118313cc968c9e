"""Strict checks of a program's events: names, words and objects. Errors for misspellings name the nearest valid name.

Values become JSON text, or raise `MisuseError`. Every check costs O(the value).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from inspect import CO_VARKEYWORDS
from typing import ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar, cast

import msgspec
from msgspec import Raw

from lore.errors import MisuseError, did_you_mean, kind_of
from lore.formats.lines import fault, is_crowded, too_many, too_much
from lore.model import events as e
from lore.model import items as i
from lore.model import lenient
from lore.model.canonical import encode
from lore.model.limits import RECORD_BYTES
from lore.model.mask import cut_masked
from lore.model.times import parse_timestamp
from lore.prompt.layout import CONTEXT
from lore.sdk.objects import describe_class, is_model, plain

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W", bound=str)
JSON: TypeAlias = "None | bool | int | float | str | Sequence[JSON] | Mapping[str, JSON]"
Members: TypeAlias = Mapping[str, object]  # a JSON object; type checkers accept a TypedDict, too


class Model(Protocol):
    """An object of an SDK: a pydantic model."""

    def model_dump(self, *, mode: str, by_alias: bool, exclude_unset: bool) -> dict[str, object]: ...


JsonObject: TypeAlias = Members | Model
Tools: TypeAlias = Sequence[JsonObject] | Mapping[str, JsonObject]  # each in any provider's shape; a mapping has names
RECALLED = ("id", "title", "content", "score", "sensitivity")
_WORKING = ("project_dir", "recent_files")
STATUSES = ("running", "completed", "failed")
_TOOL = "a tool is a mapping, or an object of an SDK, with its name, its description and the JSON schema of its input"


class Common(TypedDict, total=False):
    """Fields that every event may have."""

    at: str | None  # RFC 3339
    chain: str
    agent_id: str | None


def reject_unknown_names(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of keyword names; its error names the nearest parameter."""
    code = function.__code__
    label = function.__qualname__.removesuffix(".__init__").rpartition(".")[2] + "()"
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
    """Return the function with checks of keyword names and of the types of its result's fields."""
    function = reject_unknown_names(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        try:
            line = msgspec.json.encode(result)
            lenient.decode_tolerating_surrogates(msgspec.json.Decoder(type(result)), line)
        except (ValueError, TypeError, RecursionError) as error:
            raise MisuseError(f"{function.__name__}(): {error}", hint=f"see lore.events.{function.__name__}") from None
        good_line(line, function.__name__)
        return result

    return checked


def good_line(line: bytes, name: str) -> None:
    """Raise MisuseError for an event that no reader accepts: it is too long, has too many values, or is not text."""
    reason = too_much() if len(line) > RECORD_BYTES else too_many() if is_crowded(line) else fault(line)
    if reason:
        raise MisuseError(f"{name} is not a line of a log: {reason}", hint="write less content in one event")


def bad_name(where: str, name: str, names: Iterable[str]) -> MisuseError:
    """Return the error for an unknown name, with the nearest field."""
    hint = did_you_mean(name, names)
    return MisuseError(f"{where} has no field {name!r}: {hint}", hint=hint)


def require_word(value: W, choices: Sequence[str], field: str) -> W:
    """Return a word; raises MisuseError for an unknown one."""
    if value not in choices:
        hint = did_you_mean(value, choices)
        raise MisuseError(f"{field} {value!r} is none of {', '.join(choices)}", hint=hint)
    return value


def expect(value: object, kinds: type | tuple[type, ...], field: str, make: str) -> None:
    """Raise MisuseError if a value is not of these types; `make` is what to give, or the function that makes it.

    A bool does not count as an int.
    """
    if not isinstance(value, kinds) or (kinds is int and isinstance(value, bool)):
        raise MisuseError(f"{field} is {kind_of(value)}: give {make}", hint=f"give {make}")


def json_of(value: object, field: str) -> Raw:
    """Encode a value; raises MisuseError for one that is not JSON."""
    try:
        raw = encode(value)
        if b"null" in raw:  # a NaN would be written so
            with suppress(TypeError):
                json.dumps(value, allow_nan=False)
        return Raw(raw)
    except (TypeError, ValueError, RecursionError) as error:
        raise MisuseError(f"{field} is not JSON: {error}", hint="give text, numbers, lists and mappings") from None


def object_json(value: object, field: str) -> Raw:
    """Encode a value that may have pydantic models in it; raises MisuseError for one that is not JSON."""
    with suppress(RecursionError):  # `json_of` reports it
        value = _dump_models(value, field)
    return json_of(value, field)


def _dump_models(value: object, field: str) -> object:
    """Return a value with the members of its pydantic models; raises MisuseError for a class."""
    if isinstance(value, Mapping):
        return {key: _dump_models(inner, field) for key, inner in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_dump_models(inner, field) for inner in cast("Sequence[object]", value)]
    if isinstance(value, type):
        raise MisuseError(f"{field} is not JSON: {describe_class(value)}")
    return plain(value) if is_model(value) else value


def text_json(value: object, field: str) -> Raw:
    """Encode a text."""
    if not isinstance(value, str):
        hint = "give a text" + ("; an image is base64" if isinstance(value, bytes) else "")
        raise MisuseError(f"{field} is {kind_of(value)}, where a text is due", hint=hint)
    return Raw(encode(value))


def optional_json(value: object, field: str) -> Raw:
    """Encode a value; None is content that is absent."""
    return i.NULL if value is None else json_of(value, field)


def id_list(ids: Sequence[str], field: str) -> tuple[str, ...]:
    """Return ids; raises MisuseError for a text, which would be a list of its characters."""
    if isinstance(ids, str):
        raise MisuseError(f"{field} is a text, where a list of ids is due", hint="put it in a list")
    return tuple(ids)


def system_json(system: str | Sequence[str] | None) -> Raw:
    """Encode a system prompt: a text or a list of texts."""
    if system is None or isinstance(system, str):
        return optional_json(system, "system")
    texts = cast("Sequence[object]", system)
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in cast("list[object]", texts)):
        raise MisuseError("system is a text, or a list of texts", hint="blocks and cache breakpoints are lore's to set")
    return json_of(list(system), "system")


def tools_json(tools: Tools | None) -> tuple[Raw, ...] | None:
    """Encode tools; a mapping of tools is ordered by name."""
    if tools is None:
        return None
    if isinstance(tools, Mapping):
        if "name" in tools or "type" in tools or "function" in tools:
            raise MisuseError("tools is one tool, where a list of them is due", hint="put it in a list")
        tools = [tools[name] for name in sorted(tools)]
    some: object = tools
    if not isinstance(some, list | tuple):
        raise MisuseError(f"tools is {kind_of(some)}, where a list of tools is due", hint=_TOOL)
    for tool in cast("Sequence[object]", some):
        if not isinstance(tool, Mapping) and not is_model(tool):
            what = f"the class {tool.__name__}" if isinstance(tool, type) else kind_of(tool)
            raise MisuseError(f"{what} is among the tools: {_TOOL}", hint=_TOOL)
    encoded = tuple([object_json(tool, "tools") for tool in tools])
    for tool in tools:
        if not isinstance(tool, Mapping) or "name" in tool:
            continue
        is_schema = tool.get("type") == "object"  # of a tool's input alone, as a pydantic class returns it
        # A tool that the provider runs may be named by its one nested member: {"google_search": {}}.
        is_nested = any(isinstance(value, Mapping | list | tuple) or is_model(value) for value in tool.values())
        if is_schema or ("type" not in tool and not is_nested):
            raise MisuseError(f"a tool has no name: it has {', '.join(tool) or 'no members'}", hint=_TOOL)
    return encoded


def context_json(context: Members | None) -> Raw:
    """Encode a turn's volatile context; raises MisuseError for an unknown part, and names the nearest one."""
    if not context:
        return i.NULL
    expect(context, Mapping, "context", "a mapping: text by name")
    for name in cast("Iterable[object]", context):
        if not isinstance(name, str):
            raise MisuseError(f"context is not JSON: {name!r} is not a name", hint=f"known: {', '.join(CONTEXT)}")
        if name not in CONTEXT:
            hint = did_you_mean(name, CONTEXT)
            if "did you mean" not in hint:
                hint += "; a parameter of the request belongs in params"
            raise MisuseError(f"{name!r} is not a part of a turn's context: {hint}", hint=hint)
    recalled = context.get("memory_recall")
    parts = [("working_context", _WORKING, context.get("working_context"))]
    if isinstance(recalled, list | tuple):
        parts += [("an entry of memory_recall", RECALLED, entry) for entry in cast("Iterable[object]", recalled)]
    for what, names, members in parts:
        for name in cast("Iterable[str]", members) if isinstance(members, Mapping) else ():
            if name not in names:
                raise bad_name(what, name, names)
    return json_of(dict(context), "context")


def check(event: object) -> None:
    """Raise MisuseError for an object that is not an event."""
    if not isinstance(event, e.Envelope):
        hint = "make one with lore.events, or lore.event(kind, …)"
        raise MisuseError(f"this is {kind_of(event)}, where an event is due: {hint}", hint=hint)


def time_of(at: str, who: str) -> str:
    """Return a time. Raise MisuseError, which begins with `who`, if it is not RFC 3339."""
    if not isinstance(at, str) or parse_timestamp(at) is None:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MisuseError(
            f"{who} {cut_masked(str(at), 80)!r} ({kind_of(at)}): not an RFC 3339 text",
            hint="datetime.now(UTC).isoformat() is one",
        )
    return at
