"""`lore limits`: every cap of the program, with its value and what it is of."""

from __future__ import annotations

from lore.cli import flags
from lore.cli.common import answer, quiet_pipe


@quiet_pipe
def run(as_json: flags.AsJson = False, color: flags.Colour = None) -> int:
    """List every cap: how long, how many or how deep lore lets something be, and why.

    What is larger is cut, passed over or refused; a recording that lost something to a cap has a problem that says so.
    The caps are read from the lines that declare them.
    """
    from lore.report.found import write_limits
    from lore.run.limits import listed

    answer(listed(), write_limits, as_json=as_json, color=color)
    return 0
