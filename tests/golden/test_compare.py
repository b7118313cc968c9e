"""`make compare` shows where two outputs differ first, and runs commands of another tree."""

import sys
from pathlib import Path

import pytest

from golden import compare

DIFFERENCES = {
    "json": (
        '{"a": [1, {"b": 2}]}\n',
        '{"a": [1, {"b": 3}]}\n',
        ["@@ -4,3 +4,3 @@", "   {", '-   "b": 2', '+   "b": 3', "   }"],
    ),
    "spelling of json": ('{"a":1}\n', '{"a": 1}\n', ["@@ -1 +1 @@", '-{"a":1}', '+{"a": 1}']),
    "text": ("one\ntwo\n", "one\nten\n", ["@@ -1,2 +1,2 @@", " one", "-two", "+ten"]),
    "missing line": ("one\ntwo\n", "one\n", ["@@ -1,2 +1 @@", " one", "-two"]),
    "no difference": ("one\n", "one\n", []),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_first_different_lines_are_shown(name):
    before, after, expected = DIFFERENCES[name]
    assert compare.different_lines(before, after) == expected


def _tree(folder: Path, main: str) -> compare.Tree:
    """Make a folder that represents an installed version of lore."""
    (folder / "lore").mkdir(parents=True)
    (folder / "lore" / "__init__.py").write_text(f"import os, sys\ndef main(args):\n    {main}\n", "utf-8")
    metadata = folder / "lore-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: lore\nVersion: 1\n", "utf-8")
    (metadata / "entry_points.txt").write_text("[console_scripts]\nlore = lore:main\n", "utf-8")
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} -S "$@"\n', "utf-8")
    script.chmod(0o755)
    return compare.Tree(script, folder)


@pytest.mark.skipif(sys.platform == "win32", reason="the fake environment is a shell script")
def test_run_returns_results_after_a_crash(tmp_path):
    tree = _tree(tmp_path / "base", "print(args[0]); args[0] == 'crash' and os._exit(3); return len(args)")
    tasks = [compare.Task("fixtures", tmp_path, words, 0) for words in (("a", "b"), ("c",), ("crash",), ("d",), ("e",))]
    results = compare.run(tree, tasks, tmp_path / "runs")
    assert [results[task.name][0] for task in tasks] == [2, 1, compare.CRASHED, 1, 1]
    compare.run(tree, tasks[4:], tmp_path / "runs", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"e\n"


@pytest.mark.skipif(sys.platform == "win32", reason="the fake environment is a shell script")
def test_run_refuses_lore_of_another_folder(tmp_path, capfd):
    tree = _tree(tmp_path / "base", "return 0")._replace(source=tmp_path / "other")
    with pytest.raises(SystemExit):
        compare.run(tree, [compare.Task("fixtures", tmp_path, ("a",), 0)], tmp_path / "runs")
    assert "not from" in capfd.readouterr().err
