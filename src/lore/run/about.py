"""List the formats that lore reads."""

from __future__ import annotations

from msgspec.structs import replace

from lore.formats.registry import formats
from lore.formats.unrecognised import FOREIGN_FILES
from lore.model.results.found import FormatsResult, UnreadFormat
from lore.recording.agents.logs import AGENTS
from lore.recording.base import load_plugins


def list_formats() -> FormatsResult:
    """List all formats, those of plug-ins too."""
    load_plugins()
    rows = [
        replace(found, agents=[agent.name for agent in AGENTS if found.name in agent.formats]) for found in formats()
    ]
    unread = [UnreadFormat(known.agent, known.what, known.why) for known in FOREIGN_FILES]
    return FormatsResult(formats=rows, unread=unread)
