"""A digest of all that a result depends on except its recording: two processes with the same one judge alike.

It is made of contents, so it is the same on every machine. Reading the package takes 30 ms, once a process.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import lore
from lore.errors import LoreError, Where
from lore.files import WholeFile
from lore.judge.totals import VERSION
from lore.plugins import published
from lore.recording.base import PLUGIN_GROUPS
from lore.run.checking.verdicts import CheckContext

_PACKAGES = ("lore", "lore_plugins")
_OPTIONAL = ("compression.zstd", "zstandard", "brotli")  # without them some recordings cannot be read


def maker_of(context: CheckContext) -> str:
    """Return a digest of this lore and of how it judges; raises LoreError if the user's file of rules is unreadable."""
    options, dated = context.options, context.dated
    parts = (
        VERSION, _program(), options.format, options.dialect, options.policy, options.rules, options.completion,
        options.template, context.budgets, context.policy, _rules_digest(dated.path), dated.tolerance,
        dated.labels, context.reader, context.redact,
    )  # fmt: skip
    return hashlib.sha256(json.dumps(list(map(repr, parts))).encode()).hexdigest()


@cache
def _program() -> str:
    """Return a digest of this lore: version, code and data, plug-ins, and the packages that it can unpack with."""
    digest = hashlib.sha256(lore.__version__.encode())
    src = Path(lore.__file__).parents[1]
    files = (path for package in _PACKAGES for path in (src / package).rglob("*"))
    for path in sorted(path for path in files if path.suffix in (".py", ".toml", ".json")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(src).as_posix()}\0{content}".encode())
    plugins = {f"{point.name}={point.value}" for group in PLUGIN_GROUPS for point in published(group)}
    digest.update(json.dumps([sorted(plugins), list(filter(_is_there, _OPTIONAL))]).encode())
    return digest.hexdigest()


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _rules_digest(path: str) -> str:
    """Return a digest of a user's file of rules; empty if the packaged ones are used."""
    if not path:
        return ""
    try:
        with WholeFile(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LoreError(f"cannot read {path}: {error.strerror}", where=Where(path)) from None
