"""The slow lane: decode JSON text that msgspec refuses, into the same structs, keeping raw slices.

Needed for lines with lone surrogates (JavaScript writes them), for other spellings of known keys,
and for records with keys that this version does not know. In: bytes and a struct type (or a union of
tagged structs). Out: the struct; `Raw` fields are exact slices. Raises ValueError (msgspec's
ValidationError is one) where the text is no JSON or a value has the wrong type.

Cost: each level is sliced once; use it only where the fast lane has failed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec import inspect as mi

from lore.model.canonical import decode, text_of
from lore.model.jsonslice import array, is_json, sliced, validated
from lore.model.mask import mask

T = TypeVar("T")
_LOOKED_AT = 4_096  # bytes of a value in which a credential is sought before its beginning is shown
_UNDERSCORE = re.compile("(?<=[a-z0-9])_([a-z])")
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


def snake(name: str) -> str:
    """Spell a camelCase name as snake_case; other names stay."""
    return _HUMP.sub(lambda hump: "_" + hump.group().lower(), name)


def camel(name: str) -> str:
    """Spell a snake_case name as camelCase; other names stay."""
    return _UNDERSCORE.sub(lambda found: found.group(1).upper(), name)


def decoded(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    """Decode with a decoder what it may refuse for a lone surrogate, as JavaScript writes them; ValueError as above."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        return convert(bytes(data), decoder.type)


def decoding(kind: type[T]) -> Callable[[bytes | Raw], T]:
    """Make what decodes into `kind` as `decoded` does."""
    return partial(decoded, msgspec.json.Decoder(kind))


def convert(raw: bytes, kind: Any) -> Any:
    """Decode JSON text into `kind`; unknown keys are passed over, both spellings of known ones understood."""
    if not is_json(raw):  # slicing validates nothing
        validated(raw)  # raises, and says why
    return _value(raw.strip(b" \t\r\n"), _info(kind))


@cache
def _info(kind: Any) -> mi.Type:
    return mi.type_info(kind)


def _value(raw: bytes, info: mi.Type) -> Any:
    match info:
        case mi.RawType():
            return Raw(raw)
        case mi.UnionType(types=types):
            return _union(raw, types)
        case mi.StructType():
            return _struct(raw, info)
        case mi.VarTupleType(item_type=item):
            _expect(raw, b"[")
            return tuple(_value(piece, item) for piece in array(raw))
        case mi.ListType(item_type=item):
            _expect(raw, b"[")
            return [_value(piece, item) for piece in array(raw)]
        case mi.TupleType(item_types=types):
            _expect(raw, b"[")
            return tuple(_value(piece, item) for piece, item in zip(array(raw), types, strict=True))
        case mi.DictType(value_type=item):
            _expect(raw, b"{")
            return {key: _value(value, item) for key, value in sliced(raw).items()}
        case _:
            return _scalar(raw, info)


def _expect(raw: bytes, opening: bytes) -> None:
    if raw[:1] != opening:
        raise msgspec.ValidationError(f"expected {opening.decode()}, got {_beginning(raw, 20)!r}")


def _beginning(raw: bytes, size: int) -> bytes:
    return mask(raw[:_LOOKED_AT].decode("latin-1")).encode("latin-1")[:size]  # half a credential has no known form


def _scalar(raw: bytes, info: mi.Type) -> Any:
    value = decode(raw)
    match info, value:
        case mi.StrType(), str():
            value.encode("utf-8")  # names and ids with lone surrogates are no names
            return value
        case mi.LiteralType(values=values), str() if value in values:
            return values[values.index(value)]  # the very object: a default is left out by its identity
        case mi.BoolType(), bool():
            return value
        case mi.IntType(), int() if not isinstance(value, bool):
            return value
        case mi.FloatType(), int() | float() if not isinstance(value, bool):
            return float(value)
        case mi.NoneType(), None:
            return None
        case _:
            raise msgspec.ValidationError(f"unexpected value {_beginning(raw, 40)!r}")


def _union(raw: bytes, types: tuple[mi.Type, ...]) -> Any:
    if raw == b"null" and any(isinstance(kind, mi.NoneType) for kind in types):
        return None
    structs = [kind for kind in types if isinstance(kind, mi.StructType)]
    if structs and raw[:1] == b"{":
        return _struct(raw, _tagged(raw, structs))
    failures: list[str] = []
    for kind in types:
        if isinstance(kind, mi.StructType | mi.NoneType):
            continue
        try:
            return _value(raw, kind)
        except ValueError as error:
            failures.append(str(error))
    raise msgspec.ValidationError("; ".join(failures) or f"unexpected value {_beginning(raw, 40)!r}")


def _tagged(raw: bytes, structs: list[mi.StructType]) -> mi.StructType:
    if len(structs) == 1:
        return structs[0]
    table = sliced(raw)
    for struct in structs:
        tag = table.get(struct.tag_field or "", table.get("kind", b""))  # an item's tag may be spelled `kind`
        if snake(text_of(tag)) == struct.tag:
            return struct
    raise msgspec.ValidationError("unknown kind")


def _struct(raw: bytes, info: mi.StructType) -> Any:
    _expect(raw, b"{")
    fields = {field.encode_name: field for field in info.fields}
    found: dict[str, bytes] = {}  # the last of each, as the fast lane has it
    for key, value in sliced(raw).items():
        field = fields.get(key) or fields.get(snake(key)) or fields.get(camel(key))
        if field is not None:
            found[field.name] = value
    values = {field.name: _value(found[field.name], field.type) for field in info.fields if field.name in found}
    for field in info.fields:
        if field.required and field.name not in values:
            raise msgspec.ValidationError(f"missing field {field.encode_name!r}")
    return info.cls(**values)
