"""A fall of the bill that no byte explains: what else could be the reason, and which of it is ruled out.

Rules: each reason has its figure, or is said not to be recorded; nothing is guessed. A prompt built from a
transcript is not looked at: it has no breakpoints, no parameters and no endpoint to speak of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lore.cache.lookback import Gap, gap
from lore.judge.bills import cached
from lore.judge.expected import SOON, PairContext, duration, since, started_in_parallel
