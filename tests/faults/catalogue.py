"""All faults, in one list, and what to do with them: put them into captures, alone and in pairs."""

import functools
import random
from typing import NamedTuple

from faults import inject_call, inject_text, inject_tools
from faults.faults import FAULTS, Fault, Nowhere
from faults.script import Capture
from faults.serving import stable

assert inject_call
assert inject_text
assert inject_tools

SEEDS = (1, 2, 3, 4, 5, 6)
WHERE = {"first": lambda size: 1, "middle": lambda size: size // 2, "late": lambda size: size - 2}


class Case(NamedTuple):
    """A capture with faults in it: `k` is the number of their turn, from 0."""

    name: str
    capture: Capture
    k: int
    faults: tuple[Fault, ...]


def build_case(faults: tuple[Fault, ...], dialect: str, seed: int, where: str) -> Case | None:
    """Put faults into one turn of a stable capture; return None if it has no place for them."""
    setup = {name: value for fault in faults for name, value in fault.setup.items()}
    capture = stable(dialect, seed, **setup)
    k = WHERE[where](len(capture.turns))
    name = f"{' + '.join(injected.name for injected in faults)} [{dialect}, seed {seed}, {where}: turn {k + 1}]"
    capture.name = name
    capture.chance = random.Random(name)
    try:
        for injected in faults:
            injected.inject(capture, k)
    except Nowhere:
        return None
    return Case(name, capture, k, faults)


@functools.cache
def alone(number: int) -> tuple[Case, ...]:
    """Return the cases of one fault of the list: in every dialect, or in two if its cause has many forms.

    Never change the returned cases.
    """
    fault = FAULTS[number]
    many = sum(other.code == fault.code for other in FAULTS) > 6
    dialects = [fault.dialects[(number + n) % len(fault.dialects)] for n in range(min(2, len(fault.dialects)))]
    chosen: list[Case] = []
    for turned, dialect in enumerate(dialects if many else fault.dialects):
        seed = SEEDS[(number + turned) % len(SEEDS)]
        first = (number + turned) % 3
        places = [*WHERE][first:] + [*WHERE][:first]
        cases = [build_case((fault,), dialect, seed + 6 * n, where) for n, where in enumerate(places)]
        chosen += [case for case in cases if case is not None][: 1 if many else 2]
    return tuple(chosen)


def sample(number: int) -> Case | None:
    """Return one case of a fault of the list, and build no other: faults take turns in their dialects and places."""
    fault, names = FAULTS[number], [*WHERE]
    dialect, turned = fault.dialects[number % len(fault.dialects)], number % 3
    places = names[turned:] + names[:turned]
    cases = (build_case((fault,), dialect, SEEDS[number % len(SEEDS)] + 6 * n, where) for n, where in enumerate(places))
    return next(filter(None, cases), None)


def singles() -> tuple[Case, ...]:
    """Return every fault alone; seconds to build, so once a process."""
    return tuple(case for number in range(len(FAULTS)) for case in alone(number))
