"""The source of lore as syntax trees, for tests that read it."""

import ast
from functools import cache
from pathlib import Path

import lore

SOURCE = Path(lore.__file__).parent


@cache
def trees() -> dict[str, ast.Module]:
    """Return the tree of each module by its path below the package. Built once a process; never change them."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))
    }
