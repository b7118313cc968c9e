"""The dated rules in force: the packaged tables, overridden by a user's file."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from lore.cache.base import Simulate
from lore.cache.breakpoint_rules import packaged_breakpoints
from lore.cache.rules import DatedRules, RuleTable
from lore.errors import LoreError, Where, reason_of
from lore.files import WholeFile
from lore.model.deferred import read_table
from lore.model.limits import RULES_BYTES
from lore.recording.corpus import show

if TYPE_CHECKING:
    from lore.config import Loaded
    from lore.judge.judge import Judge


@cache
def packaged() -> DatedRules:
    """Return lore's own tables, read once."""
    table = read_table(RuleTable, "lore.cache", "rules.json")
    return DatedRules(table.rows, table.as_of, packaged_breakpoints())


@cache
def load(path: str = "") -> DatedRules:
    """Return the rules in force, read once; `path`: a user's file. Raises LoreError for one that cannot be read."""
    if not path:
        return packaged()
    table = _read(path)
    as_of = max(filter(None, (packaged().as_of, table.as_of)), default=None)
    return packaged().overridden_by(table.rows, as_of, table.breakpoints)


class Dated(Struct, frozen=True):
    """Names the dated rules that verdicts use; cheap to pickle. `path`: a user's file; empty: the packaged rules.

    `tolerance` is the share of a prompt by which a billed read may fall short of its prediction; `labels` are those of
    a program's own text that the settings add (`check.tail_labels`).
    """

    path: str = ""
    tolerance: float = Simulate().tolerance
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, loaded: Loaded, rules_file: str = "") -> Dated:
        """Return the rules of a file that was named, else those of the settings, whose paths begin at their file."""
        simulate, rules = loaded.settings.simulate, rules_file or loaded.settings.simulate.rules or ""
        if not rules_file and rules and loaded.file is not None:
            rules = os.path.join(os.path.dirname(loaded.file), rules)
        return cls(rules, simulate.tolerance, loaded.settings.check.tail_labels)

    def check_file(self) -> None:
        """Raise LoreError if the user's file of rules cannot be read."""
        if self.path:
            load(self.path)

    def rules(self) -> DatedRules:
        """Return the rules; they are read once a process."""
        return load(self.path)

    def judge(self, *, quick: bool = False) -> Judge:
        """Return a new judge for one recording; it reads the rules when it first needs them."""
        from lore.judge.judge import Judge  # noqa: PLC0415 - not needed if all ledgers are cached

        return Judge(self.rules, tolerance=self.tolerance, quick=quick, labels=self.labels)


PACKAGED = Dated()


def _read(path: str) -> RuleTable:
    from lore.cache.rule_file import read_rules  # noqa: PLC0415 - few runs read TOML

    label = show(path)
    try:
        with WholeFile(path) as file:
            data = file.read(RULES_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise LoreError(f"cannot read {label}: {reason_of(error)}", hint=_HINT, where=Where(label)) from None
    if len(data) > RULES_BYTES:
        raise LoreError(f"{label} holds more than {RULES_BYTES >> 20} MiB", hint=_HINT, where=Where(label))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LoreError(f"{label} is not UTF-8 text", hint=_HINT, where=Where(label)) from None
    return read_rules(text, label)


_HINT = "name a TOML file of rules; lore simulate --rules shows what rows say"
