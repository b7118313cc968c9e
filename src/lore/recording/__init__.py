"""Names to files, files to turns: finding recordings, opening them, reading them as turns."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.recording.agents import databases as databases
    from lore.recording.agents.usage_stores import UsageStore as UsageStore
    from lore.recording.base import Problems as Problems
    from lore.recording.base import UnrecognisedError as UnrecognisedError
    from lore.recording.base import load_plugins as load_plugins
    from lore.recording.corpus import Opened as Opened
    from lore.recording.corpus import show as show
    from lore.recording.filesystem import FolderEntry as FolderEntry
    from lore.recording.filesystem import RemoteFiles as RemoteFiles
    from lore.recording.filesystem import Status as Status
    from lore.recording.inputs import Input as Input
    from lore.recording.opening import Options as Options
    from lore.recording.tailing import INTERVAL as INTERVAL
    from lore.recording.tailing import Live as Live

__all__ = [
    "FolderEntry",
    "INTERVAL",
    "Input",
    "Live",
    "Opened",
    "Options",
    "Problems",
    "RemoteFiles",
    "Status",
    "UnrecognisedError",
    "UsageStore",
    "databases",
    "load_plugins",
    "show",
]
__getattr__ = public_names(
    __name__,
    {
        "agents.usage_stores": ("UsageStore",),
        "base": (
            "Problems",
            "UnrecognisedError",
            "load_plugins",
        ),
        "corpus": (
            "Opened",
            "show",
        ),
        "filesystem": (
            "FolderEntry",
            "RemoteFiles",
            "Status",
        ),
        "inputs": ("Input",),
        "opening": ("Options",),
        "tailing": (
            "INTERVAL",
            "Live",
        ),
    },
    {"databases": "agents.databases"},
)
