"""Words of the session that runs: what broke its cache last, and what to do now.

In: causes, what a session came to, the time. Out: sentences in which nothing is obeyed by a terminal. Times of day are
those of this machine.
"""

from __future__ import annotations

from msgspec.structs import replace

from lore.model.ledger import LedgerRow
from lore.model.results.overview import SpendingCause
from lore.model.running import LastBreak, RunningTotals
from lore.report.plain import local_time, visible
from lore.report.sentences.spending import cause_in_words, span_of
from lore.report.status_line import clock, percent, short, span

# Of one break, what is plural in sums.
_SINGLE = {
    "pauses longer than": "a pause longer than", "pauses longer than the cache lives": "a pause longer than it lives",
    "compactions": "a compaction", "compactions in a cold cache": "a compaction in a cold cache",
}  # fmt: skip


def worded_break(cause: SpendingCause) -> SpendingCause:
    """Return the cause of a single break with its words."""
    made = cause_in_words(cause)
    says = _SINGLE.get(made.says, made.says)
    for many, single in _SINGLE.items():
        if says.startswith(f"{many} "):
            says = single + says[len(many) :]
            break
    return replace(made, says=visible(says), fix=visible(made.fix))


WAITING = "waiting for a session: start an agent, or name a log (lore watch PATH)"
HEADS = ("turn", "at", "prompt", "read", "", "paid again", "why")
SOON = 120.0  # seconds before the end of a cache in which something can be done about it


def session_line(running: RunningTotals, path: str, note: str) -> str:
    """Say which session it is, and what is wrong or new."""
    requests = f"{running.requests:,} request{'' if running.requests == 1 else 's'}"
    parts = [note, running.model or "", requests if running.requests else "no request yet", path]
    return visible("  ·  ".join(filter(None, parts)))


def figures_line(running: RunningTotals) -> str:
    """Say the size of the last prompt, what was read of it, and what was paid again in this session."""
    if running.prompt_tokens is None:
        return "no bill yet"
    share = running.share
    read = "" if share is None else f"   read {min(share * 100, 99.9) if share < 1 else 100:.1f} %"
    money = "" if not running.paid_again_dollars else f" (${running.paid_again_dollars:,.2f})"
    unexplained = running.unexplained_tokens
    more = f" + {unexplained:,} unexplained" if unexplained else ""
    again = f"   paid again {running.paid_again_tokens:,} tokens{money}{more}"
    return f"prompt {running.prompt_tokens:,} tokens{read}{again}"


def expiry_line(running: RunningTotals, now: float) -> str:
    """Say how long what stands in the cache is kept, counted down; `now` is in seconds since the epoch."""
    if not running.requests:
        return ""
    at = running.expires_at
    if at is None:
        return "cache   lifetime unknown: no bill and no dated rule says how long this provider keeps it"
    of = f"of {span_of(running.lifetime or 0)}, {'as billed' if running.billed else 'by a dated rule'}"
    left = f"expires in {clock(at - now)}" if at > now else f"expired {span(now - at)} ago"
    return f"cache   {left} ({of})"


def break_line(running: RunningTotals, now: float, *, redact: bool) -> str:
    """Say which request lost what stood in the cache last, and why."""
    last = running.last_break
    if last is None:
        return "break   none so far" if running.requests else ""
    when = "" if last.at is None or last.at > now else f", {span(now - last.at)} ago"
    money = "" if not last.dollars else f" (${last.dollars:,.2f})"
    says = last.plain if redact else last.says
    return f"break   turn {last.turn}{when}: {says}; {last.lost_tokens:,} tokens{money}  [lore explain {last.code}]"


def advice(running: RunningTotals, now: float) -> str:
    """Say what to do now."""
    at, standing = running.expires_at, running.stood or running.prompt_tokens or 0
    if not running.requests:
        return ""
    if at is not None and at <= now:
        again = f"the next request writes {standing:,} tokens again"
        return f"do      {again}: start a new session where the old one is not needed"
    if at is not None and at - now <= SOON:
        return f"do      go on within {clock(at - now)}, or the next request writes {standing:,} tokens again"
    last = running.last_break
    if last is not None and last.kind != "expected" and last.turn == running.turn:
        return f"do      {last.fix}"
    return "do      nothing: the last request read what stood in the cache"


def turn_cells(row: LedgerRow, broken: LastBreak | None, *, redact: bool) -> tuple[str, ...]:
    """Return a request as a row of the table: turn, time, prompt, read, its share, paid again, why."""
    size, read = row.prompt_tokens, row.read_tokens
    name = str(row.number) if row.chain == "main" or redact else f"{row.chain[:12]}:{row.number}"
    share = "" if not size or read is None else percent(read / size)
    again = (
        "" if broken is None else f"{broken.lost_tokens:,}" + ("" if not broken.dollars else f" ${broken.dollars:,.2f}")
    )
    why = "" if broken is None else broken.plain if redact else broken.says
    cells = (name, local_time(row.at), _tokens(size), _tokens(read), share, again, why)
    return tuple(map(visible, cells))


def _tokens(count: int | None) -> str:
    return "?" if count is None else short(count)
