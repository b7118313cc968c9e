"""Cache rules: what a provider's prompt cache still holds."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.cache.base import UNKNOWN as UNKNOWN
    from lore.cache.base import Look as Look
    from lore.cache.base import Piece as Piece
    from lore.cache.base import Prediction as Prediction
    from lore.cache.base import Request as Request
    from lore.cache.bills import BYTES_PER_TOKEN as BYTES_PER_TOKEN
    from lore.cache.bills import total as total
    from lore.cache.measured import Laid as Laid
    from lore.cache.measured import MeasuredCache as MeasuredCache
    from lore.cache.predictor import Predictor as Predictor
    from lore.cache.prices import MILLION as MILLION
    from lore.cache.registry import CacheRow as CacheRow
    from lore.cache.registry import cache_named as cache_named
    from lore.cache.registry import configured as configured
    from lore.cache.rules import DatedRules as DatedRules
    from lore.cache.tree import TreePath as TreePath
    from lore.cache.tree import common_nodes as common_nodes
    from lore.cache.views import View as View

__all__ = [
    "BYTES_PER_TOKEN",
    "CacheRow",
    "DatedRules",
    "Laid",
    "Look",
    "MILLION",
    "MeasuredCache",
    "Piece",
    "Prediction",
    "Predictor",
    "Request",
    "TreePath",
    "UNKNOWN",
    "View",
    "cache_named",
    "common_nodes",
    "configured",
    "total",
]
__getattr__ = public_names(
    __name__,
    {
        "base": (
            "Look",
            "Piece",
            "Prediction",
            "Request",
            "UNKNOWN",
        ),
        "bills": (
            "BYTES_PER_TOKEN",
            "total",
        ),
        "measured": (
            "Laid",
            "MeasuredCache",
        ),
        "predictor": ("Predictor",),
        "prices": ("MILLION",),
        "registry": (
            "CacheRow",
            "cache_named",
            "configured",
        ),
        "rules": ("DatedRules",),
        "tree": (
            "TreePath",
            "common_nodes",
        ),
        "views": ("View",),
    },
)
