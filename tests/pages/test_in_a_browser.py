"""Pages in a real browser: they render, answer to mouse and keyboard, and ask for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import lore
from pages.sessions import HOSTILE, bodies, growing, session


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Write a page of each kind once: a long session, a hostile one, a folder of 1,000."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HOME", str(folder / "home"))
        session("long.jsonl", growing(400, falls=(100, 250)), minutes=[n if n < 250 else n + 90 for n in range(400)])
        bodies("hostile.jsonl", f"{HOSTILE} 1", f"{HOSTILE} 2")
        session("logs/a.jsonl", growing(5, falls=(3,)))
        session("logs/b.jsonl", growing(4))
        for name, path in (("long.jsonl", "long.html"), ("hostile.jsonl", "hostile.html"), ("logs", "out")):
            assert lore("check", name, "--report", f"html={path}").code in (0, 1)
        _many(folder)
    return folder


def _many(folder):
    """Write an index of 1,000 sessions: that of two, with their rows again and again."""
    index = (folder / "out/index.html").read_text()
    head, _, rest = index.rpartition("<tbody>")
    rows, _, end = rest.partition("</table>")
    (folder / "many.html").write_text(f"{head}<tbody>{rows * 500}</table>{end}")


def of_kind(browser, kind):
    return browser.value(f"document.querySelectorAll('.plot a.{kind}').length")


@pytest.mark.parametrize("name", ["long.html", "hostile.html", "out/index.html", "many.html"])
@pytest.mark.parametrize(("width", "dark"), [(1100, False), (375, True)])
def test_a_page_renders_without_a_request_or_a_complaint(browser, made, name, width, dark):
    path = made / name
    browser.open(path, width=width, dark=dark)
    assert browser.requests == [path.as_uri()]
    assert browser.console == []
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    assert browser.value("window.hacked") is None
    light = sum(map(int, browser.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)")))
    assert (light < 200) is dark


def test_marks_answer_to_a_click_and_to_the_keyboard(browser, made):
    browser.open(made / "long.html")
    assert of_kind(browser, "pause") == 1
    breaks = "document.querySelectorAll('.plot a.unexplained, .plot a.expected')"
    assert browser.value(f"{breaks}.length") == 2
    hidden = "[...document.querySelectorAll('details.break')].filter(each => !each.open).length"
    assert browser.value(hidden) == 1
    for place in range(2):
        browser.value(f"{breaks}[{place}].focus()")
        browser.press("Enter")
        shown = "document.querySelector(location.hash).getBoundingClientRect()"
        assert browser.value(f"(b => b.height > 50 && b.top < innerHeight)({shown})")
    assert browser.value(hidden) == 0
    browser.click(".plot a.pause")
    row = "document.querySelector(location.hash)"
    assert browser.value(f"{row}.tagName === 'TR' && {row}.getBoundingClientRect().height > 0")
    assert "pause" in browser.value(f"{row}.textContent")


def test_tab_reaches_each_mark_and_shows_where_it_is(browser, made):
    browser.open(made / "long.html")
    reached = set()
    for _ in range(30):
        browser.press("Tab")
        at = browser.value("document.activeElement.closest('.plot') ? document.activeElement.getAttribute('href') : ''")
        if at:
            reached.add(at)
            mark = "document.activeElement.querySelector('circle, path')"
            assert browser.value(f"getComputedStyle({mark}).strokeWidth") == "3px"
    assert len(reached) == browser.value("document.querySelectorAll('.plot a').length")


def test_a_long_series_can_be_zoomed_into_and_shows_each_turn(browser, made):
    browser.open(made / "long.html")
    whole = browser.value("document.querySelector('.areas').getAttribute('viewBox')")
    assert whole == "0 0 200 100"
    browser.value("document.querySelector('.plot').scrollIntoView()")
    box = browser.value("(b => [b.x, b.y, b.width, b.height])(document.querySelector('.plot').getBoundingClientRect())")
    middle = box[1] + box[3] - 20
    browser.mouse("mousePressed", box[0] + box[2] * 0.2, middle)
    browser.mouse("mouseMoved", box[0] + box[2] * 0.3, middle)
    browser.mouse("mouseReleased", box[0] + box[2] * 0.3, middle)
    assert browser.value("document.querySelector('.areas').getAttribute('viewBox')") == "0 0 40 100"
    assert "turns 81 to 120" in browser.value("document.querySelector('.zoom').textContent")
    seen = "[...document.querySelectorAll('.plot a')].filter(a => a.style.display !== 'none')"
    places = browser.value(f"{seen}.map(a => parseFloat(a.querySelector('svg').getAttribute('x')))")
    assert places == [pytest.approx(51.25)]  # turn 101 is the 21st of 40
    read = browser.value("document.querySelector('.areas .read').getAttribute('d')")
    assert "V100" in read
    browser.value("[...document.querySelectorAll('.zoom button')].find(b => b.textContent === 'all').click()")
    assert browser.value("document.querySelector('.areas').getAttribute('viewBox')") == whole


def test_a_page_works_without_scripts(browser, made):
    browser.open(made / "long.html", fragment="#b0-100", scripts=False)
    try:
        document = browser.call("DOM.getDocument", depth=-1)["root"]
        opened = browser.call("DOM.querySelectorAll", nodeId=document["nodeId"], selector="details.break[open]")
        assert len(opened["nodeIds"]) == 2  # the first, and the one that the address names
        rows = browser.call("DOM.querySelectorAll", nodeId=document["nodeId"], selector=".turns tbody tr")
        assert len(rows["nodeIds"]) == 400
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_an_index_of_a_thousand_sessions_opens_in_a_second_and_sorts(browser, made):
    browser.open(made / "many.html")
    assert browser.value("document.querySelectorAll('tbody tr').length") >= 1_000
    took = "(t => t.domContentLoadedEventEnd - t.startTime)(performance.getEntriesByType('navigation')[0])"
    assert browser.value(took) < 1_000
    table = "[...document.querySelectorAll('.sort')].at(-1)"
    column = f"[...{table}.querySelectorAll('th')].findIndex(th => th.textContent === 'requests')"
    first = f"+{table}.querySelector('tbody tr').cells[{column}].textContent"
    press = f"{table}.querySelectorAll('th button')[{column}].click()"
    browser.value(press)
    assert browser.value(first) == 5
    browser.value(press)
    assert browser.value(first) == 4
    assert browser.value(f"{table}.querySelectorAll('th')[{column}].ariaSort") == "ascending"


def test_a_session_opens_from_the_index_and_leads_back(browser, made):
    browser.open(made / "out/index.html")
    browser.events.clear()
    browser.click("tbody a")
    browser.wait("Page.loadEventFired")
    assert browser.value("document.querySelector('h1').textContent") == "a.jsonl"
    assert Path(browser.value("location.pathname")).parent.name == "sessions"
    browser.events.clear()
    browser.click("nav a")
    browser.wait("Page.loadEventFired")
    assert browser.value("document.querySelectorAll('tbody a').length") == 2
