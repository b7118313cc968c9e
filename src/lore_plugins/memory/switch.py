"""The switch of the memory system: the line `system = …` of `[memory]` in a settings file, changed in place."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from lore.config import Loaded, MemorySettings, find
from lore.errors import LoreError
from lore.files import replaced

# The table's first line, the lines of the table up to the key, and its value.
_ENTRY = r"(^[ \t]*\[{}\][^\n]*)(?:((?:\n(?![ \t]*\[)[^\n]*)*?\n[ \t]*system[ \t]*=[ \t]*)(?:\"[^\"\n]*\"|'[^'\n]*'))?"
_KEY = "\nsystem = "


def settings_file(loaded: Loaded, explicit: str | None, own_folder: str) -> Path:
    """Return the file whose `[memory]` counts; the one of this user's settings folder if no file has one."""
    if loaded.file is not None and (explicit is not None or "memory" in loaded.tables or not own_folder):
        return Path(loaded.file)
    return Path(own_folder, "lore.toml")


def read_switch(path: Path) -> MemorySettings:
    """Return the memory settings of a file, the defaults if it does not exist. Raises LoreError."""
    return find(str(path), None).settings.memory if path.exists() else MemorySettings()


def set_switch(path: Path, *, on: bool) -> None:
    """Write `system = "structured"` or `""` into a settings file; all else in it remains. Raises LoreError."""
    read_switch(path)  # raises LoreError for a file with faults
    table, system = "tool.lore.memory" if path.name == "pyproject.toml" else "memory", "structured" if on else ""
    try:
        old_text = path.read_bytes().decode() if path.exists() else ""
        new_text, count = re.subn(
            _ENTRY.format(re.escape(table)), lambda entry: f'{entry[1]}{entry[2] or _KEY}"{system}"', old_text,
            count=1, flags=re.MULTILINE,
        )  # fmt: skip
        if not count:
            new_text = f'{old_text.rstrip()}\n\n[{table}]\nsystem = "{system}"\n'.lstrip()
        memory = expected = tomllib.loads(old_text)
        for name in table.split("."):
            memory = memory.setdefault(name, {})
        memory["system"] = system
        if tomllib.loads(new_text) != expected:
            raise ValueError("it has [memory] in another form")  # noqa: TRY301
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_private = not path.exists() or not path.stat().st_mode & 0o077
        with replaced(os.path.realpath(path), private=is_private) as file:
            file.write(new_text.encode())
    except (OSError, ValueError) as error:
        hint = f'write system = "{system}" into its table [{table}]'
        raise LoreError(f"{path} was not changed: {error}", hint=hint) from None
