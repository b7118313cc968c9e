"""The running session in words: what broke its cache last, and what to do now.

Terminal control characters are made visible in every sentence. Times of day are local.
"""

from __future__ import annotations

from msgspec.structs import replace

from lore.model.ledger import LedgerRow
from lore.model.results.overview import SpendingCause
from lore.model.running import LastBreak, RunningTotals
from lore.report.plain import counted, local_time, visible
from lore.report.sentences.spending import cause_in_words, format_lifetime
from lore.report.status_line import clock, percent, short, span

# The words of a sum, for one break.
_SINGULAR = {
    "pauses longer than": "a pause longer than", "pauses longer than the cache lives": "a pause longer than it lives",
    "compactions": "a compaction", "compactions in a cold cache": "a compaction in a cold cache",
}  # fmt: skip


def worded_break(cause: SpendingCause) -> SpendingCause:
    """Return the cause of a single break with its words."""
    made = cause_in_words(cause)
    says = _SINGULAR.get(made.says, made.says)
    for several, single in _SINGULAR.items():
        if says.startswith(f"{several} "):
            says = single + says[len(several) :]
            break
    return replace(made, says=visible(says), fix=visible(made.fix))


WAITING = "waiting for a session: start an agent, or name a log (lore watch PATH)"
HEADS = ("turn", "at", "prompt", "read", "", "re-billed", "cause")
SOON = 120.0  # seconds before the cache expires in which a user can still do something about it


def session_line(running: RunningTotals, path: str, note: str) -> str:
    """Return which session it is, with a note on errors and changes."""
    requests = counted(running.requests, "request") if running.requests else "no request yet"
    return visible("  ·  ".join(filter(None, (note, running.model or "", requests, path))))


def figures_line(running: RunningTotals) -> str:
    """Return the size of the last prompt, how much of it was read, and the session's re-billed tokens."""
    if running.prompt_tokens is None:
        return "no usage yet"
    share = running.share
    read = "" if share is None else f"   read {min(share * 100, 99.9) if share < 1 else 100:.1f} %"
    money = "" if not running.rebilled_dollars else f" (${running.rebilled_dollars:,.2f})"
    parts = (("no cause found", running.unexplained_tokens), ("expected", running.expected_tokens))
    of_it = ", ".join(f"{count:,} {what}" for what, count in parts if count)
    again = f"   re-billed {running.rebilled_tokens:,} tokens{money}" + (f", of it {of_it}" if of_it else "")
    return f"prompt {running.prompt_tokens:,} tokens{read}{again}"


def expiry_line(running: RunningTotals, now: float) -> str:
    """Return when the cache expires, counted down; `now` is in seconds since the epoch."""
    if not running.requests:
        return ""
    at = running.expires_at
    if at is None:
        return "cache   lifetime unknown: neither usage nor a dated rule shows how long this provider keeps it"
    of = f"of {format_lifetime(running.lifetime or 0)}, {'as billed' if running.billed else 'by a dated rule'}"
    left = f"expires in {clock(at - now)}" if at > now else f"expired {span(now - at)} ago"
    return f"cache   {left} ({of})"


def break_line(running: RunningTotals, now: float, *, redact: bool) -> str:
    """Return which request broke the cache last, and why."""
    last = running.last_break
    if last is None:
        return "break   none so far" if running.requests else ""
    when = "" if last.at is None or last.at > now else f", {span(now - last.at)} ago"
    money = "" if not last.dollars else f" (${last.dollars:,.2f})"
    says = last.plain if redact else last.says
    return f"break   turn {last.turn}{when}: {says}; {last.lost_tokens:,} tokens{money}  [lore explain {last.code}]"


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
