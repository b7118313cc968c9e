"""A folder of completion files, one request each, as agents built on LiteLLM write them: one conversation.

In: a pack in the order of the times inside the files. Out: exchanges, as `litellm` reads them.
"""

from __future__ import annotations

from typing import ClassVar

from lore.formats.litellm import exchange_of, is_completion
from lore.formats.packs import Member, PackReader
from lore.model.codes import Code, Problem
from lore.model.jsonslice import table
from lore.model.turn import Exchange


class Completions(PackReader):
    """Reader of folders of completion files."""

    name: ClassVar[str] = "completions"

    def _member(self, member: Member) -> list[Exchange | Problem]:
        record = table(member.data.strip())
        if record is None or not is_completion(record):
            return [Problem(Code.REQUEST_NOT_JUDGED, f"{member.header.name}: no completion that lore knows")]
        found = exchange_of(record)
        return [] if found is None else [found]
