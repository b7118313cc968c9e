"""Runs in which an SDK was imported and nothing was recorded."""

import sys
from types import ModuleType

import httpx
import pytest

from lore.pytest_plugin import recording
from lore.pytest_plugin.recorder import PROCESS
from lore.pytest_plugin.unrecorded import HINT, SDKS, unrecorded_sdks

FAKE = """
import sys, types
{library} = types.ModuleType("{library}")
ollama = types.ModuleType("ollama")
ollama.sends = {library}
sys.modules["ollama"] = ollama
"""
TEST = "def test_agent(lore_recorder):\n    pass\n"
SECTION = "lore: no prompt was recorded"


@pytest.fixture
def alone(monkeypatch):
    """Unload all SDKs except those that a test loads."""
    for name in SDKS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(PROCESS, "replaced", {})


@pytest.mark.parametrize(("library", "workers", "fate"), [
    ("httpx", "-n0", "it sends over httpx, which lore records, and no prompt passed there"),
    ("grpc", "-n2", "it sends over no HTTP library that lore records"),
])  # fmt: skip
def test_unrecorded_run_names_the_sdk(suite, library, workers, fate) -> None:
    result = suite(FAKE.format(library=library) + TEST + TEST.replace("agent", "other"), workers, apart=True)
    result.assert_outcomes(passed=2)
    text = str(result.stdout)
    assert text.count(SECTION) == 1
    assert text.count(f"ollama was imported: {fate}") == 1
    assert HINT in text


SENDS = """
def test_sends(lore_recorder):
    transport = httpx.MockTransport(lambda _: httpx.Response(200))
    httpx.Client(transport=transport).post("https://api.example/v1/messages", json={})
    assert len(lore_recorder) == 1
"""


def test_recorded_run_has_no_section(suite) -> None:
    result = suite(FAKE.format(library="grpc") + TEST + SENDS, apart=True)
    result.assert_outcomes(passed=2)
    assert SECTION not in str(result.stdout)


def test_run_without_sdk_has_no_section(suite) -> None:
    assert SECTION not in str(suite(TEST, apart=True).stdout)
    assert SECTION not in str(suite(FAKE.format(library="grpc") + "def test_agent():\n    pass\n", apart=True).stdout)


def test_empty_recorder_names_the_sdk(suite) -> None:
    test = TEST.replace("pass", "assert_prefix_stable(lore_recorder)")
    result = suite(FAKE.format(library="grpc") + test, apart=True)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E*nothing was compared: there are no requests; recorded from *; ollama was imported*"]
    )


def test_replaced_wrapper_is_named(alone, monkeypatch) -> None:
    sdk = ModuleType("ollama")
    sdk.Client = httpx.Client
    monkeypatch.setitem(sys.modules, "ollama", sdk)
    monkeypatch.setattr(httpx.Client, "send", httpx.Client.send)  # undone when this test ends
    with recording():
        monkeypatch.setattr(httpx.Client, "send", test_replaced_wrapper_is_named)
    (found,) = unrecorded_sdks()
    assert found == f"ollama was imported: {__name__} replaced lore's wrapper of httpx"


def test_finding_libraries_loads_nothing(alone, monkeypatch) -> None:
    class Lazy:
        def __getattr__(self, name):
            raise AssertionError(name)

        @property
        def __class__(self):
            raise AssertionError

    sdk = ModuleType("ollama")
    sdk.chat, sdk.Client = Lazy(), httpx.Client
    monkeypatch.setitem(sys.modules, "ollama", sdk)
    assert [found.partition("over ")[2].partition(",")[0] for found in unrecorded_sdks()] == ["httpx"]
