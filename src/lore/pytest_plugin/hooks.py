"""The plugin that pytest loads: the fixture, the mark, the option. Standard library only until one is used.

Rules: a mark needs a reason; a test that has one and moves nothing is warned of; what a marked test moves
is reported with it (its sections, `lore_moved` among its properties, a section at the end of the run).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from lore.pytest_plugin.recorder import Recorder, recording
from lore.pytest_plugin.running import MOVED, RUNNING, LoreWarning, Test

MARK = "moves_cache_prefix"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("lore", "lore, the judge of prompt caches")
    group.addoption(
        "--lore-cassettes", nargs="?", const="", default=None, metavar="DIR",
        help="Judge recorded cassettes: those below DIR (write it with =); else those that this run used, or where "
        "that is not known all below folders named cassettes. Settings: [tool.lore].",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known; load what judges cassettes where that is asked for."""
    config.addinivalue_line("markers", f'{MARK}(reason="…"): this test may move the prefix of its prompts.')
    given: str | None = config.getoption("lore_cassettes")
    if given is not None:
        from lore.pytest_plugin.cassettes import Cassettes  # noqa: PLC0415 - it needs all that judges

        config.pluginmanager.register(Cassettes(config, given), "lore-cassettes")


@pytest.fixture
def lore_recorder() -> Generator[Recorder]:
    """Record what `httpx` and `requests` clients send during this test."""
    with recording() as recorder:
        yield recorder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Say which test runs."""
    before, RUNNING.test = RUNNING.test, Test(item.nodeid, _reason(item))
    try:
        return (yield)
    finally:
        RUNNING.test = before


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a mark without a reason."""
    mark = item.get_closest_marker(MARK)
    if mark is not None and _reason(item) is None:
        pytest.fail(f'{item.nodeid}: write @pytest.mark.{MARK}(reason="…") with a reason, in words', pytrace=False)


def _reason(item: pytest.Item) -> str | None:
    """Return why a test may move the prefix; None where it may not, or the mark is wrong."""
    mark = item.get_closest_marker(MARK)
    if mark is None or mark.args or set(mark.kwargs) != {"reason"}:
        return None
    reason = mark.kwargs["reason"]
    return reason if isinstance(reason, str) and reason.strip() else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Warn of a test's own mark that nothing needed, once fixtures had their last word; a class's is for any of it."""
    result = yield
    test = RUNNING.test
    own = any(mark.name == MARK for mark in item.own_markers)
    if own and test is not None and test.reason is not None and test.passed and not (test.moved or test.cassettes):
        item.warn(LoreWarning(f"{item.nodeid} is marked {MARK} and moves none that lore judged: take the mark away"))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what a marked test moved into the report of the phase in which it did."""
    report = yield
    test = RUNNING.test
    if test is None:
        return report
    if call.when == "call":
        test.passed = report.passed
    reported = len([name for name, _ in item.user_properties if name == MOVED])
    for moved in test.moved[reported:]:
        text = f"{moved} (reason: {test.reason})"
        item.user_properties.append((MOVED, text))
        report.user_properties.append((MOVED, text))
        report.sections.append(("lore: moved the prefix, as marked", text))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what marked tests moved."""
    reports = (
        report for every in terminalreporter.stats.values() for report in every if hasattr(report, "user_properties")
    )
    lines = {
        f"{report.nodeid}: {text}": None for report in reports for name, text in report.user_properties if name == MOVED
    }
    if lines:
        terminalreporter.section("lore: prefixes moved, as marked")
        for line in lines:
            terminalreporter.write_line(line)
