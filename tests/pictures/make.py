"""Make the pictures of the README: lore's terminal output as SVG, from fixtures and a generated home folder.

    python tests/pictures/make.py

The same input gives the same pictures: the clock is fixed, and nothing of this machine is in them. They use the
reader's own font, so that opening one loads nothing.
"""

import io
import os
import re
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from rich.console import Console  # noqa: E402
from rich.terminal_theme import TerminalTheme  # noqa: E402
from rich.text import Text  # noqa: E402

from lore.commands.main import main  # noqa: E402
from pictures.home import make  # noqa: E402

FOLDER = ROOT / ".github" / "pictures"
NOW = datetime(2026, 11, 20, 17, 0, tzinfo=UTC)
COLUMNS = 104
DARK = TerminalTheme(
    (22, 27, 34), (230, 237, 243),
    [(72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34), (88, 166, 255), (188, 140, 255), (57, 197, 207),
     (177, 186, 196)],
    [(110, 118, 129), (255, 161, 152), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255),
     (86, 212, 221), (240, 246, 252)],
)  # fmt: skip
FRAME = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="TITLE">
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
white-space: pre }}
.{unique_id}-title {{ font: 16px sans-serif }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


class Picture(NamedTuple):
    """A file, and the command that is shown in it."""

    name: str
    command: tuple[str, ...]


PICTURES = (Picture("overview", ()),)
REPORT = "report"  # drawn of the page that `lore check --report html` writes
SESSION = ".claude/projects/-home-dev-shop/checkout.jsonl"
SHEET = """\
<svg viewBox="0 0 1000 330" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{lead}">
<style>
{style}
.sheet {{ fill: #fff; stroke: #ccc }} text {{ fill: #222; font: 15px system-ui, sans-serif }}
.lead {{ font-size: 19px }} .key {{ font-size: 13px }}
</style>
<rect class="sheet" x=".5" y=".5" width="999" height="329" rx="8"/>
<text class="lead" x="24" y="40">{lead}</text>
<text x="24" y="72">{caption}</text>
<svg class="plot" x="24" y="80" width="952" height="192">{plot}</svg>
{key}
</svg>
"""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(picture: Picture) -> str:
    """Return what a command prints on a terminal, with its colours."""
    out = _Terminal()
    with _machine(), mock.patch.object(sys, "stdout", out), mock.patch.object(sys, "stderr", io.StringIO()):
        main(list(picture.command))
    return out.getvalue().rstrip()


def svg(picture: Picture) -> str:
    """Draw it."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.from_ansi(printed(picture)))
    title = " ".join(["lore", *picture.command])
    drawn = console.export_svg(
        title=title, theme=DARK, code_format=FRAME.replace("TITLE", title), unique_id=picture.name
    )
    return "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"


def report() -> str:
    """Draw the time line of a session's page, as the page has it: its headline, its lane, its key, its colours."""
    with _machine() as home:
        page = home / "report.html"
        with mock.patch.object(sys, "stdout", io.StringIO()), mock.patch.object(sys, "stderr", io.StringIO()):
            main(["check", str(home / SESSION), "--report", f"html={page}"])
        text = page.read_text("utf-8")
    plot = _part(text, r'<svg class="plot"[^>]*>(.*?)</svg>\s*(?=<details|<p)')
    plot = re.sub(r'<path class="predicted"[^>]*>', "", plot)  # librsvg scales its line with the drawing
    spans = _part(text, r'<p class="key">(<span class="read">read from the cache.*?)</p>')
    names = re.findall(r'<span class="([\w ]+)">([^<]+)</span>', spans)
    rules = re.findall(r"([.\w,]+)\{--c:(#\w+)\}", _part(text, r"<style>(.*?)</style>"))
    colours = {kind: colour for kinds, colour in rules for kind in kinds.replace(".", "").split(",")}
    shown = [(kind, words) for kind, words in names if f'class="{kind}"' in plot]
    key, x = list[str](), 24
    for kind, words in shown:
        key.append(f'<rect class="{kind}" x="{x}" y="291" width="11" height="11"/>')
        key.append(f'<text class="key" x="{x + 17}" y="301">{words}</text>')
        x += 42 + 7 * len(words)
    return SHEET.format(
        style="\n".join(  # no variables: librsvg knows none
            f".{kind} {{ fill: {colours[kind]} }} .{kind} line {{ stroke: {colours[kind]} }}" for kind, _ in shown
        ),
        lead=_part(text, r'<p class="lead">(Re-billed[^<]*)</p>'),
        caption=re.sub(r"<[^>]+>", "", _part(text, r"<figcaption>(.*?)</figcaption>")), key="\n".join(key),
        plot=re.sub(r'<a href="[^"]*"', "<a", plot),
    )  # fmt: skip


def _part(page: str, pattern: str) -> str:
    found = re.search(pattern, page, re.DOTALL)
    if found is None:
        raise SystemExit(f"the page has no {pattern}")
    return found[1].strip()


@contextmanager
def _machine() -> Generator[Path]:
    """A home folder and a clock that are the same everywhere."""
    kept = {"PATH": os.environ["PATH"], "COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color", "TZ": "UTC"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), NOW)
        os.chdir(ROOT)
        try:
            with (
                mock.patch.dict(os.environ, {**kept, "HOME": folder}, clear=True),
                mock.patch("time.time", return_value=NOW.timestamp()),
            ):
                yield Path(folder)
        finally:
            os.chdir(before)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in {**{picture.name: svg(picture) for picture in PICTURES}, REPORT: report()}.items():
        FOLDER.joinpath(f"{name}.svg").write_text(drawn, "utf-8")
        print(f"{name}.svg: {len(drawn.encode()):,} bytes")
