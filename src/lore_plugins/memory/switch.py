"""The switch of the memory system: the line `system = …` of `[memory]` in a settings file, changed in place."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from lore.config import Loaded, MemorySettings, find
from lore.errors import LoreError
from lore.files import replaced

_ENTRY = r"(^[ \t]*\[{table}\][^\n]*\n(?:(?![ \t]*\[)[^\n]*\n)*?[ \t]*system[ \t]*=[ \t]*)(\"[^\"\n]*\"|'[^'\n]*')"


def settings_file(loaded: Loaded, explicit: str | None, own_folder: str) -> Path:
    """Return the file whose `[memory]` counts; the one of this user's settings folder if no file has one."""
    if loaded.file is not None and (explicit is not None or "memory" in loaded.tables or not own_folder):
        return loaded.file
    return Path(own_folder, "lore.toml")


def read_switch(path: Path) -> MemorySettings:
    """Return the memory settings of a file, the defaults if it does not exist. Raises LoreError."""
    return find(str(path), None).settings.memory if path.exists() else MemorySettings()


def set_switch(path: Path, *, on: bool) -> None:
    """Write `system = "structured"` or `""` into a settings file; all else in it remains. Raises LoreError."""
    read_switch(path)  # raises LoreError for a file with faults
    table = ["tool", "lore", "memory"] if path.name == "pyproject.toml" else ["memory"]
    head, value = re.escape(".".join(table)), '"structured"' if on else '""'
    try:
        before = path.read_bytes().decode() if path.exists() else ""
        after, found = re.subn(_ENTRY.format(table=head), rf"\g<1>{value}", before, count=1, flags=re.MULTILINE)
        if not found:
            line = f"\n[{'.'.join(table)}]\nsystem = {value}\n"
            after, found = re.subn(
                rf"^[ \t]*\[{head}\][^\n]*$", rf"\g<0>\nsystem = {value}", before, count=1, flags=re.MULTILINE
            )
            after = after if found else f"{before.rstrip()}\n{line}".lstrip()
        wanted = memory = tomllib.loads(before)
        for name in table:
            memory = memory.setdefault(name, {})
        memory["system"] = value.strip('"')
        if _loaded(after) != wanted:  # written in another way, such as `memory.system = ""`
            raise LoreError(
                f"{path} was not changed", hint=f"write system = {value} into its table [{'.'.join(table)}]"
            )
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_private = not path.exists() or not path.stat().st_mode & 0o077
        with replaced(os.path.realpath(path), private=is_private) as file:
            file.write(after.encode())
    except (OSError, ValueError) as error:
        raise LoreError(f"{path} cannot be changed: {error}") from None


def _loaded(text: str) -> object:
    try:
        return tomllib.loads(text)
    except ValueError:
        return None
