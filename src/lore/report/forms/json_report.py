"""Results as JSON: one object a line, keys in the order of the contract, credentials masked."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec
from msgspec import UNSET, Raw

from lore.model.canonical import encode
from lore.model.mask import mask
from lore.model.results import CheckResult
from lore.model.results.lint import LintResult
from lore.report.plain import escaped

if TYPE_CHECKING:
    from lore.report.console import Console


def render(result: msgspec.Struct | list[list[object]]) -> str:
    """Encode a result, or rows of one, as one line, without the line feed."""
    try:
        spelled = msgspec.json.encode(result)
    except UnicodeEncodeError:
        spelled = _slowly(result)
    return safe(spelled.decode("utf-8"))


def safe(text: str) -> str:
    """Return JSON text without credentials, and without what a terminal would obey or not show."""
    text = mask(text).replace("##[", "##\\u005b")  # what GitHub's runner would obey; it stands in texts alone
    return escaped(text)


def _slowly(value: object) -> bytes:
    """Encode a result that quotes half a surrogate pair, as recordings may: it stays an escape."""
    match value:
        case Raw():
            return bytes(value)
        case msgspec.Struct():
            tag = value.__struct_config__
            members: dict[str, object] = {} if tag.tag_field is None else {tag.tag_field: tag.tag}
            members |= {name: getattr(value, name) for name in value.__struct_fields__}
            return _slowly({name: member for name, member in members.items() if member is not UNSET})
        case dict():
            table = cast("dict[str, object]", value)
            return b"{" + b",".join([encode(key) + b":" + _slowly(member) for key, member in table.items()]) + b"}"
        case list() | tuple():
            return b"[" + b",".join(map(_slowly, cast("list[object]", value))) + b"]"
        case _:
            return encode(value)


class Json:
    """`lore check --json`."""

    mixes = False

    def write(self, result: CheckResult | LintResult, out: Console, *, verbose: bool) -> None:
        out.file.write(render(result) + "\n")


class JsonLines:
    """Every finding as a line of its own, notes too."""

    mixes = False

    def write(self, result: CheckResult | LintResult, out: Console, *, verbose: bool) -> None:
        for finding in result.findings:
            out.file.write(render(finding) + "\n")
        out.file.write(render(msgspec.structs.replace(result, findings=[])) + "\n")
