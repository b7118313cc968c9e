"""Tests of the engines plug-in: load its caches and formats into the core's tables."""

from lore.recording.base import load_plugins

load_plugins()
