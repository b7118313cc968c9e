"""What the README and the guide show is what the commands print, and every command and option has its words."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

import lore
from helpers.sdk_fakes import TOOLS, Client, blocks_of
from lore import Session
from lore.commands.main import main
from lore.compaction.settings import Compaction
from lore.config import policy

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "src" / "lore" / "guide"
README = (ROOT / "README.md").read_text("utf-8")
PAGES = {page.stem: page.read_text("utf-8") for page in sorted(GUIDE.glob("*.md"))}
MANUAL = "\n\n".join([README, *PAGES.values()])

SHOWN = sorted(
    set(re.findall(r"^    lore ([^\n]+)\n\nprints\n\n((?:    [^\n]*\n|\n)+?)(?=\n?[^ \n])", MANUAL, re.MULTILINE))
)


def test_manual_shows_outputs() -> None:
    commands = [command.split()[0] for command, _ in SHOWN]
    assert {"diff-prefix", "check", "simulate", "fold", "compact"} <= set(commands)
    assert len(SHOWN) == len({command for command, _ in SHOWN}) >= 6


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_manual_command_prints_the_manuals_output(
    command: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    main(command.split())
    printed = capsys.readouterr().out
    assert [line.rstrip() for line in printed.rstrip().split("\n")] == [
        line[4:].rstrip() for line in shown.rstrip().split("\n")
    ]


def test_settings_and_baseline_of_the_manual_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "fixtures" / "recordings", tmp_path / "tests" / "recordings")
    settings = re.search(r"^(    \[check\]\n.*?reason = [^\n]*\n)", MANUAL, re.MULTILINE | re.DOTALL)
    assert settings is not None
    monkeypatch.chdir(tmp_path)
    Path("lore.toml").write_text(textwrap.dedent(settings[1]), "utf-8")
    assert main(["check", "tests/recordings"]) == 1
    Path("lore.toml").unlink()
    commands = re.findall(r"^    lore (check tests/recordings [^\n]*)$", MANUAL, re.MULTILINE)
    assert [main(command.split()) for command in commands] == [0, 0]
    assert "error" not in capsys.readouterr().err
    assert json.loads(Path("lore-baseline.json").read_text("utf-8"))


def test_library_example_runs_and_keeps_its_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block after the first, which `conformance/test_library.py` runs, with a client that answers as an SDK."""
    section = PAGES["library"]
    indented = re.findall(r"(?:^    [^\n]*\n|^\n)+", section, re.MULTILINE)
    blocks = [textwrap.dedent(block) for block in indented if block.strip()]
    log, compaction, policy, event = (blocks[at] for at in (1, 2, 3, -1))  # test_automatic runs the summariser
    client, session = Client("anthropic"), Session("claude-opus-5", system="You read files. " * 300, tools=TOOLS)
    names: dict[str, Any] = {"lore": lore, "session": session, "Path": Path}
    session.user("What is new?")
    for call in session.assistant(client(**session.request(current_time="10:07"))).calls:
        session.result(call.call_id, "60 lines")
    assert session.assistant(client(**session.request(current_time="10:08"))).calls == ()
    exec(event, names)  # noqa: S102 - the MANUAL is ours
    session.user("And now?")
    session.assistant(client(**session.request(current_time="10:09")))
    said = [blocks_of(arguments) for arguments in client.sent]
    assert said[1][: len(said[0])] == said[0]
    assert said[2][: len(said[1])] == said[1]
    assert "1.0 is out." in said[2][-2]
    assert [len(one) for one in said] == sorted({len(one) for one in said})
    exec(compaction.replace("keep=6", "keep=2"), names)  # noqa: S102
    session.user("Are the tests open?")
    session.assistant(client(**session.request(current_time="10:10")))
    assert "two tests are open" in str(client.sent[-1]["messages"])
    monkeypatch.chdir(tmp_path)
    exec(policy, dict(names))  # noqa: S102
    exec(log, names)  # noqa: S102
    assert main(["check", "agent.jsonl"]) == 0
    assert "1 cache break: 0 waste, 1 expected, 0 with no certain cause" in capsys.readouterr().out
    begun = session.begin_turn({"current_time": "x"})
    kept = Session.read(session.log())
    assert kept.write(kept.assembled().prompt) == session.write(begun.prompt)
    exec("import lore\n" + policy, names)  # noqa: S102
    assert names["session"] is not session


def test_store_commands_of_the_manual_keep_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "fixtures" / "sessions", tmp_path / "sessions")
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^    lore ((?!memory|compact)[^\n]*sqlite:sessions.db[^\n]*)$", MANUAL, re.MULTILINE)
    assert len(commands) == 6
    named = [one.replace("~/.claude/projects", "sessions").replace("SESSION_ID", "knows-0001") for one in commands]
    assert [main(command.split()) for command in named] == [0] * 6
    assert "error" not in capsys.readouterr().err
    assert Path("session.jsonl").read_bytes() == Path("sessions/knowledge.jsonl").read_bytes()


def test_foreign_harness_gets_the_manuals_answers(tmp_path: Path) -> None:
    found = re.search(
        r"^(    printf .*?--store jsonl:sessions\n)\nprints `(.*?)` and `(.*?)`", MANUAL, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    folder = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    lore = tmp_path / "lore"
    lore.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lore "$@"\n', "utf-8")
    lore.chmod(0o755)
    for _ in range(2):  # sent again, nothing is doubled
        done = subprocess.run(
            ["sh", "-c", textwrap.dedent(found[1])], cwd=tmp_path, env={**os.environ, "PATH": folder},
            capture_output=True, check=True, text=True,
        )  # fmt: skip
        assert done.stdout.splitlines() == [found[2], found[3]]


AROUND = r"""
import json, os, signal, sys
from pathlib import Path

QUESTIONS, SYSTEM, TOOLS = ["What is new?", "And now?", "Thank you."], "Be brief.", []
sent, fatal = Path("sent"), int(sys.argv[1])

def now():
    return f"10:{len(os.listdir('.')):02} {os.getpid()}"

def ask(**arguments):
    die(2)
    body = json.dumps(arguments).encode()
    before = sent.read_bytes() if sent.exists() else b""
    sent.write_bytes(before + body + b"\n")
    die(1)
    return f"answer {(before + body).count(body)}"

def die(place):
    if place == fatal:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_harness_of_the_manual_is_killed_and_resumed(tmp_path: Path) -> None:
    """Killed after each save, and while it waits for the model: each turn is asked with the bytes of the first time."""
    found = re.search(
        r"^(    import lore\n\n    session = lore.open.*?)(?=^`lore.open`)", MANUAL, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    loop = textwrap.dedent(found[1])
    assert len(loop.strip().splitlines()) <= 13
    mortal = AROUND + loop.replace("session.assistant(answer) ", "session.assistant(answer); die(3) ")
    assert "die(3) " in mortal
    (tmp_path / "harness.py").write_text(mortal, "utf-8")
    ends = [
        subprocess.run([sys.executable, "harness.py", str(fatal)], cwd=tmp_path, check=False).returncode
        for fatal in (2, 1, 3, 1, 2, 3, 0)
    ]
    assert ends == [-signal.SIGKILL] * 6 + [0]
    with lore.open(f"sqlite:{tmp_path / 'agent.db'}", "demo") as stored:
        kinds = [type(entry.item).__name__ for entry in stored.state.main().entries]
        assert kinds == ["UserMessage", "AssistantMessage"] * 3
        assert not stored.store.verify().damage
    bodies = (tmp_path / "sent").read_bytes().splitlines()
    messages = [[one["content"][0]["text"] for one in json.loads(body)["messages"]] for body in bodies]
    assert len(bodies) > len(set(bodies)) == 3, "a repeated question has the same bytes"
    assert [len(one) for one in messages] == sorted(len(one) for one in messages)


def test_policy_keys_and_defaults_equal_the_manual(tmp_path: Path) -> None:
    table = MANUAL[MANUAL.index("| `[compaction]`") :].split("\n\n", 1)[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (\S[^|]*) \|", table, re.MULTILINE)
    said = {name: default for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    known = {one.name: one.default for one in fields(Compaction)}
    assert said.keys() == known.keys()
    assert said == {name: _written(default) for name, default in known.items()}
    example = re.search(r"^    \[\[compaction\.context_sources\]\].*?\n\n", MANUAL, re.MULTILINE | re.DOTALL)
    assert example is not None
    (tmp_path / "policy.toml").write_text(textwrap.dedent(example[0]), "utf-8")
    assert [one.name for one in policy(str(tmp_path / "policy.toml")).context_sources] == ["commits"]


def _written(default: object) -> str:
    match default:
        case str() if default:
            return f'`"{default}"`'
        case int() | float():
            return f"{default:.0f}"
        case _:
            return "none"
