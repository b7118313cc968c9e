"""Decode JSON into structs when msgspec rejects it: lone surrogates, camelCase keys, unknown keys.

JavaScript writes lone surrogates, other programs write lore's keys in camelCase, and a later version may write keys
that this one does not know. Fields of type `Raw` are exact slices of the text. `convert` is slow, as it parses each
nesting level separately: try a msgspec decoder first, unless keys may be in camelCase.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import FieldInfo, fields

from lore.model.canonical import decode, text_of
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


def decode_tolerating_surrogates(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    """Decode JSON with `decoder`, or with `convert` if msgspec cannot parse the text (lone surrogates, deep nesting).

    `decoder` ignores keys in camelCase, like other unknown ones. JSON that does not fit its type (a wrong value, a
    missing field, a forbidden key) raises msgspec's ValidationError, a ValueError; other text raises as in `convert`.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        return convert(bytes(data), decoder.type)


def decoding(kind: type[T]) -> Callable[[bytes | Raw], T]:
    """Return `decode_tolerating_surrogates` with a decoder of `kind`, as a function of the JSON."""
    return partial(decode_tolerating_surrogates, msgspec.json.Decoder(kind))


def convert(raw: bytes, kind: Any) -> Any:
    """Decode JSON text into `kind`; skips unknown keys, reads known ones in snake_case or camelCase.

    Raises ValueError if it is not JSON, is nested too deeply, has a wrong type, lacks a field, or has a lone surrogate
    in a value that is decoded; a `Raw` field keeps lone surrogates.
    """
    if not is_json(raw):
        with suppress(RecursionError):
            decode(raw)  # raises the parser's message
        raise ValueError(f"nested more than {RECORD_LEVELS:,} levels deep")
    return _convert_valid(raw.strip(b" \t\r\n"), kind)


def _convert_valid(raw: bytes, kind: Any) -> Any:
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    structs = [option for option in options if isinstance(option, type) and issubclass(option, Struct)]
    if structs and raw[:1] == b"{":
        return _convert_struct(raw, structs)
    for option in options:
        container, inner = get_origin(option), get_args(option)
        if container is dict and raw[:1] == b"{":
            return {key: _convert_valid(value, inner[1]) for key, value in (raw_members(raw) or {}).items()}
        if container in (list, tuple) and raw[:1] == b"[":
            elements = array(raw)
            kinds = inner if container is tuple and inner[-1] is not Ellipsis else inner[:1] * len(elements)
            values = [_convert_valid(element, kind) for element, kind in zip(elements, kinds, strict=True)]
            return tuple(values) if container is tuple else values
    return Raw(raw) if Raw in options else _decoder(kind).decode(raw)


_decoder: Callable[[Any], msgspec.json.Decoder[Any]] = cache(msgspec.json.Decoder)


@cache
def _fields(struct: Any) -> dict[str, FieldInfo]:
    """Return a struct's fields by each spelling of their keys: as encoded, in snake_case and in camelCase."""
    every = fields(struct)
    return {spelled(field.encode_name): field for spelled in (camel, snake, str) for field in every}


def _convert_struct(raw: bytes, structs: list[Any]) -> Any:
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
        if field is not None:
            values[field.name] = _convert_valid(value, field.type)
    for field in fields_by_name.values():
        if field.required and field.name not in values:
            raise msgspec.ValidationError(f"missing field {field.encode_name!r}")
    return struct(**values)
