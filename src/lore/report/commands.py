"""Commands to run next, quoted for a shell, for the recordings of a report."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from lore.cache.counts import LONG_PROMPT, SUGGESTED_WINDOW
from lore.model.deferred import pattern
from lore.report.plain import place_of, visible

_ALTERED = pattern(r"\*\*\*|\\x[89a-f][0-9a-f]")  # as `corpus.show` writes hidden characters
_AGO = pattern(r"(\d+)([smhdw])")
_MANY = 20  # turns
# By the format of an agent's logs: the agent, and the setting of its compaction. Sources, of 2026: the settings
# references of Claude Code, Codex, Gemini CLI and OpenCode, and pi's page on compaction.
_SETTINGS = {
    "claude-code": ("Claude Code", '"autoCompactWindow": {tokens} in ~/.claude/settings.json'),
    "codex": ("Codex", "model_auto_compact_token_limit = {tokens} in ~/.codex/config.toml"),
    "gemini-cli": ("Gemini CLI", "model.compressionThreshold in ~/.gemini/settings.json: {tokens} / its window"),
    "opencode": ("OpenCode", "compaction.reserved in opencode.json: the model's window minus {tokens}"),
    "pi": ("pi", "compaction.reserveTokens in ~/.pi/agent/settings.json: the model's window minus {tokens}"),
    "lore": ("an agent on lore", "window = {window} in [compaction], or lore.CompactionPolicy(window={window})"),
}
_SETTINGS["gemini-cli-json"] = _SETTINGS["gemini-cli"]
_OVER_FILES = pattern(r"\blore (check|simulate)\b")


def in_shell(path: str, home: str = "") -> str:
    """Return a path quoted for a shell, with `~` for the home folder; empty if it cannot be typed as it is shown."""
    # control characters, bytes that are not text, and masked values are shown in another form
    if _ALTERED.search(path) or visible(path) != path:
        return ""
    if path.startswith("-"):  # else an option
        path = f"./{path}"
    if len(home) > 1 and path.startswith(home + "/"):
        return "~/" + shlex.quote(path[len(home) + 1 :])
    return shlex.quote(path)


def typed_path(path: str) -> str:
    """Return a path as reports show it, quoted for a shell; empty if it cannot be typed as it is shown."""
    shown = place_of(path, None)
    return in_shell(path if shown.startswith("~") else shown, os.path.expanduser("~"))


def shorten_path(path: str, home: str | None = None, most: int | None = None) -> str:
    """Return a path with `~` for the home folder (None: the user's), and only its last folders if it is long."""
    home = os.path.expanduser("~") if home is None else home
    if len(home) > 1 and (path == home or path.startswith((f"{home}/", home + os.sep))):
        path = f"~{path[len(home) :]}"
    parts = path.split("/")
    while most is not None and len(parts) > 2 and len("/".join(parts)) > most:  # noqa: PLR2004 - `…` and a name
        parts = ["…", *parts[2:]] if parts[0] == "…" else ["…", *parts[1:]]
    return "/".join(parts)


def compaction_command(quoted_path: str) -> str:
    """Return the command that tries compacting on a recording; empty without a path that can be typed."""
    return f"lore compact {quoted_path} --dry-run --window {SUGGESTED_WINDOW}" if quoted_path else ""


def compaction_advice(turns: int, path: str) -> Iterator[tuple[str, str]]:
    """Yield the command that tries compacting on a session with many turns whose prompts are long, and its purpose."""
    if turns >= _MANY and (command := compaction_command(typed_path(path))):
        purpose = f"{turns:,} prompts have over {LONG_PROMPT:,} tokens: what compacting earlier would have saved"
        yield command, purpose


def compaction_setting(log_format: str, window: int) -> str:
    """Return the setting by which the agent that writes these logs compacts as a trial in this window did."""
    tokens = window * LONG_PROMPT // SUGGESTED_WINDOW
    if log_format in _SETTINGS:
        agent, setting = _SETTINGS[log_format]
        return f"to make it last, for {agent}: {setting.format(tokens=tokens, window=window)}"
    return f"to make it last: lore knows no setting of this agent; compact by hand above {tokens:,} tokens"


class OverviewSelection(NamedTuple):
    """The options of bare `lore`, as typed; empty: not given."""

    since: str = "7d"
    until: str = ""
    agent: str = ""
    project: str = ""
    places: tuple[str, ...] = ()  # of recordings, as a shell takes them, if another command would look elsewhere
    home: str = ""  # the user's home folder

    def summing(self, option: str) -> str:
        """Return bare `lore` of the same requests with another option."""
        values = {
            "--since": "" if self.since == "7d" else self.since, "--until": self.until, "--agent": self.agent,
            "--project": self.project,
        }  # fmt: skip
        return " ".join(["lore", *(f"{name} {shlex.quote(value)}" for name, value in values.items() if value), option])

    def advice(self, text: str, path: str = "") -> str:
        """Return the advice with options added to its commands, so that they read the same files (of all projects).

        These commands have no `--until`: with it they read one recording, at `path` (empty: those since then).
        """
        file_options = [*self.places, "--since", shlex.quote(self.since)]
        if self.until and (quoted_path := in_shell(path, self.home) if path else ""):
            file_options = [quoted_path]
        return _OVER_FILES.sub(lambda command: " ".join([command[0], *file_options]), text)

    def comparison_command(self) -> str:
        """Return the command that compares this time with the previous one; empty without a length of time."""
        length = _AGO.fullmatch(self.since)
        if length is None or self.until:
            return ""
        terms = [f"{name}:{value}" for name, value in (("agent", self.agent), ("project", self.project)) if value]
        doubled_age = f"{2 * int(length[1])}{length[2]}"
        sides = (",".join([*terms, f"{doubled_age}..{self.since}"]), ",".join([*terms, f"{self.since}.."]))
        return f"lore compare {' '.join(map(shlex.quote, sides))}"
