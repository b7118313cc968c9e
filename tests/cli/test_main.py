"""Exit codes, errors of one line, closed pipes, interrupts, help."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lore as package
from cli.running import lore, process, put, session
from helpers.matrix import some
from lore.commands.check import CheckOptions
from model.making import body


def test_version_is_printed():
    assert lore("--version") == lore("-V") == (0, f"lore {package.__version__}\n", "")


def test_bug_exits_70_with_line_or_traceback(monkeypatch):
    def broken(*_args, **_fields):
        raise RuntimeError("oops\nsecond line ghp_" + "a1B2" * 9)

    monkeypatch.setattr("lore.commands.fold.fold", broken)
    result = lore("fold", put("s.jsonl", session()))
    assert (result.code, len(result.err.splitlines())) == (70, 1)
    assert "a bug in lore: RuntimeError: oops" in result.err
    assert "a1B2" not in result.err
    monkeypatch.setenv("LORE_DEBUG", "1")
    assert "Traceback" in lore("fold", put("s.jsonl", session())).err


@pytest.mark.parametrize("by_class", [False, True])
def test_interrupt_exits_130(by_class, monkeypatch):
    """While a class is made, Python 3.11 turns it into a RuntimeError: lore called that a bug of its own."""

    def interrupted(*_args, **_fields):
        if by_class:
            raise RuntimeError("Error calling __set_name__ on an instance") from KeyboardInterrupt()
        raise KeyboardInterrupt

    monkeypatch.setattr("lore.commands.fold.fold", interrupted)
    assert lore("fold", put("s.jsonl", session())) == (130, "", "")


def test_usage_error_answers_json():
    for words in (["--zz"], ["--jobs"]):
        assert (result := lore("check", "--json", *words)).json["hint"] == "lore check --help"
        assert (result.code, result.err.startswith(f"error: {result.json['error']}\n")) == (2, True)


def test_output_is_utf8_in_any_locale():
    put("s.jsonl", session(system="é日本", attachments=["ü"]))
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    assert "é日本" in process("assemble", "s.jsonl", env=environment).out


def test_error_masks_credentials_and_control_characters():
    result = lore("fold", "no\x1b[31m\nghp_" + "a1B2" * 9)
    assert "\x1b" not in result.err + lore("\x1b[31mred").err
    assert "a1B2" not in result.err
    assert result.code == 2


def test_commands_read_standard_input():
    assert process("fold", "-", "--json", stdin=session()).json["session"]["id"] == "s-1"
    assert lore("check", "-", stdin=session()).code == 0
    put("b.json", body("a"))
    result = lore("diff-prefix", "b.json", "-", "--json", "--no-tokens", stdin=Path("b.json").read_bytes())
    assert (result.json["relation"], result.json["file"], result.json["right"]["name"]) == (
        "identical",
        None,
        "<stdin>",
    )


@pytest.mark.parametrize("args", [("-#1",), ("--", "-#1"), ("-", "--turn", "1")])
def test_turn_of_standard_input_can_be_named(args):
    result = lore("assemble", *args, stdin=session())
    assert (result.code, result.err) == (0, "")
    assert result.json["messages"][0]["content"][0]["text"] == "first"


@pytest.mark.parametrize("words", ["r.jsonl", ". gone.jsonl 2>&1"])
def test_closed_pipe_keeps_exit_code(words):
    """`lore check | head -1` ended with 0 or 1, as it happened; with `2>&1` always with 0."""
    put("r.jsonl", Path(__file__).parents[2].joinpath("fixtures/recordings/clock_in_system.jsonl").read_bytes() * 40)
    script = f"{sys.executable} -m lore check {words} | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    result = [subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True) for _ in range(2)]
    assert [process.stdout for process in result] == ["1\n"] * 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("words", some(["check s.jsonl", "--version", "--help", "explain"], 2))
def test_full_disk_exits_2(words):
    """`lore --version` ended in a traceback."""
    put("s.jsonl", session())
    result = subprocess.run(["bash", "-c", f"{sys.executable} -m lore {words} >/dev/full"], capture_output=True)
    assert (result.returncode, result.stderr.splitlines()[0]) == (2, b"error: no space left on device")


@pytest.mark.skipif(os.name == "nt", reason="a shell closes the streams")
@pytest.mark.parametrize("closed", ["check s.jsonl >&-", "assemble s.jsonl >&-", "check - <&-"])
def test_closed_streams_are_not_errors(closed):
    put("s.jsonl", session())
    result = subprocess.run(["bash", "-c", f"{sys.executable} -m lore {closed}"], capture_output=True)
    assert result.returncode in (0, 2)


def test_check_has_at_most_16_options():
    assert len(CheckOptions.__struct_fields__) - 1 <= 16  # the paths are no option
