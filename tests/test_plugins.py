"""Plug-ins of other packages are found, and without them nothing is imported."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lore.commands.main import main
from lore.commands.table import BROUGHT, commands
from lore.plugins import EntryPoint, entry_points

LIST = "[console_scripts]\ntheirs = theirs:main\n\n[lore.reports]\nbrief = theirs:Brief\n"


def package(folder, text=LIST):
    """Install a package that has nothing but its metadata."""
    info = folder / "Their-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(text)
    return info


def names(group):
    return [point.name for point in entry_points(group)]


def test_package_in_a_path_folder_is_found(tmp_path, monkeypatch):
    package(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), *sys.path, str(tmp_path)])
    assert (names("lore.reports"), names("lore.rules")) == (["brief"], [])


def test_package_in_a_path_archive_is_found(tmp_path, monkeypatch):
    info, archive = package(tmp_path / "here"), tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in info.iterdir():
            file.write(path, f"{info.name}/{path.name}")
    monkeypatch.setattr(sys, "path", [str(archive)])
    assert names("lore.reports") == ["brief"]


def test_package_of_another_finder_is_found(tmp_path, monkeypatch):
    from importlib.metadata import PathDistribution

    class Finder:
        find_spec = staticmethod(lambda *_: None)
        find_distributions = staticmethod(lambda _: [PathDistribution(package(tmp_path / "elsewhere"))])

    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert names("lore.reports") == ["brief"]


@pytest.mark.parametrize("text", [LIST.replace("lore.", "other."), ""])
def test_nothing_is_imported_without_published_plugins(tmp_path, text):
    package(tmp_path, text)
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r}); from lore.plugins import entry_points; "
        "print(entry_points('lore.reports'), 'importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[] False\n"


OWN = "[lore.reports]\nown = lore_plugins.tarot:Tarot\n"


def test_own_plugin_is_published_with_its_package(tmp_path, monkeypatch):
    package(tmp_path, OWN)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr("lore.plugins.find_spec", lambda name: name)
    assert [point for point in entry_points("lore.reports") if point.name == "own"] == [
        EntryPoint("lore.reports", "own", "lore_plugins.tarot:Tarot")
    ]


def test_own_plugin_is_not_published_without_its_package(tmp_path):
    package(tmp_path, OWN)
    script = (
        f"import sys; sys.path.append({str(tmp_path)!r}); from lore.plugins import entry_points; "
        "print(entry_points('lore.reports'))"
    )
    hidden = Path(__file__).parent / "support" / "core_only"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True,
        env={**os.environ, "PYTHONPATH": str(hidden)},
    )  # fmt: skip
    assert done.stdout == "[]\n"


def test_command_of_a_plugin_is_listed_and_runs(tmp_path, monkeypatch, capsys):
    package(tmp_path, "[lore.commands]\ntarot = tarot_plugin:ROW\n")
    (tmp_path / "tarot_plugin.py").write_text(
        "from lore.commands import LOOK, CommandRow\n"
        "ROW = CommandRow(LOOK, 'start', 'Tell the future.', (('tarot', 'draw a card'),), 'about:guide')\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    commands.cache_clear()
    try:
        assert main(["tarot", "--help"]) == 0
        assert "lore tarot  " in capsys.readouterr().out
    finally:
        commands.cache_clear()


def test_missing_plugin_of_a_command_is_named(monkeypatch, capsys):
    monkeypatch.setitem(BROUGHT, "runes", "cards")
    assert main(["runes"]) == 2
    assert "lore runes needs lore's plug-in 'cards', which this installation lacks" in capsys.readouterr().err
