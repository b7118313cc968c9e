"""Configuration: `lore.toml`, or `[tool.lore]` in `pyproject.toml`, to frozen settings.

Looked for in the working directory, then in its parents; the first that has settings holds. Strict: an
unknown key or a wrong type is a LoreError that names the key and suggests the nearest one.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import msgspec
from msgspec import Struct

from lore.check.budgets import Budgets
from lore.check.policy import Policy
from lore.errors import LoreError, Where
from lore.prompt.settings import Rules


class Check(Policy, frozen=True):
    """`[check]`: the budgets of a run, and what findings count as."""

    min_reuse: float | None = None
    max_busts: int | None = None
    max_lost_tokens: int | None = None

    @property
    def budgets(self) -> Budgets:
        """The budgets."""
        return Budgets(self.min_reuse, self.max_busts, self.max_lost_tokens)

    @property
    def policy(self) -> Policy:
        """All but the budgets."""
        return Policy(self.select, self.ignore, self.count_as_waste, self.per_path, self.exempt)

    def fault(self) -> str:
        """Say what is wrong with these settings; empty where nothing is."""
        return self.budgets.fault() or super().fault()


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings; `[check]` says what fails, `[assemble]` how prompts are made."""

    check: Check = Check()
    assemble: Rules = Rules()


class Loaded(NamedTuple):
    """The settings in force, and the file that they come from; None: there is none."""

    settings: Settings
    file: Path | None = None


def load(explicit: str | None, folder: Path) -> Settings:
    """Return the settings in force; `explicit` names a file, else it is looked for from `folder` up."""
    return find(explicit, folder).settings


def find(explicit: str | None, folder: Path) -> Loaded:
    """Return the settings in force, and where they stand."""
    if explicit is not None:
        return Loaded(_read(Path(explicit), named=True) or Settings(), Path(explicit))
    for place in (folder, *folder.parents):
        for name in ("lore.toml", "pyproject.toml"):
            if (place / name).is_file() and (found := _read(place / name, named=False)) is not None:
                return Loaded(found, place / name)
    return Loaded(Settings())


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


def _check_keys(table: dict[str, Any], kind: type[Struct], path: Path, prefix: str) -> None:
    """Raise LoreError for a key that is not known, also in the tables below this one and in lists of tables."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, value in table.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, 1)
            hint = f"did you mean {prefix}{near[0]}?" if near else "known keys: " + ", ".join(fields)
            raise LoreError(f"{path}: unknown key {prefix}{key}", hint=hint, where=Where(str(path)))
        below = _struct_of(fields[key].type)
        if below is not None:
            for one in cast("list[object]", value) if isinstance(value, list) else (value,):
                if isinstance(one, dict):
                    _check_keys(cast("dict[str, Any]", one), below, path, f"{prefix}{key}.")


def _struct_of(type_: Any) -> type[Struct] | None:
    """Return the struct that a field holds, itself or in a tuple; None for a plain value."""
    if isinstance(type_, type) and issubclass(type_, Struct):
        return type_
    return next((one for one in get_args(type_) if isinstance(one, type) and issubclass(one, Struct)), None)
