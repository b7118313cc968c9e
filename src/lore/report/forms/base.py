"""What a report is, the table of reports, and results as JSON: one object a line, credentials masked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from lore.model.deferred import Registry
from lore.model.mask import mask
from lore.report.plain import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lore.report.console import Console
    from lore.report.forms.terminal import Reported


class Report(Protocol):
    """One form of a report."""

    can_share_stdout: bool  # it consists of lines, so others may be written to the same stream

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        """Write the result; `verbose` includes notes."""
        ...


class TextReport(Struct, frozen=True):
    """A report whose lines a function yields."""

    lines: Callable[[Reported, bool], Iterable[str]]  # given a result, and whether it includes notes
    can_share_stdout: bool = False

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        """Write the lines."""
        for text in self.lines(result, verbose):
            out.file.write(text + "\n")


REPORTS = Registry[Report](
    {
        "terminal": "lore.report.forms.terminal:Terminal",
        "json": "lore.report.forms.base:JSON",
        "jsonl": "lore.report.forms.base:JSON_LINES",
        "markdown": "lore.report.forms.ci:MARKDOWN",
        "junit": "lore.report.forms.ci:Junit",
        "sarif": "lore.report.forms.ci:SARIF",
        "github": "lore.report.forms.ci:GITHUB",
        "html": "lore.report.html.page:HTML",
    },
    make=lambda report: report() if isinstance(report, type) else report,
)


def render(result: msgspec.Struct | list[list[object]]) -> str:
    """Encode a result, or rows of one, as one line, without the line feed."""
    try:
        text = msgspec.json.encode(result).decode("utf-8")
    except UnicodeEncodeError:  # it quotes half a surrogate pair, as recordings may
        plain = msgspec.to_builtins(result, enc_hook=lambda raw: json.loads(bytes(raw)))
        text = json.dumps(plain, separators=(",", ":"))
    return make_safe(text)


def make_safe(text: str) -> str:
    """Return JSON text without credentials, and without what a terminal would interpret or not show."""
    return escaped(mask(text).replace("##[", "##\\u005b"))  # GitHub's runner obeys it; in JSON only texts hold it


def _findings_and_sums(result: Reported, verbose: bool) -> Iterator[str]:  # noqa: ARG001, FBT001 - of `TextReport`
    """Yield every finding as a line of its own, notes too; the last line has the sums."""
    yield from map(render, result.findings)
    yield render(msgspec.structs.replace(result, findings=[]))


JSON = TextReport(lambda result, _: [render(result)])
JSON_LINES = TextReport(_findings_and_sums)
