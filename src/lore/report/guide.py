"""The pages of the guide (`src/lore/guide/*.md`): Markdown, laid out for a terminal.

A page's file name is its topic, its first line its title. `README.md` is the index. Links between pages, which a forge
follows, name the command instead.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

from lore.errors import LoreError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderResult

    from lore.report.console import Console

_PAGES = resources.files("lore").joinpath("guide")
_INDEX = "README"
_LINK = re.compile(r"\[([^\]\n]+)\]\(([^)\s]+)\)")
_TOPIC = re.compile(r"([a-z-]+)\.md(?:#.*)?")


def topics() -> list[str]:
    """Return the names of the pages, by alphabet."""
    names = (file.name for file in _PAGES.iterdir())
    return sorted(name.removesuffix(".md") for name in names if name.endswith(".md") and name != f"{_INDEX}.md")


def page(topic: str | None) -> str:
    """Return a page as Markdown, the index for None; raises LoreError for a topic that there is not."""
    known = topics()
    name = _INDEX if topic is None else topic.lower().removesuffix(".md")
    if topic is not None and name not in known:
        raise LoreError(f"the guide has no page {topic!r}", hint=did_you_mean(topic, known, "pages"))
    return _PAGES.joinpath(f"{name}.md").read_text("utf-8")


def lay_out_page(text: str, out: Console) -> str:
    """Return a page laid out for the console's width."""
    from rich import markdown  # noqa: PLC0415 - 100 ms that a pipe does not need
    from rich.padding import Padding  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415
    from rich.theme import Theme  # noqa: PLC0415

    class GuideCode(markdown.CodeBlock):  # indented instead of on a ground
        def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
            yield Padding(Text(str(self.text).rstrip(), style="cyan"), (0, 0, 0, 4))

    class Heading(markdown.Heading):
        def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
            yield Text(self.text.plain, style="bold underline" if self.tag == "h1" else "bold")

    class Page(markdown.Markdown):
        elements = {**markdown.Markdown.elements, "code_block": GuideCode, "fence": GuideCode, "heading_open": Heading}

    console = out.rich
    with console.use_theme(Theme({"markdown.code": "cyan", "markdown.hr": "dim"})), console.capture() as captured:
        console.print(Page(_LINK.sub(_linked, text), hyperlinks=False, justify="left"))
    return captured.get()


def _linked(link: re.Match[str]) -> str:
    words, target = link.groups()
    topic = _TOPIC.fullmatch(target)
    if topic is not None:
        return f"`lore guide {topic[1]}`" if words == topic[1] else f"{words} (`lore guide {topic[1]}`)"
    return link[0] if target.startswith("https://") else words
