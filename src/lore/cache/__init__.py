"""The cache rules and prices of providers, and predictions of what their prompt caches read."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.cache.base import RuleLookup as RuleLookup, Piece as Piece, Prediction as Prediction, Request as Request
    from lore.cache.base import UNKNOWN as UNKNOWN
    from lore.cache.breakpoint_rules import BreakpointRule as BreakpointRule
    from lore.cache.counts import BYTES_PER_TOKEN as BYTES_PER_TOKEN, total as total
    from lore.cache.implicit import MeasuredCache as MeasuredCache
    from lore.cache.predictor import Predictor as Predictor
    from lore.cache.rules import MILLION as MILLION
    from lore.cache.registry import CacheRow as CacheRow, cache_named as cache_named, parse_cache as parse_cache
    from lore.cache.rules import DatedRules as DatedRules, allowed_breakpoints as allowed_breakpoints
    from lore.cache.tree import TreePath as TreePath, common_nodes as common_nodes
    from lore.cache.views import View as View

__getattr__ = public_names(__name__)
