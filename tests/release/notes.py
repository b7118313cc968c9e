"""Print the notes of a release: the section of the changelog that has its version.

    python tests/release/notes.py v0.1.0

Exit code 1 where the version has no section, is still called unreleased, or is not the one in `src/lore/__init__.py`.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def notes(changelog: str, tag: str) -> str:
    """Return the section of a tag (`v0.1.0`), without its heading. Raise ValueError if it is missing or empty."""
    version = tag.removeprefix("v")
    section = rf"^## {re.escape(version)}(?P<said> [^\n]*)?\n(?P<text>.*?)(?=^## |\Z)"
    found = re.search(section, changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"the changelog has no section {version}")
    if "unreleased" in (found["said"] or ""):
        raise ValueError(f"the changelog calls {version} unreleased: put the date there first")
    if not found["text"].strip():
        raise ValueError(f"the section {version} of the changelog is empty")
    return found["text"].strip() + "\n"


def packaged() -> str:
    """Return the version that the package says it is."""
    source = (ROOT / "src" / "lore" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', source, re.MULTILINE)
    assert found is not None
    return found[1]


def main(arguments: list[str]) -> int:
    """Print the notes of one tag."""
    (tag,) = arguments
    if tag.removeprefix("v") != packaged():
        sys.stderr.write(f"error: the tag is {tag}, the package is {packaged()}\n")
        return 1
    try:
        sys.stdout.write(notes((ROOT / "CHANGELOG.md").read_text("utf-8"), tag))
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
