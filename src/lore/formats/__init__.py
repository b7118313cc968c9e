"""Readers: bytes of a recorded session or capture -> events or exchanges, and problems."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.formats.base import Read as Read
    from lore.formats.base import Reader as Reader
    from lore.formats.registry import Format as Format

__all__ = ["Format", "Read", "Reader"]
__getattr__ = public_names(__name__, {"base": ("Read", "Reader"), "registry": ("Format",)})
