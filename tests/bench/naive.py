"""What lore is measured against: every turn assembled anew, written whole, compared whole.

The same folded states, but nothing shared between turns: a fresh assembler renders the whole history,
the whole body is written, compared byte by byte with the body before, and parsed again to find out what
the two have in common. Its cost grows with turns x history.
"""

from __future__ import annotations

from pathlib import Path

from lore.fold.step import step
from lore.formats.lore_log import LoreLog
from lore.model.codes import Problem
from lore.model.events import MAIN, TurnStarted
from lore.model.state import FoldedSession
from lore.model.turn import Memo, Prompt
from lore.model.vector import common_prefix
from lore.prefix.overlap import compare_prompts
from lore.prompt.assemble import Assembler
from lore.prompt.dialects import DIALECTS


def judge(path: Path) -> int:
    """Compare every turn with the one before; return how many pairs extend it."""
    state, reader, extended = FoldedSession(), LoreLog(), 0
    dialect = DIALECTS["anthropic"]
    before: tuple[bytes, Prompt] | None = None
    for read in list(reader.read([path.read_bytes()])):
        if isinstance(read.value, Problem):
            raise TypeError(f"the generated log has a problem: {read.value}")
        state = step(state, read.value).state
        if not isinstance(read.value, TurnStarted):
            continue
        body = dialect.write(Assembler(dialect).assemble(state, state.chain(MAIN)).prompt)
        prompt = dialect.parse(body, "reconstructed", Memo())
        if before is not None:
            common_prefix(before[0], body)
            extended += compare_prompts(before[1], prompt).common >= before[1].stable - 2  # all but the tail's message
        before = body, prompt
    return extended


def extrapolate(few: tuple[int, float], many: tuple[int, float], turns: int) -> float:
    """Return the seconds for `turns` from two measured runs, (turns, seconds) each.

    Fits a·n² + b·n through both; where that would have a negative part, b is 0 and the larger run alone
    sets a. The lower of the two answers holds: the naive run is never made to look slower than it is.
    """
    (n, small), (m, large) = few, many
    square = (large / m - small / n) / (m - n)
    linear = small / n - square * n
    alone = large / m**2 * turns**2
    if square <= 0 or linear < 0:
        return alone
    return min(alone, square * turns**2 + linear * turns)
