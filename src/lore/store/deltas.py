"""Durable prompt deltas among the events of a session: the rows that stores keep of them.

Rules: one row a `seq`; a later record may replace the selector, never the content (design, section 3); selector and
content are JSON text, to the byte, with whatever fields a writer put there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from lore.formats.lore_log import LoreLog
from lore.model.events import PromptDelta
from lore.model.items import is_absent
from lore.store.base import DeltaRow

_WORD, _CAMEL = b'"prompt_delta"', b'"promptDelta"'
_SPELLED = re.compile(rb"\\u00[4-7]")  # a letter as an escape, which may be one of those words; nobody writes it


class Row(NamedTuple):
    """A record of a prompt delta; `content` is None where it only replaces the selector."""

    seq: int
    selector: bytes
    content: bytes | None


def rows_of(lines: Iterable[bytes]) -> list[Row]:
    """Return the records of prompt deltas among lines, in order. Costs a look at each line."""
    found: list[Row] = []
    for line in lines:
        if not (_WORD in line or _CAMEL in line or (b"\\u00" in line and _SPELLED.search(line))):
            continue
        for read in LoreLog().feed(line + b"\n"):
            event = read.value
            if isinstance(event, PromptDelta):
                content = None if is_absent(event.content) else bytes(event.content)
                found.append(Row(event.seq, bytes(event.selector), content))
    return found


def put_together(session_id: str, project_id: str | None, rows: Iterable[Row]) -> tuple[DeltaRow, ...]:
    """Return what is kept of these records, by `seq`."""
    kept: dict[int, DeltaRow] = {}
    for row in rows:
        before = kept.get(row.seq)
        content = (row.content or b"null") if before is None or before.content == b"null" else before.content
        kept[row.seq] = DeltaRow(session_id, row.seq, project_id, row.selector, content)
    return tuple(kept[seq] for seq in sorted(kept))
