"""Pages in a real browser: they render, answer to mouse and keyboard, and ask for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from chromium import opened
from cli.running import lore
from pages.sessions import HOSTILE, bodies, growing, session


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Write a page of each kind once: a long session, a hostile one, a folder of 1,000."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HOME", str(folder / "home"))
        session(
            "long.jsonl", growing(400, falls=(100, 101, 250)), minutes=[n if n < 250 else n + 90 for n in range(400)]
        )
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
    (folder / "out/many.html").write_text(f"{head}<tbody>{rows * 500}</table>{end}")


@pytest.fixture
def long(browser, made):
    """Yield the page of a long session."""
    with opened(browser, (made / "long.html").as_uri()) as tab:
        yield tab.page


@pytest.mark.parametrize("name", ["long.html", "hostile.html", "out/index.html", "out/many.html"])
@pytest.mark.parametrize(("width", "dark"), [(1100, False), (375, True)])
def test_a_page_renders_without_a_request_or_a_complaint(browser, made, name, width, dark):
    path = made / name
    style = [(path.parent / "lore.css").as_uri()] if name.startswith("out/") else []
    with opened(browser, path.as_uri(), width=width, dark=dark) as tab:
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.page.evaluate("window.hacked") is None
        light = sum(tab.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"))
        assert (light < 200) is dark
        assert tab.page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") == "1100px"
        assert tab.requests == [path.as_uri(), *style]
        assert tab.console == []


def test_marks_answer_to_a_click_and_to_the_keyboard(long):
    assert long.locator(".plot a.pause").count() == 1
    breaks = long.locator(".plot a.unexplained, .plot a.expected")
    assert breaks.count() == 2
    hidden = long.locator("details.break:not([open])")
    assert hidden.count() == 2
    for place in range(2):
        breaks.nth(place).focus()
        long.keyboard.press("Enter")
        shown = long.locator(breaks.nth(place).get_attribute("href"))
        shown.wait_for()
        assert shown.bounding_box()["height"] > 50
        long.wait_for_function("id => document.activeElement.id === id", arg=shown.get_attribute("id"))
    assert hidden.count() == 1  # of two in one column, of which the other one has no mark of its own
    pause = long.locator(".plot a.pause")
    pause.locator("path").click()
    row = long.locator(f"tr{pause.get_attribute('href')}")
    row.wait_for()
    assert "pause" in row.inner_text()


def test_tab_reaches_each_mark_and_shows_where_it_is(long):
    reached = set()
    at = "document.activeElement.closest('.plot') ? document.activeElement.getAttribute('href') : ''"
    for _ in range(30):
        long.keyboard.press("Tab")
        if mark := long.evaluate(at):
            reached.add(mark)
            shape = "getComputedStyle(document.activeElement.querySelector('circle, path'))"
            assert long.evaluate(f"{shape}.strokeWidth") == "3px"
    assert len(reached) == long.locator(".plot a").count()


def test_a_long_series_can_be_zoomed_into_and_shows_each_turn(long):
    areas, plot = long.locator(".areas"), long.locator(".plot")
    whole = areas.get_attribute("viewBox")
    assert whole == "0 0 200 100"
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    middle = box["y"] + box["height"] - 20
    long.mouse.move(box["x"] + box["width"] * 0.2, middle)
    long.mouse.down()
    long.mouse.move(box["x"] + box["width"] * 0.3, middle)
    long.mouse.up()
    assert areas.get_attribute("viewBox") == "0 0 40 100"
    assert "turns 81 to 120" in long.locator(".zoom").inner_text()
    seen = "[...document.querySelectorAll('.plot a')].filter(a => a.style.display !== 'none')"
    places = f"{seen}.map(a => parseFloat(a.querySelector('svg').getAttribute('x')))"
    assert long.evaluate(places) == [pytest.approx(51.25), pytest.approx(53.75)]  # turns 101 and 102, the 21st of 40
    assert long.evaluate(f"{seen}.map(a => a.getAttribute('href'))") == ["#b0-100", "#b0-101"]
    assert long.evaluate(f"{seen}[1].textContent").startswith("turn 102: ")
    assert "V100" in long.locator(".areas .read").get_attribute("d")
    long.get_by_role("button", name="all", exact=True).click()
    assert areas.get_attribute("viewBox") == whole
    assert len(long.evaluate(places)) == 3
    assert long.evaluate(f"{seen}.some(a => a.textContent.endsWith('(and 1 other beside it)'))")


def test_a_page_works_without_scripts(browser, made):
    with opened(browser, (made / "long.html").as_uri() + "#b0-100", scripts=False) as tab:
        tab.page.locator("details.break[open]").nth(1).wait_for()  # the first, and the one that the address names
        assert tab.page.locator("details.break[open]").count() == 2
        assert tab.page.locator(".turns tbody tr").count() == 400
        assert tab.page.locator(".zoom").count() == 0


def test_an_index_of_a_thousand_sessions_is_small_enough_to_open_in_a_second_and_sorts(browser, made):
    """The work of a browser is counted; alone on two cores such a page is there in less than half a second."""
    with opened(browser, (made / "out/many.html").as_uri()) as tab:
        assert tab.page.locator("tbody tr").count() >= 1_000
        assert tab.page.evaluate("document.querySelectorAll('*').length") < 15_000
        assert (made / "out/many.html").stat().st_size < 400_000
        table = tab.page.locator(".sort").last
        head = table.locator("th").filter(has_text="requests")
        column = table.locator("th").all_inner_texts().index("requests")
        for requests, order in (("5", "descending"), ("4", "ascending")):
            head.get_by_role("button").click()
            assert table.locator("tbody tr").first.locator("td").nth(column).inner_text() == requests
            assert head.get_attribute("aria-sort") == order


def test_a_session_opens_from_the_index_and_leads_back(browser, made):
    with opened(browser, (made / "out/index.html").as_uri()) as tab:
        tab.page.locator("tbody a").first.click()
        tab.page.get_by_role("heading", name="question 0").wait_for()
        assert Path(tab.page.url).parent.name == "sessions"
        tab.page.locator("nav a").click()
        tab.page.get_by_role("heading", name="lore check").wait_for()
        assert tab.page.locator("tbody a").count() == 2
