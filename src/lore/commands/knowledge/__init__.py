"""`lore knowledge add|update|remove|list`: what a session knows."""

from __future__ import annotations

import sys
from typing import Annotated, TypeAlias

import typer

from lore.commands import flags
from lore.commands.common import answer, branch, log, refuse, say_problems, tell, write_json
from lore.commands.knowledge import entries
from lore.commands.knowledge.entries import Fields
from lore.errors import LoreError
from lore.model.results.store import KnowledgeWritten
from lore.recording import corpus
from lore.recording.base import Problems
from lore.recording.opening import Options
from lore.report.plain import visible
from lore.report.timeline import write_knowledge

app = branch("List and change what a session knows.\n\nChanges become durable deltas of its prompts.")

LONGEST = 16 * 1024 * 1024  # bytes of an entry's content: far more than any prompt holds

Log: TypeAlias = Annotated[str, typer.Argument(metavar="SESSION", help="A lore log, or a stored session (URL#ID).")]
Category: TypeAlias = Annotated[str | None, typer.Option("--category", help="Its subject.")]
Title: TypeAlias = Annotated[str | None, typer.Option("--title", help="Its name.")]
Content: TypeAlias = Annotated[str | None, typer.Option("--content", help="Its text; `-`: standard input.")]
ContentFile: TypeAlias = Annotated[
    str | None, typer.Option("--content-file", help="A file with its text, or `-`: standard input.")
]


@app.command("add")
def add(
    session: Log,
    name: Annotated[str | None, typer.Argument(metavar="ID", help="Its id; default: derived from its text.")] = None,
    category: Category = None,
    title: Title = None,
    content: Content = None,
    content_file: ContentFile = None,
    as_json: flags.AsJson = False,
    format: flags.Format = None,
    verbose: flags.Verbose = False,
) -> int:
    """Add an entry and print its id."""
    fields = _fields(category, title, content, content_file)
    return _answer(*entries.add(session, _options(format, verbose), name, fields), as_json=as_json)


@app.command("update")
def update(
    session: Log,
    name: Annotated[str, typer.Argument(metavar="ID", help="Its id, or 5 characters or more of its beginning.")],
    category: Category = None,
    title: Title = None,
    content: Content = None,
    content_file: ContentFile = None,
    as_json: flags.AsJson = False,
    format: flags.Format = None,
    verbose: flags.Verbose = False,
) -> int:
    """Change the given fields of a known entry, and print its id."""
    fields = _fields(category, title, content, content_file)
    return _answer(*entries.update(session, _options(format, verbose), name, fields), as_json=as_json)


@app.command("remove")
def remove(
    session: Log,
    names: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, or 5 characters or more of each.")],
    as_json: flags.AsJson = False,
    format: flags.Format = None,
    verbose: flags.Verbose = False,
) -> int:
    """Remove entries, all named or none, and print their ids."""
    return _answer(*entries.remove(session, _options(format, verbose), names), as_json=as_json)


@app.command("list")
def list_(
    session: Annotated[str, typer.Argument(help="A session log, a stored session (URL#ID), or `-`.")],
    as_json: flags.AsJson = False,
    format: flags.Format = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """List what a session knows, and whether its prompt holds it yet."""
    listed = entries.list_entries(session, _options(format, verbose))
    return answer(listed, write_knowledge, as_json=as_json, color=color)


def _options(format: str | None, verbose: bool) -> Options:
    return Options(format=format, log=log(verbose))


def _fields(category: str | None, title: str | None, content: str | None, file: str | None) -> Fields:
    refuse((content is not None and file is not None, "--content and --content-file both give the text", "choose one"))
    source = "-" if content == "-" else file
    return Fields(category, title, content if source is None else _read(source))


def _read(source: str) -> str:
    """Read an entry's content; one line end at its end is not part of it."""
    data = b""
    for piece in corpus.pieces(source):
        data += piece
        if len(data) > LONGEST:
            raise LoreError(f"{corpus.show(source)} holds more than {LONGEST >> 20} MiB", hint="give less")
    try:
        return data.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise LoreError(f"{corpus.show(source)} is not UTF-8 text", hint="give text") from None


def _answer(written: KnowledgeWritten, problems: Problems, *, as_json: bool) -> int:
    if as_json:
        write_json(written)
    else:
        sys.stdout.write("".join(f"{visible(entry_id)}\n" for entry_id in written.ids))
    if not written.written:
        tell("note: the session knows that already; nothing was written")
    say_problems(problems)
    return 0
