"""Recordings with a clock in their system prompt, settings, and what `lore check` answers about them."""

from pathlib import Path

from cli.running import lore, put
from helpers.schemas import valid
from model.making import assistant, body


def clock(*hours, ask="hello"):
    """Requests with a clock in the system prompt."""
    history = []
    for hour in hours:
        history = [*history, *([assistant("yes")] if history else []), f"{ask} {len(history)}"]
        yield body(*history, system=f"It is 2026-01-01 {hour:02}:00.")


def waste(name="r.jsonl", hours=(1, 2, 3), **fields):
    return put(name, *clock(*hours, **fields))


def settings(text):
    Path("lore.toml").write_text(text, encoding="utf-8")


def sums(*args):
    result = lore("check", "--json", *args)
    valid(result.json, "check")
    return result.code, result.json["summary"], [finding["code"] for finding in result.json["findings"]]


def update(*paths):
    return lore("check", *paths, "--baseline", "b.json", "--update-baseline")
