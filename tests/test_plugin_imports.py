"""Plug-ins use the core's public names alone, and each of these exists."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from helpers.each import each

SRC = Path(__file__).parents[1] / "src"
PLUGINS = sorted((SRC / "lore_plugins").rglob("*.py"))
ROOMS = sorted(
    ".".join(file.parent.relative_to(SRC).parts)
    for file in (SRC / "lore").rglob("__init__.py")
    if "public_names(" in file.read_text("utf-8")
)


def imported(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the modules of lore that a file imports, with each name taken from them."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.partition(".")[0] in ("lore", "lore_plugins")
        ):
            yield from ((node.module, name.name) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                (name.name, "") for name in node.names if name.name.partition(".")[0] in ("lore", "lore_plugins")
            )


@each(PLUGINS)
def test_plugin_imports_only_exported_names(file):
    own = ".".join(("lore_plugins", *file.relative_to(SRC / "lore_plugins").parts[:1]))
    wrong = []
    for module, name in imported(file):
        if module == own or module.startswith(f"{own}."):
            continue
        is_room = module == "lore" or (module.startswith("lore.") and module.count(".") == 1)
        if (module, name) == ("lore", "__version__"):
            continue
        if not is_room or name not in getattr(import_module(module), "__all__", ()):
            wrong.append(f"from {module} import {name}")
    assert wrong == []


@each(ROOMS)
def test_public_names_of_a_room_exist(room):
    module = import_module(room)
    assert module.__all__
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []


def test_importing_a_module_reads_no_list_of_names():
    code = "import lore.exports as e; e._places_in = None; from lore.model import events; print(events.MAIN)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "main\n"


def test_unknown_name_of_a_room_is_no_attribute():
    with pytest.raises(AttributeError, match="has no attribute 'Tarot'"):
        import_module("lore.formats").Tarot  # noqa: B018 - the access is under test


def test_extra_all_names_every_extra():
    extras = tomllib.loads((SRC.parent / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = set(re.findall(r"[\w-]+", extras["all"][0].partition("[")[2]))
    assert named == extras.keys() - {"all", "dev"}


def test_no_hint_names_an_unpublished_package():
    texts = [file for file in SRC.rglob("*") if file.suffix in (".py", ".md", ".html", ".toml")]
    assert [str(file) for file in texts if "install 'lore-cache" in file.read_text("utf-8")] == []
