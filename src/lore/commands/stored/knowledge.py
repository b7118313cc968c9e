"""`lore knowledge add|update|remove|list`: what a session knows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from lore.commands import flags
from lore.commands.common import answer, branch, log, quiet_pipe, say_problems, tell, write_json

if TYPE_CHECKING:
    from lore.recording.opening import Options
    from lore.run.stored.knowledge import Fields, WrittenKnowledge

app = branch("List and change what a session knows.\n\nChanges become durable deltas of its prompts.")

LONGEST = 16 * 1024 * 1024  # bytes of an entry's content: far more than any prompt holds

Log: TypeAlias = Annotated[str, typer.Argument(metavar="SESSION", help="A lore log, or a stored session (URL#ID).")]
Category: TypeAlias = Annotated[str | None, typer.Option("--category", help="What it is about.")]
Title: TypeAlias = Annotated[str | None, typer.Option("--title", help="Its name.")]
Content: TypeAlias = Annotated[str | None, typer.Option("--content", help="What is known; `-`: standard input.")]
ContentFile: TypeAlias = Annotated[
    str | None, typer.Option("--content-file", help="A file with what is known, or `-`: standard input.")
]


@app.command("add")
@quiet_pipe
def add(
    session: Log,
    name: Annotated[
        str | None, typer.Argument(metavar="ID", help="Its id; without one, one that its words give.")
    ] = None,
    category: Category = None,
    title: Title = None,
    content: Content = None,
    content_file: ContentFile = None,
    as_json: flags.AsJson = False,
    format: flags.Format = None,
    verbose: flags.Verbose = False,
) -> int:
    """Add an entry and print its id."""
    from lore.run.stored import knowledge

    fields = _fields(category, title, content, content_file)
    return _answer(knowledge.add(session, _options(format, verbose), name, fields), as_json=as_json)


@app.command("update")
@quiet_pipe
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
    """Change what is given of a known entry, and print its id."""
    from lore.run.stored import knowledge

    fields = _fields(category, title, content, content_file)
    return _answer(knowledge.update(session, _options(format, verbose), name, fields), as_json=as_json)


@app.command("remove")
@quiet_pipe
def remove(
    session: Log,
    names: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, or 5 characters or more of each.")],
    as_json: flags.AsJson = False,
    format: flags.Format = None,
    verbose: flags.Verbose = False,
) -> int:
    """Take entries away, all named or none, and print their ids."""
    from lore.run.stored import knowledge

    return _answer(knowledge.remove(session, _options(format, verbose), names), as_json=as_json)


@app.command("list")
@quiet_pipe
def show(
    session: Annotated[str, typer.Argument(help="A session log, a stored session (URL#ID), or `-`.")],
    as_json: flags.AsJson = False,
    format: flags.Format = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """List what a session knows, and whether its prompt holds it yet."""
    from lore.report.timeline import write_knowledge
    from lore.run.stored import knowledge

    return answer(knowledge.listed(session, _options(format, verbose)), write_knowledge, as_json=as_json, color=color)


def _options(format: str | None, verbose: bool) -> Options:
    from lore.recording.opening import Options

    return Options(format=format, log=log(verbose))


def _fields(category: str | None, title: str | None, content: str | None, file: str | None) -> Fields:
    from lore.errors import LoreError
    from lore.run.stored.knowledge import Fields

    if content is not None and file is not None:
        raise LoreError("--content and --content-file both say what is known", hint="choose one")
    source = "-" if content == "-" else file
    return Fields(category, title, content if source is None else _read(source))


def _read(source: str) -> str:
    """Read an entry's content; one line end at its end is not part of it."""
    from lore.errors import LoreError
    from lore.recording import corpus

    data = b""
    for piece in corpus.pieces(source):
        data += piece
        if len(data) > LONGEST:
            raise LoreError(f"{corpus.show(source)} holds more than {LONGEST >> 20} MiB", hint="give less")
    try:
        return data.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise LoreError(f"{corpus.show(source)} is not UTF-8 text", hint="give text") from None


def _answer(written: WrittenKnowledge, *, as_json: bool) -> int:
    if as_json:
        write_json(written.result)
    else:
        from lore.report.plain import visible

        sys.stdout.write("".join(f"{visible(fact_id)}\n" for fact_id in written.result.ids))
    if not written.result.written:
        tell("note: the session knows that already; nothing was written")
    if written.torn:
        tell("note: the last line of the log was torn; it stays as it is, with a line end")
    say_problems(written.problems)
    return 0
