"""The page of `lore compare`."""

from __future__ import annotations

import re
from pathlib import Path

from lore.commands.main import main

RECORDINGS = Path(__file__).resolve().parent.parent.parent / "fixtures" / "recordings"


def test_conclusion_leads_and_bar_colours_are_named(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    sides = [str(path) for path in sorted(RECORDINGS.glob("*.jsonl"))]
    assert len(sides) == 2
    assert main(["compare", *sides, "--report", f"html={page}"]) == 0
    text = page.read_text("utf-8")
    assert re.findall(r'<p class="lead">([^<;:]+)', text) == ["nothing differs beyond chance"]
    bars, _, key = text.partition("<h2>Both sides</h2>")[2].partition("</section>")[0].partition('<p class="key">')
    drawn = set(re.findall(r'<rect class="(\w+)"', bars))
    assert drawn
    assert drawn == set(re.findall(r'<span class="(\w+)">', key))
