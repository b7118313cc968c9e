"""Readers: bytes of a recorded session or capture -> events or exchanges, and problems."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.formats.base import Read as Read
    from lore.formats.base import Reader as Reader
    from lore.formats.captures.lore_capture import LoreCapture as LoreCapture
    from lore.formats.http import account_of as account_of
    from lore.formats.registry import Format as Format

__all__ = [
    "Format",
    "LoreCapture",
    "Read",
    "Reader",
    "account_of",
]
__getattr__ = public_names(
    __name__,
    {
        "base": (
            "Read",
            "Reader",
        ),
        "captures.lore_capture": ("LoreCapture",),
        "http": ("account_of",),
        "registry": ("Format",),
    },
)
