"""Helpers of several commands: settings, output, questions, a progress bar on standard error."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence, Sized
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from lore.errors import LoreError, reason_of
from lore.files import config_root, current_folder, make_folder, relative
from lore.model.fact import count_of
from lore.report.plain import Escaping, place_of, visible

if TYPE_CHECKING:
    import typer
    from rich.progress import Progress as RichProgress

    from lore.commands import flags
    from lore.compaction.settings import Compaction
    from lore.config import Loaded
    from lore.model.codes import Audience, Problem
    from lore.prompt.base import Rules
    from lore.recording.agents.logs import Surroundings
    from lore.recording.base import Problems
    from lore.recording.inputs import Input
    from lore.report.console import Console
    from lore.run.outputs import Target
    from lore.run.spending.ledgers import Ledgers

R = TypeVar("R", bound=Struct)
T = TypeVar("T")


@contextmanager
def redact_errors(*, redact: bool) -> Generator[None]:
    """With `redact`, remove text of a recording from a LoreError that is raised inside."""
    try:
        yield
    except LoreError as error:
        from lore.report.redacted import redacted_error

        raise redacted_error(error) if redact else error from None


@contextmanager
def writing() -> Generator[None]:
    """Write an answer in this block; if standard output is a closed pipe, drop the text and keep the exit code."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def out(colour: bool | None) -> Console:
    """Return the console of standard output."""
    from lore.report.console import Console, wants_colour

    terminal = sys.stdout.isatty()
    return Console(sys.stdout, colour=wants_colour(colour, os.environ, terminal=terminal), terminal=terminal)


def write_json(result: Struct) -> None:
    """Write a result as one line of JSON."""
    from lore.report.forms.base import render

    sys.stdout.write(render(result) + "\n")


def answer(result: R, write: Callable[[R, Console], None], *, as_json: bool, color: bool | None) -> int:
    """Write a result as JSON, or for a person; return exit code 0."""
    if as_json:
        write_json(result)
    else:
        write(result, out(color))
    return 0


def redacted_if(redact: bool, result: T) -> T:
    """Return a result, without content of recordings if `redact` is true."""
    if not redact:
        return result
    from lore.report.redacted import redacted

    return redacted(result)


def exit_code(unjudged: Sized, *, failed: bool = False, judged: int = 1) -> int:
    """Return the exit code of an answer: 1 for a finding of severity error, else 0 if every input was judged.

    With unjudged inputs it is 3, or 2 if nothing was judged (`judged`: how many files were).
    """
    if failed or not unjudged:
        return int(failed)
    return 3 if judged else 2


def name_unjudged(problems: Sequence[Problem], what: str = "not judged", *, verbose: bool = False) -> None:
    """Write to standard error which files have unjudged parts, and why; `what` begins each line.

    Files with the same reason are one line with the first of them; `verbose`: each has its own.
    """
    by_file: dict[str | None, list[Problem]] = {}
    for problem in problems:
        by_file.setdefault(problem.file, []).append(problem)
    by_reason: dict[str, list[str]] = {}
    for file, group in by_file.items():
        reason = group[0].message.removeprefix("cannot read ").removeprefix(f"{file}").removeprefix(":").lstrip()
        more = f" (and {len(group) - 1:,} more)" if len(group) > 1 else ""
        by_reason.setdefault(reason + more, []).append(place_of(file or "", group[0].line))
    for reason, places in by_reason.items():
        if verbose:
            for place in places:
                tell(f"{what}: {place}: {reason}")
        else:
            others = f" and {count_of(len(places) - 1, 'more file')} (-v names them)" if len(places) > 1 else ""
            tell(f"{what}: {places[0]}{others}: {reason}")


def refuse(*cases: tuple[bool, str, str]) -> None:
    """Raise LoreError for the first true case, with its message and hint."""
    for is_refused, message, hint in cases:
        if is_refused:
            raise LoreError(message, hint=hint)


@contextmanager
def destination(output: str | None, *, force: bool, inputs: Iterable[str]) -> Generator[BinaryIO]:
    """Open standard output (on a terminal invisible characters are escaped), or a file that is written atomically."""
    from lore.recording.corpus import STDIN
    from lore.run.outputs import open_output

    if output in (None, STDIN):
        yield cast("BinaryIO", Escaping(sys.stdout.buffer)) if sys.stdout.isatty() else sys.stdout.buffer
        return
    with open_output(output, force=force, inputs=inputs) as file:
        yield file


class CommonOptions(Struct, frozen=True, kw_only=True):
    """The last options of most commands."""

    config: flags.Config = None
    color: flags.Colour = None
    verbose: flags.Verbose = False


def takes(options: type[T]) -> Callable[[Callable[[T], int]], Callable[[T], int]]:
    """Mark a function as a command, for the command tree: the fields of `options` are the command's options.

    @takes(CheckOptions)
    def run(options: CheckOptions) -> int: ...
    """

    def mark(command: Callable[[T], int]) -> Callable[[T], int]:
        vars(command)["options"] = options  # the command tree reads their annotations
        return command

    return mark


def branch(help: str) -> typer.Typer:
    """Return a command that has commands of its own."""
    import typer

    return typer.Typer(
        help=help, no_args_is_help=True, rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip


def find_settings(explicit: str | None) -> Loaded:
    """Return the settings that apply in this folder, with their file."""
    from lore.config import find

    loaded = find(explicit, current_folder())
    if loaded.hidden is not None and loaded.file is not None:
        tell(f"note: the settings of {relative(loaded.hidden)} are not read: {relative(loaded.file)} is read instead")
    return loaded


def settings_to_run(explicit: str | None) -> Loaded:
    """Return the settings for a command that compacts or remembers, also those of the user's settings folder."""
    from lore.config import find_with_user_settings

    return find_with_user_settings(explicit, current_folder(), own_settings_folder())


def own_settings_folder() -> str:
    """Return the user's settings folder of lore; empty if it is unknown."""
    place = surroundings()
    root = config_root(place.environment, place.home, place.platform)
    return os.path.join(root, "lore") if root else ""


def refuse_unapproved_policy(loaded: Loaded, compaction: Compaction | None, *, sources: bool = True) -> None:
    """Raise LoreError if a policy that was found runs programs or asks services without the user's approval."""
    from lore.compaction.settings import outside_settings
    from lore.recording import corpus
    from lore.trust import refuse_unapproved

    file = loaded.compaction_file
    if file is not None and compaction is not None:
        used = outside_settings(compaction, sources=sources)
        refuse_unapproved(file, used, own_settings_folder(), corpus.show(file.path))


def ledgers_of(loaded: Loaded, *, no_cache: bool, verbose: bool, now: float) -> Ledgers:
    """Return a reader of ledgers with these settings; it keeps them in the user's cache folder unless that is off."""
    from lore.recording.opening import Options
    from lore.run.rules import Dated
    from lore.run.spending.ledgers import Ledgers

    options = Options(rules=loaded.settings.assemble, log=log(verbose))
    cache_folder = "" if no_cache else surroundings().roots()["{cache}"]
    kept_in = os.path.join(cache_folder, "lore", "ledgers.sqlite") if cache_folder else ""
    return Ledgers(options, kept_in, dated=Dated.of(loaded), now=now, jobs=count_cores())


def with_tail(rules: Rules, policy: str | None) -> Rules:
    """Return the rules with this tail policy (None: their own); raises LoreError for an unknown one."""
    from lore.prompt.base import POLICIES

    if policy is not None and policy not in POLICIES:
        raise LoreError(f"unknown tail policy {policy!r}", hint="policies: " + ", ".join(POLICIES))
    return rules if policy is None else replace(rules, tail=policy)


def say_problems(problems: Problems) -> None:
    """Name the problems of a run on standard error."""
    for problem in problems.kept:
        place = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
        print(visible(f"{problem.code} {place}: {problem.message}"), file=sys.stderr)
    if problems.total > len(problems.kept):
        print(f"and {problems.total - len(problems.kept):,} problems more like these", file=sys.stderr)


def log(verbose: bool) -> Callable[[str], None]:
    """Return a function that writes to standard error if `verbose`, and else does nothing."""
    return tell if verbose else lambda _: None


def tell(text: str) -> None:
    """Write one line to standard error; a closed pipe loses the text, not the verdict."""
    text = visible(text)
    with suppress(BrokenPipeError):
        print(f"./{text}" if text.startswith("::") else text, file=sys.stderr, flush=True)  # no workflow command


def can_ask() -> bool:
    """Return whether a person can be asked on a terminal; either stream may be closed."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def ask_confirmation(question: str) -> bool:
    """Ask on standard error, and return whether standard input answers yes."""
    print(visible(question), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def audience_named(name: str | None) -> Audience | None:
    """Return the audience for fixes, author or user; raises LoreError for another word."""
    if name not in (None, "author", "user"):
        raise LoreError(f"--for {name}: no such audience", hint="--for author or --for user")
    return name


def count_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def surroundings() -> Surroundings:
    """Return where lore runs."""
    from lore.recording.agents.logs import Surroundings

    home = os.path.expanduser("~")
    return Surroundings(os.environ, "" if home == "~" else home, sys.platform, current_folder())


def discard_output() -> int:
    """Discard all further output, so that the process ends without an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


INTERRUPTED = 130  # exit code


@contextmanager
def interruptible(*, is_on: bool = True) -> Generator[Callable[[], bool]]:
    """Record the first interrupt instead of stopping, so that finished work can be reported; the second one stops.

    Yields a function that returns whether there was one. An existing handler of interrupts is kept. A command that
    waits for its input (not `is_on`) stops at once.
    """
    if not is_on or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    interrupts: list[int] = []

    def note(number: int, _: object) -> None:
        if interrupts:
            raise KeyboardInterrupt
        interrupts.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(interrupts)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


WAITED_SECONDS = 0.5  # without an answer, before a bar is drawn
REDRAW_SECONDS = 0.1

Progress = Callable[[int, int], None]


@contextmanager
def progress(*, is_on: bool, colour: bool | None = None, what: str = "judging") -> Generator[Progress | None]:
    """Return a callback for progress (bytes done, bytes in all); None if no bar is shown.

    The bar is labelled with `what`. It is drawn only if standard error is a terminal that can move its cursor. It is
    redrawn when the callback is called, not by a thread, because processes fork meanwhile.
    """
    if not is_on or not sys.stderr.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        yield None
        return
    bar: RichProgress | None = None
    next_at = time.monotonic() + WAITED_SECONDS

    def update(done_bytes: int, total_bytes: int) -> None:
        nonlocal bar, next_at
        if time.monotonic() < next_at:
            return
        if bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            bar = Progress(
                TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn(),
                console=Console(file=sys.stderr, no_color=None if colour is None else not colour),
                auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            bar.add_task("", total=total_bytes)
            bar.start()
        bar.update(bar.task_ids[0], completed=done_bytes, refresh=True)
        next_at = time.monotonic() + REDRAW_SECONDS

    try:
        yield update
    finally:
        if bar is not None:
            bar.stop()


class Selection(Struct, frozen=True):
    """What to judge."""

    paths: list[str]
    accepts: Callable[[Input], bool] | None = None  # whether a file of the paths is judged; None: all are
    looked: tuple[str, ...] = ()  # where agents keep their logs; empty: the user named other paths


def chosen_inputs(
    paths: list[str], *, last: bool = False, since: str | None = None, until: str | None = None,
    format: str | None = None, command: str = "check",
) -> Selection:  # fmt: skip
    """Return which files to judge; if the user named none, look for logs of agents and print where they are."""
    looked: tuple[str, ...] = ()
    if paths and all(map(os.path.isdir, paths)):  # an empty file in a folder of an agent is no log yet
        from lore.run import arguments

        is_of_agents = set(arguments.find_agent_logs(surroundings())).issuperset(map(os.path.abspath, paths))
        looked = tuple(paths) if is_of_agents else ()
    if paths and not last and since is None and until is None:
        return Selection(paths, looked=looked)
    from lore.recording.agents.sessions import newest, newest_of_project
    from lore.run import arguments

    begin, end = arguments.parse_span(since, until, time.time())
    accepts = None if begin is None and end is None else partial(arguments.is_in_span, since=begin, until=end)
    if last and not paths:
        session = newest_of_project(surroundings(), format)
        if session is None:
            raise arguments.no_session_of_project(surroundings(), command)
        tell(f"the newest session of this project is {arguments.describe_log(session)}")
        return Selection([session.file.path], accepts, (session.file.path,))
    if not paths:
        looked, log_paths = arguments.find_project_logs(surroundings())
        paths = log_paths or [os.curdir]
        tell(f"no path is given: judging {arguments.list_places(paths)}")
    if last:
        paths = [newest(paths, format)]
        tell(f"the newest session is {arguments.list_places(paths)}")
    return Selection(paths, accepts, looked)


HTML = "html"


class PageTarget(Struct, frozen=True):
    """Where a page goes."""

    path: str  # empty: standard output
    opens: bool  # a browser opens it


def page_target(reports: Iterable[str] | None, *, opens: bool, name: str, in_use: bool = False) -> PageTarget | None:
    """Return the target of --report and --open of a command that writes no other report; None without a page.

    `in_use`: standard output has another answer. Raises LoreError if the target cannot be written.
    """
    texts, path = list(reports or ()), ""
    for text in texts:
        kind, _, path = text.partition("=")
        if kind != HTML:
            raise LoreError(f"--report {text}: this command writes html alone", hint="--report html=FILE.html")
        if text == f"{HTML}=":
            raise LoreError(f"--report {text} names no file", hint="--report html=FILE.html, or a folder")
    if len(texts) > 1:
        raise LoreError("--report html is given twice", hint="leave one out")
    if not texts and not opens:
        return None
    from lore.commands.pages import refuse_target

    path = "" if path == "-" else path
    if not path and opens:  # in the user's cache folder, readable by its owner alone
        cache, hint = surroundings().roots()["{cache}"], "name a file: --report html=FILE.html --open"
        folder = os.path.join(cache, "lore", "pages")
        if not cache:
            raise LoreError("no cache folder is known", hint=hint)
        try:
            make_folder(folder)
        except OSError as error:
            raise LoreError(f"cannot make {folder}: {reason_of(error)}", hint=hint) from None
        path = os.path.join(folder, f"{name}.html")
    if not path and in_use:
        raise LoreError("html cannot share standard output", hint="give it a file: --report html=FILE.html")
    refuse_target(path)
    return PageTarget(path, opens)


def page_among(
    reports: list[Target], *, opens: bool, name: str, settings: str | None, baseline: str | None = None
) -> PageTarget | None:
    """Remove the page from a command's reports and return its target.

    Raises LoreError for a report that cannot be written, or would replace the file of the settings or the baseline.
    """
    from lore.run.outputs import refuse_overwriting

    paths = [target.path.rstrip("/\\") if target.kind == HTML else target.path for target in reports]
    pages = [f"{HTML}={target.path or '-'}" for target in reports if target.kind == HTML]
    reports[:] = [target for target in reports if target.kind != HTML]
    refuse_overwriting(paths, settings, baseline)
    return page_target(pages, opens=opens, name=name, in_use=not all(report.path for report in reports))


def require_rereadable(files: list[Input]) -> list[Input]:
    """Return the inputs, which are read a second time for pages; raises LoreError if one can be read only once."""
    if any(file.stream for file in files):
        hint = "save it to a file: a page needs a second look"
        raise LoreError("standard input and pipes can be read once only", hint=hint)
    return files
