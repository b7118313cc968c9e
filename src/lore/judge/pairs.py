"""Successive turns of a chain, compared: what `diff-prefix SESSION` shows and `check` judges.

In: the turns of one chain, in order. Out: one pair for each turn after the first. Rules: an expected
cause comes before any other; a pause longer than the cache lives explains a break and a fall of billed
reads alike; a fall that nothing explains is unattributable, never waste; a request that failed wrote no
cache, so it is no side of a pair. Cost: O(what is new).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Struct

from lore.cache.lifetime import lifetime
from lore.cache.lookback import gap
from lore.judge.bills import (
    BYTES_PER_TOKEN,
    asked,
    bills_writes,
    bytes_per_token,
    cached,
    contradiction,
    fall,
    lost_lifetime,
    never_cached,
    read_again,
    shortfall,
    testifies,
    within_a_block,
)
from lore.judge.columns import SAID, Columns, Sizes, columns, dispute
from lore.judge.expected import PairContext, by_shape, by_time
from lore.judge.ruled_out import moved_elsewhere, unexplained
