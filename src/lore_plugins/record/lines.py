"""What `lore record` says: where it listens, a line a request, what was recorded.

In: rows, breaks, counts. Out: sentences in which nothing is obeyed by a terminal. Times of day are those of this
machine.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from lore.model import CODES, LastBreak, LedgerRow, Problem
from lore.report import counted, in_shell, local_time, money_of, percent, visible

LEAST_SHOWN = 0.0001  # dollars: less is not shown
_MARKS = {"waste": "✗", "unattributable": "!", "expected": "·"}


def live_line(row: LedgerRow, broken: LastBreak | None, *, content: bool, refused: int | None = None) -> str:
    """Say what a request read, and why it read no more; with `content` what its cause names.

    `refused` is the status by which its provider refused it.
    """
    name = f"turn {row.number}" if row.chain == "main" else f"{row.chain} turn {row.number}"
    read = _read(row) if refused is None else f"refused ({refused})"
    parts = [local_time(row.at), name, row.model or "unknown model", read]
    line = "  ".join(filter(None, parts))
    if broken is not None:
        money = "" if (broken.dollars or 0) < LEAST_SHOWN else f" ({money_of(broken.dollars)})"
        says = broken.says if content else broken.plain
        line += f"  {_MARKS[broken.kind]} {broken.code} {says}: {broken.lost_tokens:,} tokens paid again{money}"
    return visible(line)


def _read(row: LedgerRow) -> str:
    if row.prompt_tokens is None:
        if row.answered is None:
            return "no answer"
        return "what it read is not in its bill" if row.billed else "no bill in its response"
    read = "" if row.read_tokens is None else f", read {row.read_tokens:,} from the cache"
    share = "" if not read or not row.prompt_tokens else f" ({percent((row.read_tokens or 0) / row.prompt_tokens)})"
    return f"prompt {row.prompt_tokens:,} tokens{read}{share}"


def live_problem(problem: Problem) -> str:
    """Say what could not be read."""
    return f"{problem.code} {CODES[problem.code].name if problem.code in CODES else ''}: {problem.message}"


def opening_lines(address: str, path: str, upstreams: list[tuple[str, str]]) -> list[str]:
    """Say where the recorder listens and what it writes; `upstreams` are pairs of a path here and a server."""
    lines = [f"recording to {path}; listening on {address}"]
    return [*lines, *(f"  {address}{here} -> {server}" for here, server in upstreams)]


def export_lines(pointing: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Say which variables point a program here, as a shell reads them; past a proxy of the environment, if any."""
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    proxied = any(environment.get(name) or environment.get(name.lower()) for name in proxies)
    past = {name: environment[name] for name in ("NO_PROXY", "no_proxy") if proxied and name in environment}
    return [f"export {name}={shlex.quote(value)}" for name, value in {**pointing, **past}.items()]


def closing_lines(path: str | None, calls: int, lost: int, refused: int, *, pointed: bool) -> list[str]:
    """Say what was recorded, and what to run next; `pointed`: a command ran with its clients pointed here."""
    kept = f"recorded {counted(calls, 'call')} in {path}"
    lines = ["nothing was recorded: no file was left" if path is None else kept]
    if lost:
        lines.append(f"{counted(lost, 'call')} passed and could not be written whole")
    if refused:
        lines.append(f"{counted(refused, 'request')} refused")
    if calls > lost:
        lines += [f"next: lore check {shell}"] if (shell := in_shell(path or "")) else []
    elif pointed and not calls:
        lines.append("no client came here: one that takes its address from its settings is pointed by hand "
                     "(lore guide record)")  # fmt: skip
    return lines
