"""A summariser that is a command: JSON in, text out, and its failures."""

import os
import subprocess

import pytest

from compaction.programs import program
from helpers.strategies.talks import talk, user
from lore.asking import GivenUpError, SummaryError, SummaryRequest
from lore.compaction import commands
from lore.compaction.commands import SummaryCommand, is_nested
from lore.compaction.settings import Compaction
from lore.compaction.summarizers import summarizer_of
from lore.errors import LoreError

ENVIRON = {"PATH": os.defpath, "KEY": "given on"}
REQUEST = SummaryRequest(talk(4), opening=talk(4)[2:], previous="before", tokens=99)


@pytest.fixture
def make(tmp_path):
    """Make a summariser of a script."""

    def summary_command(code, *more, **kwargs):
        return SummaryCommand([program(tmp_path, "sum", code), *more], environ=ENVIRON, **{"seconds": 20.0, **kwargs})

    return summary_command


def test_summary_command_reads_prompt_and_transcript(make):
    text = make("x = json.load(sys.stdin); print(x['transcript'], x['opening'], x['prompt'])").summarize(REQUEST).text
    assert text.startswith("[user]\nmessage 0")
    assert text.count("message 2") == 2
    assert text.count("message 3") == 1
    assert "99 tokens" in text


def test_summary_command_uses_no_shell(make):
    assert make("print(sys.argv[1:])", "$HOME; rm -rf", "*").summarize(REQUEST).text == "['$HOME; rm -rf', '*']"


def test_summary_command_has_environment_and_nested_mark(make):
    text = make("print(os.environ['KEY'], os.environ['LORE_NESTED'])").summarize(REQUEST).text
    assert text == "given on summarizer"
    assert is_nested({"LORE_NESTED": "summarizer"})
    assert not is_nested(ENVIRON)


def test_command_may_ignore_its_input(make):
    entries = tuple(user("x" * 200_000) for _ in range(3))
    assert make("print('short')").summarize(SummaryRequest(entries)).text == "short"


@pytest.mark.parametrize(("code", "message"), [
    ("sys.exit(3)", "exit code 3"),
    ("print('half', flush=True); sys.exit('no \\x1b[31mmodel')", "exit code 1: no model"),
    ("sys.exit('key sk-abcdefghijklmnopqrstuvwx is wrong')", r"key sk-a\*+ is wrong"),
    ("os.kill(os.getpid(), 9)", "it was ended by signal 9"),
    ("os.write(1, b'\\xff\\xfe')", "not UTF-8, byte 0"),
])  # fmt: skip
def test_failure_is_one_line(make, code, message):
    with pytest.raises(SummaryError, match=message) as caught:
        make(code).summarize(REQUEST)
    assert "\n" not in caught.value.message
    assert not isinstance(caught.value, GivenUpError)


def test_hanging_command_is_given_up(make):
    with pytest.raises(GivenUpError, match=r"no end after 0\.3 s"):
        make("time.sleep(60)", seconds=0.3).summarize(REQUEST)


def test_flooding_command_is_ended(make):
    with pytest.raises(SummaryError, match="more than 1,048,576 bytes"):
        make("while True: os.write(1, b'x' * 65536)").summarize(REQUEST)


def test_standard_error_is_reported_without_secrets(make):
    notes = []
    code = "print('one\\nwith ghp_abcdefghijklmnopqrstuvwxyz', file=sys.stderr); print('fine')"
    assert make(code, tell=notes.append).summarize(REQUEST).text == "fine"
    assert notes == ["the summary command writes: with ghp_" + "*" * 26]


@pytest.mark.parametrize("expression", [
    "os.environ['MY_API_KEY']", "'y' * 190 + os.environ['MY_API_KEY']", "'y' * 185 + ' sk-abcdefghijklmnopqrst'",
], ids=["by name", "at a cut", "by its look"])  # fmt: skip
def test_environment_secret_is_never_shown(tmp_path, expression):
    environ = {**ENVIRON, "MY_API_KEY": "cafe4711cafe4711"}
    command = SummaryCommand([program(tmp_path, "sum", f"sys.exit({expression})")], environ=environ)
    with pytest.raises(SummaryError, match="exit code 1") as caught:
        command.summarize(REQUEST)
    assert "cafe" not in caught.value.message
    assert "sk-ab" not in caught.value.message


def test_last_line_of_standard_error_is_shown(make):
    with pytest.raises(SummaryError, match="exit code 1: the reason"):
        make("os.write(2, b'x\\n' * 1_000_000); sys.exit('the reason')").summarize(REQUEST)


def test_unkillable_command_is_not_awaited(make, monkeypatch):
    processes, popen = [], subprocess.Popen
    monkeypatch.setattr(commands, "_GRACE", 0.1)
    monkeypatch.setattr(
        subprocess, "Popen", lambda *args, **more: processes.append(popen(*args, **more)) or processes[-1]
    )
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda group, _: None)
        with pytest.raises(GivenUpError, match="no end"):
            make("time.sleep(60)", seconds=0.2).summarize(REQUEST)
    processes[0].kill()
    assert processes[0].wait() == -9


@pytest.mark.parametrize(("name", "message"), [
    ("/nowhere/at/all", "there is no such file"),
    ("surely-not-a-command", "it is not on the PATH"),
    (__file__, "it is not executable"),
    ("a\0b", "no NUL"),
])  # fmt: skip
def test_missing_command_is_refused(name, message):
    with pytest.raises(LoreError, match=message):
        SummaryCommand([name], environ=ENVIRON)


def test_command_removed_later_is_given_up(make, tmp_path):
    summarizer = make("")
    (tmp_path / "sum").unlink()
    with pytest.raises(GivenUpError, match="no such file"):
        summarizer.summarize(REQUEST)


def test_invalid_program_is_given_up(tmp_path):
    path = tmp_path / "odd"
    path.write_bytes(b"\x00\x01")
    path.chmod(0o700)
    with pytest.raises(GivenUpError, match="cannot be run: exec format error"):
        SummaryCommand([str(path)], environ=ENVIRON).summarize(REQUEST)


def test_settings_select_the_command_summarizer(tmp_path):
    path = program(tmp_path, "sum", "print('by name')")
    settings = Compaction(summarizer="command", command=(path,))
    assert summarizer_of(settings, ENVIRON).summarize(REQUEST).text == "by name"
    assert summarizer_of(Compaction(), ENVIRON).name == "extractive"
    with pytest.raises(LoreError, match="command is missing"):
        summarizer_of(Compaction(summarizer="command"), ENVIRON)


def test_full_disk_is_a_failure(make, monkeypatch):
    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(commands, "TemporaryFile", full)
    with pytest.raises(GivenUpError, match="cannot be run: no space left on device"):
        make("print('short')").summarize(REQUEST)
