"""Whether two requests may be of one conversation: who asks, how alike they are, and whose reply one of them holds.

In: prompts, what is known of their calls, the output of each response. Rules: nothing that both say differs; a history
that was rewritten keeps most of what it had. Claude Code's billing header, a line of its own that opens its system
prompt, is no likeness: it is another one with every request. The Claude API takes it out of a prompt before it caches
(public threads, 2026-02); vLLM, llama.cpp, Ollama, gateways and a host that nobody knows keep it, as content like all
other.

What the model said is known where responses are recorded: by ids of its calls, and by texts that no other reply has. A
reply is read when it is first asked for, at most once; those that nobody asks for are never put together. Memory: what
was not read, up to `CHAIN_REPLY_BYTES` bytes, the oldest forgotten first; a few hashes of what was.

Sources: headers and ids as readers found them; `metadata.user_id` of Claude Code's bodies, which holds the
session as JSON or behind `_session_`; `cc_prev_req` in the billing header.
Cost: O(segments behind the first that differs), and each is compared once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeAlias, cast

from msgspec.structs import replace

from lore.model.canonical import decode, text_of
from lore.model.jsonslice import table
from lore.model.limits import ANSWER_SEGMENTS, CHAIN_REPLY_BYTES
from lore.model.providers import place_in, provider_of
from lore.model.turn import Exchange, Output, Prompt, Segment, Streamed
from lore.model.vector import common_prefix, common_suffix
from lore.prefix.blocks import HEADER, block_of, is_header
from lore.prefix.overlap import same_content
from lore.prefix.tools import is_deferred, name_of
from lore.prefix.volatile import wrapping

DISTINCT = 48  # bytes or characters of a text by which an answer is known: "Done." is said in many conversations
_ID = 16  # of a name that a provider makes up; some servers count their calls
_MOST = 64  # texts by which a reply is recognised
_IDS = ("id", "call_id", "toolUseId")

Keys: TypeAlias = frozenset[int]

SIMILAR = 0.8
_LOOKED_AT = 8  # blocks compared by content: where these are equal, so is the rest
_BEGINNING = 512  # bytes of a block whose words are compared before its content is
_FIRST = 256  # bytes of a block in which the header begins, white space of a pretty recording among them
_WITHIN = 4096  # bytes of a block in which a header stands
_QUOTED = b'"' + HEADER
_WORD = re.compile(rb"[A-Za-z]{4,}")
_MODELS = (b'"assistant"', b'"model"', b'"function_call"', b'"reasoning"')  # how an envelope says that the model spoke
_SESSION = re.compile(r'"session_id"\s*:\s*"([^"\\]{1,128})"|_session_([0-9A-Za-z-]{8,128})$')
_PREVIOUS = re.compile(rb"cc_prev_req=([\w-]{1,128})")


class Identity(NamedTuple):
    """Session, agent, endpoint, and the response that a request continues; empty where the recording does not say.

    `endpoint` is without model and way of delivery.
    """

    session: str = ""
    agent: str = ""
    endpoint: str = ""
    previous: str = ""

    def may_be(self, other: Identity) -> bool:
        """Tell whether two requests may be of one conversation: nothing that both say differs."""
        if self.session and other.session:
            return self.session == other.session and self.agent == other.agent
        return not (self.agent and other.agent) or self.agent == other.agent

    def same_place(self, other: Identity) -> bool:
        """Tell whether two requests may have gone to one endpoint."""
        return not self.endpoint or not other.endpoint or self.endpoint == other.endpoint


def identity_of(prompt: Prompt, exchange: Exchange | None) -> Identity:
    """Read who asks."""
    session, previous = _session(prompt), _previous(prompt)
    if exchange is None:
        return Identity(session, previous=previous)
    call = exchange.call
    return Identity(call.session or session, call.agent, place_in(call.endpoint), call.previous or previous)


def _session(prompt: Prompt) -> str:
    raw = prompt.params.get("metadata", b"")
    if b"session_" not in raw:
        return ""
    found = _SESSION.search(text_of((table(raw) or {}).get("user_id", b'""')))
    return "" if found is None else found[1] or found[2]


def _previous(prompt: Prompt) -> str:
    first = prompt.dropped or next((segment.data for segment in prompt.head if segment.section == "system"), b"")
    found = _PREVIOUS.search(first) if _QUOTED in first[:_WITHIN] else None
    return "" if found is None else found[1].decode()


def without_dropped(prompt: Prompt, endpoint: str) -> Prompt:
    """Return the prompt without what its provider does not render: the header that it drops, tools that are deferred.

    `dropped` then holds the header's text, `deferred` the names of the tools: they stand outside of the prefix until a
    search finds them, and then in a message (the documentation of Anthropic and of OpenAI).
    """
    head = prompt.head
    tools = {at for at, segment in enumerate(head) if segment.section == "tools" and is_deferred(segment)}
    header = next((at for at, segment in enumerate(head) if segment.section == "system"), None)
    if header is not None and not (
        is_header(head[header]) and provider_of(endpoint, prompt.model, prompt.dialect) == "anthropic"
    ):
        header = None
    gone = tools if header is None else {*tools, header}
    if not gone:
        return prompt
    breakpoints = zip(prompt.breakpoints, prompt.breakpoint_values, strict=True)
    kept = [(place - sum(at < place for at in gone), value) for place, value in breakpoints if place not in gone]
    return replace(
        prompt,
        head=tuple([segment for at, segment in enumerate(head) if at not in gone]),
        breakpoints=tuple([place for place, _ in kept]),
        breakpoint_values=tuple([value for _, value in kept]),
        dropped=b"" if header is None else head[header].data,
        deferred=tuple([name_of(head[at]) for at in sorted(tools)]),
    )


def is_models(envelope: Segment) -> bool:
    """Tell whether a message is the model's own."""
    return any(sign in envelope.data for sign in _MODELS)


def is_another_run(left: Prompt, right: Prompt, shared: int) -> bool:
    """Tell whether two requests part at an answer of the model, and little of what follows is the same.

    The same task that was run again gets another answer; a history that was rewritten keeps the rest.
    """
    place, envelope = shared, left.messages[shared]
    while envelope.kind != "envelope" and place > 0:
        place -= 1
        envelope = left.messages[place]
    if not is_models(envelope):
        return False
    before, after = (
        Counter(segment.data for segment in side.messages.since(shared) if segment.kind != "envelope")
        for side in (left, right)
    )
    return 2 * (before & after).total() < before.total()  # wherever it stands: a dropped block moves the others


def resembles(left: Prompt, right: Prompt) -> bool:
    """Tell whether the right request is the next one of a conversation whose first message was rewritten."""
    if len(right.messages) <= len(left.messages):
        return False
    pairs = [pair for pair in zip(left.messages, right.messages, strict=False) if pair[0].kind != "envelope"]
    if not pairs:
        return False
    if len(pairs) > 1 and 2 * sum(old == new for old, new in pairs) >= len(pairs):
        return True
    if all(_alike_words(*pair) and same_content(*pair) for pair in pairs[:_LOOKED_AT]):
        return True  # another serialiser wrote it
    return len(pairs) == 1 and nearly_same(*pairs[0])


def loses_wrapper(left: Prompt, right: Prompt) -> bool:
    """Tell whether the right goes on from the left's only text, without what a program had put around it."""
    pairs = [pair for pair in zip(left.messages, right.messages, strict=False) if pair[0].kind != "envelope"]
    if len(right.messages) <= len(left.messages) or len(pairs) != 1:
        return False
    old, new = pairs[0]
    if not DISTINCT <= len(new.data) < len(old.data):
        return False
    before, after = (block_of(side, b"").text for side in (old, new))
    return before is not None and after is not None and wrapping(before, after) is not None


def _alike_words(left: Segment, right: Segment) -> bool:
    """Tell cheaply whether two segments may have one content, however it is spelled."""
    before, after = (set(_WORD.findall(side.data[:_BEGINNING])) for side in (left, right))
    return 2 * len(before & after) >= min(len(before), len(after))


def nearly_same(left: Segment, right: Segment) -> bool:
    """Tell whether two texts differ in one place that is less than a fifth of the longer one."""
    if same_content(left, right):
        return True
    sizes = len(left.data), len(right.data)
    front = common_prefix(left.data, right.data)
    return SIMILAR * max(sizes) <= front + common_suffix(left.data, right.data, min(sizes) - front)


def same_system(left: Prompt, right: Prompt) -> bool:
    """Tell whether two requests have one system prompt, a client's own header line aside."""
    return _system(left) == _system(right)


def keeps_system(left: Prompt, right: Prompt) -> bool:
    """Tell whether what the left's system prompt says stands in the right, there or among its messages.

    An agent that compacts may put the same instructions behind the messages that it keeps. Both bring the same tools.
    """
    if same_system(left, right):
        return True
    tools = [[segment for segment in side.head if segment.section == "tools"] for side in (left, right)]
    if tools[0] != tools[1]:
        return False
    before, after = ({block.data for block in _system(side) if block.kind != "envelope"} for side in (left, right))
    return after <= before and before - after <= {
        segment.data for segment in right.messages if segment.kind != "envelope"
    }


def same_head(left: Prompt, right: Prompt) -> bool:
    """Tell whether two requests have the same tools and one system prompt, a client's own header line aside."""
    return left.head is right.head or _without_header(left.head) == _without_header(right.head)


def _system(prompt: Prompt) -> list[Segment]:
    return [segment for segment in _without_header(prompt.head) if segment.section == "system"]


def _without_header(head: Iterable[Segment]) -> list[Segment]:
    return [segment for segment in head if segment.section != "system" or _QUOTED not in segment.data[:_FIRST]]


class Replies:
    """The latest reply of each chain; `joined` puts one together that came in pieces."""

    def __init__(self, joined: Callable[[Streamed], bytes], room: int = CHAIN_REPLY_BYTES) -> None:
        self._joined = joined
        self._room = room
        self._unread: dict[str, Output] = {}  # by chain, the oldest first
        self._read: dict[str, Keys] = {}

    def note(self, chain: str, output: Output) -> None:
        """Take a chain's latest reply; the one before it is nobody's any more."""
        self.forget(chain)
        if output:
            self._unread[chain] = output
            self._room -= _size(output)
        while self._room < 0:
            self.forget(next(iter(self._unread)))

    def forget(self, chain: str) -> None:
        """Forget a chain's reply."""
        self._read.pop(chain, None)
        unread = self._unread.pop(chain, None)
        self._room += 0 if unread is None else _size(unread)

    def of(self, chain: str) -> Keys:
        """Return what a chain's reply is known by."""
        unread = self._unread.get(chain)
        if unread is not None:
            self.forget(chain)
            raw = unread if isinstance(unread, bytes) else self._joined(unread)
            self._read[chain] = frozenset(islice(_keys(raw), _MOST))
        return self._read.get(chain, frozenset())


def latest_answer(prompt: Prompt) -> Keys:
    """Return what the latest answer that a request holds is known by."""
    size, found = len(prompt.messages), set[int]()
    blocks: list[Segment] = []
    for place in range(size - 1, max(-1, size - 1 - ANSWER_SEGMENTS), -1):
        segment = prompt.messages[place]
        blocks.append(segment)
        if segment.kind != "envelope":
            continue
        if is_models(segment):
            found.update(*(islice(_keys(block.json), _MOST) for block in blocks))
        elif found:
            break
        blocks = []
    return frozenset(found)


def _keys(raw: bytes) -> Iterator[int]:
    """Yield hashes of the texts and ids by which a reply is known, wherever they stand in it."""
    try:
        waiting: list[tuple[str, object]] = [("", decode(raw))]
    except (ValueError, RecursionError):
        return
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += cast("dict[str, object]", value).items()
        elif isinstance(value, list):
            waiting += [(key, element) for element in cast("list[object]", value)]
        elif isinstance(value, str) and len(text := value.strip()) >= (_ID if key in _IDS else DISTINCT):
            yield hash(text)


def _size(output: Output) -> int:
    return len(output if isinstance(output, bytes) else output.raw)
