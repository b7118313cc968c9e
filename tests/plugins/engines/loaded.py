"""Cache models by name, those of the plug-in among them: also for a script that no conftest prepares."""

from lore.cache.registry import make
from lore.recording.base import load_plugins

__all__ = ["make"]

load_plugins()
