"""Tests of the engines plug-in: load its caches and formats into the core's tables."""

from __future__ import annotations

from lore.recording.base import load_plugins

load_plugins()
