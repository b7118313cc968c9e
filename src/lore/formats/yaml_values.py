"""Values from YAML that a stranger wrote: one pass over libyaml's events, nothing constructed but JSON's types.

In: the bytes of one document. Out: tables, lists, texts, numbers; `!!binary` becomes `{"base64_string": …}`, as
VCR writes it elsewhere. Rules: tags are refused, save those of JSON's own types and binary; an alias counts with
all that it stands for; values and nesting are bounded; what is malformed raises `YamlError`. Anchors are handed
in and kept, because a document may come in pieces. Types of plain scalars are PyYAML's, dates stay text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

MOST_VALUES = 400_000  # of one piece, aliases included
MOST_BYTES = 24 * 1024 * 1024
DEEPEST = 200
MOST_ANCHORS = 10_000


class YamlError(Exception):
    """YAML that is malformed or refused; says why."""


class Anchored(Struct):
    """A value that aliases name, and what it holds: values, bytes of text."""

    value: Any
    values: int
    size: int


class _Open(Struct):
    """A table or list that is being read; `key` waits for its value."""

    made: Any
    values: int
    size: int
    anchor: str | None
    key: str | None = None


_TAG = "tag:yaml.org,2002:"
_BINARY = _TAG + "binary"
_ALLOWED = {"!", *(_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "binary"))}
_WORDS: dict[str, object] = {
    "": None, "~": None, "null": None, "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False,
}  # fmt: skip
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?)$")
_ODD_NUMBER = re.compile(r"[-+]?0[0-7xXbB_][0-9a-fA-F_]*$")


def load(data: bytes, anchors: dict[str, Anchored]) -> Any:
    """Read the first document; raises YamlError. Cost and memory O(bytes)."""
    import yaml  # slow to import

    try:
        events: Iterator[Any] = iter(yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        return _Builder(anchors).build(events)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at its line {mark.line + 1}" if mark is not None else ""
        raise YamlError(f"{str(getattr(error, 'problem', None) or 'no YAML')[:80]}{place}") from None
    except (UnicodeDecodeError, RecursionError):
        raise YamlError("no YAML") from None


class _Builder:
    def __init__(self, anchors: dict[str, Anchored]) -> None:
        self._anchors = anchors
        self._stack: list[_Open] = []
        self._result: Any = None
        self._done = False
        self._left, self._room = MOST_VALUES, MOST_BYTES

    def build(self, events: Iterator[Any]) -> Any:
        """Read until the first document's value is whole."""
        for event in events:
            take = _TAKE.get(type(event).__name__)
            if take is not None:
                take(self, event)
                if self._done:
                    return self._result
        return None

    def scalar(self, event: Any) -> None:
        text: str = event.value
        tag: str | None = event.tag
        if tag not in (None, *_ALLOWED):
            raise YamlError(f"it asks for a value of the type {tag[:60]!r}, which lore does not make")
        if tag == _BINARY:
            value: object = {"base64_string": text}
        elif event.implicit[0] and tag is None:
            value = _plain(text)
        else:
            value = text
        self._put(value, 1, len(text), event.anchor)

    def alias(self, event: Any) -> None:
        known = self._anchors.get(event.anchor)
        if known is None:
            raise YamlError(f"it refers to {event.anchor[:40]!r}, which is nothing before it")
        self._put(known.value, known.values, known.size, None)

    def open_table(self, event: Any) -> None:
        self._open({}, event)

    def open_list(self, event: Any) -> None:
        self._open([], event)

    def _open(self, made: Any, event: Any) -> None:
        if event.tag not in (None, *_ALLOWED):
            raise YamlError(f"it asks for a value of the type {event.tag[:60]!r}, which lore does not make")
        if len(self._stack) == DEEPEST:
            raise YamlError(f"it is nested more than {DEEPEST} deep")
        self._stack.append(_Open(made, 1, 0, event.anchor))

    def close(self, event: Any) -> None:
        del event
        one = self._stack.pop()
        self._put(one.made, one.values, one.size, one.anchor, counted=True)

    def _put(self, value: Any, values: int, size: int, anchor: str | None, *, counted: bool = False) -> None:
        """Give a value to what it stands in; what was counted while it was open is not counted again."""
        self._left -= 1 if counted else values
        self._room -= 0 if counted else size
        if self._left < 0 or self._room < 0:
            raise YamlError(f"it holds more than {MOST_VALUES:,} values or {MOST_BYTES // 1024 // 1024} MiB of text")
        if anchor is not None:
            if len(self._anchors) == MOST_ANCHORS and anchor not in self._anchors:
                raise YamlError(f"it names more than {MOST_ANCHORS:,} values")
            self._anchors[anchor] = Anchored(value, values, size)
        if not self._stack:
            self._result, self._done = value, True
            return
        inside = self._stack[-1]
        inside.values += values
        inside.size += size
        if isinstance(inside.made, list):
            inside.made.append(value)  # pyright: ignore[reportUnknownMemberType]
        elif inside.key is None:
            inside.key = value if isinstance(value, str) else _key(value)
        else:
            inside.made[inside.key] = value
            inside.key = None


_TAKE: dict[str, Callable[[_Builder, Any], None]] = {
    "ScalarEvent": _Builder.scalar,
    "AliasEvent": _Builder.alias,
    "MappingStartEvent": _Builder.open_table,
    "SequenceStartEvent": _Builder.open_list,
    "MappingEndEvent": _Builder.close,
    "SequenceEndEvent": _Builder.close,
}


def _key(value: object) -> str:
    if isinstance(value, dict | list):
        raise YamlError("a key that is no text")
    return {None: "null", True: "true", False: "false"}.get(value, str(value))  # type: ignore[call-overload]


def _plain(text: str) -> object:
    """Return what a plain scalar means."""
    if len(text) < 6 and (text.lower() in _WORDS) and text in (text.lower(), text.upper(), text.capitalize()):
        return _WORDS[text.lower()]
    if not text or text[0] not in "0123456789+-.":
        return text
    try:
        if _NUMBER.match(text):
            return int(text.replace("_", ""))
        if _FLOAT.match(text):
            return float(text.replace("_", ""))
        if _ODD_NUMBER.match(text):
            return int(text.replace("_", ""), 8 if text.lstrip("+-0")[:1].isdigit() else 0)
    except ValueError:
        return text
    return text
