"""The plugin that pytest loads: the fixture, the mark, the option. Standard library only until one is used.

Rules: a mark needs a reason; a test that has one and moves nothing is warned of; what a marked test moves
is reported with it (its sections, `lore_moved` among its properties, a section at the end of the run). Where recorders
heard no prompt in a whole run and an SDK was imported, a section at the end says which seam is missing; under xdist the
controller says it, of all workers.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, cast

import pytest

from lore.pytest_plugin.recorder import Recorder, recording
from lore.pytest_plugin.running import MOVED, RECORDINGS, RUNNING, LoreWarning, Test

__all__ = ["lore_recorder"]  # what tests write; the rest is pytest's to call

MARK = "moves_cache_prefix"
_SENT = "lore_recordings"


class Heard(NamedTuple):
    """What recorders heard: how many listened, how many prompts came, and a line for each SDK that was imported."""

    recorders: int
    prompts: int
    missing: list[str]

    def join(self, other: Heard) -> Heard:
        """Add what another process heard."""
        lines = dict.fromkeys((*self.missing, *other.missing))
        return Heard(self.recorders + other.recorders, self.prompts + other.prompts, list(lines))


_BEFORE = pytest.StashKey[tuple[int, int]]()
_HEARD = pytest.StashKey[Heard]()


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
    config.stash[_BEFORE] = RECORDINGS.begun, RECORDINGS.prompts
    config.stash[_HEARD] = Heard(0, 0, [])
    given: str | None = config.getoption("lore_cassettes")
    if given is not None:
        from lore.pytest_plugin.cassettes import Cassettes, Ending  # noqa: PLC0415 - it needs all that judges

        cassettes = Cassettes(config, given)
        config.pluginmanager.register(cassettes, "lore-cassettes")
        config.pluginmanager.register(Ending(cassettes), "lore-cassettes-ending")


@pytest.fixture
def lore_recorder() -> Generator[Recorder]:
    """Record what HTTP clients of this process send during this test, prompts and the rest, sync and async.

    Seen are `httpx`, `httpx2`, `requests`, `aiohttp`, `botocore` and `urllib3`, and so the `anthropic`, `openai`,
    `google-genai` and `boto3` packages. Give it to `assert_prefix_stable`, or `save` it for `lore check`.
    """
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


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Count what recorders of this process heard; a worker sends it to its controller."""
    config = session.config
    begun, prompts = config.stash[_BEFORE]
    heard = Heard(RECORDINGS.begun - begun, RECORDINGS.prompts - prompts, [])
    if heard.recorders and not heard.prompts:
        from lore.pytest_plugin.seams import missing  # noqa: PLC0415 - most runs do not need it

        heard.missing.extend(sdk.line for sdk in missing())
    config.stash[_HEARD] = config.stash[_HEARD].join(heard)
    if hasattr(config, "workerinput"):
        cast("Any", config).workeroutput[_SENT] = tuple(heard)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker heard."""
    sent = getattr(node, "workeroutput", {}).get(_SENT)
    if sent is not None:
        node.config.stash[_HEARD] = node.config.stash[_HEARD].join(Heard(*sent))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List what marked tests moved, and what seam is missing where nothing was recorded."""
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
    heard = config.stash[_HEARD]
    if heard.missing and not heard.prompts:
        from lore.pytest_plugin.seams import HINT  # noqa: PLC0415 - as above

        terminalreporter.section("lore: no prompt was recorded")
        for line in (*heard.missing, HINT):
            terminalreporter.write_line(line)
