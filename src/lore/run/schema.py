"""The JSON Schema of a result, with the comment of each field in the source as its description."""

from __future__ import annotations

import inspect
import re
from typing import Any, cast

import msgspec
from msgspec import Struct

_FIELD = re.compile(r"    (\w+): [^#]*?(?:  # (.*))?")


def json_schema(kind: type[Struct]) -> dict[str, Any]:
    """Return the schema of a struct and of all structs in it."""
    schema = msgspec.json.schema(kind)
    structs: dict[str, type[Struct]] = {}
    _add_structs(msgspec.inspect.type_info(kind), structs)
    for name, part in schema["$defs"].items():
        struct = structs.get(name)
        if struct is None or "properties" not in part:
            continue
        if struct.__doc__:
            part["description"] = inspect.cleandoc(struct.__doc__)
        for field, comment in field_comments(struct).items():
            if field in part["properties"]:
                part["properties"][field]["description"] = comment
    return schema


def field_comments(struct: type[Struct]) -> dict[str, str]:
    """Return the comment of each field that has one: after the field on its line, or on the lines above it."""
    comments: dict[str, str] = {}
    for kind in reversed(struct.__mro__):
        if not issubclass(kind, Struct) or kind is Struct:
            continue
        above: list[str] = []
        for line in inspect.getsource(kind).splitlines():
            if line.startswith("    # "):
                above.append(line[6:])
                continue
            field = _FIELD.fullmatch(line)
            if field is not None and (words := [*above, *filter(None, field.groups()[1:])]):
                comments[field[1]] = " ".join(words)
            above = []
    return comments


def _add_structs(info: object, structs: dict[str, type[Struct]]) -> None:
    """Collect the structs in a type by name."""
    if isinstance(info, msgspec.inspect.StructType):
        if info.cls.__name__ in structs:
            return
        structs[info.cls.__name__] = info.cls
    if isinstance(info, Struct):
        for name in info.__struct_fields__:
            _add_structs(getattr(info, name), structs)
    elif isinstance(info, tuple):
        for part in cast("tuple[object, ...]", info):
            _add_structs(part, structs)
