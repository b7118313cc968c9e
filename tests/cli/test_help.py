"""Help: commands by group, examples, suggestions for misspelled words, completion."""

import json
import pkgutil
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import lore.commands
from cli.running import lore as run
from lore.commands.main import command, main
from lore.commands.spending import overview
from lore.commands.table import COMMANDS as CORE
from lore.commands.table import EXAMPLES, commands, subcommands
from lore.commands.tree import tree

COMMANDS, SUBCOMMANDS = commands(), subcommands()
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
TYPED = [*EXAMPLES, *(example for row in COMMANDS.values() for example in row.examples)]
TYPED += [example for examples in SUBCOMMANDS.values() for example in examples]


class Terminal:
    """A stream that says it is one."""

    def __init__(self, stream):
        self._stream = stream

    def isatty(self):
        return True

    def __getattr__(self, name):
        return getattr(self._stream, name)


def parsed(line):
    """The context of the command that a line runs; raises what a wrong word raises."""
    root, args = command(), shlex.split(line)
    context = root.make_context("lore", args)
    while context._protected_args:
        name, subcommand, remaining = context.command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = subcommand.make_context(name, remaining, parent=context)
    return context


def test_every_command_module_has_a_row():
    """A module of a command has an `app` or a function `run`; a row may also name a function of a module of several."""
    walked = pkgutil.walk_packages(lore.commands.__path__, "lore.commands.")
    modules = {module.name.removeprefix("lore.commands."): import_module(module.name) for module in walked}
    commands = {name for name, module in modules.items() if hasattr(module, "app")}
    commands |= {f"{name}:run" for name, module in modules.items() if hasattr(module, "run")}
    places = {row.place or f"{name.replace('-', '_')}:run" for name, row in CORE.items()}
    assert commands <= places
    for place in places - commands:
        module, _, function = place.partition(":")
        assert callable(getattr(modules[module], function))


def test_every_subcommand_has_a_row():
    root = command()
    names = {f"{name} {below}" for name in COMMANDS for below in getattr(root.get_command(None, name), "commands", {})}
    assert names == set(SUBCOMMANDS)


@pytest.mark.parametrize("line", [line for line, _ in TYPED])
def test_example_can_be_parsed(line):
    context = parsed(line)
    assert context.command_path == " ".join(["lore", *line.split()[: context.command_path.count(" ")]])


def test_help_lists_commands_by_group():
    page = run("--help").out
    groups = [row.group for row in COMMANDS.values()]
    places = [page.index(f"\n{group}:\n") for group in dict.fromkeys(groups)]
    assert places == sorted(places)
    for name, row in COMMANDS.items():
        assert f"\n  {name}  " in page[page.index(f"\n{row.group}:\n") :]
    assert page.rstrip().splitlines()[-1] == "Guide: lore guide"
    assert "  lore check fixtures/recordings  " in page


@pytest.mark.parametrize("name", COMMANDS)
def test_summary_is_first_sentence_of_help(name):
    assert command().get_command(None, name).get_short_help_str(300) == COMMANDS[name].summary


def test_diff_prefix_help_says_session_is_json_lines():
    page = " ".join(run("diff-prefix", "--help").out.split())
    assert "of a session in JSON Lines, one object a pair" in page
    answer = run("diff-prefix", str(FIXTURES / "recordings" / "clock_in_system.jsonl"), "--json", "--no-tokens").out
    assert [json.loads(line)["schema"] for line in answer.splitlines()] == [2, 2, 2]


@pytest.mark.parametrize("path", [*COMMANDS, *SUBCOMMANDS])
def test_command_help_ends_with_examples_and_guide(path):
    words = path.split()
    page = run("help", *words).out
    assert page == run(*words, "--help").out
    examples = COMMANDS[path].examples if path in COMMANDS else SUBCOMMANDS[path]
    for line, says in examples:
        assert f"\n  lore {line}" in page
        assert says in " ".join(page.split())
    assert page.endswith(f"Guide: lore guide {COMMANDS[words[0]].page}\n")


@pytest.mark.parametrize("columns", [60, 200])
def test_help_fits_terminal_without_breaking_words(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", Terminal(sys.stdout))
    assert main(["check", "--help"]) == 0
    output = capsys.readouterr().out
    assert columns - 20 < max(map(len, output.splitlines())) <= columns
    assert set(run("check", "--help").out.split()) == set(output.split())


@pytest.mark.parametrize(("line", "error", "hint"), [
    ("chek", "no such command: lore chek", "did you mean: lore check"),
    ("store imprt x", "no such command: lore store imprt", "did you mean: lore store import"),
    ("help stroe", "no such command: lore stroe", "did you mean: lore store"),
    ("lore301", "no such command: lore lore301", "to read about a code: lore explain LORE301"),
    ("logs", "no such command: lore logs", "to judge it: lore check logs"),
    ("xyzzy", "no such command: lore xyzzy", "lore --help lists them"),
    ("check --jsn", "No such option: --jsn", "did you mean --json? all options: lore check --help"),
    ("--jsn", "No such option: --jsn", "did you mean --json? all options: lore --help"),
    ("check --fail-under", "No such option: --fail-under", "did you mean --min-reuse? all options: lore check --help"),
    ("check --open", "No such option: --open", "lore check --help"),
    ("--follow", "No such option: --follow", "lore --help"),
    ("check --zzzzzz", "No such option: --zzzzzz", "lore check --help"),
    ("guide chek", "the guide has no page 'chek'", "did you mean 'check'?"),
    ("guide exit-codes", "the guide has no page 'exit-codes'", "pages about it: ci"),
    ("guide sarif", "the guide has no page 'sarif'", "pages about it: reports"),
])  # fmt: skip
def test_misspelled_word_names_similar_one(line, error, hint, tmp_path):
    (tmp_path / "logs").mkdir()
    result = run(*line.split())
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: {error}\nhint: {hint}\n"


@pytest.mark.parametrize("name", ["store", "memory", "knowledge"])
def test_command_without_subcommand_shows_help(name):
    assert run(name) == run(name, "--help")


def test_command_imports_only_its_module():
    script = (
        "import sys; from lore.commands.main import main; main(['explain', 'LORE101']); "
        "print([name for name in sys.modules if name.startswith('lore.commands.') or name in ('rich', 'jinja2')])"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout
    loaded = set(eval(output.splitlines()[-1]))
    expected = {f"lore.commands.{name}" for name in ("main", "tree", "table", "common", "flags", "about")}
    assert loaded == expected


@pytest.mark.parametrize(("words", "number", "expected"), [
    ("lore che", 1, {"check"}),
    ("lore store im", 2, {"import"}),
    ("lore guide sim", 2, {"simulate"}),
    ("lore check --up", 2, {"--update-baseline"}),
    ("lore explain LORE10", 2, {f"LORE{code}" for code in range(100, 110)}),
    ("lore explain date", 2, {"date-in-prefix"}),
    ("lore schema diff", 2, {"diff-prefix"}),
    ("lore help conv", 2, {"convert"}),
])  # fmt: skip
def test_shell_completes_words(words, number, expected, monkeypatch, capsys):
    monkeypatch.setenv("_LORE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(number))
    with pytest.raises(SystemExit):
        main([])
    assert set(capsys.readouterr().out.split()) == expected


def test_zsh_completion_answers_first_tab(monkeypatch, capsys):
    """A file that zsh loads at a Tab is run then: it has to answer, and not only to define what does."""
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setattr("sys.argv", ["lore", "--show-completion", "zsh"])
    with pytest.raises(SystemExit):
        tree(overview).main(["--show-completion", "zsh"], "lore")
    script = capsys.readouterr().out.strip()
    assert script.startswith("#compdef lore")
    assert script.endswith("""if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _lore_completion "$@"; fi""")
