"""Messages of recorded requests: taken apart to a form and its content, put together again to the byte.

A form is a message without its content: the members as they were spelled and in their order, `""` where a text stood,
`[]` where blocks stood; anything else there (`null`, a list that was empty) stands for itself. The form of a body is
the same with `null` for what a session says otherwise. Whether white space stands behind commas and colons is seen in
the form. Rules: what is put together has the bytes that were taken apart but for breakpoints, which are kept beside
it, and white space at other places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lore.model.canonical import encode
from lore.model.jsonslice import array, spans, table

TEXT, BLOCKS = b'""', b"[]"


class Style(NamedTuple):
    """What a writer of JSON puts between elements, and between a key and its value."""

    comma: bytes = b","
    colon: bytes = b":"

    @classmethod
    def of(cls, form: bytes) -> Style:
        """Return the style that a form was written in."""
        for member in spans(form):
            token = encode(member.key)
            if form.startswith(token + b": ", member.start):
                return _SPACED
            if form.startswith(token + b":", member.start):
                return TIGHT
        return TIGHT

    def array(self, elements: Iterable[bytes]) -> bytes:
        """Write an array."""
        return b"[" + self.comma.join(elements) + b"]"

    def object(self, members: Iterable[tuple[str, bytes]]) -> bytes:
        """Write an object from encoded members, in order."""
        return b"{" + self.comma.join([encode(key) + self.colon + value for key, value in members]) + b"}"


TIGHT, _SPACED = Style(), Style(b", ", b": ")


class RecordedMessage(NamedTuple):
    """A message taken apart: its form, and what stood in its lists: a text's JSON, or blocks."""

    form: bytes
    text: bytes | None
    blocks: dict[str, list[bytes]]


def taken_apart(raw: bytes, lists: Iterable[str]) -> RecordedMessage:
    """Take an object apart whose members of these names are its content."""
    found = [member for member in spans(raw) if member.key in lists]
    text: bytes | None = None
    blocks: dict[str, list[bytes]] = {}
    form = raw
    for member in reversed(found):
        value = raw[member.value : member.end]
        if value[:1] == b'"':
            text, hole = value, TEXT
        elif value[:1] == b"[" and (elements := array(value)):
            blocks[member.key], hole = elements, BLOCKS
        else:
            continue
        form = form[: member.value] + hole + form[member.end :]
    return RecordedMessage(form, text, dict(reversed(blocks.items())))


def filled(form: bytes, content: Mapping[str, bytes]) -> bytes:
    """Put content into a form: of each list, as JSON."""
    for member in reversed(spans(form)):
        if member.key in content:
            form = form[: member.value] + content[member.key] + form[member.end :]
    return form


def body_of(members: Iterable[tuple[str, bytes]], form: bytes, model: str) -> bytes:
    """Write a body in the order and the style of its form; the `model` stands in none that lacks it.

    Without a form the members are written as they come.
    """
    style = Style.of(form)
    if not form:
        return style.object(members)
    left, known = dict(members), table(form) or {}
    found = [(key, left.pop(key, literal)) for key, literal in known.items()]
    return style.object([*found, *((key, value) for key, value in left.items() if key != model)])
