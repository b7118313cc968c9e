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
    from rich.markdown import Markdown  # noqa: PLC0415 - 100 ms that a pipe does not need

    with out.rich.capture() as captured:
        out.rich.print(Markdown(_LINK.sub(_linked, text), hyperlinks=False, code_theme="ansi_dark"))
    return captured.get()


def _linked(link: re.Match[str]) -> str:
    words, target = link.groups()
    topic = _TOPIC.fullmatch(target)
    if topic is not None:
        return f"`lore guide {topic[1]}`" if words == topic[1] else f"{words} (`lore guide {topic[1]}`)"
    return link[0] if target.startswith("https://") else words
