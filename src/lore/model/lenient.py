"""Decode JSON into typed values, also what msgspec rejects: lone surrogates, camelCase keys, members of a wrong type.

`decode` is the function with which readers decode records. JavaScript writes lone surrogates, other programs write
lore's keys in camelCase, and a later version of an agent may write a member with another type. Fields of type `Raw` are
exact slices of the text. `convert` is slow, as it parses each nesting level separately: `decode` tries msgspec first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import FieldInfo, fields

from lore.model.canonical import decode as decode_value
from lore.model.canonical import text_of
from lore.model.deferred import pattern
from lore.model.jsonslice import array, is_json, raw_members
from lore.model.limits import RECORD_LEVELS

T = TypeVar("T")
_UNDERSCORE = pattern("(?<=[a-z0-9])_([a-z0-9])")
_CAPITAL = pattern(r"(?<=[a-z0-9])([A-Z])")


def snake(name: str) -> str:
    """Return a camelCase name in snake_case: `call_id` for `callId`; a name without inner capitals is unchanged."""
    return _CAPITAL.sub(lambda match: "_" + match[1].lower(), name)


def camel(name: str) -> str:
    """Return a snake_case name in camelCase: `callId` for `call_id`, `write5m` for `write_5m`."""
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)


class _Decoders(dict[Any, msgspec.json.Decoder[Any]]):
    """msgspec's decoders, by the type of the values that they return."""

    def __missing__(self, kind: Any) -> msgspec.json.Decoder[Any]:
        self[kind] = msgspec.json.Decoder(kind)
        return self[kind]


DECODERS = _Decoders()


def decode(kind: type[T], data: bytes | Raw, misfits: set[str] | None = None) -> T:
    """Decode JSON into `kind` with msgspec, or with `convert` if msgspec refuses the text; raises ValueError.

    Without `misfits`, JSON that does not fit `kind` (a wrong type, a missing field, a forbidden key) is refused, and
    keys in camelCase are unknown ones. `misfits` is as in `convert`.
    """
    try:
        return DECODERS[kind].decode(data)
    except msgspec.ValidationError:
        if misfits is None:
            raise
    except (msgspec.DecodeError, RecursionError):
        pass
    return convert(bytes(data), kind, misfits)


def describe_misfits(misfits: set[str]) -> str:
    """Return the message of a problem for the members that `decode` left out."""
    return f"unreadable members count as missing: {', '.join(sorted(misfits))}"


def convert(raw: bytes, kind: Any, misfits: set[str] | None = None) -> Any:
    """Decode JSON text into `kind`; skips unknown keys, reads known ones in snake_case or camelCase.

    Raises ValueError if it is not JSON, is nested too deeply, has a wrong type, lacks a field, or has a lone surrogate
    in a value that is decoded; a `Raw` field keeps lone surrogates. With `misfits`, an optional member that raises is
    left out, as is a struct in a list and a value of a `dict`, and its path (`calls[].id`) is added to the set.
    """
    if not is_json(raw):
        with suppress(RecursionError):
            decode_value(raw)  # raises the parser's message
        raise ValueError(f"nested more than {RECORD_LEVELS:,} levels deep")
    return _convert_valid(raw.strip(b" \t\r\n"), kind, "", misfits)


def _convert_valid(raw: bytes, kind: Any, path: str, misfits: set[str] | None) -> Any:
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    structs = [option for option in options if isinstance(option, type) and issubclass(option, Struct)]
    if structs and raw[:1] == b"{":
        return _convert_struct(raw, structs, path, misfits)
    for option in options:
        container, inner = get_origin(option), get_args(option)
        if container is dict and raw[:1] == b"{":
            members = raw_members(raw) or {}
            return dict(_convert_each(members.items(), inner[1], f"{path}[]", misfits))
        if container in (list, tuple) and raw[:1] == b"[":
            elements = array(raw)
            if container is tuple and inner[-1] is not Ellipsis:
                pairs = zip(elements, inner, strict=True)
                return tuple([_convert_valid(element, kind, f"{path}[]", misfits) for element, kind in pairs])
            optional = misfits if isinstance(inner[0], type) and issubclass(inner[0], Struct) else None
            values = [value for _, value in _convert_each(enumerate(elements), inner[0], f"{path}[]", optional)]
            return tuple(values) if container is tuple else values
    return Raw(raw) if Raw in options else DECODERS[kind].decode(raw)


def _convert_each(
    values: Iterable[tuple[T, bytes]], kind: Any, path: str, misfits: set[str] | None
) -> Iterator[tuple[T, Any]]:
    """Yield the keys with the values as `kind`; with `misfits` without those that raise."""
    for key, value in values:
        try:
            yield key, _convert_valid(value, kind, path, misfits)
        except ValueError:
            if misfits is None:
                raise
            misfits.add(path)


@cache
def _fields(struct: Any) -> dict[str, FieldInfo]:
    """Return a struct's fields by each spelling of their keys: as encoded, in snake_case and in camelCase."""
    every = fields(struct)
    return {spelled(field.encode_name): field for spelled in (camel, snake, str) for field in every}


def _convert_struct(raw: bytes, structs: list[Any], path: str, misfits: set[str] | None) -> Any:
    """Decode an object into the struct of its tag; the member that holds the tag may also be named `kind`."""
    members = raw_members(raw) or {}
    struct, tag_field = structs[0], structs[0].__struct_config__.tag_field or ""
    if len(structs) > 1:
        tag = snake(text_of(members.get(tag_field, members.get("kind", b""))))
        struct = next((struct for struct in structs if struct.__struct_config__.tag == tag), None)
        if struct is None:
            raise msgspec.ValidationError("unknown kind")
    fields_by_name, values = _fields(struct), dict[str, Any]()
    for key, value in members.items():
        field = fields_by_name.get(key) or fields_by_name.get(snake(key))
        if field is None:
            continue
        place = f"{path}.{field.encode_name}" if path else field.encode_name
        try:
            values[field.name] = _convert_valid(value, field.type, place, misfits)
        except ValueError as error:
            if misfits is None or field.required:
                text = str(error)
                raise msgspec.ValidationError(text if " - at " in text else f"{text} - at `$.{place}`") from None
            misfits.add(place)
    for field in fields_by_name.values():
        if field.required and field.name not in values:
            raise msgspec.ValidationError(f"Object missing required field `{field.encode_name}`")
    return struct(**values)
