"""Read a TOML file of rules: one of the packaged tables in `data/`, or the user's own.

    as_of = 2026-10-24                # the day on which the table was checked
    [[rules]]                         # one row, or with `rows` the values that all of its rows share
    provider = "anthropic"
    source = "https://…"
    rows = [ { rule = "price_read", model = "claude-opus-5", value = 0.5, valid_from = 2026-07-24 } ]

    [[breakpoints]]                   # where requests may carry cache breakpoints
    apis = ["bedrock"]
    rows = [ { model = "nova-*", field = "cachePoint", sections = ["system", "messages"] } ]

The keys of a row are the fields of `DatedRule` and `BreakpointRule`; "unknown" is a value of any rule.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from lore.cache.breakpoint_rules import BreakpointRule
from lore.cache.rules import MOST, RULES, UNKNOWN, DatedRule, RuleTable, Value, hour_spans
from lore.cache.served import PLATFORMS, model_pattern
from lore.errors import LoreError, Where, did_you_mean
from lore.model.mask import cut_masked

Row = TypeVar("Row", DatedRule, BreakpointRule)
_TOP = ("as_of", "rules", "breakpoints")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


def read_rules(text: str, name: str) -> RuleTable:
    """Return the content of a file called `name`; raise LoreError with the place of the first mistake."""
    try:
        top = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise LoreError(f"{name} is not TOML: {why}", hint='quote texts: "…"', where=Where(name)) from None
    for key in top:
        if key not in _TOP:
            raise _mistake(name, "", f"unknown key {_quote(key)}", did_you_mean(key, _TOP, "known keys"))
    as_of = top.get("as_of")
    if as_of is not None and type(as_of) is not date:
        raise _mistake(name, "", "as_of is not a date", "write as_of = 2026-10-24, without quotes")
    return RuleTable(_rows(top, "rules", DatedRule, name), as_of, _rows(top, "breakpoints", BreakpointRule, name))


def _rows(top: dict[str, Any], key: str, kind: type[Row], name: str) -> tuple[Row, ...]:
    by_key: dict[tuple[object, ...], tuple[str, Row]] = {}
    for place, table in _tables(top, key, name):
        try:
            row = _checked(msgspec.convert({"source": name, **table, "file": name}, kind))
        except (msgspec.ValidationError, ValueError) as error:
            raise _mistake(name, place, *_reason(str(error), kind)) from None
        if row.key in by_key:
            why = f"the same row as {by_key[row.key][0]}"
            raise _mistake(name, place, why, "remove one of them, or give it another date")
        by_key[row.key] = place, row
    return tuple([row for _, row in by_key.values()])


def _checked(row: Row) -> Row:
    """Return a row in the spelling of the tables; raise ValueError, a hint on its second line, for a wrong value."""
    if row.platform and row.platform not in PLATFORMS:
        raise ValueError(_unknown("platform", row.platform, sorted(PLATFORMS)))
    model = model_pattern(row.model)
    if isinstance(row, BreakpointRule):
        return replace(row, model=model)
    if row.rule not in RULES:
        raise ValueError(
            f"unknown rule {cut_masked(row.rule, 60)!r}\n{did_you_mean(row.rule[:80], RULES, 'known rules')}"
        )
    if not row.provider.strip() or not row.provider.isprintable():
        raise ValueError("the provider is empty or not printable")
    kind, unit = RULES[row.rule]
    if row.unit and row.unit != unit:
        raise ValueError(_unknown("unit", row.unit, [unit]))
    return replace(row, value=_value(row.value, row.rule, kind, unit), model=model, unit=unit)


def _unknown(name: str, value: str, choices: list[str]) -> str:
    return f"{name} {cut_masked(value, 60)!r} is not known\n{did_you_mean(value, choices, f'known {name}s')}"


_SECTIONS = ["messages", "system", "tools"]
_EXAMPLES = {
    "flag": "true or false", "number": "a number ({}), 0 or more", "whole": "a whole number ({}), 0 or more",
    "order": '"tools,system,messages"', "peak_hours": '"1-4,6-10"',
}  # fmt: skip


def _value(value: object, rule: str, kind: str, unit: str) -> Value:
    if value is None or value == UNKNOWN:
        return None
    if kind == "flag" and isinstance(value, bool):
        return value
    if kind == "text" and isinstance(value, str):
        fits = sorted(value.split(",")) == _SECTIONS if rule == "order" else hour_spans(value) is not None
        if fits:
            return value
    elif kind in ("number", "whole") and isinstance(value, int | Decimal) and not isinstance(value, bool):
        number = Decimal(value)
        if number.is_finite() and 0 <= number <= MOST and (kind == "number" or number == int(number)):
            return number
    example = _EXAMPLES.get(rule) or _EXAMPLES[kind].format(unit)
    raise ValueError(f'the value does not fit {rule}\nwrite {example}, or "{UNKNOWN}"')


def _tables(top: dict[str, Any], key: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row with its place, completed by the keys of its block."""
    for number, block in _list_of_tables(top.get(key, []), name, "", key, f"write [[{key}]] on a line of its own"):
        place = f"{key} {number}"
        if "rows" not in block:
            yield place, block
            continue
        shared = {field: value for field, value in block.items() if field != "rows"}
        for index, row in _list_of_tables(block["rows"], name, place, "rows", "write rows = [ {…}, {…} ]"):
            yield f"{place}, row {index}", {**shared, **row}


def _list_of_tables(value: object, name: str, place: str, key: str, hint: str) -> Iterator[tuple[int, dict[str, Any]]]:
    entries = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(entry, dict) for entry in entries):
        raise _mistake(name, place, f"{key} is not a list of tables", hint)
    return enumerate(cast("list[dict[str, Any]]", entries), 1)


def _reason(error: str, kind: type[DatedRule | BreakpointRule]) -> tuple[str, str]:
    """Return the mistake of a row, and a hint, from msgspec's message."""
    message, _, path = error.partition(" - at `$")
    unknown = _UNKNOWN_FIELD.fullmatch(message)
    if unknown is not None:
        known_fields = [field for field in kind.__struct_fields__ if field not in ("file", "own")]
        return f"unknown key {_quote(unknown[1])}", did_you_mean(unknown[1], known_fields, "known keys")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", message)
    if missing is not None:
        return f"{missing[1]} is missing", ""
    field = path.strip("`.")
    reason, _, hint = message.partition("\n")  # a check of our own puts its hint on a second line
    return (f"{field}: {reason[0].lower()}{reason[1:]}" if field else reason), hint


def _mistake(name: str, place: str, message: str, hint: str = "") -> LoreError:
    return LoreError(": ".join(filter(None, (name, place, message))), hint=hint, where=Where(name))


def _quote(word: str) -> str:
    return repr(word if len(word) <= 60 else cut_masked(word, 59) + "…")
