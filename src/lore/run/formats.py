"""Say what lore reads, and which files it only names: what `lore formats` answers. Opens no file."""

from __future__ import annotations

from lore.formats.catalogue import formats
from lore.formats.foreign import kinds
from lore.model.results.found import FormatResult, FormatsResult, UnreadFormat
from lore.recording.agents.logs import AGENTS
from lore.recording.base import load_plugins


def listed() -> FormatsResult:
    """List all formats, those of plug-ins too."""
    load_plugins()
    rows = [
        FormatResult(
            name=found.name, title=found.answers.title, holds=found.holds, fidelity=found.answers.fidelity,
            requests=found.answers.requests, bills=found.answers.bills, system_prompt=found.answers.system_prompt,
            tools=found.answers.tools, compaction=found.answers.compaction, lacks=found.lacks or None,
            agents=[agent.name for agent in AGENTS if found.name in agent.formats],
        )
        for found in formats()
    ]  # fmt: skip
    unread = [UnreadFormat(known.agent, known.what, known.why) for known in kinds()]
    return FormatsResult(formats=rows, unread=unread)
