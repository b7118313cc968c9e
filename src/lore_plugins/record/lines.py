"""The lines that `lore record` prints: its address, one per request, and a summary. Times are this machine's."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from lore.model import CODES, LastBreak, LedgerRow, Problem, format_money
from lore.report import counted, in_shell, local_time, percent, visible

LEAST_SHOWN = 0.0001  # dollars
_MARKS = {"waste": "✗", "unattributable": "!", "expected": "·"}


def live_line(row: LedgerRow, broken: LastBreak | None, *, content: bool, refused: int | None = None) -> str:
    """Return the line of a request: what it read, and the cause of a cache break, with `content` in detail.

    `refused` is the status with which the provider refused it.
    """
    name = f"turn {row.number}" if row.chain == "main" else f"{row.chain} turn {row.number}"
    read = _read(row) if refused is None else f"refused ({refused})"
    parts = [local_time(row.at), name, row.model or "unknown model", read]
    line = "  ".join(filter(None, parts))
    if broken is not None:
        money = "" if (broken.dollars or 0) < LEAST_SHOWN else f" ({format_money(broken.dollars)})"
        cause = broken.says if content else broken.plain
        line += f"  {_MARKS[broken.kind]} {broken.code} {cause}: {broken.lost_tokens:,} tokens re-billed{money}"
    return visible(line)


def _read(row: LedgerRow) -> str:
    if row.prompt_tokens is None:
        if row.answered is None:
            return "no answer"
        return "reads not in its usage" if row.billed else "no usage in its response"
    read = "" if row.read_tokens is None else f", read {row.read_tokens:,} from the cache"
    share = "" if not read or not row.prompt_tokens else f" ({percent((row.read_tokens or 0) / row.prompt_tokens)})"
    return f"prompt {row.prompt_tokens:,} tokens{read}{share}"


def live_problem(problem: Problem) -> str:
    """Return the line of a problem."""
    return f"{problem.code} {CODES[problem.code].name if problem.code in CODES else ''}: {problem.message}"


def opening_lines(address: str, path: str, upstreams: list[tuple[str, str]]) -> list[str]:
    """Return the lines with the recorder's address and file; `upstreams` are pairs of a path here and a server."""
    lines = [f"recording to {path}; listening on {address}"]
    return [*lines, *(f"  {address}{here} -> {server}" for here, server in upstreams)]


def export_lines(pointing: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Return shell lines that point a program's clients here, bypassing a proxy of the environment."""
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    proxied = any(environment.get(name) or environment.get(name.lower()) for name in proxies)
    past = {name: environment[name] for name in ("NO_PROXY", "no_proxy") if proxied and name in environment}
    return [f"export {name}={shlex.quote(value)}" for name, value in {**pointing, **past}.items()]


def closing_lines(path: str | None, calls: int, lost: int, refused: int, *, pointed: bool) -> list[str]:
    """Return the summary and the next command; `pointed`: a command ran with its clients pointed here."""
    recorded = f"recorded {counted(calls, 'call')} in {path}"
    lines = ["nothing was recorded, so there is no file" if path is None else recorded]
    if lost:
        lines.append(f"{counted(lost, 'call')} forwarded, but not written whole")
    if refused:
        lines.append(f"{counted(refused, 'request')} refused")
    if calls > lost:
        lines += [f"next: lore check {shell}"] if (shell := in_shell(path or "")) else []
    elif pointed and not calls:
        lines.append("no client connected: a client with an address in its settings must be changed by hand "
                     "(lore guide record)")  # fmt: skip
    return lines
