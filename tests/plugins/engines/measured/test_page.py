"""Pages show what was measured beside what was predicted, turn by turn: of engines' logs, and of a replay."""

from __future__ import annotations

from pathlib import Path

from cli.running import lore
from lore.model.results.measured import MeasuredResult, MeasuredRow
from lore.report.html.measured import DRAWN
from lore_plugins.engines.report import measured_block
from plugins.engines.logs.writing import served
from plugins.engines.measured.test_measured import engine, recording


def test_a_page_of_a_simulation_holds_what_the_engine_measured():
    path = recording((4001, 0), (4010, 3500))
    log = engine(*served(0, "r0", {}, 4001, 0), *served(60, "r1", {}, 4010, 2000))
    ran = lore("simulate", path, "--measured", log, "--report", "html=page.html")
    assert ran.code == 0, ran.err
    page = Path("page.html").read_text("utf-8")
    assert "What the engine measured" in page
    assert "each request beside the turn of the same response id" in page
    assert "turn 2, measured: 2,000 of 4,010 tokens read" in page
    assert "turn 2, predicted: " in page
    assert page.index("What the engine measured") < page.index("Turn by turn")


def test_names_of_a_recording_are_no_markup_of_the_page():
    row = MeasuredRow(
        turn=1, chain="<script>x</script>", prompt_tokens=10, cached_tokens=5, predicted_tokens=7, share=0.5
    )
    block = measured_block(MeasuredResult(logs=[], pairing="id", rows=[row, row], share=0.5, predicted_share=0.7))
    from lore.report.html.page import page

    text = page("t", blocks=[block])
    assert "<script>x" not in text
    assert "turn 1 of &lt;script&gt;x&lt;/script&gt;, measured: 5 of 10 tokens read" in text


def test_of_many_rows_the_first_are_drawn_and_that_is_said():
    rows = [
        MeasuredRow(turn=at, chain="main", prompt_tokens=10, cached_tokens=9, predicted_tokens=9) for at in range(99)
    ]
    block = measured_block(MeasuredResult(logs=[], pairing="id", rows=rows, share=0.9, predicted_share=0.9))
    assert len(block.strips) == 2 * DRAWN
    assert len(block.table.rows) == 99
    assert block.lines[-1] == "the first 60 rows of 99 are drawn: --json has all"
