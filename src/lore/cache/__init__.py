"""Cache rules: what a provider's prompt cache still holds."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.cache.registry import CacheRow as CacheRow

__all__ = ["CacheRow"]
__getattr__ = public_names(__name__, {"registry": ("CacheRow",)})
