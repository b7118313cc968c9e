"""Cache rules: what a provider's prompt cache still holds."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.cache.bills import BYTES_PER_TOKEN as BYTES_PER_TOKEN
    from lore.cache.predictor import Predictor as Predictor
    from lore.cache.prices import MILLION as MILLION
    from lore.cache.registry import CacheRow as CacheRow
    from lore.cache.registry import cache_named as cache_named
    from lore.cache.registry import configured as configured
    from lore.cache.rules import DatedRules as DatedRules

__all__ = [
    "BYTES_PER_TOKEN",
    "CacheRow",
    "DatedRules",
    "MILLION",
    "Predictor",
    "cache_named",
    "configured",
]
__getattr__ = public_names(
    __name__,
    {
        "bills": ("BYTES_PER_TOKEN",),
        "predictor": ("Predictor",),
        "prices": ("MILLION",),
        "registry": (
            "CacheRow",
            "cache_named",
            "configured",
        ),
        "rules": ("DatedRules",),
    },
)
