"""List what is masked in files: each distinct value with how often it stands there, to see whether it is a credential.

    python tests/soak/masked.py FOLDER…

Each file is looked at as it stands, and each text in its JSON as well, which reports show without its escapes. Values
are shown: for files without real credentials.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lore.model.mask import mask

AROUND = 24  # characters before a value, by which it was known
STARS = re.compile(r"\*+")
LARGEST = 64 * 1024 * 1024  # bytes of a file


def masked(text: str) -> Iterator[tuple[str, str]]:
    """Yield what of a text is masked, and what stands before it."""
    hidden = mask(text)
    if hidden != text:
        for found in STARS.finditer(hidden):
            if text[found.start() : found.end()] != found[0]:
                yield text[slice(*found.span())], text[max(0, found.start() - AROUND) : found.start()]


def texts(value: Any) -> Iterator[str]:
    """Yield every text of a JSON value, names of members as well."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts(item)


def looked_at(path: Path) -> Iterator[str]:
    """Yield a file as it stands, and the texts in its JSON, a line or the whole."""
    whole = path.read_bytes().decode("utf-8", "replace")
    yield whole
    for part in whole.splitlines() if path.suffix == ".jsonl" else [whole]:
        if part[:1] in ("{", "["):
            try:
                yield from texts(json.loads(part))
            except (ValueError, RecursionError):
                continue


def main(folders: list[str]) -> int:
    """Print each value, those that stand there most often first, and how many characters were looked at."""
    found, behind = Counter[str](), dict[str, str]()
    files = characters = 0
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*")):
        if path.is_file() and path.stat().st_size <= LARGEST and b"\0" not in path.read_bytes()[:4096]:
            files += 1
            for text in looked_at(path):
                characters += len(text)
                for value, before in masked(text):
                    found[value] += 1
                    behind.setdefault(value, before)
    for value, times in found.most_common():
        print(f"{times:7,}  {behind[value]!r} {value!r}")
    print(f"{len(found):,} distinct values in {files:,} files, {characters:,} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
