"""The lines that `lore record` prints, and those of `--live`: a verdict per request while a capture is written.

Verdicts come from a separate process, and go to standard error. Times are this machine's.

The capture is judged by the loop of `lore check`. The process ends when the recorder's end of a pipe is
closed, which also happens if the recorder is killed.
"""

from __future__ import annotations

import multiprocessing
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection

from lore.errors import LoreError, reason_of
from lore.formats import LoreCapture
from lore.judge import RunningSums, TurnVerdict, turn_findings
from lore.model import CODES, LastBreak, LedgerRow, Place, format_money
from lore.recording import Opened, Options, Problems, UnrecognisedError, load_plugins, show
from lore.report import counted, in_shell, local_time, percent, visible, worded_break
from lore.run import Dated, starting_processes, verdicts

INTERVAL = 0.2  # seconds between two reads of a capture
PIECE = 1024 * 1024  # bytes that are read at a time
LEAST_SHOWN = 0.0001  # dollars
_MARKS = {"waste": "✗", "unattributable": "!", "expected": "·"}


def live_line(row: LedgerRow, broken: LastBreak | None, *, content: bool, refused: int | None = None) -> str:
    """Return the line of a request: the tokens read, and the cause of a cache break, with `content` in detail.

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


def growing_capture(path: str, wait: Callable[[], bool]) -> Iterator[bytes]:
    """Yield the bytes of a capture as they are written, until `wait` returns false. Raises LoreError."""
    try:
        with open(path, "rb", buffering=0) as file:
            while True:
                while data := file.read(PIECE):
                    yield data
                if not wait():
                    return
    except OSError as error:
        raise LoreError(f"cannot read {show(path)}: {reason_of(error)}") from None


def live_verdicts(
    path: str, begin: int, dated: Dated, wait: Callable[[], bool], tell: Callable[[str], None]
) -> Iterator[tuple[LedgerRow, LastBreak | None, TurnVerdict]]:
    """Judge a whole capture, and yield the requests from byte `begin` on, until `wait` returns false.

    Each has its cache break, if any, and its verdict; `tell` receives problems.
    """
    load_plugins()
    problems, sums = Problems(), RunningSums(dated.rules, worded_break)
    opened = Opened(b"", growing_capture(path, wait))  # the format is known without a head
    recording = Options(format=LoreCapture.name).open(path, problems, opened=opened)
    for verdict, _ in verdicts(recording, dated.judge(), Place(recording.shown, audience="author")):
        for problem in problems.take():
            if (problem.byte or 0) >= begin:
                name = CODES[problem.code].name if problem.code in CODES else ""
                tell(f"{problem.code} {name}: {problem.message}")
        if verdict is None:
            return
        row = sums.take(verdict, "author")
        broken = sums.breaks.popitem()[1] if sums.breaks else None
        if (verdict.turn.byte or 0) >= begin:
            yield row, broken, verdict


class LiveProcess:
    """The process that prints verdicts; with `content` lines quote requests, otherwise they only name causes."""

    def __init__(self, path: str, begin: int, dated: Dated, *, content: bool) -> None:
        context = multiprocessing.get_context("spawn")
        theirs, self._ours = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_print_verdicts, args=(theirs, path, begin, dated, content), name="lore-record-live", daemon=True
        )
        with starting_processes():
            self._process.start()
        theirs.close()

    def stop(self) -> None:
        """Wait until the process has printed the remaining verdicts and ended."""
        self._ours.close()
        self._process.join()


def _print_verdicts(ended: Connection, path: str, begin: int, dated: Dated, content: bool) -> None:
    """Print verdicts until the other end of a pipe is closed, then the remaining ones."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    over = False

    def wait() -> bool:
        nonlocal over
        before, over = over, over or ended.poll(INTERVAL)
        return not before

    def say(text: str) -> None:
        sys.stderr.write(visible(text) + "\n")
        sys.stderr.flush()

    try:
        for row, broken, verdict in live_verdicts(
            path, begin, dated, wait, lambda text: say(text) if content else None
        ):
            refused = verdict.turn.call.status if verdict.turn.failed else None
            say(live_line(row, broken, content=content, refused=refused))
            if content and verdict.pair is not None:
                for finding in turn_findings(verdict.pair, Place(path, audience="author")):
                    say(f"    {finding.message}")
    except UnrecognisedError:  # no request was recorded
        return
    except LoreError as error:
        say(f"no more verdicts: {error.message}")
