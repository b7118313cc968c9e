"""Exit codes, errors of one line, closed pipes, interrupts, help."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lore as package
from cli.running import lore, process, put, session
from model.making import body, record, user

COMMANDS = ("assemble", "diff-prefix", "check", "fold", "convert", "knowledge", "explain", "schema")


def test_the_version_is_printed():
    assert lore("--version") == (0, f"lore {package.__version__}\n", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    ran = lore(command, "-h")
    assert (ran.code, command in ran.out) == (0, True)


@pytest.mark.parametrize(
    "args",
    [
        ("nonsense",),
        ("check", "--nonsense"),
        ("check", "none.jsonl"),
        ("fold",),
        ("fold", "."),
        ("fold", "a\0b"),
        ("assemble", "none.jsonl#3"),
        ("diff-prefix", "none.json", "none.json"),
        ("diff-prefix", "-", "-"),
        ("explain", "LORE999"),
        ("schema", "nothing"),
        ("check", "--min-reuse", "high"),
    ],
)
def test_a_usage_error_exits_two_with_one_line_and_no_traceback(args):
    ran = lore(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert len(ran.err.splitlines()) <= 3
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"", 2), (b"\x00\x01\x02\xff", 2), (b"plain text\n", 2), (b'{"x":1}\n', 2), (b"[1,2]", 2), (b'{"kind":"app', 2)],
    ids=["empty", "binary", "text", "other json", "array", "torn"],
)
@pytest.mark.parametrize("command", ["fold", "check", "assemble"])
def test_a_named_input_that_is_no_recording_exits_two(command, data, code):
    ran = lore(command, put("f", data))
    assert ran.code == code
    assert ran.err.startswith("error: f ")
    assert "hint: " in ran.err


def test_a_file_that_cannot_be_read_exits_two():
    os.symlink("loop", "loop")
    ran = lore("fold", "loop")
    assert (ran.code, ran.err.startswith("error: cannot read loop: ")) == (2, True)


def test_a_bug_exits_seventy_with_one_line(monkeypatch):
    def broken(*_args, **_fields):
        raise RuntimeError("oops\nsecond line ghp_" + "a1B2" * 9)

    monkeypatch.setattr("lore.run.folding.fold", broken)
    ran = lore("fold", put("s.jsonl", session()))
    assert (ran.code, len(ran.err.splitlines())) == (70, 1)
    assert "a bug in lore: RuntimeError: oops" in ran.err
    assert "a1B2" not in ran.err


def test_the_traceback_of_a_bug_is_shown_on_request(monkeypatch):
    def broken(*_args, **_fields):
        raise RuntimeError("oops")

    monkeypatch.setattr("lore.run.folding.fold", broken)
    monkeypatch.setenv("LORE_DEBUG", "1")
    assert "Traceback" in lore("fold", put("s.jsonl", session())).err


def test_an_interrupt_exits_a_hundred_and_thirty(monkeypatch):
    def interrupted(*_args, **_fields):
        raise KeyboardInterrupt

    monkeypatch.setattr("lore.run.folding.fold", interrupted)
    assert lore("fold", put("s.jsonl", session())).code == 130


def test_an_interrupt_while_a_class_is_made_is_an_interrupt(monkeypatch):
    """Python 3.11 turns it into a RuntimeError: lore called that a bug of its own and exited 70."""

    def interrupted(*_args, **_fields):
        raise RuntimeError("Error calling __set_name__ on an instance") from KeyboardInterrupt()

    monkeypatch.setattr("lore.run.folding.fold", interrupted)
    ran = lore("fold", put("s.jsonl", session()))
    assert (ran.code, ran.err) == (130, "")


@pytest.mark.skipif(os.name == "nt", reason="signals are sent another way there")
def test_a_real_interrupt_exits_a_hundred_and_thirty():
    command = [sys.executable, "-m", "lore", "check", "-v", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdin is not None
        assert ran.stderr is not None
        ran.stdin.write(session(record("append", item=user("u", "x" * 400_000))))
        ran.stdin.flush()
        assert b"<stdin>" in ran.stderr.readline()  # it has begun, and waits for more
        ran.send_signal(signal.SIGINT)
        assert ran.wait(20) == 130
        assert b"Traceback" not in ran.stderr.read()


@pytest.mark.parametrize("command", [["fold", "s.jsonl"], ["explain"], ["check", "s.jsonl"], ["schema", "check"]])
def test_a_closed_pipe_is_no_error(command):
    items = [
        {"kind": "append", "item": {"type": "user_message", "uuid": f"u{n}", "text": "x" * 90}} for n in range(3000)
    ]
    put("s.jsonl", session(*items))
    with subprocess.Popen(
        [sys.executable, "-m", "lore", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.read(1)
        ran.stdout.close()
        said = ran.stderr.read()
        assert (ran.wait(30), said) == (0, b"")


def test_output_is_utf_8_under_any_locale():
    put("s.jsonl", session(system="é日本", attachments=["ü"]))
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    assert "é日本" in process("assemble", "s.jsonl", env=environment).out


def test_an_error_message_shows_control_characters_and_masks_credentials():
    ran = lore("fold", "no\x1b[31m\nghp_" + "a1B2" * 9)
    assert "\x1b" not in ran.err
    assert "a1B2" not in ran.err
    assert ran.code == 2


def test_standard_input_is_read():
    assert process("fold", "-", "--json", stdin=session()).json["session"]["id"] == "s-1"
    assert lore("check", "-", stdin=session()).code == 0
    put("b.json", body("a"))
    ran = lore("diff-prefix", "b.json", "-", "--json", "--no-tokens", stdin=Path("b.json").read_bytes())
    assert (ran.json["relation"], ran.json["file"], ran.json["right"]["name"]) == ("identical", None, "<stdin>")


@pytest.mark.parametrize("args", [("-#1",), ("--", "-#1"), ("-", "--turn", "1")])
def test_a_turn_of_standard_input_can_be_named(args):
    ran = lore("assemble", *args, stdin=session())
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["messages"][0]["content"][0]["text"] == "first"


def test_a_closed_pipe_loses_the_text_and_not_the_verdict():
    """`lore check | head -1` ended with 0 or 1, as it happened."""
    put("r.jsonl", Path(__file__).parents[2].joinpath("fixtures/recordings/clock_in_system.jsonl").read_bytes() * 40)
    script = f"{sys.executable} -m lore check r.jsonl | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    ran = [subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True) for _ in range(2)]
    assert [one.stdout for one in ran] == ["1\n"] * 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("words", ["check s.jsonl", "--version", "--help", "explain"])
def test_a_full_disk_is_an_error_and_no_bug(words):
    """`lore --version` ended in a traceback."""
    put("s.jsonl", session())
    ran = subprocess.run(["bash", "-c", f"{sys.executable} -m lore {words} >/dev/full"], capture_output=True)
    assert (ran.returncode, ran.stderr.splitlines()[0]) == (2, b"error: no space left on device")


@pytest.mark.skipif(os.name == "nt", reason="a shell closes the streams")
@pytest.mark.parametrize("closed", ["check s.jsonl >&-", "assemble s.jsonl >&-", "check - <&-"])
def test_closed_streams_are_no_bug(closed):
    put("s.jsonl", session())
    ran = subprocess.run(["bash", "-c", f"{sys.executable} -m lore {closed}"], capture_output=True)
    assert ran.returncode in (0, 2)
