"""How much of a prompt the next one reuses, at which place the two differ, and why."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.prefix.purpose import REPLAY as REPLAY

__getattr__ = public_names(
    __name__,
    {
        "purpose": "REPLAY",
    },
)
