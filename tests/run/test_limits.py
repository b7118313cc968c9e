"""`lore limits`: every cap, read from the line that declares it."""

from __future__ import annotations

import ast
import importlib
import re
from contextlib import suppress

import pytest

from cli.running import lore
from helpers.schemas import valid
from helpers.sources import trees
from lore.errors import LoreError
from lore.run import about as limits

UNITS = {
    "anchors", "bits", "blocks", "bodies", "breakpoints", "bytes", "calls", "characters", "clients", "columns", "days",
    "deltas", "differences", "entries", "events", "fields", "findings", "items", "layers", "levels", "lines",
    "messages", "names", "parts", "problems", "processes", "programs", "requests", "rows", "seconds", "segments",
    "answers", "breaks", "chains", "files", "folders", "inputs", "logs", "objects", "patterns",
    "places", "positions", "sentences", "series", "sessions", "signs", "turns", "slots", "tables",
    "texts", "times", "tokens", "tools", "topics", "units", "values",
}  # fmt: skip
CAPS = {limit.name: limit for limit in limits.list_limits().limits}


def modules():
    """Yield each module of the package: its name below `lore`, its tree."""
    for path, tree in trees().items():
        yield path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"), tree


def numbers(tree):
    """Yield the names of the numbers that a module declares."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            value = node.value
            while isinstance(value, ast.BinOp):
                value = value.left
            number = isinstance(value, ast.Constant) and type(value.value) in (int, float)
            if number and isinstance(target, ast.Name):
                yield target.id


def test_every_constant_that_is_named_as_a_cap_is_listed():
    named = {f"{module}.{name}" for module, tree in modules() for name in numbers(tree) if limits.NAMES.search(name)}
    assert sorted(named - CAPS.keys()) == []
    assert len(named) > 100


def test_a_cap_has_a_unit_and_says_what_it_is_of():
    """The comment of a cap begins with its unit."""
    assert {name: cap.unit for name, cap in CAPS.items() if cap.unit not in UNITS} == {}
    assert [name for name, cap in CAPS.items() if len(cap.reason) < 5] == []


def test_a_cap_has_the_value_that_its_module_uses():
    used = {}
    for name in CAPS:
        module, _, constant = name.rpartition(".")
        with suppress(ImportError):  # its extra is not installed
            used[name] = getattr(importlib.import_module(f"lore.{module}"), constant)
    assert used == {name: CAPS[name].value for name in used}
    assert len(used) > 0.9 * len(CAPS)


def test_no_cap_hides_as_a_bare_number():
    bare = [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(isinstance(right, ast.Constant) and isinstance(right.value, int) and right.value >= 1000
                for right in node.comparators)
        and re.match(r"(len|sum)\(", ast.unparse(node.left))
    ]  # fmt: skip
    assert bare == []


SAFE = {  # what is no cap: the bytes that there are, the thousandths of a second, a made session of a contract suite
    "range(256)", "range(1000)", "range(1, 2500)",
}  # fmt: skip


def bounds(node):
    """Return the numbers by which an expression bounds what it takes: in a slice, a range, a cache."""
    if isinstance(node, ast.Slice):
        return [part.operand if isinstance(part, ast.UnaryOp) else part for part in (node.lower, node.upper)]
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("range", "islice", "lru_cache", "deque"):
        return [*node.args, *(named.value for named in node.keywords)]
    return []


def test_no_slice_range_or_cache_has_a_cap_without_a_name():
    """`lore limits` did not list what was cut at a bare `[:4096]`, nor how much a bare `lru_cache(65536)` holds."""
    bare = [
        f"{module}:{node.lineno if hasattr(node, 'lineno') else 0}: {ast.unparse(node)}"
        for module, tree in modules()
        for node in ast.walk(tree)
        for part in bounds(node)
        if isinstance(part, ast.Constant) and type(part.value) is int and part.value >= 256
        if ast.unparse(node) not in SAFE
    ]
    assert bare == []


def test_a_person_reads_a_line_a_cap_and_a_program_reads_json():
    out = lore("limits").out
    (line,) = (line for line in out.splitlines() if " formats.bounds.LONGEST " in line)
    assert re.match(r" *12 Mi +bytes +formats\.bounds\.LONGEST +of a line: ", line)
    answer = valid(lore("limits", "--json").json, "limits")
    assert {cap["name"]: cap["value"] for cap in answer["limits"]} == {name: cap.value for name, cap in CAPS.items()}


def test_a_package_without_source_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(limits.resources, "files", lambda _: tmp_path)
    with pytest.raises(LoreError, match="source, which is not installed"):
        limits.list_limits()
