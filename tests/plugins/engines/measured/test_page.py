"""Measurements on HTML pages, next to the predictions."""

from pathlib import Path

from cli.running import lore
from lore.model.results.measured import MeasuredResult, MeasuredRow
from lore.report.html.page import SHOWN_BARS, Intro
from lore_plugins.engines.report import measured_block
from plugins.engines.logs.writing import served
from plugins.engines.measured.test_measured import engine, recording


def test_simulation_page_shows_measurements():
    path = recording((4001, 0), (4010, 3500))
    log = engine(*served(0, "r0", {}, 4001, 0), *served(60, "r1", {}, 4010, 2000))
    ran = lore("simulate", path, "--measured", log, "--report", "html=page.html")
    assert ran.code == 0, ran.err
    page = Path("page.html").read_text("utf-8")
    assert "Measured by the engine" in page
    assert "requests paired with turns by response id" in page
    assert "turn 2, measured: 2,000 of 4,010 tokens read" in page
    assert "turn 2, predicted: " in page
    assert page.index("Measured by the engine") < page.index("Turn by turn")


def test_names_are_escaped_on_the_page():
    row = MeasuredRow(
        turn=1, chain="<script>x</script>", prompt_tokens=10, cached_tokens=5, predicted_tokens=7, share=0.5
    )
    block = measured_block(MeasuredResult(logs=[], pairing="id", rows=[row, row], share=0.5, predicted_share=0.7))
    from lore.report.html.page import PageContent, render_page

    text = render_page(PageContent("t", Intro("t", "t", "", (block,))))
    assert "<script>x" not in text
    assert "turn 1 of &lt;script&gt;x&lt;/script&gt;, measured: 5 of 10 tokens read" in text


def test_only_first_rows_are_drawn():
    rows = [
        MeasuredRow(turn=at, chain="main", prompt_tokens=10, cached_tokens=9, predicted_tokens=9) for at in range(99)
    ]
    block = measured_block(MeasuredResult(logs=[], pairing="id", rows=rows, share=0.9, predicted_share=0.9))
    assert len(block.bars) == SHOWN_BARS
    assert len(block.table.rows) == 99
