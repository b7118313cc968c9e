"""Markdown on a terminal: rich's, with what is to be typed and what was printed indented instead of on a ground."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.text import Text


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(Text(str(self.text).rstrip(), style="cyan"), (0, 0, 0, 4))


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.text.plain, style="bold underline" if self.tag == "h1" else "bold")


class Page(Markdown):
    """A page of Markdown, laid out."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements, "code_block": _Code, "fence": _Code, "heading_open": _Heading,
    }  # fmt: skip
