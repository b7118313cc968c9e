"""`lore formats`: what lore reads, and what each format can answer."""

from __future__ import annotations

from lore.cli import flags
from lore.cli.common import answer, quiet_pipe


@quiet_pipe
def run(as_json: flags.AsJson = False, color: flags.Colour = None) -> int:
    """List what lore reads, and what each format can answer.

    Of each: its fidelity (how near its prompts are to what was sent: wire, parsed, structural, reconstructed), and
    whether it records requests, bills, the system prompt, the schemas of tools and compactions. Behind them the files
    of agents that lore names and does not judge. Files are told by their content; `--format NAME` overrides.
    """
    from lore.report.found import write_formats
    from lore.run.formats import listed

    answer(listed(), write_formats, as_json=as_json, color=color)
    return 0
