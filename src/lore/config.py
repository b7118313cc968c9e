"""Configuration: `lore.toml`, or `[tool.lore]` in `pyproject.toml`, to frozen settings.

lore searches the working directory, then its parents, and uses the first file that has settings. An unknown
key or a wrong type is a LoreError that names the key and suggests the nearest one.

Commands that compact or remember also read `lore.toml` in this user's settings folder: its tables `[compaction]`,
`[memory]` and `[sessions]` apply if the file that was found does not have them. Other commands do not read it, so that
they give the same result on every machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lore.cache.base import Simulate
from lore.compaction.settings import Compaction
from lore.errors import LoreError, Where
from lore.files import SettingsFile, WholeFile, is_named_pipe, relative, with_parents
from lore.judge.policy import Policy
from lore.model.codes import Audience
from lore.model.deferred import pattern
from lore.model.limits import SETTINGS_BYTES
from lore.prompt.base import Rules

__all__ = ["Loaded", "MemorySettings", "Sessions", "Settings", "find"]

MOST_SECS = 1_000_000_000  # seconds: no pause is longer, and dates stay dates
LABEL = 100  # characters of a label


class Check(Policy, frozen=True):
    """`[check]`: the budgets of a run, how findings count, and whom fixes address."""

    reader: Audience | None = None  # audience for fixes; None: by format
    # labels that begin a program's own text (LORE149, LORE151), in addition to lore's
    tail_labels: tuple[str, ...] = ()

    def fault(self) -> str:
        """Return the first fault of these settings; empty without one."""
        for text in self.tail_labels:
            if not 2 <= len(text) <= LABEL or text != text.strip() or len(text.splitlines()) != 1:
                rule = f"one line, 2 to {LABEL} characters without white space around"
                return f"tail_labels: {text!r} is not a label: {rule}"
        return super().fault()


class Sessions(Struct, frozen=True, forbid_unknown_fields=True):
    """`[sessions]`: after `gap_secs` of silence a session is learnt from; 0 is off."""

    gap_secs: Annotated[int, msgspec.Meta(ge=0, le=MOST_SECS)] = 300


class MemorySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`[memory]`, which lore's plug-in `memory` acts on.

    `system = "structured"` remembers, for the listed agents (empty: the main one). Those in `share` are opted in as
    well, and have one memory of a user together. `"summarization"`, openfang's word for summaries alone, remembers
    nothing.
    """

    system: Literal["", "structured", "summarization"] = ""
    agents: tuple[str, ...] = ()
    share: tuple[str, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether anything is remembered."""
        return self.system == "structured"

    def fault(self) -> str:
        """Return the first fault; empty without one."""
        for key, names in (("agents", self.agents), ("share", self.share)):
            if not all(name.isprintable() and name for name in names):
                return f"{key}: a name cannot be printed"
        return "share: list the agents by name" if "*" in self.share else ""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings."""

    check: Check = Check()  # findings that fail a run
    assemble: Rules = Rules()  # how prompts are made
    simulate: Simulate = Simulate()  # how they are priced
    compaction: Compaction | None = None  # when a session is compacted; None: never
    sessions: Sessions = Sessions()  # which sessions are remembered
    memory: MemorySettings = MemorySettings()


class Loaded(Struct, frozen=True):
    """The settings in force."""

    settings: Settings
    file: str | None = None  # their file; None: defaults
    compaction_file: SettingsFile | None = None  # where `[compaction]` was found; None: --config named the file
    tables: frozenset[str] = frozenset()  # that the file has
    hidden: str | None = None  # a settings file that it hides: of the same folder, or any if it sets nothing


def find(explicit: str | None, folder: str | os.PathLike[str] | None) -> Loaded:
    """Return the settings of the file `explicit`, else of the first one found from `folder` up, else the defaults.

    Raises LoreError if the file is missing (`explicit`), unreadable, not TOML, or has a wrong setting.
    """
    if explicit is not None:
        loaded = _read(explicit, is_explicit=True)
        return Loaded(Settings() if loaded is None else loaded.settings, explicit)
    places = with_parents(os.fspath(folder)) if folder else ()
    candidates = (read for place in places for read in _read_folder(place))
    nearest = next(candidates, None)
    if nearest is None or nearest.file is None:
        return Loaded(Settings())
    with suppress(LoreError):  # a faulty file that is not used is no error
        hidden = next(candidates, None)
        file = None if hidden is None else hidden.file
        is_beside = file is not None and os.path.dirname(file) == os.path.dirname(nearest.file)
        if file is not None and (is_beside or nearest.settings == Settings()):
            return replace(nearest, hidden=file)
    return nearest


def find_with_user_settings(explicit: str | None, folder: str | os.PathLike[str] | None, user_folder: str) -> Loaded:
    """Return the settings for a command that compacts or remembers; `user_folder` is this user's settings folder."""
    loaded = find(explicit, folder)
    path = os.path.join(user_folder, "lore.toml")
    user_loaded = _read(path, is_explicit=False) if explicit is None and user_folder and os.path.isfile(path) else None
    if user_loaded is None:
        return loaded
    names = [name for name in _USER_TABLES if name in user_loaded.tables and name not in loaded.tables]
    settings = replace(loaded.settings, **{name: getattr(user_loaded.settings, name) for name in names})
    compaction_file = (user_loaded if "compaction" in names else loaded).compaction_file
    return Loaded(settings, loaded.file, compaction_file)


_USER_TABLES = ("compaction", "memory", "sessions")  # tables that are taken from this user's settings folder


def settings_in(folder: str) -> Loaded:
    """Return the settings of a folder, without those of the folders above."""
    return next(_read_folder(folder), Loaded(Settings()))


def _read_folder(folder: str) -> Iterator[Loaded]:
    paths = (os.path.join(folder, name) for name in ("lore.toml", "pyproject.toml"))
    return (read for path in paths if os.path.isfile(path) and (read := _read(path, is_explicit=False)) is not None)


def policy(name: str) -> Compaction:
    """Return the policy in a file: the keys of `[compaction]`, at its top or in that table; raises LoreError."""
    table, _ = _table(name, name, "--policy names a TOML file with the keys of [compaction]")
    if "compaction" not in table:
        table = {"compaction": table}
    elif len(table) > 1:
        other_key = next(key for key in table if key != "compaction")
        hint = f"put it below [compaction] (a list: [[compaction.{other_key}]]); --config reads a whole lore.toml"
        raise LoreError(f"{name}: {other_key} is next to [compaction]", hint=hint, where=Where(name))
    return _resolve_paths(_settings(table, name).compaction or Compaction(), name)


def _read(path: str, *, is_explicit: bool) -> Loaded | None:
    """Read a settings file; None for a pyproject.toml without settings. Only an explicit one may be a pipe."""
    label = path if is_explicit else relative(path)
    table, file = _table(path, label, _CONFIG_HINT, is_found=not is_explicit)
    if os.path.basename(path) == "pyproject.toml":
        tool: object = table.get("tool", {})
        if not isinstance(tool, dict) or "lore" not in tool:
            return None
        table = cast("dict[str, Any]", tool["lore"])
    if not isinstance(table, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LoreError(f"{label}: tool.lore is not a table", hint="write [tool.lore.check]", where=Where(label))
    settings = _settings(table, label)
    if settings.compaction is not None:
        settings = replace(settings, compaction=_resolve_paths(settings.compaction, path))
    return Loaded(settings, path, file, frozenset(table))


def _resolve_paths(compaction: Compaction, file: str) -> Compaction:
    """Return a policy with the relative paths of its programs made absolute, from the folder of its file."""
    folder = os.path.dirname(os.path.abspath(file))

    def resolve(command: tuple[str, ...]) -> tuple[str, ...]:
        if not command or not os.path.dirname(command[0]):  # a name alone is looked for on the PATH
            return command
        return os.path.normpath(os.path.join(folder, command[0])), *command[1:]

    sources = tuple([replace(source, command=resolve(source.command)) for source in compaction.context_sources])
    return replace(compaction, command=resolve(compaction.command), context_sources=sources)


def _table(path: str, label: str, hint: str, *, is_found: bool = False) -> tuple[dict[str, Any], SettingsFile]:
    try:
        if not is_found and is_named_pipe(path):
            raise LoreError(f"{label} is a named pipe, not a file", hint=hint)
        with WholeFile(path) if is_found else open(path, "rb") as file:
            data, status = file.read(SETTINGS_BYTES + 1), os.fstat(file.fileno())
        if len(data) > SETTINGS_BYTES:
            raise LoreError(f"{label} is not a settings file: it has more than {SETTINGS_BYTES:,} bytes", hint=hint)
        if is_found and os.path.basename(path) == "pyproject.toml" and _TOOL_LORE.search(data) is None:
            return {}, SettingsFile(path, data, status)  # of a project without settings
        import tomllib  # noqa: PLC0415 - few folders have settings

        return tomllib.loads(data.decode("utf-8-sig")), SettingsFile(path, data, status)
    except OSError as error:
        raise LoreError(f"cannot read {label}: {(error.strerror or str(error)).lower()}", hint=hint) from None
    except (ValueError, RecursionError) as error:
        hint = "save it as UTF-8" if isinstance(error, UnicodeDecodeError) else _TOML_HINT
        raise LoreError(f"{label} is not TOML: {error}", hint=hint, where=Where(label)) from None


_TOOL_LORE = pattern(
    rb"""tool["']?\s*\.\s*["']?lore|^\s*\[\s*["']?tool["']?\s*\]|^\s*["']?tool["']?\s*=""", re.MULTILINE
)
_CONFIG_HINT = "--config names a lore.toml, or a pyproject.toml with [tool.lore]"
_TOML_HINT = 'write texts in quotes, lists in brackets: ignore = ["LORE101"]'


def _settings(table: dict[str, Any], path: str) -> Settings:
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        message, hint = _explain_error(str(error))
        raise LoreError(f"{path}: {message}", hint=hint, where=Where(path)) from None
    except LoreError as error:
        raise LoreError(f"{path}: assemble.{error.message}", where=Where(path)) from None
    for name in ("check", "assemble", "simulate", "compaction", "memory"):
        section = getattr(settings, name)
        if fault := "" if section is None else section.fault():
            raise LoreError(f"{path}: {name}.{fault}", where=Where(path))
    return settings


_UNKNOWN = pattern(r"Object contains unknown field `(.*)`", re.DOTALL)
_TYPES = pattern(r"Expected `(?P<expected>[^`]+)`, got `(?P<actual>[^`]+)`")
_RANGE = pattern(r"Expected `(int|float)` ([<>])= (\S+)")
_MISSING = pattern(r"Object missing required field `(\w+)`")
_WORDS = {
    "array": "a list", "object": "a table", "str": "a text", "int": "a whole number", "float": "a number",
    "bool": "true or false",
}  # fmt: skip
_TABLES = ("check.per_path", "check.exempt")


def _explain_error(message: str) -> tuple[str, str]:
    """Return msgspec's error in the terms of a settings file, and a hint what to write instead."""
    message, _, place = message.partition(" - at `$")
    place = place.strip(".`")
    names = re.sub(r"\[\d+\]", "", place).split(".") if place else []
    place = re.sub(r"\[(\d+)\]", lambda number: f", entry {int(number[1]) + 1}", place.replace("].", "]: "))
    if unknown := _UNKNOWN.fullmatch(message):
        key, valid_keys = ".".join((*names, unknown[1])), [field.encode_name for field in _fields_of(_type_at(names))]
        from difflib import get_close_matches  # noqa: PLC0415 - only for an error

        near = get_close_matches(unknown[1], valid_keys, 1)
        hint = f"did you mean {'.'.join((*names, *near))}?" if near else "known keys: " + ", ".join(valid_keys)
        return f"unknown key {key}", hint
    if missing := _MISSING.fullmatch(message):
        return f"{place}: {missing[1]} is missing", f'add {missing[1]} = "…"'
    if limit := _RANGE.fullmatch(message):
        bound = "at least" if limit[2] == ">" else "at most"
        return f"{place} has to be {_WORDS[limit[1]]} of {bound} {limit[3].removesuffix('.0')}", ""
    types = _TYPES.fullmatch(message)
    if types is None:
        type_ = _type_at(names)
        choices = ", ".join(map(repr, get_args(type_))) if get_origin(type_) is Literal else ""
        return f"{place}: {message[:1].lower()}{message[1:]}", choices and f"one of: {choices}"
    actual, expected = (" or ".join(_WORDS.get(part, part) for part in text.split(" | ") if part != "null")
                     for text in (types["actual"], types["expected"]))  # fmt: skip
    table = next((name for name in _TABLES if place.startswith(name)), None)
    hint = 'write ["…", "…"]' if types["expected"] == "array" else ""
    if table is not None and types["expected"] in ("array", "object"):
        hint = f"write [[{table}]] on a line of its own, its keys below it"
    return f"{place} is {actual}, and has to be {expected}", hint


def _type_at(names: list[str]) -> Any:
    """Return the type of the setting with this path of keys; None for an unknown one."""
    type_: Any = Settings
    for name in names:
        type_ = next((field.type for field in _fields_of(type_) if field.encode_name == name), None)
    return type_


def _fields_of(type_: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a struct, or of the struct that a tuple or an optional setting holds; else none."""
    kinds = [kind for kind in (type_, *get_args(type_)) if isinstance(kind, type) and issubclass(kind, Struct)]
    return msgspec.structs.fields(kinds[0]) if kinds else ()
