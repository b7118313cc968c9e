"""The pure rooms touch neither disk nor clock nor screen; modules state their purpose; one name is one class."""

import ast
import re
from collections import Counter, defaultdict

import pytest

from helpers.sources import SOURCE, trees

PURE = ("model", "formats", "fold", "prompt", "prefix", "cache", "judge")
CALLS = frozenset(["open", "print", "input", "exec", "eval", "breakpoint", "__import__"])
METHODS = frozenset(
    [
        "datetime.now",
        "datetime.utcnow",
        "datetime.today",
        "date.today",
        "time.time",
        "os.environ",
        "sys.stdout",
        "sys.stderr",
    ]
)
MODULES = frozenset(
    [
        "os",
        "pathlib",
        "time",
        "random",
        "secrets",
        "uuid",
        "socket",
        "sqlite3",
        "subprocess",
        "logging",
        "rich",
        "typer",
        "sys",
    ]
)


def forbidden(tree):
    """Name what a pure module must not do."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield f"line {node.lineno}: {name}()"
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if f"{owner}.{name}" in METHODS:
                yield f"line {node.lineno}: {owner}.{name}"
            case ast.Attribute(value=ast.Attribute(attr=owner), attr=name) if f"{owner}.{name}" in METHODS:
                yield f"line {node.lineno}: {owner}.{name}"
            case ast.Import(names=names):
                yield from (f"line {node.lineno}: {one.name}" for one in names if one.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                yield f"line {node.lineno}: {module}"
            case ast.Global():
                yield f"line {node.lineno}: global"
            case _:
                pass


def test_pure_module_has_no_side_effects():
    pure = {path: list(forbidden(tree)) for path, tree in trees().items() if path.partition("/")[0] in PURE}
    assert {path: found for path, found in pure.items() if found} == {}
    assert {path.partition("/")[0] for path in pure} == {*PURE}


@pytest.mark.parametrize("code", [
    "open('x')", "print(1)", "datetime.now()", "datetime.datetime.now()", "import os", "from pathlib import Path",
    "import os.path",
])  # fmt: skip
def test_scan_finds_forbidden_names(code):
    assert list(forbidden(ast.parse(code)))


def test_readers_decode_records_in_one_place():
    """Each other decoder would have other limits, and would refuse lone surrogates."""
    rooms = [SOURCE / "formats", SOURCE / "recording", SOURCE.parent / "lore_plugins" / "formats"]
    files = [path for room in rooms for path in room.rglob("*.py")]
    decoder = re.compile(r"msgspec\.json\.(?:Decoder|decode)\(|(?:orjson|json)\.loads?\(")
    assert [path for path in files if decoder.search(path.read_text("utf-8"))] == []


def test_every_module_states_its_purpose():
    assert [path for path, tree in trees().items() if not ast.get_docstring(tree)] == []


def test_no_two_modules_share_a_class_name():
    """A name with nine meanings could be read only together with its import."""
    where = defaultdict(set)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                where[node.name].add(path)
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


def test_no_folder_has_too_many_files():
    files = Counter(path.rpartition("/")[0] for path in trees())
    assert {folder: count for folder, count in files.items() if count > 25} == {}


def test_map_is_short_and_names_every_room():
    text = (SOURCE / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 120
    rooms = [path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))]
    assert [room for room in rooms if f"`{room}/`" not in text] == []
