"""The rules in force: the packaged tables, overridden by a user's file."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from lore.cache.breakpoint_rules import packaged_breakpoints
from lore.cache.prices import recorded_output
from lore.cache.rules import FOR_READING, DatedRule, DatedRules, RuleTable
from lore.cache.served import normal_name
from lore.errors import LoreError, Where
from lore.files import WholeFile
from lore.model.deferred import read_table
from lore.model.limits import RULES_BYTES
from lore.model.patterns import matches_shell
from lore.model.results import copy_fields
from lore.recording.corpus import show

if TYPE_CHECKING:
    from lore.model.results.simulate import RuleResult, RulesResult


@cache
def packaged() -> DatedRules:
    """Return lore's own tables, read once."""
    table = read_table(RuleTable, "lore.cache", "rules.json")
    return DatedRules(table.rows, table.as_of, packaged_breakpoints())


def load(path: str | None = None) -> DatedRules:
    """Return the rules in force; `path` names a user's file. Raises LoreError for one that cannot be read."""
    if path is None:
        return packaged()
    table = _read(path)
    as_of = max(filter(None, (packaged().as_of, table.as_of)), default=None)
    return packaged().overridden_by(table.rows, as_of, table.breakpoints)


def listed(rules: DatedRules, *, provider: str | None = None, model: str | None = None) -> RulesResult:
    """Return all rows, or those that apply to requests of a provider or model."""
    from lore.model.results.simulate import RulesResult  # noqa: PLC0415 - only `lore simulate --rules` lists them

    name = None if model is None else normal_name(model)
    rows = [
        _result(row)
        for row in rules.rows
        if (provider is None or row.provider in (provider, "*")) and (name is None or matches_shell(row.model, name))
    ]
    return RulesResult(as_of=None if rules.as_of is None else rules.as_of.isoformat(), rules=rows)


def stale(rules: DatedRules, at: float | None) -> str | None:
    """Return a note if a turn was recorded after the rules were last checked."""
    if not rules.is_older_than(at):
        return None
    return f"recorded after {rules.as_of}, the day of the rules and prices: they may have changed since"


def output_note(partial: Mapping[str, int], rules: DatedRules) -> str:
    """Return a note on turns with only a part of the output tokens recorded; `partial` counts them by client."""
    shares: dict[str, list[str]] = {}
    for client in sorted(partial):
        share = recorded_output(rules, client)
        known = f"about {100 * share:.0f} %" if isinstance(share, Decimal) else "an unknown part"
        shares.setdefault(known, []).append(client)
    noted = "; ".join(f"{', '.join(clients[:5])} noted {known}" for known, clients in shares.items())
    turns = sum(partial.values())
    return f"output is partial in {turns:,} turn{'' if turns == 1 else 's'}, and its cost too low: {noted} of it"


def _read(path: str) -> RuleTable:
    from lore.cache.rule_file import read_rules  # noqa: PLC0415 - few runs read TOML

    shown = show(path)
    try:
        with WholeFile(path) as file:
            data = file.read(RULES_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        why = getattr(error, "strerror", None) or str(error)
        raise LoreError(f"cannot read {shown}: {why.lower()}", hint=_HINT, where=Where(shown)) from None
    if len(data) > RULES_BYTES:
        raise LoreError(f"{shown} holds more than {RULES_BYTES >> 20} MiB", hint=_HINT, where=Where(shown))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LoreError(f"{shown} is not UTF-8 text", hint=_HINT, where=Where(shown)) from None
    return read_rules(text, shown)


_HINT = "name a TOML file of rules; lore simulate --rules shows what rows say"


def _result(row: DatedRule) -> RuleResult:
    from lore.model.results.simulate import RuleResult  # noqa: PLC0415 - as above

    value = row.value
    if isinstance(value, Decimal):
        value = int(value) if value == int(value) else float(value)
    used = row.rule not in FOR_READING
    return copy_fields(RuleResult, row, value=value, valid_from=row.valid_from.isoformat(), used=used)
