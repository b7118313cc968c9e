"""The running session in words: what broke its cache last, and what to do now.

Terminal control characters are made visible in every sentence. Times of day are local.
"""

from __future__ import annotations

from msgspec.structs import replace

from lore.model.ledger import LedgerRow
from lore.model.results.overview import SpendingCause
from lore.model.running import LastBreak, RunningTotals
from lore.report.plain import counted, local_time, visible
from lore.report.sentences.spending import cause_in_words
from lore.report.status_line import clock, percent, short

_SINGULAR = {"pauses": "a pause", "compactions": "a compaction"}


def worded_break(cause: SpendingCause) -> SpendingCause:
    """Return the cause of a single break with its words."""
    made = cause_in_words(cause)
    first, space, rest = made.says.partition(" ")
    return replace(made, says=visible(_SINGULAR.get(first, first) + space + rest), fix=visible(made.fix))


WAITING = "waiting for a session: start an agent, or name a log (lore watch PATH)"
HEADS = ("turn", "at", "prompt", "read", "", "re-billed", "cause")
SOON = 120.0  # seconds before the cache expires in which a user can still do something about it


def session_line(running: RunningTotals, path: str, note: str) -> str:
    """Return which session it is, with a note on errors and changes."""
    requests = counted(running.requests, "request") if running.requests else "no request yet"
    return visible("  ·  ".join(filter(None, (note, running.model or "", requests, path))))


def advice(running: RunningTotals, now: float) -> str:
    """Return what to do now."""
    at, cached = running.expires_at, running.stood or running.prompt_tokens or 0
    if not running.requests:
        return ""
    again = f"the next request writes {cached:,} tokens again"
    if at is not None and at <= now:
        return f"do      {again}: start a new session if you do not need the old one"
    if at is not None and at - now <= SOON:
        return f"do      continue within {clock(at - now)}, or {again}"
    last = running.last_break
    if last is not None and last.kind != "expected" and last.turn == running.turn:
        return f"do      {last.fix}"
    return "do      nothing: the last request read the whole cached prompt"


def turn_cells(row: LedgerRow, broken: LastBreak | None, *, redact: bool) -> tuple[str, ...]:
    """Return a request as a row of the table under `HEADS`."""
    size, read = row.prompt_tokens, row.read_tokens
    name = str(row.number) if row.chain == "main" or redact else f"{row.chain[:12]}:{row.number}"
    share = "" if not size or read is None else percent(read / size)
    again = cause = ""
    if broken is not None:
        again = f"{broken.lost_tokens:,}" + (f" ${broken.dollars:,.2f}" if broken.dollars else "")
        cause = broken.plain if redact else broken.says
    cells = (name, local_time(row.at), _tokens(size), _tokens(read), share, again, cause)
    return tuple(map(visible, cells))


def _tokens(count: int | None) -> str:
    return "?" if count is None else short(count)
