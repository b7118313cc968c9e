"""Measurements on HTML pages, next to the predictions."""

from pathlib import Path

from cli.running import lore
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
    assert '<td data-h="prompt tokens" class="n">4,010<td data-h="read" class="n">2,000' in page
    assert page.index("Measured by the engine") < page.index("Turn by turn")
