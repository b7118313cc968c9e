"""Make the pictures of the README: what lore prints on a terminal, as SVG, from fixtures and a made home folder.

    python tests/pictures/make.py

The same input gives the same pictures: the clock stands still, and nothing of this machine is in them. They use no
font but the reader's own, so that opening one asks nobody for anything.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Iterator
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

from lore.cli.main import main  # noqa: E402
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


@contextmanager
def _machine() -> Iterator[None]:
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
                yield
        finally:
            os.chdir(before)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in PICTURES:
        FOLDER.joinpath(f"{each.name}.svg").write_text(svg(each), "utf-8")
        print(f"{each.name}.svg: {FOLDER.joinpath(f'{each.name}.svg').stat().st_size:,} bytes")
