"""Run a command line of lore; turn every error into a message and an exit code.

0 fine; 1 findings; 2 usage, configuration, no input readable; 3 one of several inputs unreadable; 70 a bug in
lore; 130 interrupt.
A closed pipe is not an error. Modules are imported when they are needed: `lore --version`, `lore statusline`, and
`lore check` without options are answered without the command framework (20 of the 150 ms of processor time that the
last took for a small file, measured 2026-11-28).
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lore.errors import LoreError

BUG, INTERRUPTED, USAGE = 70, 130, 2


def main(arguments: list[str] | None = None) -> int:
    """Run lore and return its exit code."""
    args = _complete_arguments(sys.argv[1:] if arguments is None else arguments)
    # Imported modules stay in memory, so the garbage collector need not search them, also not when Python ends
    # (50 of the 240 ms of processor time that `lore check` took for a small file, measured 2026-11-27).
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    _prepare_streams()
    try:
        return _run(args)
    except BrokenPipeError:
        from lore.commands.common import discard_output

        return discard_output()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the one place that turns any failure into a line and a code
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__  # Python wraps an interrupt that comes while a class is created
        return INTERRUPTED if cause is not None else _report_error(error, args)


def _run(args: list[str]) -> int:
    if args[:1] == ["check"] and not any(arg.startswith("-") for arg in args):
        from lore.commands.check import CheckOptions, run

        return run(CheckOptions(paths=args[1:] or None))
    answer = None
    if args == ["--version"]:
        from lore import __version__

        answer = f"lore {__version__}\n"
    elif args[:1] == ["statusline"] and not any(arg.startswith("-") for arg in args) and len(args) <= 2:
        from lore.run.status_file import line

        answer = line("".join(args[1:]))
    if answer is not None:
        sys.stdout.write(answer)
        code = 0
    else:
        from lore.commands.table import COMMANDS

        # Completion of words begins like bare `lore`.
        names_command = args[:1] not in ([], ["help"]) and args[0] in COMMANDS and "_LORE_COMPLETE" not in os.environ
        code = command(without_overview=names_command)(args, standalone_mode=False, prog_name="lore")
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _complete_arguments(args: list[str]) -> list[str]:
    """Return the arguments as the framework takes them.

    `-#3` is a turn of standard input. `--what-if` without a value gets an empty one; a following word is its
    value if it has a `=`, or could name a change and no file has that name. In CI, where agents keep no sessions, bare
    `lore` means help.
    """
    if args[:1] == ["record"]:  # the rest is the command line of another program
        return args
    if not args and os.environ.get("CI"):
        return ["--help"]
    complete: list[str] = []
    for arg, following in zip(args, [*args, ""][1:], strict=True):
        is_word = following.replace(",", "").isalnum() and not os.path.exists(following)
        if arg == "--what-if" and (following.startswith("-") or not ("=" in following or is_word)):
            arg = "--what-if="
        complete.append(f"<stdin>{arg[1:]}" if arg.startswith("-#") else arg)
    return complete


@cache
def command(*, without_overview: bool = False) -> Callable[..., object]:
    """Return the tree of commands, once a process; it holds nothing of an invocation.

    `without_overview`: leave out bare `lore` and its options (5 ms), which a call of a named command does not need.
    """
    from lore.commands.tree import tree

    if without_overview:
        return tree(None)
    from lore.commands.spending import overview

    return tree(overview)


def _prepare_streams() -> None:
    """Write the same bytes in any locale; discard output if the program was started without the stream."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the end
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def _report_error(error: Exception, args: list[str]) -> int:
    """Print an error and return its exit code; with `--redact` without the text of an unexpected one."""
    from lore.errors import LoreError

    quiet = "--redact" in args
    if hasattr(error, "format_message"):
        error = _usage_error(error, args)
    if isinstance(error, LoreError):
        if "--json" in args and args[0] != "record":
            from lore.model.results import ErrorResult
            from lore.report.forms.base import render

            place = None if error.where is None else str(error.where)
            sys.stdout.write(render(ErrorResult(error=error.message, hint=error.hint, place=place)) + "\n")
        place = f"  --> {error.where}" if error.where is not None and error.where[1:] != (None, None) else ""
        hint = f"hint: {error.hint}" if error.hint else ""
        _say(f"error: {error.message}", place, hint, *(f"  {choice}" for choice in error.choices))
        return error.exit_code
    if isinstance(error, OSError):
        reason = (error.strerror or str(error)).lower()
        _say(f"error: {reason}", "hint: lore could not write its answer, or read a file")
        return USAGE
    if os.environ.get("LORE_DEBUG") == "1":
        import traceback

        if quiet:
            traceback.print_tb(error.__traceback__)
        else:
            traceback.print_exc()
    from lore.model.mask import cut_masked

    detail = "" if quiet else f": {cut_masked(str(error), 300)}"
    _say(f"error: a bug in lore: {type(error).__name__}{detail} (LORE_DEBUG=1 shows where)")
    return BUG


def _usage_error(error: Any, args: list[str]) -> LoreError:
    """Return an error of the command framework as lore reports it, with the most similar option."""
    from difflib import SequenceMatcher

    from lore.errors import LoreError

    named = " ".join(["lore", *(word for word in args[:1] if word[0] != "-")])  # the framework may not know its command
    path = getattr(getattr(error, "ctx", None), "command_path", "") or named
    word, names = getattr(error, "option_name", "").strip("-"), getattr(error, "possibilities", None)
    matches = [name for name in names or () if SequenceMatcher(None, word, name.strip("-")).ratio() > 0.6]
    if (path, word) == ("lore check", "fail-under"):  # the name of this budget in `diff-prefix`
        matches = ["--min-reuse"]
    message, help_command = str(error.format_message() if names is None else error.message), f"{path} --help"
    hint = f"did you mean {matches[0]}? all options: {help_command}" if matches else help_command
    return LoreError(" ".join(message.split()), hint=hint)


def _say(*lines: str) -> None:
    """Print lines on standard error, wrapped to the width of a terminal."""
    from lore.report.console import Console, line

    out = Console(sys.stderr, colour=False, terminal=sys.stderr.isatty())
    for text in filter(None, lines):
        out.print(line(text))
