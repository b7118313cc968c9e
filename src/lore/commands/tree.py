"""The tree of commands on Typer: modules imported when they are needed, help laid out by groups, errors with a way on.

Help is as wide as the terminal (100 columns where there is none: the same text on every machine), coloured by the
rules of every report, and ends with what to type and the page of the guide.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import groupby
from typing import Any, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from lore.commands.removed import replacement
from lore.commands.table import COMMANDS, EXAMPLES, CommandRow, Example, commands, missing_command, subcommands
from lore.errors import LoreError

_SETTINGS = {"help_option_names": ["-h", "--help"]}
_NARROW = 76  # columns: below this a description stands under its name
_NAMES = 28  # columns that names may take before their description goes under them


class _Shared:
    """What commands do in lore's own way."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page of `--help`."""
        formatter.write(_page(self, ctx))

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters. Text, and defaults, are passed on as they are.

        Typer (0.29) imports Pydantic to convert any value, also one that needs no conversion: 0.1 s of each command.
        """
        params: list[Any] = cast("Any", super()).get_params(ctx)
        for param in params:
            if "process_value" not in vars(param):
                param.process_value = partial(_processed, param, param.process_value)
        return params


def _processed(param: Any, converted: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    final: Any = kind if kind in (str, int, float) else (list, tuple) if kind == list[str] else ()
    if param.required if param.value_is_missing(value) else not isinstance(value, final):
        return converted(ctx, value)
    return value if param.callback is None else param.callback(ctx, param, value)


class LeafCommand(_Shared, TyperCommand):
    """A command that runs."""


class Branch(_Shared, TyperGroup):
    """A command with commands of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help where no command is named and none is needed to answer."""
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), color=ctx.color)
            raise typer.Exit
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that is named; raises LoreError for none, with what was most likely meant."""
        name = args[0]
        made = self.get_command(ctx, name)
        if made is None and not ctx.resilient_parsing and not name.startswith("-"):
            unknown(ctx.command_path, name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)


class Root(Branch):
    """`lore` itself: a command's module is imported when it runs."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order of the table."""
        return list(commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, built once a process; None for a name that the table lacks."""
        row = COMMANDS.get(cmd_name) or commands().get(cmd_name)
        if row is not None and cmd_name not in self.commands:
            self.commands[cmd_name] = _built(cmd_name, row)
        return self.commands.get(cmd_name)


def tree(callback: Callable[..., object] | None) -> Any:
    """Return `lore` as a command of Typer; `callback` answers if no command is named. None: a command is named."""
    app = typer.Typer(
        name="lore", cls=Root, invoke_without_command=True, add_completion=callback is not None,
        pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=_SETTINGS,
    )  # fmt: skip
    app.callback()(callback or _named)
    if not {"--install-completion", "--show-completion"}.isdisjoint(sys.argv):
        _complete_at_once()
    return get_command(app)


def _named() -> None:
    """Do nothing before a named command runs."""


def _complete_at_once() -> None:
    """Make zsh answer to the first Tab of a session: Typer's script (0.29) only loads itself then."""
    with suppress(ImportError):
        scripts = getattr(import_module("typer._completion_shared"), "_completion_scripts", {})
        if "loadautofunc" not in scripts.get("zsh", "loadautofunc"):
            scripts["zsh"] += '\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then %(complete_func)s "$@"; fi\n'


def unknown(path: str, name: str, known: Iterable[str]) -> NoReturn:
    """Raise LoreError for a command that is not there: what was most likely meant, else what the word is."""
    from difflib import get_close_matches

    instead = replacement(f"{path} {name}".removeprefix("lore ").strip())
    if instead is not None:
        raise LoreError(f"{path} {name} was removed", hint=instead)
    missing = missing_command(name) if path == "lore" else None
    if missing is not None:
        raise missing
    near = get_close_matches(name, known, 1)
    if near:
        hint = f"did you mean: {path} {near[0]}"
    elif path == "lore" and os.path.lexists(name):
        hint = f"to judge it: lore check {name}"
    elif path == "lore" and name.upper().startswith("LORE"):
        hint = f"to read about a code: lore explain {name.upper()}"
    else:
        hint = f"{path} --help lists them"
    raise LoreError(f"no such command: {path} {name}", hint=hint)


def _built(name: str, row: CommandRow) -> Any:
    module, _, function = (row.place or name).partition(":")
    found = import_module(module if module.startswith("lore_plugins.") else f"lore.commands.{module}")
    app = getattr(found, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        settings: dict[str, Any] = {**_SETTINGS, "allow_interspersed_args": not row.runs}
        app.command(name, cls=LeafCommand, context_settings=settings)(getattr(found, function or "run"))
        return get_command(app)
    for command in app.registered_commands:
        command.cls = LeafCommand
    app.info.cls = Branch
    app.info.no_args_is_help = False
    return get_group(app)


def _page(command: Any, ctx: Any) -> str:
    """Lay out the help of a command; tells the context whether it is coloured, for whom prints it."""
    from lore.report.console import WIDTH, wants_colour

    terminal = sys.stdout.isatty()
    ctx.color = wants_colour(None, os.environ, terminal=terminal)
    width = shutil.get_terminal_size().columns if terminal else WIDTH
    path = ctx.command_path.partition(" ")[2]
    usage = " ".join(map(_piece, " ".join(command.collect_usage_pieces(ctx)).split()))
    lines = [_heading("Usage:", ctx) + f" {ctx.command_path} {usage}"]
    for paragraph in (command.help or "").split("\n\n"):
        lines += ["", *_wrapped(paragraph, width - 2)]
    parts = list(_sections(command, ctx))
    column = max((len(name) for _, rows in parts for name, _ in rows if len(name) <= _NAMES), default=0) + 4
    for title, rows in parts:
        lines += ["", _heading(f"{title}:", ctx), *_definitions(rows, width, ctx, column)]
    typed = [(f"lore {example}".strip(), words) for example, words in _examples(path)]
    if typed:
        column = max(len(line) for line, _ in typed) + 4
        lines += ["", _heading("Examples:", ctx), *_definitions(typed, width, ctx, column if column < 60 else 6)]
    row = commands().get(path.partition(" ")[0])
    lines += [
        "",
        f"{_heading('Guide:', ctx)} lore guide {row.page}" if row else f"{_heading('Guide:', ctx)} lore guide",
    ]
    return "\n".join(lines)


def _piece(word: str) -> str:
    """Return a word of a usage line as it is known elsewhere: NAME, [NAME], NAME..., [NAME]..."""
    name = word.strip("[]{}.")
    several = "..." if word.endswith("...") else ""
    return f"[{name}]{several}" if word.startswith("[") else f"{name}{several}"


def _sections(command: Any, ctx: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the parts of a page: the title of each, with names and what is said of them."""
    if isinstance(command, TyperGroup):
        names = [(name, command.get_command(ctx, name)) for name in command.list_commands(ctx)]
        listed = [
            (commands()[name].group if ctx.parent is None else "Commands", (name, made.get_short_help_str(300)))
            for name, made in names
            if made is not None and not made.hidden
        ]
        for title, rows in groupby(listed, key=lambda row: row[0]):
            yield title, [row for _, row in rows]
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        records = [param.get_help_record(ctx) for param in command.get_params(ctx) if param.param_type_name == kind]
        rows = [(names.replace("<list[str]>", "<str>..."), words) for names, words in filter(None, records)]
        if rows:
            yield title, rows


def _examples(path: str) -> tuple[Example, ...]:
    if not path:
        return EXAMPLES
    row = commands().get(path)
    if row is not None:
        return row.examples
    return subcommands().get(path, ())


def _definitions(rows: Iterable[tuple[str, str]], width: int, ctx: Any, column: int) -> Iterator[str]:
    """Yield names with what is said of them from a column on, or below where there is no room."""
    indent = 6 if width < _NARROW else column
    for name, words in rows:
        below = len(name) + 4 > indent
        text = _wrapped(words, max(width - indent, 20))
        shown = typer.style(name, fg="cyan") if ctx.color else name
        if below or not text:
            yield f"  {shown}"
            yield from (f"{'':{indent}}{line}" for line in text)
        else:
            yield f"  {shown}{'':{indent - len(name) - 2}}{text[0]}"
            yield from (f"{'':{indent}}{line}" for line in text[1:])


def _wrapped(text: str, width: int) -> list[str]:
    from textwrap import wrap  # noqa: PLC0415 - only for help

    return wrap(" ".join(text.split()), width, break_on_hyphens=False)


def _heading(text: str, ctx: Any) -> str:
    return typer.style(text, bold=True) if ctx.color else text
