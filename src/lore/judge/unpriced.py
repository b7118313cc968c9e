"""Why turns have no price: whose models, factors and tools the rules name none of.

In: turns with the price that was found for each. Out: a note for each reason. Nothing is priced here.
"""

from __future__ import annotations

from collections.abc import Iterator

from lore.cache.billing import unknown_factors
from lore.cache.prices import Price
from lore.cache.rules import Rules, billed_by, is_transcript
from lore.model.turn import Turn

_SHOWN = 5  # names of one kind


class Unpriced:
    """Gather what is missing of turns that have no price."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._models: set[str] = set()
        self._factors: set[str] = set()
        self._tools: set[str] = set()

    def take(self, turn: Turn, price: Price | None, model: str | None) -> None:
        """Take a turn; `model` is the one that is asked for in the place of its own."""
        usage = turn.usage
        if price is not None:
            if usage is not None and usage.server_tools:
                self._tools |= {name for name, _ in usage.server_tools} - dict(price.tools).keys()
            return
        asked, where = None if is_transcript(turn) else turn.prompt.params, billed_by(turn)
        factors = unknown_factors(self._rules, where, model or turn.model, turn.at, usage, asked)
        self._factors |= set(factors)
        if not factors:
            name = turn.model or "turns that name no model"
            self._models.add(f"{name} at {where.platform}" if where.platform else name)

    def notes(self) -> Iterator[str]:
        """Say what is missing, and how to give it."""
        found = (
            ("no price is known for {0}", "", self._models),
            ("no price is known at {0}: what it multiplies prices by is unknown ({1})", "multiple_", self._factors),
            ("no price is known for the provider's tools {0} ({1})", "price_", self._tools),
        )
        for text, prefix, names in found:
            if names:
                shown = sorted(names)[:_SHOWN]
                rows = ", ".join(prefix + name for name in shown)
                yield text.format(", ".join(shown), rows) + ": a file of --rules-file can give one"
