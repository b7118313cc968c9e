"""When lore writes knowledge into the system prompt again, and how such a request is judged."""

import json

import pytest

import lore
from helpers.sdk_fakes import MODELS
from lore.commands.main import main
from lore.events import knowledge
from lore.model.events import CacheReset
from lore.pytest_plugin import assert_prefix_stable

HOUR, DAY = 3_600, 86_400


def ask(session, number, at=None):
    """Ask one question; return the body, and the reason of the reset before it or None."""
    session.user(f"What about part {number}?")
    prompt, events = session.begin_turn(at=at)
    resets = [event.reason for event in events if isinstance(event, CacheReset)]
    session.assistant("Part of it lacks a check. " * 9)
    return json.loads(session.write(prompt)), resets[0] if resets else None


def learn(session, count, name="fact-{}", text="Release {} is out.", at=None):
    """Ask questions with a new fact each; return the reasons of the resets."""
    resets = []
    for number in range(count):
        session.apply(knowledge("add", name.format(number), title="fact", content=text.format(number)))
        resets.append(ask(session, number, at)[1])
    return [reset for reset in resets if reset]


def begin(dialect="anthropic"):
    return lore.Session(MODELS[dialect], dialect=dialect, system="You help. " * 50, session_id="s-1")


def time_after(seconds):
    return f"2026-11-{20 + seconds // DAY:02}T{seconds % DAY // HOUR:02}:{seconds % HOUR // 60:02}:00Z"


def test_new_facts_reset_no_warm_cache():
    session = begin()
    assert learn(session, 40) == []
    assert len(session.state.main().deltas) == 39


@pytest.mark.parametrize(
    ("dialect", "pause", "is_reset"),
    [
        ("anthropic", HOUR, False),
        ("anthropic", HOUR + 60, True),
        ("gemini", HOUR + 60, False),
        ("gemini", DAY + 60, True),
    ],
)
def test_reset_waits_until_cache_has_expired(dialect, pause, is_reset):
    session = begin(dialect)
    assert learn(session, 12, at=time_after(0)) == []
    resets = learn(session, 1, "another-{}", at=time_after(pause))
    assert resets == ["the cache has expired: knowledge is pinned again"] * is_reset


def test_reset_drops_outdated_text_longer_than_history():
    resets = learn(begin(), 30, "page", "Version {} of the page. " + "It has a line. " * 40)
    assert set(resets) == {"outdated deltas: knowledge is pinned again"}
    assert len(resets) < 3


@pytest.mark.parametrize(("known", "is_kept"), [(80, True), (4, False)])
@pytest.mark.parametrize("keep", [1, 4])
def test_compaction_keeps_deltas_much_shorter_than_knowledge(known, is_kept, keep):
    session = begin()
    for number in range(known):
        session.apply(knowledge("add", f"old-{number}", title="fact", content=f"Part {number} of it is old."))
    ask(session, 0)
    learn(session, 3)
    head = ask(session, 4)[0]["system"]
    session.compact("Summary of the conversation so far: it lacks checks.", keep=keep)
    body, _ = ask(session, 5)
    assert ([block["text"] for block in body["system"]] == [block["text"] for block in head]) is is_kept
    texts = json.dumps(body["messages"])
    assert (texts.count("[knowledge update"), "Release 2 is out" in texts) == ((3, True) if is_kept else (0, False))
    assert lore.Session.read(session.log()).state == session.state


def reset_bodies(session):
    """Return two successive bodies with a reset between them."""
    learn(session, 9, at=time_after(0))
    before, _ = ask(session, 9, time_after(0))
    session.apply(knowledge("add", "last", title="last", content="It is done."))
    after, reset = ask(session, 10, time_after(2 * DAY))
    assert reset
    return before, after


@pytest.mark.parametrize("dialect", MODELS)
def test_reset_is_expected_in_log_and_bodies(dialect, tmp_path, capsys):
    session = begin(dialect)
    assert_prefix_stable(reset_bodies(session))
    (tmp_path / "log.jsonl").write_bytes(session.log())
    main(["check", str(tmp_path / "log.jsonl"), "--json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [finding for finding in found if finding["kind"] != "expected"] == []
    assert "LORE144" in {finding["code"] for finding in found}


def test_reset_excuses_no_changed_message():
    before, after = reset_bodies(begin())
    after["messages"][1]["content"][0]["text"] = "It lacks nothing."
    with pytest.raises(AssertionError, match="LORE"):
        assert_prefix_stable([before, after])
