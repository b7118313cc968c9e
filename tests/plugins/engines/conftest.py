"""Tests of the engines plug-in: its caches and formats are in the core's tables."""

from __future__ import annotations

from lore.recording.base import load_plugins

load_plugins()
