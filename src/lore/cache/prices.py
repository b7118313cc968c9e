"""Prices: what the tokens of a bill cost by kind, the other passes of its response, and tools that the provider ran.

In: rows (`DatedRules`), bills. Out: a `Price`, exact sums in US dollars (`Decimal`). Rules: a count or a price
that is not known makes the cost unknown, unless nothing is counted at that price. What is written without a lifetime is
paid at `write`, where a provider has no such price at `write_5m`, its default. Requests of tools cost the same however
tokens are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from lore.model.events import Billed, Counts

if TYPE_CHECKING:
    from lore.cache.rules import DatedRule

MILLION, THOUSAND = Decimal(1_000_000), 1000
KINDS = ("uncached", "read", "write", "write_5m", "write_1h", "output")  # of tokens
TOOLS = ("web_search", "web_fetch", "code_execution", "tool_search")  # that usage counts
_DERIVED = ("read", "write", "write_5m", "write_1h")  # kinds that may be given as a multiple of the uncached price


class Price(NamedTuple):
    """US dollars a million tokens, by kind; None where there is no such price or it is not known.

    `tools` are dollars a thousand requests; `passes` are the prices of a bill's other passes, in their order.
    """

    uncached: Decimal | None = None
    read: Decimal | None = None
    write: Decimal | None = None
    write_5m: Decimal | None = None
    write_1h: Decimal | None = None
    output: Decimal | None = None
    tools: tuple[tuple[str, Decimal], ...] = ()
    passes: tuple[Price | None, ...] = ()

    def of(self, bill: Counts) -> Decimal | None:
        """Return what a bill costs in US dollars, every pass and tool of it.

        `write_tokens` is all that was written, those of a lifetime are parts of it. Where nothing is said about
        writes they are free or none, if the provider charges none, and unknown otherwise.
        """
        paid = self._of_counts(bill)
        if paid is None or not isinstance(bill, Billed):
            return paid
        tools = dict(self.tools)
        for name, requests in bill.server_tools:
            if name not in tools:
                return None
            paid += requests * tools[name] / THOUSAND
        if bill.iterations and len(bill.iterations) != len(self.passes):
            return None
        for counts, price in zip(bill.iterations, self.passes, strict=False):
            cost = None if price is None else price.of(counts)
            if cost is None:
                return None
            paid += cost
        return paid

    def _of_counts(self, usage: Counts) -> Decimal | None:
        lives = (usage.write_5m_tokens, usage.write_1h_tokens)
        said = any(count is not None for count in lives)
        if usage.write_tokens is None and None in lives and (said or self.writes_are_charged):
            return None
        paid = Decimal(0)
        for count, price in self._counted(usage).values():
            if count is None or count < 0 or (count and price is None):
                return None
            paid += count * (price or 0)
        return paid / MILLION

    def _counted(self, usage: Counts) -> dict[str, tuple[int | None, Decimal | None]]:
        """Return the tokens of each kind, with their price; where nobody says what was written, that is 0."""
        hour, short = usage.write_1h_tokens or 0, usage.write_5m_tokens or 0
        write = 0 if usage.write_tokens is None else usage.write_tokens - short - hour
        return {
            "uncached": (usage.uncached_tokens, self.uncached), "read": (usage.read_tokens, self.read),
            "write_1h": (hour, self.write_1h), "write_5m": (short, self.write_5m),
            "write": (write, self.write if self.write is not None else self.write_5m),
            "output": (usage.output_tokens, self.output),
        }  # fmt: skip

    def parts(self, bill: Counts) -> dict[str, Decimal]:
        """Return what a bill cost by kind of price; kinds whose count or price is not known are left out."""
        counted = self._counted(bill).items()
        found = [{
            kind: count * price / MILLION for kind, (count, price) in counted
            if count and (count > 0 or kind != "write") and price is not None
        }]  # fmt: skip
        if isinstance(bill, Billed):
            tools = dict(self.tools)
            found += [{name: count * tools[name] / THOUSAND} for name, count in bill.server_tools if name in tools]
            passes = zip(bill.iterations, self.passes, strict=False)
            found += [price.parts(counts) for counts, price in passes if price is not None]
        parts: dict[str, Decimal] = {}
        for kind, paid in (entry for some in found for entry in some.items()):
            parts[kind] = parts.get(kind, Decimal(0)) + paid
        return parts

    @property
    def writes_are_charged(self) -> bool:
        """Whether there is a price of writing."""
        return any(price is not None for price in (self.write, self.write_5m, self.write_1h))


def rates(
    find: Callable[[str], DatedRule | None], factors: Iterable[str], *, listed: bool, implicit: bool = False
) -> Price | None:  # fmt: skip
    """Return all rates, each with its factors; a maker's own hold where they are `listed`."""

    def money(rule: str) -> Decimal | None:
        row = find(rule)
        if row is None or not isinstance(row.value, Decimal):
            return None
        return row.value if listed or row.own or row.platform else None

    uncached, sides = money("price_uncached"), _sides(find, factors)
    if uncached is None or sides is None:
        return None
    found: dict[str, Decimal | None] = {}
    for kind in KINDS:
        rate = money(f"price_{kind}")
        if kind in _DERIVED and find(f"price_{kind}") is None:
            own = f"multiple_{kind}_implicit"
            multiple = money(own if kind == "read" and implicit and find(own) is not None else f"multiple_{kind}")
            rate = None if multiple is None else multiple * uncached
        found[kind] = None if rate is None else rate * sides["output" if kind == "output" else "input"]
    tools = ((tool, money(f"price_{tool}")) for tool in TOOLS)
    known = tuple([(tool, rate) for tool, rate in tools if rate is not None])
    uncached, read, write, write_5m, write_1h, output = (found[kind] for kind in KINDS)
    return Price(uncached, read, write, write_5m, write_1h, output, known)


def _sides(find: Callable[[str], DatedRule | None], factors: Iterable[str]) -> dict[str, Decimal] | None:
    """Return what multiplies the prices of input and of output; None where a factor is not known."""
    every = Decimal(1)
    for name in factors:
        row = find(f"multiple_{name}")
        if row is None or not isinstance(row.value, Decimal):
            return None
        every *= row.value
    sides: dict[str, Decimal] = {"input": every, "output": every}
    for side in sides:  # by the prompt's length
        row = find(f"multiple_{side}")
        if row is not None:
            if not isinstance(row.value, Decimal):
                return None
            sides[side] *= row.value
    return sides
