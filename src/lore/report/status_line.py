"""One line about the running session, for Claude Code's status line and for tmux.

The line has chosen parts of the totals of a session and of the facts that Claude Code sends. No character in it is a
command for a terminal or for tmux (`#`). If the line is too long, the cause is cut, then the least important parts are
left out. Imports the standard library alone.

Claude Code writes its session to the command's standard input (its page on status lines, 2026-11): `transcript_path`,
`cwd`, `model.display_name`, `cost.total_cost_usd`, `context_window.used_percentage` and `.current_usage` (counts of the
last request; null before the first), `prompt_cache.expires_at` (seconds since the epoch; since 2.1.251).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias, cast

from lore.model.mask import cut_masked
from lore.model.running import RunningTotals

DEFAULT = ("prompt", "read", "again", "expires", "break")
_LEAST = ("model", "context", "cost", "again", "break", "read", "prompt")  # left out first if the line is too long
_COLOURS = {"green": "\x1b[32m", "yellow": "\x1b[33m", "red": "\x1b[31m", "dim": "\x1b[2m"}
_RESET, _BETWEEN = "\x1b[0m", " · "
_SHORTEST = 24  # columns below which a cause is not cut further
_SOON, _RECENT = 60.0, 600.0  # seconds: a cache that ends soon, a break that is new
NOTHING = "lore: no session"
_MOST_TOKENS = 20_000_000  # tokens of a prompt: none is longer
_Part: TypeAlias = tuple[str, str]  # text of a part, and the name of its colour
_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class ClientStatus(NamedTuple):
    """Facts that Claude Code sends about its session; None or empty: unknown."""

    model: str = ""
    dollars: float | None = None  # cost of the session
    used_percentage: float | None = None  # of the context window
    expires_at: float | None = None  # when its cache expires, in seconds since the epoch
    prompt_tokens: int | None = None  # of its last request
    read_tokens: int | None = None  # of its last request


def client_and_path(stdin_data: bytes) -> tuple[ClientStatus, str]:
    """Parse the facts that Claude Code sends; return them with the log or folder that they name (empty: none)."""
    try:
        session = _table(json.loads(stdin_data))
    except (ValueError, RecursionError):
        session = {}
    window = _table(session.get("context_window"))
    uncached, read, write = (_count(_table(window.get("current_usage")).get(name)) for name in _COUNTS)
    client = ClientStatus(
        model=cut_masked(_text(_table(session.get("model")).get("display_name")), 60),
        dollars=_number(_table(session.get("cost")).get("total_cost_usd")),
        used_percentage=_number(window.get("used_percentage")),
        expires_at=_number(_table(session.get("prompt_cache")).get("expires_at")),
        prompt_tokens=None if uncached is None or read is None or write is None else uncached + read + write,
        read_tokens=read,
    )
    return client, _text(session.get("transcript_path")) or _text(session.get("cwd"))


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) and "\0" not in value else ""


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def _number(value: object) -> float | None:
    """Return a number that a time or a cost may be; None for other values, NaN and infinity."""
    return float(value) if isinstance(value, int | float) and type(value) is not bool and abs(value) < 1e12 else None


class LineFacts(NamedTuple):
    """The facts to show in a line."""

    running: RunningTotals | None  # None: unknown
    client: ClientStatus
    now: float  # seconds since the epoch
    pending: str = ""  # what a background process does: the log has grown, or the session is not known yet
    redact: bool = False  # show no name from the recording


def status_line(status: LineFacts, parts: tuple[str, ...] = DEFAULT, *, width: int | None = None, colour: bool) -> str:
    """Return the line, at most `width` columns wide if it is given."""
    available = dict(_parts(status))
    line_parts = {name: available[name] for name in parts if name in available}
    if status.pending and (status.running is None or "break" in line_parts):
        line_parts["break"] = (status.pending, "dim")
    if not line_parts:
        return _cut_to_width(NOTHING, width)
    if width is not None:
        _shorten(line_parts, width)
    texts: list[str] = []
    for text, colour_name in line_parts.values():
        safe_text = _cut_to_width("".join(char for char in text if char.isprintable() and char != "#"), width)
        texts.append(f"{_COLOURS[colour_name]}{safe_text}{_RESET}" if colour and colour_name else safe_text)
    return _BETWEEN.join(texts)


def _shorten(line_parts: dict[str, _Part], width: int) -> None:
    """Cut the cause, then leave parts out, until the line fits; one part stays."""
    for name in _LEAST:
        excess = columns(_BETWEEN.join(text for text, _ in line_parts.values())) - width
        if excess <= 0 or len(line_parts) == 1:
            return
        cause, colour = line_parts.get("break", ("", ""))
        room = columns(cause) - excess
        if room >= _SHORTEST:
            line_parts["break"] = _cut_to_width(cause, room), colour
            return
        line_parts.pop(name, None)


def _parts(status: LineFacts) -> Iterator[tuple[str, _Part]]:
    """Yield the name (of `PARTS`) and the text of each part whose facts are known."""
    running, client = status.running, status.client
    size, read = client.prompt_tokens, client.read_tokens
    if running is not None and (size is None or not status.pending):  # else the client knows of a later request
        size, read = running.prompt_tokens, running.read_tokens
    name = client.model or (running.model if running is not None else "")
    if name and not status.redact:
        yield "model", (name, "")
    if size is not None:
        yield "prompt", (f"prompt {short(size)}", "")
    if size and read is not None:
        share = read / size
        colour = "green" if share >= 0.9 else "yellow" if share >= 0.5 else "red"
        yield "read", (f"read {percent(share)}", colour)
    if (expires := _expires(status)) is not None:
        yield "expires", expires
    if running is not None and running.requests:
        dollars = running.rebilled_dollars or 0.0
        money = "" if not dollars else f" (${dollars:,.2f})" if dollars >= 0.005 else " (<$0.01)"
        yield "again", (f"re-billed {short(running.rebilled_tokens)}{money}", "")
        last = running.last_break
        if last is None:
            yield "break", ("no break", "dim")
        else:
            ago = None if last.at is None or last.at > status.now else status.now - last.at
            when = f"turn {last.turn}" if ago is None else f"{span(ago)} ago"
            text = f"last break {when}: {last.plain if status.redact else last.says}"
            yield "break", (text, "red" if ago is not None and ago <= _RECENT else "dim")
    if client.dollars is not None:
        yield "cost", (f"${client.dollars:,.2f}", "")
    if client.used_percentage is not None:
        yield "context", (f"context {client.used_percentage:.0f} %", "")


def _expires(status: LineFacts) -> _Part | None:
    running, at, by_rule = status.running, status.client.expires_at, False
    if at is None and running is not None:
        at, by_rule = running.expires_at, not running.billed
    if at is None:
        has_requests = running is not None and running.requests and running.lifetime is None
        return ("cache lifetime unknown", "dim") if has_requests else None
    ttl = at - status.now
    if ttl <= 0:
        return (f"cache expired {span(-ttl)} ago", "red")
    return (f"cache {'about ' * by_rule}{clock(ttl)}", "yellow" if ttl <= _SOON else "green")


PARTS = ("model", "prompt", "read", "again", "expires", "break", "cost", "context")


def parts_of(text: str) -> tuple[str, ...] | None:
    """Return the parts that `--format` names; None if one is unknown, or none is named."""
    parts = tuple(dict.fromkeys(filter(None, text.replace(",", " ").split())))
    return parts if parts and all(part in PARTS for part in parts) else None


def short(tokens: int) -> str:
    """Return a count as a short text: `812`, `45k`, `1.2M`, `246M`, `1.5G`."""
    if tokens < 1000:
        return str(tokens)
    if tokens < 999_500:
        return f"{tokens / 1000:.0f}k"
    size, unit = (1e6, "M") if tokens < 999_500_000 else (1e9, "G")
    return f"{tokens / size:.{1 if tokens < 10 * size else 0}f}{unit}"


def percent(share: float) -> str:
    """Return a share; only all of it is 100 %, and only nothing is 0 %: less than half a percent is "<1 %"."""
    number = round(share * 100)
    return f"{min(number, 99) if share < 1 else number} %" if number or share == 0 else "<1 %"


def clock(seconds: float) -> str:
    """Return a duration as a clock counts it down: `4:12`, `1:04:12`."""
    minutes, remainder = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{remainder:02}" if hours else f"{minutes}:{remainder:02}"


def span(seconds: float) -> str:
    """Return how long ago something was, in its largest unit."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415 - most lines need none of its tables

    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text if not unicodedata.combining(char))


def _cut_to_width(text: str, width: int | None) -> str:
    if width is None or columns(text) <= width:
        return text
    while text and columns(text) >= width:
        text = text[:-1]
    return text.rstrip() + "…" if width > 0 else ""
