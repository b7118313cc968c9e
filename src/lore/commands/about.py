"""Commands about lore itself: formats, explain, guide, help."""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib import resources
from typing import TYPE_CHECKING, Annotated

import typer

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
    from lore.report.console import line
    from lore.report.table import TableColumn, write_table

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
            help="A code (LORE101), its beginning, a name, or a word of the output; without one, all codes.",
            autocompletion=_codes,
        ),
    ] = None,
    audience: Annotated[
        str | None, typer.Option("--for", help="Only the fixes for this audience: author (writes the agent) or user.")
    ] = None,
    color: flags.Colour = None,
) -> int:
    """Explain a finding code; without one, list all codes.

    The kind is that of a cache break (waste, expected, no certain cause), or what else the finding is about: a request
    that caches badly, a recording that lore cannot read in full, the settings of a check.
    The beginning of several codes (LORE15) lists these. A page is laid out on a terminal, and is Markdown in a pipe.
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
        beginnings = tuple(spelling for spelling in spellings if spelling.startswith("LORE"))
        if several := [finding_code for finding_code in CODES if finding_code.startswith(beginnings)]:
            _list_codes(several)
            return 0
        word = code.lower()
        meanings = [text for text in guide_page("words").split("\n- ")[1:] if text.startswith(f"**{word}**")]
        if meanings:
            _show(f"- {meanings[0].strip()}\n", color)
            return 0
        matches = [name for name in names if word in name.split("-")]
        suggestion = f"did you mean {', '.join(matches)}?" if matches else did_you_mean(word, names, "")
        hint = suggestion if suggestion.startswith("did you mean") else "lore explain lists them"
        raise LoreError(f"no finding has the code {code!r}", hint=hint)
    page = resources.files("lore.judge").joinpath("pages", f"{finding_code}.md").read_text("utf-8")
    if audience is not None:  # without the fixes for the other audience
        head, _, parts = page.partition(_PARTS["author"])
        author, _, user = parts.partition(_PARTS["user"])
        page = head + _PARTS[audience] + (user if audience == "user" else author.rstrip("\n") + "\n")
    _show(page, color)
    return 0


def _list_codes(codes: Iterable[str]) -> None:
    """Print a table of codes."""
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


def topics() -> list[str]:
    """Return the names of the pages, by alphabet."""
    names = (file.name for file in _PAGES.iterdir())
    return sorted(name.removesuffix(".md") for name in names if name.endswith(".md") and name != f"{_INDEX}.md")


def guide_page(topic: str | None) -> str:
    """Return a page as Markdown, the index for None; raises LoreError for an unknown topic."""
    topic_names = topics()
    name = _INDEX if topic is None else topic.lower().removesuffix(".md")
    if topic is not None and name not in topic_names:
        pages = [page for page in topic_names if _has_heading(guide_page(page), name.replace("-", " "))]
        hint = f"pages about it: {', '.join(pages)}" if pages else did_you_mean(topic, topic_names, "pages")
        raise LoreError(f"the guide has no page {topic!r}", hint=hint)
    return _PAGES.joinpath(f"{name}.md").read_text("utf-8")


def _has_heading(page: str, words: str) -> bool:
    """Return whether a heading of a page, or the first column of a table, has these words."""
    pattern = rf"(?im)^(?:#.*\b{re.escape(words)}\b|\| `{re.escape(words)}`)"
    return bool(words) and re.search(pattern, page) is not None


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


def _topics(beginning: str) -> list[str]:
    return [topic for topic in topics() if topic.startswith(beginning)]


def guide(
    topic: Annotated[
        str | None, typer.Argument(help="A page, or a command; without one, the list of pages.", autocompletion=_topics)
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
