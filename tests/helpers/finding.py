"""Name the test files of a module of lore, the nearest first.

    python tests/helpers/finding.py cache/radix.py

Nearest is a file of the module's name, then of its folder's (`formats/codex/items.py`: `test_codex.py`); then one that
imports the module, else one of a module that does; else one of its room that says its name. `tests/test_finding.py`
holds that each module has some.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SOURCE = TESTS.parent / "src" / "lore"


def modules() -> list[Path]:
    """List lore's modules, below `src/lore`."""
    return sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if not path.name.startswith("__"))


def files_for(module: Path) -> list[str]:
    """Name the test files of a module (`cache/radix.py`), below `tests`."""
    return list(dict.fromkeys([*_named(module), *sorted(_using(module), key=lambda test: (_far(test, module), test))]))


def _using(module: Path) -> set[str]:
    """The files that import a module, else those of the modules that do, and so on."""
    users, seen = {_dotted(module)}, set[str]()
    while users:
        seen |= users
        users = {user for name in users for user in _importers()[name]} - seen
        if found := users & _tests().keys() or {test for user in users for test in _named(_path(user))}:
            return found
    word = module.stem.replace("_", "-")  # of a table: a command, a form of reports
    said = re.compile(rf"[\"' ]{word}[\"' =]")
    return {test for test, path in _tests().items() if not _far(test, module) and said.search(path.read_text("utf-8"))}


def _far(test: str, module: Path) -> bool:
    return Path(test).parts[0] not in module.parts


def _named(module: Path) -> Iterator[str]:
    """The files of its room that begin with its name, then those with its folder's."""
    stem = module.stem.strip("_")
    for word in (stem, f"{module.parent.name}_{stem}", *module.parent.parts[1:]):
        found = [test for test in _tests() if f"{Path(test).stem}_".startswith(f"test_{word}_")]
        yield from [test for test in found if not _far(test, module)] or found


@cache
def _tests() -> dict[str, Path]:
    return {path.relative_to(TESTS).as_posix(): path for path in sorted(TESTS.rglob("test_*.py"))}


@cache
def _importers() -> dict[str, set[str]]:
    """Return the modules and test files that import each name."""
    found: dict[str, set[str]] = defaultdict(set)
    every = [(_dotted(path.relative_to(SOURCE)), path) for path in SOURCE.rglob("*.py")]
    for user, path in [*every, *_tests().items()]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                found[node.module].add(user)
                for one in node.names:
                    found[f"{node.module}.{one.name}"].add(user)
    return found


def _dotted(module: Path) -> str:
    return ".".join(("lore", *module.with_suffix("").parts)).removesuffix(".__init__")


def _path(name: str) -> Path:
    return Path(*name.split(".")[1:]).with_suffix(".py") if "." in name else Path("__init__.py")


if __name__ == "__main__":
    for given in sys.argv[1:]:
        asked = Path(given).with_suffix(".py")
        asked = asked.resolve().relative_to(SOURCE) if asked.exists() else asked
        print(*files_for(asked)[:12], sep="\n")
