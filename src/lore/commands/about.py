"""Commands about lore itself: formats, explain, guide, help, schema."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module, resources
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
import typer
from msgspec import Struct

from lore.commands import flags
from lore.commands.common import answer, out
from lore.commands.table import commands
from lore.errors import LoreError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lore.model.results.found import FormatsResult
    from lore.report.console import Console

# The agents whose formats are listed first.
_COMMON = ("claude-code", "codex", "copilot", "gemini", "opencode", "cline", "qwen", "pi", "kimi")


def formats(as_json: flags.AsJson = False, color: flags.Colour = None) -> int:
    """List the formats that lore reads, and the data in each.

    Each row shows the fidelity (how close its prompts are to the sent ones: wire, parsed, structural, reconstructed)
    and whether the format records requests, usage, the system prompt, tool schemas and compactions. After them come
    files of agents that lore recognises and cannot judge. Formats are recognised by content; `--format NAME` overrides.
    """
    from msgspec.structs import replace

    from lore.formats import registry
    from lore.formats.unrecognised import FOREIGN_FILES
    from lore.model.results.found import FormatsResult, UnreadFormat
    from lore.recording.agents.logs import AGENTS
    from lore.recording.base import load_plugins

    load_plugins()
    rows = [
        replace(row, agents=[agent.name for agent in AGENTS if row.name in agent.formats]) for row in registry.formats()
    ]
    rows.sort(
        key=lambda row: min((_COMMON.index(name) for name in row.agents if name in _COMMON), default=len(_COMMON))
    )
    unread = [UnreadFormat(file.agent, file.what, file.why) for file in FOREIGN_FILES]
    return answer(FormatsResult(formats=rows, unread=unread), write_formats, as_json=as_json, color=color)


_RECORDED = {"requests": "requests", "bills": "usage", "system_prompt": "system", "tools": "tools",
             "compaction": "compaction"}  # fmt: skip


def write_formats(result: FormatsResult, out: Console) -> None:
    """Write the fidelity of each format, the kinds of content that it records, and below them its description."""
    from lore.report.console import TableColumn, line, write_table

    columns = [TableColumn(head) for head in ("format", "fidelity", *_RECORDED.values())]
    rows = [(row.name, row.fidelity, *(getattr(row, name) for name in _RECORDED)) for row in result.formats]
    descriptions = [
        [f"    {row.title}", *([f"    without {row.lacks}"] if row.lacks else [])] for row in result.formats
    ]
    write_table(columns, rows, out, notes=descriptions)
    out.print(line(("fidelity: how close a prompt is to the bytes that were sent (lore guide formats)", "dim")))
    out.print()
    out.print(line(("recognised, and not read:", "bold")))
    for unread in result.unread:
        out.print(line(f"  {unread.what}: {unread.message}"))


_CODE_ROW = "{}  {:<16}  {:<12}  {}\n"
_PARTS = {"author": "### Agent author\n", "user": "### User\n"}


def _codes(beginning: str) -> list[str]:
    from lore.model.codes import CODES

    names = [name for code, row in CODES.items() for name in (str(code), row.name)]
    return [name for name in names if name.startswith(beginning)]


def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="A code (LORE101), its beginning, a name, or a word of the output; without one, all codes.",
            autocompletion=_codes,
        ),
    ] = None,
    audience: Annotated[
        str | None, "--for", "Only the fixes for this audience: author (writes the agent) or user."
    ] = None,
    color: flags.Colour = None,
) -> int:
    """Explain a finding code; without one, list all codes.

    The kind is that of a cache break (waste, expected, no certain cause), or what else the finding is about: a request
    that caches badly, a recording that lore cannot read in full, the settings of a check.
    The beginning of several codes (LORE15), or a word of several causes, lists these. A page is laid out on a terminal,
    and is Markdown in a pipe.
    """
    from lore.model.codes import CODES

    if audience is not None and audience not in _PARTS:
        raise LoreError(f"unknown audience {audience!r}", hint=f"--for {' or --for '.join(_PARTS)}")
    if code is None and audience is not None:
        raise LoreError("--for chooses a part of one page", hint=f"lore explain CODE --for {audience}")
    if code is None:
        _list_codes(CODES)
        return 0
    names = {row.name: finding_code for finding_code, row in CODES.items()}
    spellings = code.upper(), f"LORE{code}"
    finding_code = next((spelling for spelling in spellings if spelling in CODES), names.get(code.lower()))
    if finding_code is None:
        word, beginnings = code.lower(), tuple(spelling for spelling in spellings if spelling.startswith("LORE"))
        meanings = [text for text in guide_page("words").split("\n- ")[1:] if text.startswith(f"**{word}**")]
        if meanings:
            _show(f"- {meanings[0].strip()}\n", color)
            return 0
        # the beginning of a word of its name, or of the words that reports have for it
        has_word = re.compile(rf"(?<![a-z]){re.escape(word[:3] + word[3:].removesuffix('s'))}")
        several = [code for code in CODES if code.startswith(beginnings)] or [
            code for code, row in CODES.items() if has_word.search(f"{row.name} {row.short} {row.short_unsure}".lower())
        ]
        if len(several) > 1:
            _list_codes(several)
            return 0
        if not several:
            suggestion = did_you_mean(word, names, "")
            hint = suggestion if suggestion.startswith("did you mean") else "lore explain lists them"
            raise LoreError(f"no finding has the code or the word {code!r}", hint=hint)
        finding_code = several[0]
    page = resources.files("lore.judge").joinpath("pages", f"{finding_code}.md").read_text("utf-8")
    if audience is not None:  # without the fixes for the other audience
        head, _, parts = page.partition(_PARTS["author"])
        author, _, user = parts.partition(_PARTS["user"])
        page = head + _PARTS[audience] + (user if audience == "user" else author.rstrip("\n") + "\n")
    _show(page, color)
    return 0


def _list_codes(codes: Iterable[str]) -> None:
    from lore.model.codes import CODES, kind_in_words

    sys.stdout.write(_CODE_ROW.format("code   ", "kind", "who fixes it", "name"))
    for code in codes:
        row = CODES[code]
        actor = "agent author" if row.actor == "author" else row.actor
        sys.stdout.write(_CODE_ROW.format(code, kind_in_words(row.kind, code), actor, row.name))


def _show(page: str, color: bool | None, *, pager: bool = False) -> None:
    """Print a page: Markdown in a pipe; on a terminal laid out, and in the user's pager if it is too long."""
    if not sys.stdout.isatty():
        sys.stdout.write(page)
        return
    command = (os.environ.get("MANPAGER") or os.environ.get("PAGER", "less")).split()
    has_pager = pager and command not in ([], ["cat"]) and shutil.which(command[0]) is not None
    page_text = lay_out_page(page, out(color))
    if not has_pager or page_text.count("\n") < shutil.get_terminal_size().lines:
        sys.stdout.write(page_text)
        return
    import pydoc

    # less passes colours on and leaves the text on the screen; other pagers may show the codes of colours
    os.environ["LESS"] = f"{os.environ.get('LESS', '-FX')} -R"
    pydoc.pager(page_text if os.path.basename(command[0]) == "less" else lay_out_page(page, out(False)))  # noqa: FBT003


# The pages of the guide: a page's file name is its topic, its first line its title. `README.md` is the index. Links
# between pages, which a forge follows, name the command instead.
_PAGES = resources.files("lore").joinpath("guide")
_INDEX = "README"
_LINK = re.compile(r"\[([^\]\n]+)\]\(([^)\s]+)\)")
_TOPIC = re.compile(r"([a-z-]+)\.md(?:#.*)?")


def topics(beginning: str = "") -> list[str]:
    """Return the names of the pages that begin so, by alphabet."""
    names = (file.name for file in _PAGES.iterdir() if file.name.startswith(beginning))
    return sorted(name.removesuffix(".md") for name in names if name.endswith(".md") and name != f"{_INDEX}.md")


def guide_page(topic: str | None) -> str:
    """Return a page as Markdown, the index for None; raises LoreError for an unknown topic."""
    topic_names = topics()
    name = _INDEX if topic is None else topic.lower().removesuffix(".md")
    if topic is not None and name not in topic_names:
        words = re.escape(name.replace("-", " "))  # in a heading, or in the first column of a table
        about_it = re.compile(rf"(?im)^(?:#.*\b{words}\b|\| `{words}`)")
        pages = [page for page in topic_names if words and about_it.search(guide_page(page))]
        hint = f"pages about it: {', '.join(pages)}" if pages else did_you_mean(topic, topic_names, "pages")
        raise LoreError(f"the guide has no page {topic!r}", hint=hint)
    return _PAGES.joinpath(f"{name}.md").read_text("utf-8")


def lay_out_page(text: str, out: Console) -> str:
    """Return a page laid out for the console's width."""
    from rich.markdown import Markdown  # 100 ms that a pipe does not need

    with out.rich.capture() as captured:
        out.rich.print(Markdown(_LINK.sub(_linked, text), hyperlinks=False, code_theme="ansi_dark"))
    return captured.get()


def _linked(link: re.Match[str]) -> str:
    words, target = link.groups()
    topic = _TOPIC.fullmatch(target)
    if topic is not None:
        return f"`lore guide {topic[1]}`" if words == topic[1] else f"{words} (`lore guide {topic[1]}`)"
    return link[0] if target.startswith("https://") else words


def guide(
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="A page or a command; default: a list.", autocompletion=topics),
    ] = None,
    color: flags.Colour = None,
) -> int:
    """Read the manual, one page per subject.

    A page is laid out on a terminal, and is Markdown in a pipe. Pages longer than the terminal open in your pager,
    unless PAGER is empty or `cat`.
    """
    row = commands().get(topic or "")
    _show(guide_page(topic if row is None else row.page), color, pager=True)
    return 0


def _commands(beginning: str) -> list[str]:
    return [name for name in commands() if name.startswith(beginning)]


def help_of(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="A command, and its subcommand.", autocompletion=_commands),
    ] = None,
) -> int:
    """Show the help of a command, like --help; without one, of lore."""
    from lore.commands.main import main

    return main([*(words or ()), "--help"])


_FIELD = re.compile(r"    (\w+): [^#]*?(?:  # (.*))?")


def schemas() -> dict[str, type[Struct]]:
    """Return all results by the names of their schemas, those of plug-ins included."""
    from lore.model import results
    from lore.model.results import assemble, compact, found, lint, live, overview, simulate, store, trust
    from lore.report import trace

    by_name: dict[str, type[Struct]] = {
        "diff-prefix": results.DiffResult,
        "check": results.CheckResult,
        "finding": results.Finding,
        "error": results.ErrorResult,
        "lint": lint.LintResult,
        "fold": store.FoldResult,
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
            by_name[name] = getattr(import_module(module), struct)
    return by_name


def _schema_names(beginning: str) -> list[str]:
    return [name for name in schemas() if name.startswith(beginning)]


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="diff-prefix, check, fold, assemble-all, …; without one, all names.",
            autocompletion=_schema_names,
        ),
    ] = None,
) -> int:
    """Print the JSON Schema of a result."""

    by_name = schemas()
    if name is None:
        sys.stdout.write("\n".join(by_name) + "\n")
        return 0
    if name not in by_name:
        raise LoreError(f"no result is called {name!r}", hint=did_you_mean(name, by_name, "results"))
    uri = "https://json-schema.org/draft/2020-12/schema"
    schema = {"$schema": uri, "title": f"lore {name}", **json_schema(by_name[name])}
    sys.stdout.write(json.dumps(schema, indent=2) + "\n")
    return 0


def json_schema(kind: type[Struct]) -> dict[str, Any]:
    """Return the schema of a struct and of all structs in it."""
    schema = msgspec.json.schema(kind)
    structs: dict[str, type[Struct]] = {}
    _add_structs(msgspec.inspect.type_info(kind), structs)
    for name, part in schema["$defs"].items():
        struct = structs.get(name)
        if struct is None or "properties" not in part:
            continue
        for field, comment in field_comments(struct).items():
            if field in part["properties"]:
                part["properties"][field]["description"] = comment
    return schema


def field_comments(struct: type[Struct]) -> dict[str, str]:
    """Return the comment of each field that has one: after the field on its line, or on the lines above it."""
    comments: dict[str, str] = {}
    for kind in reversed(struct.__mro__):
        if not issubclass(kind, Struct) or kind is Struct:
            continue
        comment_lines: list[str] = []
        for line in _body(kind):
            if line.startswith("    # "):
                comment_lines.append(line[6:])
                continue
            field = _FIELD.fullmatch(line)
            if field is not None and (words := [*comment_lines, *filter(None, field.groups()[1:])]):
                comments[field[1]] = " ".join(words)
            comment_lines = []
    return comments


def _body(kind: type) -> Iterator[str]:
    """Yield the lines of a class below its first one. `inspect.getsource` parses the whole module for each class."""
    lines = iter(_source(kind.__module__))
    next(line for line in lines if line.startswith(f"class {kind.__name__}("))
    yield from takewhile(lambda line: not line or line.startswith((" ", ")")), lines)


@cache
def _source(module: str) -> list[str]:
    return inspect.getsource(import_module(module)).splitlines()


def _add_structs(info: object, structs: dict[str, type[Struct]]) -> None:
    """Collect the structs in a type by name."""
    if isinstance(info, msgspec.inspect.StructType):
        if info.cls.__name__ in structs:
            return
        structs[info.cls.__name__] = info.cls
    if isinstance(info, Struct):
        for name in info.__struct_fields__:
            _add_structs(getattr(info, name), structs)
    elif isinstance(info, tuple):
        for part in cast("tuple[object, ...]", info):
            _add_structs(part, structs)
