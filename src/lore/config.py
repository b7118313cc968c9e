"""Configuration: `lore.toml`, or `[tool.lore]` in `pyproject.toml`, to frozen settings.

Looked for in the working directory, then in its parents; the first that has settings holds. Strict: an
unknown key or a wrong type is a LoreError that names the key and suggests the nearest one.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from lore.check.budgets import Budgets
from lore.errors import LoreError, Where
from lore.prompt.settings import Rules


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings; `[check]` holds the budgets, `[assemble]` how prompts are made."""

    check: Budgets = Budgets()
    assemble: Rules = Rules()


def load(explicit: str | None, folder: Path) -> Settings:
    """Return the settings in force; `explicit` names a file, else it is looked for from `folder` up."""
    if explicit is not None:
        return _read(Path(explicit), named=True) or Settings()
    for place in (folder, *folder.parents):
        for name in ("lore.toml", "pyproject.toml"):
            if (place / name).is_file() and (found := _read(place / name, named=False)) is not None:
                return found
    return Settings()


def _read(path: Path, *, named: bool) -> Settings | None:
    try:
        table = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise LoreError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, RecursionError) as error:
        raise LoreError(f"{path} is no TOML: {error}", where=Where(str(path))) from None
    if path.name == "pyproject.toml":
        tool: object = table.get("tool", {})
        if not isinstance(tool, dict) or "lore" not in tool:
            return Settings() if named else None
        table = cast("dict[str, Any]", tool["lore"])
    if not isinstance(table, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LoreError(f"{path}: tool.lore is no table", where=Where(str(path)))
    return _settings(table, path)


def _settings(table: dict[str, Any], path: Path) -> Settings:
    _check_keys(table, Settings, path, "")
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        raise LoreError(f"{path}: {error}", where=Where(str(path))) from None
    for name, section in (("check", settings.check), ("assemble", settings.assemble)):
        fault = section.fault()
        if fault:
            raise LoreError(f"{path}: {name}.{fault}", where=Where(str(path)))
    return settings


_SECTIONS: dict[str, type[Struct]] = {"check": Budgets, "assemble": Rules}


def _check_keys(table: dict[str, Any], kind: type[Struct], path: Path, prefix: str) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    for key, value in table.items():
        if key not in names:
            near = difflib.get_close_matches(key, names, 1)
            hint = f"did you mean {prefix}{near[0]}?" if near else "known keys: " + ", ".join(names)
            raise LoreError(f"{path}: unknown key {prefix}{key}", hint=hint, where=Where(str(path)))
        section = _SECTIONS.get(key) if not prefix else None
        if section is not None and isinstance(value, dict):
            _check_keys(cast("dict[str, Any]", value), section, path, f"{key}.")
