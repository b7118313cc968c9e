"""Cache models by name, including the plug-in's, for scripts that run without conftest."""

from lore.cache.registry import make
from lore.recording.base import load_plugins

__all__ = ["make"]

load_plugins()
