"""`event(kind, **fields)`: an event from plain values, as strict as the typed functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import msgspec
from msgspec import inspect as mi

from lore.errors import MisuseError, did_you_mean
from lore.events.items import source_word
from lore.events.kinds import OPS, WHENS
from lore.events.strict import STATUSES, context_json, good_line, json_of, unknown, word
from lore.formats.lore_log import event_of
from lore.model import events as e
from lore.model.state import SIGNS


def event(kind: str, **fields: object) -> e.Event:
    """Return an event of a log from plain values; the functions of this module do the same, typed.

    Raises MisuseError for a kind, a field or a word that a log has no place for, in items and blocks, too, and names
    the nearest. `tools` may be given without an order, as a mapping by name: they are then ordered by name.

    >>> event("append", item={"type": "user_message", "uuid": "u1", "text": "hi"}).item.uuid
    'u1'
    """
    if kind not in e.KINDS or kind == "saved":
        hint = did_you_mean(str(kind), [name for name in e.KINDS if name != "saved"])
        raise MisuseError(f"{kind!r} is no kind of event: {hint}", hint=hint)
    if isinstance(fields.get("tools"), Mapping):
        tools = cast("Mapping[str, object]", fields["tools"])
        fields["tools"] = [tools[name] for name in sorted(tools)]
    values = {name: _built(value) for name, value in fields.items()}
    _check_names(values, _info(e.KINDS[kind]), kind)
    for name, known in _WORDS.get(kind, {}).items():
        if values.get(name) is not None:
            word(cast("str", values[name]), known, f"{kind}.{name}")
    if kind == "turn_started":
        context_json(cast("Any", values.get("context")))
    item = cast("dict[str, Any]", values["item"]) if isinstance(values.get("item"), dict) else {}
    if item.get("type") == "user_message" and "source" in item:
        source_word(str(item["source"]), f"{kind}.item.source")
    data = bytes(json_of({"kind": kind, **values}, f"a field of {kind}"))
    good_line(data, kind)
    made = event_of(data)
    if made is None:
        raise MisuseError(f"{kind} has missing or wrong fields: {_fault(data, kind)}", hint=f"see lore.events.{kind}")
    return made


_WORDS: dict[str, dict[str, Sequence[str]]] = {
    "knowledge": {"op": OPS}, "layer": {"when": WHENS}, "observed": {"name": tuple(SIGNS)},
    "patch_tool_call": {"status": STATUSES},
}  # fmt: skip


def _fault(data: bytes, kind: str) -> str:
    try:
        msgspec.json.decode(data, type=e.KINDS[kind])
    except (ValueError, RecursionError) as error:
        return str(error)
    return "text is a JSON text, output a text or a list of blocks"


def _built(value: object) -> object:
    """Return a value with items, blocks and bills of the typed functions as plain values."""
    if isinstance(value, msgspec.Struct):
        return msgspec.json.decode(msgspec.json.encode(value))
    if isinstance(value, list | tuple):
        return [_built(inner) for inner in cast("Iterable[object]", value)]
    if isinstance(value, Mapping):
        return {str(key): _built(inner) for key, inner in cast("Mapping[object, object]", value).items()}
    return value


_info = cache(mi.type_info)


def _check_names(value: object, info: mi.Type, where: str) -> None:
    """Raise MisuseError for a name that no field of this type has, however deep it stands."""
    match info:
        case mi.UnionType(types=types):
            structs = [kind for kind in types if isinstance(kind, mi.StructType)]
            for inner in [kind for kind in types if isinstance(kind, mi.VarTupleType)]:
                _check_names(value, inner, where)
            if isinstance(value, dict) and structs:
                own = cast("dict[str, Any]", value)
                _check_names(own, _tagged(own, structs, where), where)
        case mi.VarTupleType(item_type=item) if isinstance(value, list):
            for at, inner in enumerate(cast("list[object]", value)):
                _check_names(inner, item, f"{where}[{at}]")
        case mi.StructType() if isinstance(value, dict):
            fields = {field.encode_name: field.type for field in info.fields}
            for name, inner in cast("dict[str, object]", value).items():
                if name not in fields and name != info.tag_field:
                    raise unknown(where, name, fields)
                if name in fields:
                    _check_names(inner, fields[name], f"{where}.{name}")
        case _:
            return


def _tagged(value: dict[str, Any], structs: list[mi.StructType], where: str) -> mi.StructType:
    if len(structs) == 1:
        return structs[0]
    tags = {str(struct.tag): struct for struct in structs}
    tag = value.get(structs[0].tag_field or "type")
    if tag not in tags:
        hint = did_you_mean(str(tag), tags)
        raise MisuseError(f"{where} is of no known type ({tag!r}): {hint}", hint=hint)
    return tags[tag]
