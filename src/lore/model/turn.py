"""One model request: its content (`Prompt`), as readers of captures return it (`Exchange`), as it is judged (`Turn`).

A prompt is a list of segments in the provider's render order: tools, system, messages, tail. A segment holds exact
bytes and a path. Cache breakpoints are facts about segments, never part of their bytes. JSON punctuation between
segments is not counted anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain as chained
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from lore.model.canonical import decode
from lore.model.events import Call, PromptHashes, Usage, Verdict
from lore.model.state import Change, Entry, Sign
from lore.model.times import parse_timestamp
from lore.model.vector import Vector

Fidelity: TypeAlias = Literal["wire", "parsed", "structural", "reconstructed", "hashed", "rendered"]
Section: TypeAlias = Literal["tools", "system", "messages"]
# One tool, one text of the system prompt, the envelope of a message, one content block, or a whole message of unknown
# shape.
Kind: TypeAlias = Literal["tool", "text", "envelope", "block", "opaque"]

NO_RESULT = b'"[no result recorded]"'  # the result of a call in a prompt that was sent without one


class Segment(Struct, eq=False, gc=False):
    """The smallest piece that is equal in two prompts or not.

    Segments are equal if section, kind and bytes are: the path changes when history is pruned, and a breakpoint is not
    content.
    """

    section: Section  # the part of the prompt that it belongs to
    path: str  # such as `messages[3].content[0]`
    data: bytes  # exact bytes; of an envelope the members without braces
    kind: Kind = "block"  # a block of content, or the envelope of a message
    breakpoint: bytes | None = None  # the cache breakpoint on it, as JSON
    origin: str = ""  # what an assembled segment was made from
    is_marked_by_message: bool = False  # the breakpoint is a member of the message, not of this block

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Segment):
            return NotImplemented
        return self.data == other.data and self.kind == other.kind and self.section == other.section

    def __ne__(self, other: object) -> bool:
        return not self == other  # Struct's __ne__ does not call __eq__

    def __hash__(self) -> int:
        return hash((self.data, self.kind, self.section))

    @property
    def json(self) -> bytes:
        """Its bytes as a JSON value: an envelope, stored without braces, gets them back."""
        return b"{" + self.data + b"}" if self.kind == "envelope" else self.data


class Prompt(Struct, frozen=True):
    """The content of one request."""

    dialect: str  # name of the request shape
    fidelity: Fidelity  # how close the bytes are to the sent ones
    model: str | None = None  # as the request names it; None: it names none
    head: tuple[Segment, ...] = ()  # tools, then system
    messages: Vector[Segment] = Vector()  # after the head, without `tail`
    tail: tuple[Segment, ...] = ()  # the volatile end that lore added
    breakpoints: tuple[int, ...] = ()  # positions, over head and messages, of segments with a breakpoint
    breakpoint_values: tuple[bytes, ...] = ()  # these breakpoints, as JSON
    auto_breakpoint: bool = False  # the request asks for automatic caching
    params: dict[str, bytes] = {}  # the other fields of the request, as JSON
    partial: bool = False  # the request continues others that are not recorded, so the beginning is missing
    dropped: bytes = b""  # text that the provider removes before it reads the prompt; not in `head`
    deferred: tuple[str, ...] = ()  # names of tools that are only announced; not in `head`

    def __len__(self) -> int:
        return len(self.head) + len(self.messages) + len(self.tail)

    def __iter__(self) -> Iterator[Segment]:
        return chained(self.head, self.messages, self.tail)

    def segment_at(self, position: int) -> Segment | None:
        """Return the segment at a position over head, messages and tail; None past the end."""
        for part in (self.head, self.messages, self.tail):
            if position < len(part):
                return part[position]
            position -= len(part)
        return None

    @property
    def tool_count(self) -> int:
        """The number of segments of tools in `head`: one a tool, and in rendered text those around them."""
        return sum(1 for segment in self.head if segment.section == "tools")

    @property
    def stable(self) -> int:
        """The number of segments before the tail."""
        return len(self.head) + len(self.messages)


class Memo:
    """Segments of parsed messages, so that a history which is sent again is parsed once and shared.

    For each position it keeps the latest `KEEP` new messages; one of over `LONG` bytes replaces all before it. So
    memory is that of a few prompts, whatever the length of the recording. Messages are compared by their bytes.
    """

    KEEP = 4
    LONG = 128 * 1024  # bytes of a message

    def __init__(self) -> None:
        self._messages: dict[int, list[tuple[bytes, tuple[Segment, ...]]]] = {}

    def get(self, index: int, raw: bytes, build: Callable[[], tuple[Segment, ...]]) -> tuple[Segment, ...]:
        """Return the segments of the message at `index`: those of an equal message seen there, else `build()`."""
        messages = self._messages.setdefault(index, [])
        for message, segments in messages:
            if message == raw:
                return segments
        segments = build()
        messages.insert(0, (raw, segments))
        del messages[1 if len(raw) > self.LONG else self.KEEP :]
        return segments


# How a recording keeps the content of a response.
ContentForm: TypeAlias = Literal["nothing", "json", "text", "base64", "events", "elsewhere"]


class StreamedOutput(Struct, frozen=True, gc=False):
    """A response that came in pieces, as the recording keeps it; `lore.formats.outputs` joins them."""

    raw: bytes  # JSON: a string if `form` is text or base64, else an array of events
    form: ContentForm = "text"  # how `raw` spells the stream
    encoding: str = ""  # the content encoding in the response's headers


Output: TypeAlias = bytes | StreamedOutput


class Exchange(Struct, frozen=True):
    """One recorded request and its response."""

    body: bytes  # the JSON of the request
    fidelity: Fidelity  # how close `body` is to the sent bytes
    at: float | None = None  # when the request was sent, in seconds since the epoch
    usage: Usage | None = None  # None: not recorded
    verdict: Verdict | None = None  # what the provider says about a cache miss
    answered: float | None = None  # when the response began, in seconds since the epoch
    response_id: str = ""  # the provider's name for the response; empty: unknown
    output: Output = b""  # a JSON array of the dialect's items or messages, or a stream of them; empty: unknown
    call: Call = Call()  # facts about the request apart from its body
    ended: float | None = None  # when the response was complete, in seconds since the epoch


class PromptBasis(Struct, frozen=True):
    """Everything that a prompt will be made from."""

    entries: Vector[Entry]  # the timeline
    dialect: str  # in which the prompt is written
    model: str | None = None  # that the request names
    head: tuple[object, object] = (None, None)  # system prompt and tools
    fidelity: Fidelity = "reconstructed"  # of the prompt; structural if the log lacks only the client's own tools


# A prompt, or a function that makes it and the names of the blocks that its dialect cannot express.
PromptSource: TypeAlias = Prompt | Callable[[], tuple[Prompt, Vector[str]]]


class Turn(Struct):
    """One model request. Its prompt may be made at its first use, from `basis`."""

    chain: str  # the conversation that it belongs to
    number: int  # in its chain, from 1
    source: PromptSource  # the prompt, or a function that makes it
    changes: tuple[Change, ...] = ()  # recorded reasons for the prompt to differ from the previous one
    sent: str | float | None = None  # as recorded
    answered: str | float | None = None  # when the response began, as recorded
    usage: Usage | None = None  # None: not recorded
    verdict: Verdict | None = None  # what the provider says about a cache miss
    line: int | None = None  # where the recording holds the turn
    byte: int | None = None  # where its line begins, from 0
    omitted: Vector[str] = Vector()  # blocks that the dialect cannot express; empty until the prompt is made
    response_id: str | None = None  # the provider's name for the response; copies of a turn have the same
    unexpressed: Vector[str] = Vector()  # types of records in the timeline that no prompt can hold, if asked for
    basis: PromptBasis | None = None  # of a transcript's prompt; None: the request was recorded, or lore made it
    call: Call = Call()  # facts about a recorded request apart from its body
    file: str = ""  # the file that holds the turn, if the recording has several
    given_up: str = ""  # the chain from which this one restarted
    signs: tuple[Sign, ...] = ()  # other signals in the log since the previous turn
    hashes: PromptHashes | None = None  # what the client recorded of the prompt by hash
    generated: Callable[[], Sequence[Segment]] | None = None  # the response as segments of the next prompt, if recorded
    ended: float | None = None  # when the response was complete

    @property
    def failed(self) -> bool:
        """Whether the provider refused the request (HTTP status from 400 on): it was not billed and wrote no cache."""
        return self.call.status is not None and self.call.status >= 400

    @property
    def prompt(self) -> Prompt:
        """The prompt; made at its first use, which sets `omitted` too."""
        source = self.source
        if isinstance(source, Prompt):
            return source
        self.source, self.omitted = source()
        return self.source

    @property
    def model(self) -> str | None:
        """The model that was asked. With a `basis` this does not make the prompt."""
        return self.prompt.model if self.basis is None else self.basis.model

    @property
    def answering_model(self) -> str | None:
        """The model that answered, as response or usage names it; it may be a fallback, or behind an alias."""
        return self.call.model or (self.usage and self.usage.model) or self.model

    @property
    def dialect(self) -> str:
        """The dialect of the prompt. With a `basis` this does not make the prompt."""
        return self.prompt.dialect if self.basis is None else self.basis.dialect

    @property
    def fidelity(self) -> Fidelity:
        """How close the prompt is to the bytes that were sent. With a `basis` this does not make the prompt.

        `hashed`: the prompt is rebuilt, and compared by hashes that the client recorded of the sent one.
        """
        if self.hashes is not None and self.basis is not None:
            return "hashed"
        return self.prompt.fidelity if self.basis is None else self.basis.fidelity

    @property
    def is_rebuilt(self) -> bool:
        """Whether the prompt was made from a log's events rather than captured, so that parts may be missing."""
        return self.basis is not None or self.prompt.fidelity == "reconstructed"

    @property
    def at(self) -> float | None:
        """When it was sent, in seconds since the epoch; None if unknown or not a time."""
        return parse_timestamp(self.sent)

    @property
    def answered_at(self) -> float | None:
        """When the response began, in seconds since the epoch; None if unknown or not a time."""
        return parse_timestamp(self.answered)

    def extends(self, previous: Turn) -> bool:
        """Return whether this prompt certainly begins with all of the previous one, without making either.

        True if its timeline begins with the previous timeline and adds nothing to the last response there.
        """
        basis, before = self.basis, previous.basis
        if basis is None or before is None:
            return False
        if (basis.dialect, basis.model, basis.head) != (before.dialect, before.model, before.head):
            return False
        entries, last, size = basis.entries, before.entries.last(), len(before.entries)
        if entries.common(before.entries) < size:
            return False
        return last is None or size == len(entries) or entries[size].group != last.group


def parse_verdict(raw: bytes) -> Verdict | None:
    """Return the provider's verdict in the value of a response's `diagnostics`; None if it states no reason.

    None, too, if `raw` is not a JSON object.
    """
    if raw[:1] != b"{" or b"cache_miss_reason" not in raw:
        return None
    try:
        reason: Any = decode(raw).get("cache_miss_reason")
    except (ValueError, RecursionError):
        return None
    missed: Any = None
    if isinstance(reason, dict):
        fields = cast("dict[str, Any]", reason)
        missed, reason = fields.get("cache_missed_input_tokens"), fields.get("type")
    if not isinstance(reason, str) or not reason:
        return None
    return Verdict(reason, missed if type(missed) is int else None, "diagnostics")
