"""`lore compact` with `[memory]` remembers pruned and idle sessions."""

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cli.compacting import POLICY, at, compact, talk
from cli.running import lore, put
from cli.storing import URLS
from lore.commands.main import main
from model.making import log, record, user
from test_readme import MANUAL, ROOT


@pytest.fixture(autouse=True)
def policy():
    put("p.toml", POLICY)


@pytest.mark.parametrize("url", URLS)
def test_compact_remembers_what_it_prunes(url):
    spoken = record("append", item=user("u0", "I prefer tabs over spaces."), at=at(1))
    put("s.jsonl", talk(0) + log(spoken) + talk()[len(talk(0)) :])
    assert lore("store", "import", "s.jsonl", "--store", url).code == 0
    put("lore.toml", b'[memory]\nsystem = "structured"\n')
    ran = compact(f"{url}#s-1")
    assert (ran.code, "events were appended" in ran.out) == (0, True)
    shown_memory = lore("memory", "show", "--user", "ada", "--store", url)
    assert "tabs over spaces" in shown_memory.out
    assert lore("store", "verify", "--store", url).code == 0


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_watch_without_a_policy_remembers_idle_sessions():
    """Without a policy nothing is compacted: memory alone is opted in to."""
    put("s.jsonl", talk(1) + log(record("append", item=user("u9", "I prefer tabs over spaces."), at=at(90))))
    put("lore.toml", b'[memory]\nsystem = "structured"\n')
    assert lore("store", "import", "s.jsonl", "--store", "sqlite:s.db").code == 0
    run = [sys.executable, "-m", "lore", "compact", "sqlite:s.db", "--watch", "--interval", "60"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watch:
        try:
            first = watch.stdout.readline()
            watch.send_signal(signal.SIGTERM)
            assert (first, watch.wait(timeout=120)) == (b"s-1: idle: 1 remembered, 0 removed, 1 topic dreamt\n", 0)
        finally:
            watch.kill()
    ran = lore("memory", "show", "user_preferences", "--user", "ada", "--store", "sqlite:s.db")
    assert "tabs over spaces" in ran.out
    assert len(lore("fold", "sqlite:s.db#s-1", "--json").json["timeline"]) == 3


def test_policy_and_memory_of_the_manual_work(capsys):
    policy = re.search(r"^    \[compaction\]\n(?:    [^\n]+\n)+", MANUAL, re.MULTILINE)
    assert policy is not None
    assert len(policy[0].strip().splitlines()) == 5, "five lines"
    Path("policy.toml").write_text(textwrap.dedent(policy[0]), "utf-8")
    memory = re.search(r"^    \[memory\]\n(?:    [^\n]+\n|\n)+", MANUAL, re.MULTILINE)
    assert memory is not None
    Path("lore.toml").write_text(textwrap.dedent(memory[0]), "utf-8")
    shutil.copy(ROOT / "fixtures" / "sessions" / "knowledge.jsonl", "session.jsonl")
    commands = re.findall(r"^    lore ((?:compact|memory|convert) (?!fixtures)[^\n]*)$", MANUAL, re.MULTILINE)
    commands = [
        command for command in commands if not command.endswith("--watch") and not command.startswith("memory page")
    ]
    assert len(commands) == 6
    assert main(["store", "import", "session.jsonl", "--store", "sqlite:sessions.db"]) == 0
    assert [main(command.replace("SESSION_ID", "knows-0001").split()) for command in commands] == [0] * 6
    output = capsys.readouterr()
    assert "error" not in output.err
    assert "Nothing was compacted" in output.out
    assert "wiped user default: " in output.out
