"""A file of rules (TOML) to rows: the packaged tables, and a user's own over them.

    as_of = 2026-10-24                # the day on which the table was checked
    [[rules]]                         # one row, or with `rows` what all of them share
    provider = "anthropic"
    source = "https://…"
    rows = [ { rule = "price_read", model = "claude-opus-5", value = 0.5, valid_from = 2026-07-24 } ]

`rule`, `provider` and `value` are needed ("unknown" is a value); `model` is "*" where it is not given, `valid_from`
always, `unit` that of the rule. Beside rules stand habits (`habits`), what was counted of clients:

    [[habits]]
    provider = "anthropic"            # whose caches; this one where it is not given
    source = "measured"
    sessions = 769                    # over which it was counted, on the day `counted`
    counted = 2026-11-22
    rows = [ { sign = "skill", moment = "prompt", moves = "text", before_version = "2.1.59", fell = 31, seen = 42 } ]

Strict: an unknown key, a wrong type, a bad date or pattern, a row that stands there twice is a LoreError that names
file and row.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar, cast

from lore.cache.habits import MOMENTS, MOVES, UNSIGNED, Habit, version_of
from lore.cache.rules import EVIDENCE, PLATFORMS, RULES, DatedRule, RuleKind, Value, normal, seconds, spans
from lore.errors import LoreError, Where, did_you_mean
from lore.model.mask import cut_masked
from lore.model.state import SIGNS

UNKNOWN = "unknown"
ALWAYS = date(1970, 1, 1)
_MOST = 10**12  # units of any rule's value: none is larger
_TEXTS = ("rule", "provider", "model", "platform", "unit", "source", "evidence", "note")
_KEYS = (*_TEXTS, "value", "valid_from", "above_tokens")
_NEEDED = ("rule", "provider", "value")
_SECTIONS = {"tools", "system", "messages"}


Word = TypeVar("Word", bound=str)


class RuleTable(NamedTuple):
    """The rows of a file in its order, and the day on which it was checked; None: it does not say."""

    rows: tuple[DatedRule, ...]
    as_of: date | None = None
    habits: tuple[Habit, ...] = ()


def parse(text: str, where: str) -> RuleTable:
    """Read a file; `where` is its name. Raises LoreError for whatever is wrong with it."""
    try:
        top = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise LoreError(f"{where} is no TOML: {why}", hint='texts stand in quotes: "…"', where=Where(where)) from None
    file = _RulePlace(where)
    file.only(top, ("as_of", "rules", "habits"))
    as_of = file.day(top["as_of"], "as_of") if "as_of" in top else None
    rules = [(place, _row(place, table)) for place, table in _tables(file, top, "rules", _KEYS)]
    habits = [(place, _habit(place, table)) for place, table in _tables(file, top, "habits", _HABIT_KEYS)]
    seen: dict[tuple[object, ...], str] = {}
    for place, row in (*rules, *habits):
        if row.key in seen:
            raise place.fault(f"the same row as {seen[row.key]}", "leave one of them out, or give it another date")
        seen[row.key] = place.name
    return RuleTable(tuple([row for _, row in rules]), as_of, tuple([row for _, row in habits]))


class _RulePlace(NamedTuple):
    """A row of a file, or the file: what is wrong is said of it."""

    file: str
    name: str = ""

    def fault(self, message: str, hint: str = "") -> LoreError:
        place = f"{self.file}: {self.name}: " if self.name else f"{self.file}: "
        return LoreError(place + message, hint=hint, where=Where(self.file))

    def only(self, table: dict[str, Any], known: Iterable[str]) -> None:
        """Raise LoreError for a key that is not known."""
        for key in table:
            if key not in known:
                raise self.fault(f"unknown key {_shown(key)}", did_you_mean(key, known, "known keys"))

    def day(self, value: object, key: str) -> date:
        if not isinstance(value, date) or isinstance(value, datetime):
            raise self.fault(f"{key} is no date", f"write {key} = 2026-10-24, without quotes")
        return value

    def texts(self, table: dict[str, Any], keys: Iterable[str]) -> None:
        """Raise LoreError for a key that holds no text."""
        for key in keys:
            if not isinstance(table.get(key, ""), str):
                raise self.fault(f"{key} is no text", f'write {key} = "…"')

    def tables(self, value: object, key: str, hint: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Return the tables of a list, counted from 1."""
        entries = cast("list[object]", value) if isinstance(value, list) else [None]
        if not all(isinstance(entry, dict) for entry in entries):
            raise self.fault(f"{key} is no list of tables", hint)
        return enumerate(cast("list[dict[str, Any]]", entries), 1)


def _tables(
    file: _RulePlace, top: dict[str, Any], key: str, keys: tuple[str, ...]
) -> Iterator[tuple[_RulePlace, dict[str, Any]]]:
    """Yield every row of a list of blocks with its place, what its block shares filled in."""
    for number, block in file.tables(top.get(key, []), key, f"write [[{key}]] on a line of its own, its keys below it"):
        place = _RulePlace(file.file, f"{key} {number}")
        place.only(block, (*keys, "rows"))
        if "rows" not in block:
            yield place, block
            continue
        rows = block.pop("rows")
        for index, row in place.tables(rows, "rows", "write rows = [ {…}, {…} ]"):
            below = _RulePlace(file.file, f"{place.name}, row {index}")
            below.only(row, keys)
            yield below, {**block, **row}


def _row(place: _RulePlace, table: dict[str, Any]) -> DatedRule:
    for key in _NEEDED:
        if key not in table:
            raise place.fault(f"{key} is missing")
    place.texts(table, _TEXTS)
    known = RULES.get(table["rule"])
    if known is None:
        raise place.fault(f"unknown rule {_shown(table['rule'])}", did_you_mean(table["rule"], RULES, "known rules"))
    since = place.day(table.get("valid_from", ALWAYS), "valid_from")
    return DatedRule(
        rule=table["rule"], value=_value(place, table["value"], table["rule"], known),
        unit=_one_of(place, table, "unit", (known.unit,)), provider=_filled(place, table["provider"], "provider"),
        model=_pattern(place, table.get("model", "*")),
        platform=_one_of(place, table, "platform", ("", *sorted(PLATFORMS))), valid_from=since, since=seconds(since),
        source=table.get("source", place.file), evidence=_one_of(place, table, "evidence", ("?", *EVIDENCE)),
        above_tokens=_above(place, table.get("above_tokens")), note=table.get("note", ""), file=place.file,
    )  # fmt: skip


_HABIT_TEXTS = (
    "provider", "sign", "moment", "moves", "model", "from_version", "before_version", "source", "evidence", "note",
)  # fmt: skip
_COUNTS = ("fell", "seen", "sessions")
_FLAGS = ("first", "derived")
_HABIT_KEYS = (*_HABIT_TEXTS, *_COUNTS, *_FLAGS, "counted")


def _habit(place: _RulePlace, table: dict[str, Any]) -> Habit:
    for key in ("sign", "moment", "moves", *_COUNTS, "counted"):
        if key not in table:
            raise place.fault(f"{key} is missing")
    place.texts(table, _HABIT_TEXTS)
    for key in _COUNTS:
        if not isinstance(table[key], int) or isinstance(table[key], bool) or not 0 <= table[key] <= _MOST:
            raise place.fault(f"{key} is no count", f"write {key} = 42")
    if table["fell"] > table["seen"]:
        raise place.fault(f"fell is {table['fell']}, of {table['seen']} seen", "fell is a part of seen")
    for key in _FLAGS:
        if not isinstance(table.get(key, False), bool):
            raise place.fault(f"{key} is neither true nor false", f"write {key} = true")
    return Habit(
        sign=_one_of(place, table, "sign", (*SIGNS, *UNSIGNED)), moment=_one_of(place, table, "moment", MOMENTS),
        moves=_one_of(place, table, "moves", MOVES), fell=table["fell"], seen=table["seen"],
        sessions=table["sessions"], counted=place.day(table["counted"], "counted"),
        source=table.get("source", place.file), evidence=_one_of(place, table, "evidence", ("?", *EVIDENCE)),
        model=_pattern(place, table.get("model", "*")), first=table.get("first"),
        since=_version(place, table, "from_version"), until=_version(place, table, "before_version"),
        derived=table.get("derived", False), note=table.get("note", ""), file=place.file,
        provider=_filled(place, table.get("provider", "anthropic"), "provider"),
    )  # fmt: skip


def _version(place: _RulePlace, table: dict[str, Any], key: str) -> tuple[int, ...]:
    if key in table and not version_of(table[key]):
        raise place.fault(f"{key} {_shown(table[key])} is no version", f'write {key} = "2.1.59"')
    return version_of(table.get(key, ""))


def _value(place: _RulePlace, value: object, rule: str, known: RuleKind) -> Value:
    if value == UNKNOWN:
        return None
    match known.kind:
        case "flag" if isinstance(value, bool):
            return value
        case "text" if isinstance(value, str) and _is_text(rule, value):
            return value
        case "number" | "whole" if isinstance(value, int | Decimal) and not isinstance(value, bool):
            number = Decimal(value)
            if number.is_finite() and 0 <= number <= _MOST and (known.kind == "number" or number == int(number)):
                return number
        case _:
            pass
    wanted = {
        "flag": "true or false", "number": f"a number ({known.unit}), 0 or more",
        "whole": f"a whole number ({known.unit}), 0 or more", "text": f"a text as {_EXAMPLES.get(rule)}",
    }  # fmt: skip
    raise place.fault(f"value is not what {rule} takes", f'write {wanted[known.kind]}, or "{UNKNOWN}"')


_EXAMPLES = {"order": '"tools,system,messages"', "peak_hours": '"1-4,6-10"', "eviction": '"lru"'}


def _is_text(rule: str, value: str) -> bool:
    """Tell whether a text is one that its rule takes."""
    if rule == "order":
        return set(value.split(",")) == _SECTIONS and value.count(",") == len(_SECTIONS) - 1
    return spans(value) is not None if rule == "peak_hours" else bool(value.strip())


def _one_of(place: _RulePlace, table: dict[str, Any], key: str, known: tuple[Word, ...]) -> Word:
    """Return a text that is one of those known, the first where it is not given."""
    value: Word = table.get(key, known[0])
    if value not in known:
        hint = did_you_mean(value, [word for word in dict.fromkeys(known) if word], f"known for {key}")
        raise place.fault(f"{key} {_shown(value)} is not known", hint)
    return value


def _filled(place: _RulePlace, value: str, key: str) -> str:
    if not value.strip() or not value.isprintable():
        raise place.fault(f"{key} is empty or not printable")
    return value


def _pattern(place: _RulePlace, value: str) -> str:
    """Return a model pattern; a name without signs of a pattern is spelled as the tables spell it."""
    _filled(place, value, "model")
    pattern = value.lower()
    if not any(sign in pattern for sign in "*?["):
        return normal(value) or pattern
    if any(char.isspace() or char == "/" for char in pattern) or not _closed(pattern):
        hint = 'write a name, or its beginning and a star: "claude-opus-5*"'
        raise place.fault(f"model {_shown(value)} is no pattern", hint)
    return pattern


def _closed(pattern: str) -> bool:
    """Tell whether each bracket is closed: fnmatch takes an open one for a letter."""
    rest = pattern
    while "[" in rest:
        inside = rest.partition("[")[2]
        body, closed, rest = inside[1:].partition("]")  # a bracket right behind the first is a member
        if not closed or "[" in body:
            return False
    return True


def _above(place: _RulePlace, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _MOST:
        raise place.fault("above_tokens is no number of tokens", "write above_tokens = 200000")
    return value


def _shown(word: str) -> str:
    return repr(word if len(word) <= 60 else cut_masked(word, 59) + "…")
