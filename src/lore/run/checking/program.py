"""A digest of everything but the recording that a result depends on: two processes with the same one judge alike.

It is made of contents, so it is the same on every machine. Reading the package takes 30 ms, once a process.
"""

from __future__ import annotations

import hashlib
import json
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import lore
from lore.judge.totals import VERSION
from lore.plugins import published
from lore.recording.base import PLUGIN_GROUPS
from lore.run.checking.verdicts import CheckContext


def maker_of(context: CheckContext) -> str:
    """Return a digest of this lore and of how it judges; raises LoreError if the user's file of rules is unreadable."""
    dated = context.dated
    dated.known()
    rules = Path(dated.path).read_bytes() if dated.path else b""
    parts = (
        VERSION, _program(), context.options.format, context.options.rules, context.budgets, context.policy,
        hashlib.sha256(rules).hexdigest(), dated.tolerance, dated.labels, context.reader, context.redact,
    )  # fmt: skip
    return hashlib.sha256(json.dumps(list(map(repr, parts))).encode()).hexdigest()


@cache
def _program() -> str:
    """Return a digest of this lore: version, code and data, plug-ins, and the packages that it can unpack with."""
    digest = hashlib.sha256(lore.__version__.encode())
    src = Path(lore.__file__).parents[1]
    files = [path for package in ("lore", "lore_plugins") for path in (src / package).rglob("*")]
    for path in sorted(path for path in files if path.suffix in (".py", ".toml", ".json")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(src).as_posix()}\0{content}".encode())
    plugins = {f"{point.name}={point.value}" for group in PLUGIN_GROUPS for point in published(group)}
    unpacking = [*filter(find_spec, ("zstandard", "brotli")), sys.version_info >= (3, 14)]  # which has zstd
    digest.update(json.dumps([sorted(plugins), unpacking]).encode())
    return digest.hexdigest()
