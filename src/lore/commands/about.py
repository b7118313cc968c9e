"""Commands about lore itself: formats, explain, schema, guide, help."""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib import import_module, resources
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lore.commands import flags
from lore.commands.common import answer, out, quiet_pipe

if TYPE_CHECKING:
    from msgspec import Struct


@quiet_pipe
def formats(as_json: flags.AsJson = False, color: flags.Colour = None) -> int:
    """List what lore reads, and what each format can answer.

    Of each: its fidelity (how near its prompts are to what was sent: wire, parsed, structural, reconstructed), and
    whether it records requests, bills, the system prompt, the schemas of tools and compactions. Behind them the files
    of agents that lore names and does not judge. Files are told by their content; `--format NAME` overrides.
    """
    from lore.report.found import write_formats
    from lore.run.about import list_formats

    return answer(list_formats(), write_formats, as_json=as_json, color=color)


_PARTS = {"author": "### If you write the agent\n", "user": "### If you run it\n"}


def _codes(beginning: str) -> list[str]:
    from lore.model.codes import CODES

    known = [name for code, row in CODES.items() for name in (str(code), row.name)]
    return [name for name in known if name.startswith(beginning)]


@quiet_pipe
def explain(
    code: Annotated[
        str | None,
        typer.Argument(help="A code (LORE101) or a name; without one, all of them.", autocompletion=_codes),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            "--for", help="Whom the page advises: author (writes the agent) or user (runs it); default: both."
        ),
    ] = None,
    color: flags.Colour = None,
) -> int:
    """Explain a finding code; without one, list them.

    The list has a code, its kind, who can act and its name on each line. On a terminal a page is laid out for its
    width, in a pipe it is Markdown.
    """
    from lore.errors import LoreError, did_you_mean
    from lore.model.codes import CODES

    if reader is not None and reader not in _PARTS:
        raise LoreError(f"unknown reader {reader!r}", hint=f"readers: {', '.join(_PARTS)}")
    if code is None and reader is not None:
        raise LoreError("--for chooses a part of one page", hint=f"lore explain CODE --for {reader}")
    if code is None:
        for known, row in CODES.items():
            sys.stdout.write(f"{known}  {row.kind:<14}  {row.actor:<8}  {row.name}\n")
        return 0
    names = {known: row.name for known, row in CODES.items()}
    wanted = code.upper()
    found = wanted if wanted in names else next((known for known, name in names.items() if name == code.lower()), None)
    if found is None:
        near = did_you_mean(code.lower(), names.values(), "")
        hint = near if near.startswith("did you mean") else "lore explain lists them"
        raise LoreError(f"no finding has the code {code!r}", hint=hint)
    page = resources.files("lore.judge").joinpath("pages", f"{found}.md").read_text("utf-8")
    text = page if reader is None else _page_for(reader, page)
    if sys.stdout.isatty():
        from lore.report.guide import lay_out_page

        text = lay_out_page(text, out(color))
    sys.stdout.write(text)
    return 0


def _page_for(reader: str, page: str) -> str:
    """Leave the advice for the other reader out."""
    head, _, parts = page.partition(_PARTS["author"])
    author, _, user = parts.partition(_PARTS["user"])
    return head + _PARTS[reader] + (user if reader == "user" else author.rstrip("\n") + "\n")


def schemas() -> dict[str, type[Struct]]:
    """Return every result by the name under which its schema is printed, those of plug-ins included."""
    from lore.commands.table import commands
    from lore.model import results
    from lore.model.results import assemble, compact, found, lint, live, overview, simulate, store, trust
    from lore.report import trace

    known: dict[str, type[Struct]] = {
        "diff-prefix": results.DiffResult,
        "check": results.CheckResult,
        "finding": results.Finding,
        "lint": lint.LintResult,
        "fold": store.FoldResult,
        "follow": store.FollowedLine,
        "assemble-all": assemble.AssembledTurn,
        "assemble-full": assemble.WholeTurn,
        "assemble-explain": assemble.AssembleExplanation,
        "knowledge": store.KnowledgeResult,
        "knowledge-written": store.KnowledgeWritten,
        "simulate": simulate.SimulateResult,
        "simulate-rules": simulate.RulesResult,
        "compact": compact.DryRunResult,
        "compact-written": compact.CompactResult,
        "formats": found.FormatsResult,
        "sessions": found.FoundSessions,
        "statusline": live.RunningSession,
        "overview": overview.Overview,
        "compare": overview.Comparison,
        "trace": trace.Trace,
        "trust": trust.TrustResult,
        "store-list": store.StoreList,
        "store-show": store.StoreShown,
        "store-import": store.StoreImported,
        "store-appended": store.StoreAppended,
        "store-written": store.StoreWritten,
        "store-resolve": store.StoreResolved,
        "store-verify": store.StoreVerified,
        "store-vacuum": store.StoreVacuumed,
    }
    for row in commands().values():
        for name, place in row.schemas.items():
            module, _, struct = place.partition(":")
            known[name] = getattr(import_module(module), struct)
    return known


def _names(beginning: str) -> list[str]:
    return [name for name in schemas() if name.startswith(beginning)]


@quiet_pipe
def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            help="diff-prefix, check, fold, assemble-all, …; without one, all names.", autocompletion=_names
        ),
    ] = None,
) -> int:
    """Print the JSON Schema of a result."""
    from lore.errors import LoreError, did_you_mean
    from lore.run.schema import json_schema

    known = schemas()
    if name is None:
        sys.stdout.write("\n".join(known) + "\n")
        return 0
    if name not in known:
        raise LoreError(f"no result is called {name!r}", hint=did_you_mean(name, known, "results"))
    uri = "https://json-schema.org/draft/2020-12/schema"
    schema = {"$schema": uri, "title": f"lore {name}", **json_schema(known[name])}
    sys.stdout.write(json.dumps(schema, indent=2) + "\n")
    return 0


def _topics(beginning: str) -> list[str]:
    from lore.report.guide import topics

    return [topic for topic in topics() if topic.startswith(beginning)]


@quiet_pipe
def guide(
    topic: Annotated[
        str | None, typer.Argument(help="A page, or a command; without one, the list of pages.", autocompletion=_topics)
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Markdown as it is written, also on a terminal.")] = False,
    pager: Annotated[
        bool, typer.Option("--pager/--no-pager", help="Show what is longer than the terminal in your pager ($PAGER).")
    ] = True,
    color: flags.Colour = None,
) -> int:
    """Read the manual: a page a subject.

    On a terminal a page is laid out for its width, and shown in your pager where it is longer than the terminal (not
    with --no-pager, nor where PAGER is empty or `cat`); in a pipe it is Markdown.
    """
    from lore.commands.table import commands
    from lore.report.guide import lay_out_page, page

    row = commands().get(topic or "")
    text = page(topic if row is None else row.page)
    terminal = sys.stdout.isatty()
    if terminal and not plain:
        text = lay_out_page(text, out(color))
    if pager and terminal and text.count("\n") >= shutil.get_terminal_size().lines:
        _paged(text)
    else:
        sys.stdout.write(text)
    return 0


def _paged(text: str) -> None:
    """Show text in the user's pager, if there is one; `less` passes colours on, and leaves the text where it was."""
    import pydoc

    command = (os.environ.get("MANPAGER") or os.environ.get("PAGER", "less")).split()
    if command in ([], ["cat"]) or shutil.which(command[0]) is None:
        sys.stdout.write(text)
        return
    os.environ.setdefault("LESS", "-FRX")
    pydoc.pager(text)


def _commands(beginning: str) -> list[str]:
    from lore.commands.table import commands

    return [name for name in commands() if name.startswith(beginning)]


@quiet_pipe
def help_of(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]...", help="A command, or several words of one.", autocompletion=_commands),
    ] = None,
) -> int:
    """Show the help of a command, as its --help does; without one, of lore."""
    from lore.commands.tree import Branch, unknown

    found: Any = context.find_root()
    for word in words or ():
        group = found.command
        made = group.get_command(found, word) if isinstance(group, Branch) else None
        if made is None:
            unknown(found.command_path, word, group.list_commands(found) if isinstance(group, Branch) else ())
        found = context.__class__(made, parent=found, info_name=word)
    typer.echo(found.get_help(), color=found.color)
    return 0
