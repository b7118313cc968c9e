"""Values only: what the other rooms hand to one another."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.model.cause import Place as Place
    from lore.model.codes import CODES as CODES
    from lore.model.codes import Problem as Problem
    from lore.model.ledger import LedgerRow as LedgerRow
    from lore.model.mask import cut_masked as cut_masked
    from lore.model.mask import mask_credentials as mask_credentials
    from lore.model.results import CommandResult as CommandResult
    from lore.model.results import Count as Count
    from lore.model.results import filled as filled
    from lore.model.running import LastBreak as LastBreak
    from lore.model.turn import Exchange as Exchange
    from lore.model.turn import timestamp as timestamp

__all__ = [
    "CODES",
    "CommandResult",
    "Count",
    "Exchange",
    "LastBreak",
    "LedgerRow",
    "Place",
    "Problem",
    "cut_masked",
    "filled",
    "mask_credentials",
    "timestamp",
]
__getattr__ = public_names(
    __name__,
    {
        "cause": ("Place",),
        "codes": (
            "CODES",
            "Problem",
        ),
        "ledger": ("LedgerRow",),
        "mask": (
            "cut_masked",
            "mask_credentials",
        ),
        "results": (
            "CommandResult",
            "Count",
            "filled",
        ),
        "running": ("LastBreak",),
        "turn": (
            "Exchange",
            "timestamp",
        ),
    },
)
