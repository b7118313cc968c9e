"""The page of `lore compare`."""

import re
from pathlib import Path

from lore.commands.main import main

RECORDINGS = Path(__file__).resolve().parent.parent.parent / "fixtures" / "recordings"


def test_page_of_comparison_begins_with_conclusion(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    sides = [str(path) for path in sorted(RECORDINGS.glob("*.jsonl"))]
    assert len(sides) == 2
    assert main(["compare", *sides, "--report", f"html={page}"]) == 0
    text = page.read_text("utf-8")
    assert re.findall(r'<p class="lead">([^<;:]+)', text) == ["B cost $0.0161 less"]
