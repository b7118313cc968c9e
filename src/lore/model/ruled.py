"""The result of `lore simulate --rules`: one object, a row of the tables each."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

RuleValue: TypeAlias = bool | int | float | str | None


class RuleResult(Struct, frozen=True, kw_only=True):
    """One dated row; `value` is None where nobody knows it. `own` says that it is the user's, `used` that
    predictions or prices follow it.
    """

    rule: str
    value: RuleValue
    unit: str
    provider: str
    model: str
    platform: str
    valid_from: str
    above_tokens: int | None
    source: str
    evidence: str
    note: str
    file: str
    own: bool
    used: bool


class RulesResult(Struct, frozen=True, kw_only=True):
    """`lore simulate --rules --json`: rows in the order of their files, the user's first.

    `as_of` is the newest day on which a table was checked; None: none says.
    """

    schema: int = 2
    as_of: str | None
    rules: list[RuleResult]
