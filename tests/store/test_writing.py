"""The page "write your own store" works as it stands: its store is run through the contract."""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

import lore.store
from lore.session import event
from lore.store import base
from lore.store.session import StoredSession
from store.harness import HarnessScenarios

PAGE = Path(lore.store.__file__).with_name("WRITING.md")


def said():
    """What the page defines."""
    names = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - the page is ours
    return names


NAMES = said()


class TestThePagesStore(NAMES["TestOneFile"], HarnessScenarios):
    """The class of the page, collected by its own name."""


def test_file_that_is_no_store_is_an_error(tmp_path):
    (tmp_path / "sessions").write_bytes(b"something else")
    with pytest.raises(base.DamagedError, match="not a store of this kind"):
        NAMES["OneFile"](f"onefile:{tmp_path}/sessions").load("s")


def test_published_store_is_opened_by_its_url(tmp_path, monkeypatch):
    from lore.store import registry

    monkeypatch.setitem(registry.STORES, "onefile", NAMES["OneFile"])
    url = f"onefile:{tmp_path}/sessions"
    kept = StoredSession.begin(registry.open_store(url), event("session_started", session_id="s"))
    kept.apply(event("append", item={"type": "user_message", "uuid": "u1", "text": "hi"}))
    assert kept.save().number == 2
    assert registry.open_store(url).load("s").head == kept.head


def test_names_on_the_page_exist():
    named = re.findall(r"`(lore\.[a-zA-Z_.]+)`", PAGE.read_text(encoding="utf-8"))
    assert named
    for name in named:
        assert resolve_name(name)
