"""Law 9: deterministic. The same input gives the same output under any hash seed, locale and time zone."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from conftest import CORPUS, ROOT
from helpers.matrix import some
from helpers.strategies import write
from lore.prompt.dialects import dialect_names

WORLDS = {
    "seed 3, far west, bare ASCII": {
        "PYTHONHASHSEED": "3", "LC_ALL": "C", "TZ": "WEST8", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0",
    },
    "seed 0": {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC0"},
    "seed 1, UTF-8": {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC0"},
    "seed 2, far east": {"PYTHONHASHSEED": "2", "LC_ALL": "C", "TZ": "FAR-13"},
}  # fmt: skip
COMMANDS = (
    ("check", "--json", "sessions"),
    ("check", "sessions"),
    ("assemble", "sessions/b \u00fc.jsonl"),
    ("assemble", "sessions/b \u00fc.jsonl", "--dialect", "openai-chat", "--tail", "user"),
    ("fold", "--json", "sessions/b \u00fc.jsonl"),
    ("diff-prefix", "--json", "sessions/b \u00fc.jsonl"),
    ("diff-prefix", "--json", "sessions/a.json", "sessions/c.json"),
    ("diff-prefix", "sessions/a.json", "sessions/c.json"),
)
SCRIPT = """
import ast, os, sys
from lore.commands.main import main
for command in ast.literal_eval(os.environb[b"COMMANDS"].decode("utf-8")):
    code = main([os.fsdecode(word.encode("utf-8")) for word in command])
    sys.stdout.flush()
    os.write(1, b"\\n-- exit %d\\n" % code)
    os.write(2, b"\\n-- exit %d\\n" % code)
"""


def _fill(folder) -> None:
    folder.mkdir()
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "write", "grep")]
    body = {
        "model": "claude-x",
        "tools": tools,
        "system": "It is 2026-01-02.",
        "messages": [{"role": "user", "content": "hi"}],
    }
    (folder / "a.json").write_bytes(write(body))
    (folder / "c.json").write_bytes(write({**body, "tools": tools[::-1], "system": "It is 2026-01-03."}))
    records = [{"request": body, "timestamp": f"2026-01-01T0{n}:30:00", "usage": {"input_tokens": n}} for n in range(3)]
    (folder / "d.jsonl").write_bytes(b"\n".join(map(write, records)))
    events = [
        {"kind": "session_started", "session_id": "s", "model": "claude-x", "at": "2026-03-29T01:30:00"},
        {"kind": "knowledge", "op": "add", "id": "abcdef", "category": "b", "content": "one"},
        {"kind": "knowledge", "op": "add", "id": "abcdeg", "category": "a", "content": "two \u00fc"},
        {"kind": "append", "item": {"type": "user_message", "uuid": "u", "text": "caf\u00e9 \u2028 \ud83d"}},
        {"kind": "turn_started", "turn": 1, "at": "2026-03-29T01:30:00", "context": {"extra": ["x"], "b": 1, "a": 2}},
        {"kind": "turn_completed", "turn": 1, "usage": {"write_tokens": 5000, "write_5m_tokens": 5000}},
        {"kind": "remove", "uuids": ["u", "nobody", "noone"]},
        {"kind": "turn_started", "turn": 2, "at": "2026-03-29T03:30:00"},
        {"kind": "session_changed", "system": "other", "params": {"a": 1}, "tools": tools},
        {"kind": "turn_started", "turn": 3, "at": "2026-03-29T03:31:00+02:00"},
    ]
    (folder / "b \u00fc.jsonl").write_bytes(b"\n".join(map(write, events)))


Output = tuple[bytes, bytes]  # standard output and error


def run_in(world: str, commands: Sequence[tuple[str, ...]], folder: Path) -> Output:
    """Run commands in one process with the variables of a world."""
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONHASH", "TZ"))
    }
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**env, **WORLDS[world], "COMMANDS": repr(commands)}, cwd=folder,
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    return process.stdout, process.stderr


def fixture_commands() -> list[tuple[str, ...]]:
    """Return commands that check, fold, assemble and compare every fixture, and a real recording if there is one."""

    def names(pattern: str) -> list[str]:
        return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "fixtures").glob(pattern))

    sessions, pairs = [*names("sessions/*.jsonl"), *names("claude-code/*.jsonl")], names("bodies/*/*")
    real = [str(path) for path in sorted((CORPUS / "claude-code").glob("*_compact1.jsonl"))[:1]]
    return [
        ("check", "--json", "fixtures"),
        *(
            ("assemble", name, "--all", "--full", "--dialect", dialect)
            for name in sessions
            for dialect in dialect_names()
        ),
        *(("fold", "--json", name) for name in [*sessions, *real]),
        *(("diff-prefix", "--json", name) for name in [*sessions, *names("recordings/*.jsonl")]),
        *(("diff-prefix", "--json", "--no-tokens", name) for name in real),
        *(("diff-prefix", "--json", f"{pair}/turn1.json", f"{pair}/turn2.json") for pair in pairs),
        *(("check", "--json", name) for name in real),
    ]


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> Callable[[str], Output]:
    """Return a function that runs all commands in a world, once."""
    folder = tmp_path_factory.mktemp("worlds")
    _fill(folder / "sessions")
    return functools.cache(lambda world: run_in(world, COMMANDS, folder))


@pytest.mark.skipif(sys.platform == "win32", reason="locales and time zones are set by POSIX variables")
class TestWorlds:
    def test_no_command_fails_in_the_first_world(self, answers):
        out, err = answers("seed 0")
        assert out.count(b"-- exit") == len(COMMANDS), err
        assert b"-- exit 70" not in out

    @pytest.mark.parametrize("world", some(WORLDS))
    def test_output_is_the_same_in(self, answers, world):
        assert answers(world) == answers("seed 0")

    @pytest.mark.soak
    def test_fixtures_have_same_answers_in_two_worlds(self):
        commands = fixture_commands()
        first, second = (run_in(world, commands, ROOT) for world in ("seed 3, far west, bare ASCII", "seed 1, UTF-8"))
        assert first[0].count(b"-- exit") == len(commands), first[1]
        assert not [code for code in (b"-- exit 70", b"-- exit 3") if code in first[0]]
        assert first == second


def test_recording_is_judged_equally_twice(recording, capsys):
    from lore.commands.main import main  # noqa: PLC0415

    answers = []
    for _ in range(2):
        main(["check", str(recording), "--json"])
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
