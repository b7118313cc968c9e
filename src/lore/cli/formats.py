"""`lore formats`: what lore reads, and what each format can answer."""

from __future__ import annotations

import sys

from lore.cli.common import AsJson, Colour, out, quiet_pipe


@quiet_pipe
def run(as_json: AsJson = False, color: Colour = None) -> int:
    """List what lore reads, and what each format can answer.

    Of each: its fidelity (how near its prompts are to what was sent: wire, parsed, structural, reconstructed), and
    whether it records requests, bills, the system prompt, the schemas of tools and compactions. Behind them the files
    of agents that lore names and does not judge. Files are told by their content; `--format NAME` overrides.
    """
    from lore.run.formats import listed

    found = listed()
    if as_json:
        from lore.report.json_report import render

        sys.stdout.write(render(found) + "\n")
    else:
        from lore.report.found import write_formats

        write_formats(found, out(color))
    return 0
