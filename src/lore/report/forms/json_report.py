"""Results as JSON: one object a line, keys in the order of the contract, credentials masked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from lore.model.mask import mask
from lore.model.results import CheckResult
from lore.model.results.lint import LintResult
from lore.report.plain import escaped

if TYPE_CHECKING:
    from lore.report.console import Console


def render(result: msgspec.Struct | list[list[object]]) -> str:
    """Encode a result, or rows of one, as one line, without the line feed."""
    try:
        text = msgspec.json.encode(result).decode("utf-8")
    except UnicodeEncodeError:  # it quotes half a surrogate pair, as recordings may
        plain = msgspec.to_builtins(result, enc_hook=lambda raw: json.loads(bytes(raw)))
        text = json.dumps(plain, separators=(",", ":"))
    return safe(text)


def safe(text: str) -> str:
    """Return JSON text without credentials, and without what a terminal would interpret or not show."""
    text = mask(text).replace("##[", "##\\u005b")  # GitHub's runner obeys it; in JSON it occurs in texts only
    return escaped(text)


class Json:
    """`lore check --json`."""

    mixes = False

    def write(self, result: CheckResult | LintResult, out: Console, *, verbose: bool) -> None:
        out.file.write(render(result) + "\n")


class JsonLines:
    """Every finding as a line of its own, notes too; the last line has the sums."""

    mixes = False

    def write(self, result: CheckResult | LintResult, out: Console, *, verbose: bool) -> None:
        for finding in result.findings:
            out.file.write(render(finding) + "\n")
        out.file.write(render(msgspec.structs.replace(result, findings=[])) + "\n")
