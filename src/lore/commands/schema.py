"""`lore schema`: the JSON Schema of a result; the comment of a field in the source is its description."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import takewhile
from typing import Annotated, Any, cast

import msgspec
import typer
from msgspec import Struct

_FIELD = re.compile(r"    (\w+): [^#]*?(?:  # (.*))?")


def schemas() -> dict[str, type[Struct]]:
    """Return all results by the names of their schemas, those of plug-ins included."""
    from lore.commands.table import commands
    from lore.model import results
    from lore.model.results import assemble, compact, found, lint, live, overview, simulate, store, trust
    from lore.report import trace

    by_name: dict[str, type[Struct]] = {
        "diff-prefix": results.DiffResult,
        "check": results.CheckResult,
        "finding": results.Finding,
        "lint": lint.LintResult,
        "fold": store.FoldResult,
        "assemble-all": assemble.AssembledTurn,
        "assemble-full": assemble.WholeTurn,
        "assemble-explain": assemble.AssembleExplanation,
        "knowledge": store.KnowledgeResult,
        "knowledge-written": store.KnowledgeWritten,
        "simulate": simulate.SimulateResult,
        "simulate-rules": simulate.RulesResult,
        "compact": compact.DryRunResult,
        "compact-written": compact.CompactResult,
        "formats": found.FormatsResult,
        "sessions": found.FoundSessions,
        "statusline": live.RunningSession,
        "overview": overview.Overview,
        "compare": overview.Comparison,
        "trace": trace.Trace,
        "trust": trust.TrustResult,
        "store-list": store.StoreList,
        "store-show": store.StoreShown,
        "store-import": store.StoreImported,
        "store-appended": store.StoreAppended,
        "store-written": store.StoreWritten,
        "store-resolve": store.StoreResolved,
        "store-verify": store.StoreVerified,
        "store-vacuum": store.StoreVacuumed,
    }
    for row in commands().values():
        for name, place in row.schemas.items():
            module, _, struct = place.partition(":")
            by_name[name] = getattr(import_module(module), struct)
    return by_name


def _names(beginning: str) -> list[str]:
    return [name for name in schemas() if name.startswith(beginning)]


def run(
    name: Annotated[
        str | None,
        typer.Argument(
            help="diff-prefix, check, fold, assemble-all, …; without one, all names.", autocompletion=_names
        ),
    ] = None,
) -> int:
    """Print the JSON Schema of a result."""
    from lore.errors import LoreError, did_you_mean

    by_name = schemas()
    if name is None:
        sys.stdout.write("\n".join(by_name) + "\n")
        return 0
    if name not in by_name:
        raise LoreError(f"no result is called {name!r}", hint=did_you_mean(name, by_name, "results"))
    uri = "https://json-schema.org/draft/2020-12/schema"
    schema = {"$schema": uri, "title": f"lore {name}", **json_schema(by_name[name])}
    sys.stdout.write(json.dumps(schema, indent=2) + "\n")
    return 0


def json_schema(kind: type[Struct]) -> dict[str, Any]:
    """Return the schema of a struct and of all structs in it."""
    schema = msgspec.json.schema(kind)
    structs: dict[str, type[Struct]] = {}
    _add_structs(msgspec.inspect.type_info(kind), structs)
    for name, part in schema["$defs"].items():
        struct = structs.get(name)
        if struct is None or "properties" not in part:
            continue
        if struct.__doc__:
            part["description"] = inspect.cleandoc(struct.__doc__)
        for field, comment in field_comments(struct).items():
            if field in part["properties"]:
                part["properties"][field]["description"] = comment
    return schema


def field_comments(struct: type[Struct]) -> dict[str, str]:
    """Return the comment of each field that has one: after the field on its line, or on the lines above it."""
    comments: dict[str, str] = {}
    for kind in reversed(struct.__mro__):
        if not issubclass(kind, Struct) or kind is Struct:
            continue
        comment_lines: list[str] = []
        for line in _body(kind):
            if line.startswith("    # "):
                comment_lines.append(line[6:])
                continue
            field = _FIELD.fullmatch(line)
            if field is not None and (words := [*comment_lines, *filter(None, field.groups()[1:])]):
                comments[field[1]] = " ".join(words)
            comment_lines = []
    return comments


def _body(kind: type) -> Iterator[str]:
    """Yield the lines of a class below its first one. `inspect.getsource` parses the whole module for each class."""
    lines = iter(_source(kind.__module__))
    next(line for line in lines if line.startswith(f"class {kind.__name__}("))
    yield from takewhile(lambda line: not line or line.startswith((" ", ")")), lines)


@cache
def _source(module: str) -> list[str]:
    return inspect.getsource(import_module(module)).splitlines()


def _add_structs(info: object, structs: dict[str, type[Struct]]) -> None:
    """Collect the structs in a type by name."""
    if isinstance(info, msgspec.inspect.StructType):
        if info.cls.__name__ in structs:
            return
        structs[info.cls.__name__] = info.cls
    if isinstance(info, Struct):
        for name in info.__struct_fields__:
            _add_structs(getattr(info, name), structs)
    elif isinstance(info, tuple):
        for part in cast("tuple[object, ...]", info):
            _add_structs(part, structs)
