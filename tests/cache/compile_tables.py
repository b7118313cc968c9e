"""Write the compiled form of the tables that come with lore (`make data`), and say which files changed.

A row takes a line, so that two changes of a table merge like those of the TOML files.
"""

import json
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from lore.cache.rule_file import read_rules

SOURCE = Path(__file__).resolve().parents[2] / "src" / "lore"


def compiled() -> Iterator[tuple[Path, str]]:
    """Yield the compiled files with their right content."""
    folder = SOURCE / "cache" / "data"
    tables = [read_rules(path.read_text("utf-8"), path.name) for path in sorted(folder.glob("*.toml"))]
    rules = ",\n".join(_line(row) for table in tables for row in table.rows)
    as_of = max(table.as_of for table in tables if table.as_of is not None)
    yield folder / "rules.json", f'{{"as_of":"{as_of}","rows":[\n{rules}\n]}}\n'
    breakpoints = ",\n".join(_line(row) for table in tables for row in table.breakpoints)
    yield folder / "breakpoints.json", f"[\n{breakpoints}\n]\n"
    falls = tomllib.loads((SOURCE / "cache" / "falls.toml").read_text("utf-8"))
    rows = ",\n".join(json.dumps(row) for row in falls.pop("falls"))
    yield folder / "falls.json", f'{{"falls":[\n{rows}\n],\n{json.dumps(falls)[1:]}\n'
    codes = tomllib.loads((SOURCE / "model" / "data" / "codes.toml").read_text("utf-8"))
    lines = ",\n".join(f'"{code}":{json.dumps(facts, ensure_ascii=False)}' for code, facts in codes.items())
    yield SOURCE / "model" / "data" / "codes.json", f"{{\n{lines}\n}}\n"


def _line(row: msgspec.Struct) -> str:
    fields = type(row).__struct_defaults__
    defaults = dict(zip(type(row).__struct_fields__[-len(fields) :], fields, strict=True))
    non_defaults = {
        name: value for name, value in msgspec.structs.asdict(row).items() if value != defaults.get(name, ...)
    }
    return "{" + ",".join(f'"{name}":{_text(value)}' for name, value in non_defaults.items()) + "}"


def _text(value: Any) -> str:
    """Write a value; a number of a rule with a point or an exponent, so that it is read as a Decimal."""
    if isinstance(value, Decimal):
        return f"{value}" if {".", "E"} & set(str(value)) else f"{value}e0"
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    for path, text in compiled():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(f"written: {path.relative_to(SOURCE)}")
