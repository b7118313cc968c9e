"""What `opencode run --format json` prints: the parts of responses, one a line, each step with its usage.

A step is one request. It begins with `step_start`, has `text`, `reasoning` and `tool_use` parts (a tool has its result
with it), and ends with `step_finish`, which counts its tokens. Prompts and the name of the model are not printed.

Sources: public descriptions of the output of OpenCode 1.1 to 1.18, with examples (December 2025 to August 2026).
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Raw, Struct

from lore.formats.agents.opencode import OpenCode, OpenCodeInfo, OpenCodePart, OpenCodeRecord, OpenCodeTime
from lore.formats.lines import nonblank_lines
from lore.formats.values import stamp_of, text_at
from lore.model.items import NULL
from lore.model.jsonslice import members_at

_TYPES = frozenset(("step_start", "text", "reasoning", "tool_use", "step_finish"))


class _RunLine(Struct, frozen=True, gc=False, rename={"session_id": "sessionID"}):
    type: str
    timestamp: Raw = NULL
    session_id: str = ""
    part: OpenCodePart | None = None
    error: dict[str, Raw] | None = None


class OpenCodeRun(OpenCode):
    """Reader of the output of `opencode run --format json`."""

    name: ClassVar[str] = "opencode-run"
    paths: ClassVar[tuple[str, ...]] = ("",)
    reads_arrays: ClassVar[bool] = True
    unseen: ClassVar[str] = "prompts of the user, the system prompt, the schemas of tools and the name of the model"

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[OpenCodePart] = []  # of the step under way
        self._begun = self._ended = NULL  # when its first and its last part were printed

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        record = members_at(next(nonblank_lines(head), b""))
        part = members_at(record, "part")
        return text_at(record, "type") in _TYPES and part.keys() >= {"type", "messageID"} and "sessionID" in record

    def handle(self, data: bytes) -> None:
        record, session = self.session.decode(_RunLine, data), self.session
        session.at = stamp_of(record.timestamp)
        session.start_session(record.session_id, at=session.at)
        self._begun, self._ended = self._begun if self._parts else record.timestamp, record.timestamp
        if record.part is not None and record.type in _TYPES:
            self._parts.append(record.part)
            if record.type == "step_finish":
                self._end_step()
        elif record.error is not None:
            self._end_step(record.error)
        else:
            session.keep_unknown("unknown record type", record.type)

    def finish(self) -> None:
        self._end_step()

    def _end_step(self, error: dict[str, Raw] | None = None) -> None:
        """Report the step under way as the response that the client keeps for it."""
        parts, self._parts = self._parts, []
        if parts or error is not None:
            name = parts[0].message_id if parts else ""
            time = OpenCodeTime(created=self._begun, completed=self._ended)
            self.read_message(OpenCodeRecord(OpenCodeInfo(name, "assistant", time=time, error=error), parts))
