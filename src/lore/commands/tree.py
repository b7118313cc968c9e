"""The tree of commands on Typer: a module is imported when its command runs, help lists commands by group.

Help is as wide as the terminal, or 80 columns if standard output is not a terminal, so that the text is the same on
every machine. It ends with examples and the command's page of the guide.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from inspect import Parameter, Signature, signature
from itertools import groupby
from typing import Annotated, Any, cast, get_type_hints

import typer
from typer.core import CompletionItem, TyperCommand, TyperGroup  # pyright: ignore[reportPrivateImportUsage]
from typer.main import get_command, get_group

from lore.commands import flags
from lore.commands.common import discard_output
from lore.commands.table import BROUGHT, COMMANDS, CommandRow, commands, examples_of
from lore.errors import LoreError, lacks_plug_in

_SETTINGS = {"help_option_names": ["-h", "--help"]}
_PIPE_COLUMNS = 80
_TAKEN = {  # what options take, if not any text or number
    "FILE": "config output rules-file baseline template policy", "JSON": "tools", "KIND=FILE": "report",
    "TIME": "since until", "SECONDS": "interval timeout", "FOLDER": "project", "PATH": "in", "CODE": "select ignore",
    "URL": "store server upstream", "KEY=VALUE": "what-if", "author|user": "for", "N": "jobs",
    "NAME": "format dialect agent model user cache api-key-env only", "WORD": "by layouts tail trigger pace",
}  # fmt: skip
_METAVARS = {f"--{option}": word for word, options in _TAKEN.items() for option in options.split()}
_EXAMPLE_COLUMNS = 40  # a longer example has its description on the next line


class _Shared:
    """The parts of Typer's commands that lore changes."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, changed so that they do not convert values that need no conversion.

        Typer (0.29) imports Pydantic to convert any value, even text: 0.1 s of each command.
        """
        params: list[Any] = cast("Any", super()).get_params(ctx)
        for param in params:
            if "process_value" not in vars(param):
                param.process_value = partial(_convert, param, param.process_value)
                if param.param_type_name == "option" and param.metavar is None and not param.is_flag:
                    is_text = _kind(param) is str or _kind(param) == list[str]
                    param.metavar = _METAVARS.get(param.opts[0], "TEXT" if is_text else "N")
                if _kind(param) == list[str] or param.param_type_name == "argument":
                    param.display_type_rich = partial(_display_kind, param)
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line: NAME, [NAME], NAME..., [NAME]..."""
        pieces: list[str] = cast("Any", super()).collect_usage_pieces(ctx)
        return [
            piece.replace("{", "").replace("}", "").replace("...]...", "]...").replace("......", "...")
            for piece in pieces
        ]

    def get_help(self, ctx: Any) -> str:
        """Return the page of `--help`."""
        ctx.terminal_width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_COLUMNS
        return cast("Any", super()).get_help(ctx)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples and the page of the guide."""
        path = ctx.command_path.partition(" ")[2]
        examples = [(f"lore {words}".strip(), does) for words, does in examples_of(path)]
        if examples:
            with formatter.section("Examples"):
                formatter.write_dl(examples, col_max=_EXAMPLE_COLUMNS)
        row = commands().get(path.partition(" ")[0])
        formatter.write_paragraph()
        formatter.write(f"Guide: lore guide {row.page}" if row else "Guide: lore guide")


def _kind(param: Any) -> object:
    return getattr(getattr(param, "type_descriptor", None), "annotation", None)


def _display_kind(param: Any, ctx: Any = None) -> str:  # noqa: ARG001 - as Typer calls it
    return f"{param.metavar}..." if param.param_type_name == "option" else ""


def _convert(param: Any, convert: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    kind: Any = _kind(param)
    final: Any = kind if kind in (str, int, float) else (list, tuple) if kind == list[str] else ()
    if param.required if param.value_is_missing(value) else not isinstance(value, final):
        return convert(ctx, value)
    return value if param.callback is None else param.callback(ctx, param, value)


class LeafCommand(_Shared, TyperCommand):
    """A command that runs."""


class Branch(_Shared, TyperGroup):
    """A command with subcommands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help if a subcommand is required and none is named."""
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that is named; for an unknown one raise LoreError with the most similar name."""
        name, path = args[0], ctx.command_path
        if self.get_command(ctx, name) is not None or ctx.resilient_parsing or name.startswith("-"):
            return super().resolve_command(ctx, args)
        if path == "lore" and name in BROUGHT:
            raise lacks_plug_in(BROUGHT[name], f"lore {name}")
        matches = get_close_matches(name, self.list_commands(ctx), 1)
        hint = f"{path} --help lists them"
        if matches:
            hint = f"did you mean: {path} {matches[0]}"
        elif path == "lore" and os.path.lexists(name):
            hint = f"to judge it: lore check {name}"
        elif path == "lore" and name.upper().startswith("LORE"):
            hint = f"to read about a code: lore explain {name.upper()}"
        raise LoreError(f"no such command: {path} {name}", hint=hint)

    def summary_of(self, name: str) -> str:
        """Return what a command does, in a sentence."""
        return self.commands[name].get_short_help_str(300)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by group, then the options."""
        names = self.list_commands(ctx)
        for group, members in groupby(names, lambda name: commands()[name].group if ctx.parent is None else "Commands"):
            with formatter.section(group):
                formatter.write_dl([(f"{name:<{max(map(len, names))}}", self.summary_of(name)) for name in members])
        TyperCommand.format_options(cast("Any", self), ctx, formatter)


class Root(Branch):
    """`lore` itself: a command's module is imported when it runs."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order of the table."""
        return list(commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, built once a process; None for an unknown name."""
        row = COMMANDS.get(cmd_name) or commands().get(cmd_name)
        if row is not None and cmd_name not in self.commands:
            self.commands[cmd_name] = _build_command(cmd_name, row)
        return self.commands.get(cmd_name)

    def summary_of(self, name: str) -> str:
        """Return what a command does, without importing its module."""
        return commands()[name].summary

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the commands and options that begin with a word."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = TyperCommand.shell_complete(cast("Any", self), ctx, incomplete)
        return [*(CompletionItem(name, help=self.summary_of(name)) for name in names), *options]

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a closed pipe is not an error, and Typer would take it for one."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            return discard_output()
        return code


def tree(callback: Callable[..., object] | None) -> Any:
    """Return `lore` as a command of Typer. `callback` runs if the user names no command; None: one is named."""
    app = typer.Typer(
        name="lore", cls=Root, invoke_without_command=True, add_completion=callback is not None,
        pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=_SETTINGS,
    )  # fmt: skip
    app.callback()(_with_parameters(callback or (lambda: None)))
    if not {"--install-completion", "--show-completion"}.isdisjoint(sys.argv):
        with suppress(ImportError):  # zsh: Typer's script (0.29) only loads itself at the first Tab; let it answer, too
            scripts = getattr(import_module("typer._completion_shared"), "_completion_scripts", {})
            if "loadautofunc" not in scripts.get("zsh", "loadautofunc"):
                scripts["zsh"] += '\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then %(complete_func)s "$@"; fi\n'
    return get_command(app)


def _build_command(name: str, row: CommandRow) -> Any:
    module, _, function = (row.place or name).partition(":")
    command_module = import_module(module if module.startswith("lore_plugins.") else f"lore.commands.{module}")
    app = getattr(command_module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        settings: dict[str, Any] = {**_SETTINGS, "allow_interspersed_args": not row.runs}
        command = _with_parameters(getattr(command_module, function or "run"))
        app.command(name, cls=LeafCommand, context_settings=settings)(command)
        return get_command(app)
    for command in app.registered_commands:
        command.cls, command.callback = LeafCommand, _with_parameters(command.callback)
    app.info.cls = Branch
    app.info.no_args_is_help = False
    return get_group(app)


def _with_parameters(command: Any) -> Callable[..., int]:
    """Return a command as Typer reads it: a parameter for each field of its options (`takes`), or for each of its own.

    The texts of an annotation are the option's names, or the name of an argument, and then the help. An option without
    a name has that of its parameter.
    """
    options = getattr(command, "options", None)
    hints = get_type_hints(options or command, localns={"typer": typer, "flags": flags}, include_extras=True)
    hints = {name: _with_help(name, hint) for name, hint in hints.items()}

    def run(**values: Any) -> int:
        return command(**values) if options is None else command(options(**values))

    run.__doc__, run.__module__, run.__name__ = command.__doc__, command.__module__, command.__name__
    run.__annotations__ = {**hints, "return": "int"}
    if options is None:
        defaults = {name: parameter.default for name, parameter in signature(command).parameters.items()}
    else:
        names, values = options.__struct_fields__, options.__struct_defaults__
        defaults = dict(zip(names, [Parameter.empty] * (len(names) - len(values)) + [*values], strict=True))
    run.__signature__ = Signature([  # read by Typer
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in defaults.items()
    ])  # fmt: skip
    return run


def _with_help(name: str, hint: Any) -> Any:
    """Return the annotation of a parameter in which texts have become Typer's option or argument."""
    texts = [text for text in getattr(hint, "__metadata__", ()) if isinstance(text, str)]
    if not texts:
        return hint
    *names, help_text = texts
    if names and not names[0].startswith("-"):
        return Annotated[hint.__origin__, typer.Argument(metavar=names[0], help=help_text)]
    return Annotated[hint.__origin__, typer.Option(*(names or [f"--{name.replace('_', '-')}"]), help=help_text)]
