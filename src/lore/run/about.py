"""What lore says of itself: the formats that it reads, and the caps of the program, each in the line that declares it.

A cap is a constant of a module whose name says so (`MOST_BYTES`, `_LONGEST`, `LOOKED_AT`, ...); the comment behind it
begins with its unit and says what it is of. The source is read, no module is imported: what an extra would need is
listed without it. Cost: one read of the package's source (4 MB).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

from msgspec.structs import replace

from lore.errors import LoreError
from lore.formats.foreign import kinds
from lore.formats.registry import formats
from lore.model.results.found import FormatsResult, Limit, LimitsResult, UnreadFormat
from lore.recording.agents.logs import AGENTS
from lore.recording.base import load_plugins


def list_formats() -> FormatsResult:
    """List all formats, those of plug-ins too."""
    load_plugins()
    rows = [
        replace(found, agents=[agent.name for agent in AGENTS if found.name in agent.formats]) for found in formats()
    ]
    unread = [UnreadFormat(known.agent, known.what, known.why) for known in kinds()]
    return FormatsResult(formats=rows, unread=unread)


NAMES = re.compile(
    r"(?:^|_)(?:MOST|LONGEST|LARGEST|DEEPEST|MAX|LIMIT|KEPT|WORK|LOOKED_AT|LOOKED_INTO|LOOK_BACK|WAITING|COPIES|SIBLINGS"
    r"|WITNESSES|MANY|REMEMBERED|ATTEMPTS|ROOM|RATIO|BEGINNING|CANDIDATES|WALKS|CUTS|REPLAYED|LISTED)(?:_|$)"
)
_CONSTANT = re.compile(r"^(_?[A-Z][A-Z_]*) = ([0-9][0-9_.*<\- ]*)(?:  # ([a-z]+)[:;,]? (.+))?$", re.MULTILINE)


def list_limits() -> LimitsResult:
    """List every cap. Raises LoreError where the package was installed without its source."""
    limits = sorted(_in_folder(resources.files("lore"), ""), key=lambda limit: limit.name)
    if not limits:
        raise LoreError("caps are listed from lore's source, which is not installed", hint="install the wheel of lore")
    return LimitsResult(limits=limits)


def _in_folder(folder: Traversable, package: str) -> Iterator[Limit]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _in_folder(entry, f"{package}{entry.name}.")
        elif entry.name.endswith(".py"):
            module = (package + entry.name.removesuffix(".py")).removesuffix(".__init__")
            for name, amount, unit, reason in _CONSTANT.findall(entry.read_text("utf-8")):
                if NAMES.search(name):
                    yield Limit(f"{module}.{name}", _value(ast.parse(amount, mode="eval").body), unit, reason)


def _value(amount: ast.expr) -> int | float:
    """Compute a constant that is written as a number, a product, a power or a shift."""
    match amount:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp(left, ast.Mult(), right):
            return _value(left) * _value(right)
        case ast.BinOp(left, ast.Pow(), right):
            return _value(left) ** _value(right)
        case ast.BinOp(left, ast.LShift(), right):
            return int(_value(left)) << int(_value(right))
        case ast.BinOp(left, ast.Sub(), right):
            return _value(left) - _value(right)
        case _:
            raise AssertionError(f"a cap is written as no number: {ast.unparse(amount)}")
