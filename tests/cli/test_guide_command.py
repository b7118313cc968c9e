"""`lore guide`: Markdown in a pipe, laid out on a terminal, at its width."""

import re
import sys

import pytest

from cli.running import lore
from cli.test_help import Terminal
from lore.commands.about import guide_page as page
from lore.commands.about import topics
from lore.commands.main import main


def laid_out(monkeypatch, capsys, columns, *words, command="guide"):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", Terminal(sys.stdout))
    assert main([command, *words]) == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def without_a_pager(monkeypatch):
    monkeypatch.delenv("MANPAGER", raising=False)
    monkeypatch.setenv("PAGER", "")


def test_guide_without_page_shows_index():
    assert lore("guide").out == page(None)


@pytest.mark.parametrize("topic", topics())
def test_guide_page_is_markdown_in_pipe(topic):
    assert lore("guide", topic).out == lore("guide", f"{topic}.md").out == page(topic)


@pytest.mark.parametrize("columns", [60, 120])
@pytest.mark.parametrize("topic", ["check", "stores"])
def test_guide_page_fits_terminal_width(topic, columns, monkeypatch, capsys):
    output = laid_out(monkeypatch, capsys, columns, topic, "--no-color")
    assert "\x1b" not in output
    assert columns - 20 < max(map(len, map(str.rstrip, output.splitlines()))) <= columns
    assert "](" not in output
    words = re.findall(r"[a-z]{5,}", page(topic).split("\n\n")[-1])
    assert set(words) <= set(re.findall(r"[a-z]{5,}", output))


@pytest.mark.parametrize("reader", [(), ("--for", "user")])
def test_explain_page_fits_terminal_width(reader, monkeypatch, capsys):
    markdown = lore("explain", "LORE159", *reader).out
    assert markdown.startswith("# LORE159 client-cause-unknown\n\n## Meaning")
    output = laid_out(monkeypatch, capsys, 60, "LORE159", "--no-color", *reader, command="explain")
    assert max(map(len, map(str.rstrip, output.splitlines()))) <= 60
    assert "## " not in output
    assert set(re.findall(r"[a-z]{5,}", markdown)) <= set(re.findall(r"[a-z]{5,}", output))


def test_error_is_wrapped_to_terminal_width(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stderr", Terminal(sys.stderr))
    assert main(["compare", "nothing", "here"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[0].startswith("error: ")
    assert any(text.startswith("hint: ") for text in lines)
    assert {text[:4] for text in lines if not text.startswith(("error: ", "hint: "))} == {"    "}


def test_guide_links_name_command(monkeypatch, capsys):
    output = laid_out(monkeypatch, capsys, 120, "check", "--no-color")
    assert "lore guide reports" in output


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's words")
@pytest.mark.parametrize(("pager", "lines", "paged"), [
    ("cat > paged", 20, True),
    ("cat > paged", 2_000, False),
    ("cat", 20, False),
    ("", 20, False),
    ("no-such-pager", 20, False),
])  # fmt: skip
def test_long_guide_page_goes_to_pager(
    pager, lines, paged, monkeypatch, capsys, tmp_path
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAGER", pager)
    monkeypatch.setenv("LINES", str(lines))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LESS", "-FRX")  # the command sets it if it is unset
    monkeypatch.setattr(sys, "stdin", Terminal(sys.stdin))
    output = laid_out(monkeypatch, capsys, 80, "check", "--no-color")
    file = tmp_path / "paged"
    assert file.exists() is paged
    assert ("lore check" in output) is not paged
    if paged:
        assert "lore check" in file.read_text("utf-8")
