"""What `lore sessions` and `lore formats` answer, for a person."""

from __future__ import annotations

from datetime import datetime

from rich.console import Console

from lore.model.results_found import FormatsResult, FoundSession, FoundSessions
from lore.report.console import line
from lore.report.evidence_sentences import money_of
from lore.report.plain import counted

_AGES = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_WIDTHS = (5, 14, 8, 14, 11, 11)  # age, agent, requests, read, paid again, unexplained
_COLUMNS = ("requests", "bills", "system_prompt", "tools", "compaction")


def write_sessions(result: FoundSessions, out: Console, *, now: float) -> None:
    """Write two lines a session: what it is and cost, where it is; then what was looked at, and what is not read."""
    if result.sessions:
        heads = ("age", "agent", "requests", "read", "paid again", "unexplained")
        out.print(line((_row(heads, "project"), "bold")))
    for session in result.sessions:
        cells = (
            _age(session.written_at, now), session.agent, _number(session.requests), _number(session.read_tokens),
            _number(session.paid_again_tokens), _number(session.unexplained_tokens),
        )  # fmt: skip
        money = f"  ({money_of(session.paid_again_dollars)} paid again)" if session.paid_again_dollars else ""
        out.print(line(_row(cells, session.project or "-"), money))
        out.print(line((f"{'':>{_WIDTHS[0]}}  {session.path}", "dim")))
        _write_message(session, out)
    for failure in result.failed:
        out.print(line((f"! {failure}", "yellow")))
    shown = f"{len(result.sessions):,} of {counted(result.found, 'session')}"
    more = ": --all shows and reads them all" if result.found > len(result.sessions) else ""
    read = f"{_size(result.read_bytes)} read of {_size(result.bytes)}"
    out.print(line(f"{shown}, {read}{more}" if result.found else "no sessions of agents that lore reads are here"))
    for logs in result.unread:
        what = f"{counted(logs.files, 'file')} in {logs.path}"
        out.print(line((f"not read: {logs.title}, {what}: {logs.message}", "yellow")))


def _write_message(session: FoundSession, out: Console) -> None:
    """Write what has to be known of a row's numbers: most of its requests have no bill, or it could not be read."""
    if session.requests and session.billed_requests and session.billed_requests * 2 < session.requests:
        billed = f"{session.billed_requests:,} of {session.requests:,} requests have a bill"
        out.print(line((f"{'':>{_WIDTHS[0]}}  {billed}", "yellow")))
    if session.message is not None:
        more = f" ({counted(session.problems, 'problem')})" if session.problems > 1 else ""
        out.print(line((f"{'':>{_WIDTHS[0]}}  ! {session.message}{more}", "yellow")))


def _row(cells: tuple[str, ...], last: str) -> str:
    age, agent, *numbers = cells
    shown = [f"{number:>{width}}" for number, width in zip(numbers, _WIDTHS[2:], strict=True)]
    return "  ".join((f"{age:>{_WIDTHS[0]}}", f"{agent:<{_WIDTHS[1]}}", *shown, last))


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _age(written: str | None, now: float) -> str:
    if written is None:
        return "-"
    seconds = max(0.0, now - datetime.fromisoformat(written).timestamp())
    unit, letter = next((part for part in _AGES if seconds >= part[0]), _AGES[-1])
    return f"{int(seconds // unit):,}{letter}"


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else counted(size, "byte")


def write_formats(result: FormatsResult, out: Console) -> None:
    """Write a line a format: what it holds, how near it is to what was sent, what it can answer."""
    width = max((len(found.name) for found in result.formats), default=0)
    wide = max((len(found.fidelity) for found in result.formats), default=0)
    heads = "  ".join(name.replace("_", " ") for name in _COLUMNS)
    out.print(line((f"{'format':<{width}}  {'fidelity':<{wide}}  {heads}  what it is", "bold")))
    for found in result.formats:
        cells = "  ".join(f"{getattr(found, name):<{len(name)}}" for name in _COLUMNS)
        lacks = f"; not in it: {found.lacks}" if found.lacks else ""
        shown = f"{found.name:<{width}}  {found.fidelity:<{wide}}  {cells}  {found.title}{lacks}"
        out.print(line(shown))
    out.print(line(""))
    out.print(line(("named, and not read:", "bold")))
    for named in result.unread:
        out.print(line(f"  {named.what}: {named.message}"))
