"""Run: wire the rooms. Read, fold, assemble, compare, check, and hand the result to a report."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.run.checking.pool import starting_processes as starting_processes
    from lore.run.checking.verdicts import verdicts as verdicts
    from lore.run.dated import Dated as Dated
    from lore.run.loopback import ADDRESS as ADDRESS
    from lore.run.loopback import listening as listening

__all__ = [
    "ADDRESS",
    "Dated",
    "listening",
    "starting_processes",
    "verdicts",
]
__getattr__ = public_names(
    __name__,
    {
        "checking.pool": ("starting_processes",),
        "checking.verdicts": ("verdicts",),
        "dated": ("Dated",),
        "loopback": (
            "ADDRESS",
            "listening",
        ),
    },
)
