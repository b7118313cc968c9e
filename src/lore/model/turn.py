"""A request: its content (`Prompt`), as a reader of requests gives it (`Exchange`), and as the judge sees it (`Turn`).

A prompt is the content in the provider's render order, as segments: tools, system, messages, tail. Rules: a segment
holds exact bytes and a path; a cache breakpoint is a fact about it and never part of its bytes; JSON punctuation
between segments counts nowhere.

In: a body, or a prompt or what makes it; what is known of the call; what was billed, when. Out: values; times as
seconds since the epoch, however a recorder writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain as chained
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from msgspec import Struct

from lore.model.canonical import decode
from lore.model.events import Call, PromptHashes, Usage, Verdict
from lore.model.state import Change, Entry, Sign
from lore.model.times import parse_timestamp
from lore.model.vector import Vector

Fidelity: TypeAlias = Literal["wire", "parsed", "structural", "reconstructed", "hashed", "rendered"]
Section: TypeAlias = Literal["tools", "system", "messages"]
Kind: TypeAlias = Literal["tool", "text", "envelope", "block", "opaque"]

NO_RESULT = b'"[no result recorded]"'  # what stands for the result of a call that was sent without one


class Segment(Struct, eq=False, gc=False):
    """The smallest piece that diverges or not.

    `section`, `path` (`messages[3].content[0]`) and `data` (its exact bytes); `kind` says whether it is
    one tool, text of the system prompt, a message's envelope, a content block, or a whole message of no
    known shape; `breakpoint` is the cache breakpoint set on it, as JSON. Segments are equal when section, kind
    and bytes are: the path moves when history is pruned, and a breakpoint is not content.
    """

    section: Section
    path: str
    data: bytes
    kind: Kind = "block"
    breakpoint: bytes | None = None
    origin: str = ""
    is_marked_by_message: bool = False  # the breakpoint is a member of the message, not of this block

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Segment):
            return NotImplemented
        return self.data == other.data and self.kind == other.kind and self.section == other.section

    def __ne__(self, other: object) -> bool:
        return not self == other  # a Struct's own knows nothing of __eq__ above

    def __hash__(self) -> int:
        return hash((self.data, self.kind, self.section))

    @property
    def json(self) -> bytes:
        """Its bytes as JSON: what an envelope holds are members."""
        return b"{" + self.data + b"}" if self.kind == "envelope" else self.data

    def __repr__(self) -> str:
        return f"Segment({self.path} {self.data!r})"


class Prompt(Struct, frozen=True):
    """One request's content. `head` is tools and system; `tail` is the volatile end lore added.

    `breakpoints` are the positions of segments with a breakpoint, counted over head and messages, `breakpoint_values`
    the breakpoints themselves, as JSON; `auto_breakpoint` says that the request asks for automatic caching; `params`
    are the request's other fields, as JSON; `partial` says that the request continues others which the recording does
    not hold, so that its beginning is missing; `dropped` is text that the provider takes out, so that it is no part of
    the head, as are tools that are announced alone (`deferred`: their names).
    """

    dialect: str
    fidelity: Fidelity
    model: str | None = None
    head: tuple[Segment, ...] = ()
    messages: Vector[Segment] = Vector()
    tail: tuple[Segment, ...] = ()
    breakpoints: tuple[int, ...] = ()
    breakpoint_values: tuple[bytes, ...] = ()
    auto_breakpoint: bool = False
    params: dict[str, bytes] = {}
    partial: bool = False
    dropped: bytes = b""
    deferred: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.head) + len(self.messages) + len(self.tail)

    def __iter__(self) -> Iterator[Segment]:
        return chained(self.head, self.messages, self.tail)

    def at(self, position: int) -> Segment | None:
        """Return the segment at a position over head, messages and tail; None past the end."""
        for part in (self.head, self.messages, self.tail):
            if position < len(part):
                return part[position]
            position -= len(part)
        return None

    @property
    def tools(self) -> int:
        """Count the tools, which stand first."""
        return sum(1 for segment in self.head if segment.section == "tools")

    @property
    def stable(self) -> int:
        """Count the segments before the tail."""
        return len(self.head) + len(self.messages)


class Memo:
    """Messages already parsed, so that a history which is sent again is parsed once and shared.

    Holds, for each position, the few latest messages seen there, of long ones the latest: memory is a few prompts,
    whatever the length of the recording. Compared by bytes; nothing is hashed.
    """

    KEEP = 4
    LONG = 128 * 1024  # bytes of a message

    def __init__(self) -> None:
        self._seen: dict[int, list[tuple[bytes, tuple[Segment, ...]]]] = {}

    def get(self, index: int, raw: bytes, build: Callable[[], tuple[Segment, ...]]) -> tuple[Segment, ...]:
        """Return the segments of the message at `index`, built only if its bytes are new there."""
        seen = self._seen.setdefault(index, [])
        for known, segments in seen:
            if known == raw:
                return segments
        segments = build()
        seen.insert(0, (raw, segments))
        del seen[1 if len(raw) > self.LONG else self.KEEP :]
        return segments


Form: TypeAlias = Literal["nothing", "json", "text", "base64", "events", "elsewhere"]  # how a content is kept


class Streamed(Struct, frozen=True, gc=False):
    """An answer that came in pieces, as the recording keeps it; `lore.formats.outputs` puts it together when asked.

    `raw` is JSON: a string where `form` is text or base64, an array of events or of what is one; `encoding` is
    what the response's headers say of its bytes.
    """

    raw: bytes
    form: Form = "text"
    encoding: str = ""


Output: TypeAlias = bytes | Streamed


class Exchange(Struct, frozen=True):
    """One request with what is known of its response.

    `at` is when it was asked, `answered` when its response began and `ended` when that was whole, in seconds since the
    epoch; `output` is what the model said, as a JSON array of the dialect's own items or messages (empty: unknown),
    or the stream in which it said it.
    """

    body: bytes
    fidelity: Fidelity
    at: float | None = None
    usage: Usage | None = None
    verdict: Verdict | None = None
    answered: float | None = None
    response_id: str = ""
    output: Output = b""
    call: Call = Call()
    ended: float | None = None


class TurnPrompt(NamedTuple):
    """A prompt, and the blocks that its dialect could not express."""

    prompt: Prompt
    omitted: Vector[str] = Vector()


class Basis(NamedTuple):
    """What a prompt will be made of: its timeline, and `rest`, all else that it depends on, the model first.

    `fidelity` is that of the prompt: `structural` where the log holds all of it but the tools that its client has.
    """

    entries: Vector[Entry]
    dialect: str
    rest: tuple[object, ...]
    fidelity: Fidelity = "reconstructed"

    @property
    def model(self) -> str | None:
        """The name of the model; None where it is not known."""
        first = self.rest[0] if self.rest else None
        return first if isinstance(first, str) else None


Source: TypeAlias = Prompt | Callable[[], TurnPrompt]


class Turn(Struct):
    """One model request. `sent` and `answered` (the response's first line) are times as they were recorded.

    `source` is the prompt, or makes it when it is first looked at; `basis` then says what of. `changes`
    are the events since the turn before that entitle the prompt to differ, `signs` what else was seen;
    `line` and `byte` say where the recording holds the turn; `omitted` (known once the prompt is) names what
    the dialect could not express, `unsaid` (where asked for) the types of the records in the timeline that
    no prompt can hold; `response_id` is the provider's name for the response, by which a copy of the turn is
    known; `call` is what a recorded request says besides its body; `file` names the file that holds the
    turn, where the recording has several; `hashes` are what the client noted of the prompt by hash; `generated`, where
    the response is recorded, slices it as it would stand in the next prompt, and `ended` is when it was whole.
    """

    chain: str
    number: int
    source: Source
    changes: tuple[Change, ...] = ()
    sent: str | float | None = None
    answered: str | float | None = None
    usage: Usage | None = None
    verdict: Verdict | None = None
    line: int | None = None
    byte: int | None = None
    omitted: Vector[str] = Vector()
    response_id: str | None = None
    unsaid: Vector[str] = Vector()
    basis: Basis | None = None
    call: Call = Call()
    file: str = ""
    given_up: str = ""
    signs: tuple[Sign, ...] = ()
    hashes: PromptHashes | None = None
    generated: Callable[[], Sequence[Segment]] | None = None
    ended: float | None = None

    @property
    def failed(self) -> bool:
        """Whether the provider refused the request: it was not billed and wrote no cache."""
        return self.call.status is not None and self.call.status >= 400

    @property
    def prompt(self) -> Prompt:
        """The prompt; made at most once."""
        source = self.source
        if isinstance(source, Prompt):
            return source
        self.source, self.omitted = source()
        return self.source

    @property
    def model(self) -> str | None:
        """The name of the model that was asked; the prompt need not be made for it."""
        return self.prompt.model if self.basis is None else self.basis.model

    @property
    def answering_model(self) -> str | None:
        """The name of the model that answered: a fallback's where the one that was asked declined."""
        return (self.usage and self.usage.model) or self.model

    @property
    def dialect(self) -> str:
        """The name of the prompt's dialect; the prompt need not be made for it."""
        return self.prompt.dialect if self.basis is None else self.basis.dialect

    @property
    def fidelity(self) -> Fidelity:
        """How close the prompt is to what was sent; it need not be made for that.

        `hashed`: it is rebuilt, and the client noted hashes of what was sent, by which it is compared.
        """
        if self.hashes is not None and self.basis is not None:
            return "hashed"
        return self.prompt.fidelity if self.basis is None else self.basis.fidelity

    @property
    def is_rebuilt(self) -> bool:
        """Whether the prompt is put together from a log's events, and is not all that was sent."""
        return self.basis is not None or self.prompt.fidelity == "reconstructed"

    @property
    def at(self) -> float | None:
        """When it was sent, in seconds since the epoch; None where that is not known."""
        return parse_timestamp(self.sent)

    @property
    def answered_at(self) -> float | None:
        """When the response began, in seconds since the epoch; None where that is not known."""
        return parse_timestamp(self.answered)

    def extends(self, left: Turn) -> bool:
        """Tell whether this prompt surely begins with all of the other, without making either.

        So it is where the other's timeline is the beginning of this one's, and no response of it went on.
        """
        basis, before = self.basis, left.basis
        if basis is None or before is None or basis.rest != before.rest or basis.dialect != before.dialect:
            return False
        entries, last, size = basis.entries, before.entries.last(), len(before.entries)
        if not entries.begins_with(before.entries):
            return False
        return last is None or size == len(entries) or entries[size].group != last.group


def parse_verdict(raw: bytes) -> Verdict | None:
    """Read `diagnostics`: why the provider says that its cache was missed."""
    if raw[:1] != b"{" or b"cache_miss_reason" not in raw:
        return None
    try:
        reason: Any = decode(raw).get("cache_miss_reason")
    except (ValueError, RecursionError):
        return None
    missed: Any = None
    if isinstance(reason, dict):
        found = cast("dict[str, Any]", reason)
        missed, reason = found.get("cache_missed_input_tokens"), found.get("type")
    counted = missed if isinstance(missed, int) and not isinstance(missed, bool) else None
    return Verdict(reason, counted, "diagnostics") if isinstance(reason, str) and reason else None
