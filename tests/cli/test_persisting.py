"""`lore assemble --persist`: the log grows only when the answer was written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import lore, put
from helpers.matrix import some
from helpers.strategies.sessions import Agent
from lore.prompt.base import Rules

KNOWN = (Path(__file__).parents[2] / "fixtures/sessions/knowledge.jsonl").read_bytes()

pytestmark = pytest.mark.usefixtures("desk")


@pytest.fixture(autouse=True)
def files(desk):
    put("p.jsonl", KNOWN)
    put("ex.json", b"mine\n")
    Path("folder").mkdir()


# `--persist -o EXISTING` ended with exit 2, and the log had grown all the same.
@pytest.mark.parametrize("options", [[], ["--all"], ["--explain"]])
@pytest.mark.parametrize("output", [
    ["ex.json"], ["p.jsonl", "--force"], ["nodir/x"], ["folder"], ["folder", "--force"], ["a\0b"], ["x" * 300],
])  # fmt: skip
def test_refused_output_leaves_log_unchanged(options, output):
    result = lore("assemble", "p.jsonl", *options, "--persist", "-o", *output)
    assert (result.code, result.out) == (2, "")
    assert Path("p.jsonl").read_bytes() == KNOWN
    assert sorted(os.listdir()) == ["ex.json", "folder", "p.jsonl"]


# A body that met a full disk was lost, and the log had grown all the same.
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("options", some(["", "--explain", "--all", "--explain --json", "-o -"], 2))
def test_full_standard_output_leaves_log_unchanged(options):
    with open("/dev/full", "wb") as full:
        words = [sys.executable, "-m", "lore", "assemble", "p.jsonl", "--persist", *options.split()]
        result = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert result.returncode == 2
    assert b"no space left" in result.stderr
    assert Path("p.jsonl").read_bytes() == KNOWN


# Events that were sent and saved once are not derived again under other settings.
@pytest.mark.parametrize("tail", ["system", "persist"])
def test_persisted_prompt_ignores_later_settings(tail):
    prompt = lore("assemble", "p.jsonl", "--tail", tail, "--persist").out
    assert Path("p.jsonl").read_bytes() != KNOWN
    put("lore.toml", b"[assemble]\nknowledge_tokens = 20\nremovals = false\n")
    assert lore("assemble", "p.jsonl", "--tail", "system").out == prompt
    assert lore("fold", "p.jsonl", "--json").json["problems"] == []
    assert lore("check", "p.jsonl").code == 0


@pytest.mark.parametrize("tail", ["system", "persist"])
@pytest.mark.parametrize("end", ["reset", "compact"])
def test_prompt_before_reset_is_persisted(tail, end):
    """Deltas and contexts that a reset or a compaction ended were not appended: other settings gave other bytes."""
    agent = Agent(rules=Rules(tail=tail))
    agent.know("parser-1", "The parser is hand-written.")
    agent.user()
    agent.turn({"current_time": "10:00"})
    agent.know("parser-1", "The parser was replaced by tomllib. " * 20)
    agent.user()
    agent.turn({"current_time": "10:01"})
    agent.reset() if end == "reset" else agent.compact()
    agent.user()
    agent.turn({"current_time": "10:02"})
    agent.restart("lost")
    put("p.jsonl", agent.log)
    put("lore.toml", f'[assemble]\ntail = "{tail}"\n'.encode())
    sent_bodies = [turn.body.decode() for turn in agent.turns]
    assert lore("assemble", "p.jsonl", "--persist").out.strip() == sent_bodies[-1]
    grown = Path("p.jsonl").read_bytes()
    put("lore.toml", b"[assemble]\nknowledge_tokens = 60\n")
    assert [json.dumps(body["body"], separators=(",", ":")) for body in bodies()] == sent_bodies
    lore("assemble", "p.jsonl", "--persist")
    assert Path("p.jsonl").read_bytes() == grown != agent.log


def test_persisted_loop_deltas_ignore_later_settings():
    """Deltas after tool results keep the places at which they were appended to the log."""
    agent = Agent(rules=Rules(max_loop_turns=2))
    agent.know("aaaaa1", "one")
    agent.user()
    for number in range(6):
        agent.turn({"current_time": f"10:0{number}"})
        agent.calls(2)
        agent.know("bbbbb1", f"two {number}")
    agent.restart("lost")
    put("p.jsonl", agent.log)
    put("lore.toml", b"[assemble]\nmax_loop_turns = 2\n")
    sent_bodies = [turn.body.decode() for turn in agent.turns]
    assert [json.dumps(body["body"], separators=(",", ":")) for body in bodies()] == sent_bodies
    assert lore("assemble", "p.jsonl", "--persist").out.strip() == sent_bodies[-1]
    put("lore.toml", b"[assemble]\nmax_loop_turns = 0\n")
    assert [json.dumps(body["body"], separators=(",", ":")) for body in bodies()] == sent_bodies
    assert lore("check", "p.jsonl").code == 0


def bodies():
    return lore("assemble", "p.jsonl", "--all", "--full").lines
