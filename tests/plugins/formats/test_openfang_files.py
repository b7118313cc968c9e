"""Openfang's files through the commands: a session, and a policy table."""

import json

import pytest

from cli.running import lore, put
from plugins.formats import openfang

POLICY = b"""[compaction]
continuous_interval = 1
keep_recent = 2
gap_secs = 1200
gap_max_lookback_secs = 86400
context_token_cap = 2000
"""


@pytest.fixture(autouse=True)
def files(desk):
    put("session.jsonl", openfang.LINES)
    put("policy.toml", POLICY)


def test_fold_shows_message_sources():
    (found,) = lore("fold", "session.jsonl", "--json").lines
    sources = [item.get("source", "user") for item in found["timeline"] if item["type"] == "user_message"]
    assert sources == ["user", "tick", "context_injection", "user"]
    assert (found["session"]["format"], found["problems"]) == ("openfang", [])


def test_every_command_reads_an_openfang_session():
    body = json.loads(lore("assemble", "session.jsonl").out)
    kinds = [block["type"] for message in body["messages"] for block in message["content"]]
    assert kinds == ["text", "text", "tool_use", "tool_result", "text", "text", "text", "text", "text"]
    assert [one["relation"] for one in lore("diff-prefix", "session.jsonl", "--json").lines] == ["extension"] * 3
    assert lore("check", "session.jsonl", "--json").lines[0]["summary"]["waste"] == 0
    put("own.jsonl", lore("convert", "session.jsonl").out.encode())
    mine, own = (lore("fold", name, "--json").lines[0]["timeline"] for name in ("session.jsonl", "own.jsonl"))
    assert mine == own
    stored = lore("store", "import", "session.jsonl", "--store", "sqlite:x.db", "--json").lines[0]["sessions"][0]
    assert stored["session_id"] == "session"


def test_policy_is_applied_to_the_session():
    """Interval, gap and kept messages mean the same as in openfang."""
    words = "We discussed what to do, again. " * 60
    talk = [one for n in range(8) for one in (
        openfang.line("user", f"{n} {words}", 2 * n + (30 if n > 5 else 0)),
        openfang.line("assistant", f"{n} {words}", 2 * n + 1 + (30 if n > 5 else 0)),
    )]  # fmt: skip
    put("talk.jsonl", *talk)
    put("every.toml", POLICY.replace(b"interval = 1", b"interval = 4"))
    ran = lore("compact", "talk.jsonl", "--policy", "every.toml", "--dry-run", "--json")
    assert ran.code == 0, ran.err
    triggers = ran.lines[0]["triggers"]
    assert [one["trigger"] for one in triggers][:2] == ["cadence", "gap"]
    assert all(one["kept"] <= 3 for one in triggers)


def test_session_of_scheduled_ticks_is_never_compacted():
    """Compaction needs a message of the user that is neither injected nor a tick."""
    ticks = [one for n in range(9) for one in (
        openfang.line("user", "[SCHEDULED TICK] look", n * 5), openfang.line("assistant", "Nothing.", n * 5 + 1),
        openfang.line("user", openfang.REFRESH, n * 5 + 2),
    )]  # fmt: skip
    put("ticks.jsonl", *ticks)
    ran = lore("compact", "ticks.jsonl", "--policy", "policy.toml", "--dry-run", "--json")
    assert (ran.code, ran.lines[0]["triggers"]) == (0, [])


def test_injected_context_is_known_without_source():
    """openfang's repair rebuilds messages without their source."""
    put("lost.jsonl", *[{key: value for key, value in one.items() if key != "source"} for one in openfang.TALK])
    timelines = [lore("fold", name, "--json").lines[0]["timeline"] for name in ("lost.jsonl", "session.jsonl")]
    assert timelines[0] == timelines[1]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (b'[[compaction.context_sources]]\nname = "mail"\nprompt = "new?"\ncommand = ["mail"]\n', 0, ""),
        (b"threshold = 30\n", 2, "continuous_interval"), (b"token_threshold_ratio = 0.7\n", 2, "unknown key"),
        (b'[memory]\nsystem = "summarization"\n', 2, "--config reads a whole lore.toml"),
    ],
)  # fmt: skip
def test_policy_keys_are_read_or_refused(more, code, said):
    put("theirs.toml", POLICY, more)
    ran = lore("compact", "session.jsonl", "--policy", "theirs.toml", "--dry-run")
    assert ran.code == code, ran.err
    assert said in ran.err


def test_whole_settings_file_is_read():
    put("lore.toml", POLICY, b'[memory]\nsystem = "summarization"\n[sessions]\ngap_secs = 300\n')
    ran = lore("compact", "session.jsonl", "--dry-run", "--json")
    assert (ran.code, ran.err.count("error")) == (0, 0)
