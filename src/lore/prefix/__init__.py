"""Prefixes: how much of one prompt the next one reuses, where they part, and why."""
