"""Pairs of causes in one turn, at different places so that both show."""

import random
from itertools import combinations, product

from faults.bodies import DIALECTS
from faults.catalogue import FAULTS, Case, Fault, build_case

REGIONS = {
    "tools": ("LORE102", "LORE103", "LORE104", "LORE105"),
    "system": ("LORE101", "LORE108", "LORE109", "LORE110", "LORE126"),
    "first": ("LORE127",),
    "messages": ("LORE111", "LORE115", "LORE117", "LORE118"),
    "settings": ("LORE120", "LORE121", "LORE135"),
}


def region(fault: Fault) -> str:
    """Return the region of a fault; empty if it is not paired."""
    where = next((name for name, codes in REGIONS.items() if fault.code in codes), "")
    if where == "system" and "in a message" in fault.form:
        return "words"
    if fault.code == "LORE105" and "schemas" not in fault.form:
        return ""
    return where


def pairs(count: int = 4) -> list[Case]:
    """Return two faults of different regions in the same turn, in every dialect: `each` of every two regions."""
    chance = random.Random(5)
    by_region: dict[str, list[Fault]] = {}
    for fault in FAULTS:
        if region(fault) and not fault.repeats:
            by_region.setdefault(region(fault), []).append(fault)
    chosen: list[Case] = []
    for dialect, (first, second) in product(DIALECTS, combinations(by_region, 2)):
        mine, theirs = ([f for f in by_region[name] if dialect in f.dialects] for name in (first, second))
        tries = [(a, b) for a, b in product(mine, theirs) if _fit(a, b)]
        chance.shuffle(tries)
        cases = (build_case(two, dialect, chance.randint(1, 12), "late") for two in tries[: 3 * count])
        chosen += [case for case in cases if case is not None][:count]
    return chosen


def _fit(first: Fault, second: Fault) -> bool:
    return all(first.setup.get(key, value) == value for key, value in second.setup.items())
