"""Descriptions in schemas of results."""

from __future__ import annotations

from msgspec import Struct

from lore.commands.schema import json_schema


class Base(Struct, kw_only=True):
    """Base."""

    name: str  # of the file


class Row(Base):
    """A row.

    More.
    """

    count: int = 0
    # the first
    # of two lines
    size: int | None = None
    base: Base | None = None  # a nested struct


def test_schema_describes_fields_by_their_comments():
    parts = json_schema(Row)["$defs"]
    described = {name: field.get("description") for name, field in parts["Row"]["properties"].items()}
    assert described == {
        "count": None, "size": "the first of two lines", "base": "a nested struct", "name": "of the file",
    }  # fmt: skip
    assert parts["Row"]["description"] == "A row.\n\nMore."
    assert parts["Base"]["properties"]["name"]["description"] == "of the file"
