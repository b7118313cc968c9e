"""Which lore this is, and by which settings it judges: what two processes must share for their results to be one.

In: nothing, or a configuration. Out: a version, digests. Rules: a digest is of contents, so that it is the same on
every machine; two that are equal judge equal bytes alike. Cost: this package is read once a process (4 MB, 30 ms).
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import lore
from lore.errors import LoreError, Where
from lore.files import WholeFile
from lore.judge.file_record import VERSION
from lore.plugins import published
from lore.recording.base import PLUGIN_GROUPS
from lore.run.checking.verdicts import CheckConfig

_OPTIONAL = ("compression.zstd", "zstandard", "brotli")  # without them some recordings cannot be read


class Program(NamedTuple):
    """A lore: its version, a digest of its code and data, its plug-ins, the optional packages that read recordings."""

    version: str
    digest: str
    plugins: tuple[str, ...]
    optional: tuple[str, ...]


@cache
def program() -> Program:
    """Say which lore this process runs."""
    root, digest = Path(lore.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".toml", ".json"):
            digest.update(
                f"{path.relative_to(root).as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}".encode()
            )
    points = [point for group in PLUGIN_GROUPS for point in published(group)]
    plugins = {f"{point.name}={point.value}" for point in points}
    return Program(lore.__version__, digest.hexdigest(), tuple(sorted(plugins)), tuple(filter(_is_there, _OPTIONAL)))


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def rules_digest(path: str) -> str:
    """Return a digest of a user's file of rules; empty where the packaged ones hold. Raises LoreError."""
    if not path:
        return ""
    try:
        with WholeFile(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LoreError(f"cannot read {path}: {error.strerror}", where=Where(path)) from None


def maker_of(config: CheckConfig) -> str:
    """Return a digest of all that results are made by but the recording: this lore and the settings."""
    options, dated = config.options, config.dated
    parts = (
        VERSION, program(), options.format, options.dialect, options.policy, options.rules, options.completion,
        options.template, config.budgets, config.policy, config.compared, rules_digest(dated.path), dated.tolerance,
        dated.labels, config.reader, config.redact,
    )  # fmt: skip
    return hashlib.sha256(json.dumps(list(map(repr, parts))).encode()).hexdigest()
