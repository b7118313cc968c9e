"""Types of evidence fields: which hold what a recording says, and which lore's own words and figures.

In: nothing. Out: aliases for the fields of evidence structs, and `redact`. Rules: a plain `str` in evidence is an
error (a test looks at every struct); what is not marked as lore's own is content. Redaction goes by field and never
looks into a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, TypeAlias, TypeVar, cast, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

Content: TypeAlias = Annotated[str, Meta(extra={"field": "content"})]  # quoted from a recording
Name: TypeAlias = Annotated[str, Meta(extra={"field": "name"})]  # of a tool, server, hook, command, chain
JsonPath: TypeAlias = Annotated[str, Meta(extra={"field": "path"})]  # of a place inside a request body
Model: TypeAlias = Annotated[str, Meta(extra={"field": "model"})]
Own: TypeAlias = Annotated[str, Meta(extra={"field": "own"})]  # one of lore's own words


_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Fact(Struct, frozen=True, tag_field="type", tag=lambda name: _HUMP.sub("-", name).lower()):
    """The base of evidence: in JSON its `type` is the name of the struct, in words joined by hyphens."""


FIELDS = ("content", "name", "path", "model", "own")
E = TypeVar("E", bound=Struct)


def kind_of(annotation: object) -> str | None:
    """Return which of `FIELDS` the texts of an annotation are; None where it holds no text.

    Looks through unions, tuples and lists; raises TypeError for a text that does not say what it is.
    """
    metadata = getattr(annotation, "__metadata__", None)
    if metadata is not None:
        extra = next((one.extra for one in metadata if isinstance(one, Meta) and one.extra), None)
        if extra is not None and extra.get("field") in FIELDS:
            return cast("str", extra["field"])
    if annotation is str or annotation is bytes:
        raise TypeError("a text in evidence says whether it is content: see lore.model.fields")
    if str(getattr(annotation, "__origin__", "")) == "typing.Literal":
        return None
    found = {kind for one in get_args(annotation) if one is not Ellipsis and (kind := kind_of(one)) is not None}
    if len(found) > 1:
        raise TypeError(f"a field holds {' and '.join(sorted(found))}: split it")
    return next(iter(found), None)


def texts_of(evidence: type[Struct]) -> dict[str, str]:
    """Return the fields of a struct that hold text, with what they hold."""
    hints = get_type_hints(evidence, include_extras=True)
    kinds = {name: kind_of(hints[name]) for name in evidence.__struct_fields__}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def mapped(evidence: E, change: Mapping[str, Callable[[str], str]]) -> E:
    """Return evidence whose texts of each kind went through a function: `change` is kind -> function.

    Structs inside it (what another one wraps) are mapped likewise. A kind without a function stays.
    """
    texts = texts_of(type(evidence))
    made: dict[str, object] = {}
    for name in evidence.__struct_fields__:
        value = getattr(evidence, name)
        if isinstance(value, Struct):
            made[name] = mapped(value, change)
        elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
            made[name] = tuple(mapped(one, change) for one in cast("tuple[Struct, ...]", value))
        elif (how := change.get(texts.get(name, ""))) is not None and value is not None:
            made[name] = tuple(map(how, cast("tuple[str, ...]", value))) if isinstance(value, tuple) else how(value)
    return msgspec.structs.replace(evidence, **made) if made else evidence
