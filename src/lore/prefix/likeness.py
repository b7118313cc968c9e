"""Whether two requests may belong to one conversation: who sends them, how alike they are, whose reply they hold.

Claude Code's billing header, a line that opens its system prompt, differs in every request and counts for no likeness.
The Claude API drops it before it caches (public threads, 2026-02); vLLM, llama.cpp, Ollama, gateways and unknown hosts
keep it, as content like all other. A recorded reply is recognised by the ids of its calls, and by texts that no other
reply has.

Sources of identities: headers and ids as readers found them; `metadata.user_id` of Claude Code's bodies, which holds
the session as JSON or after `_session_`; `cc_prev_req` in the billing header.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from lore.model.canonical import decode, string_in, text_of
from lore.model.deferred import pattern
from lore.model.jsonslice import raw_members
from lore.model.limits import ANSWER_SEGMENTS
from lore.model.providers import place_in, provider_of
from lore.model.turn import Call, Exchange, Prompt, Segment
from lore.model.vector import common_prefix, common_suffix
from lore.prefix.blocks import HEADER, block_of, is_by_model, is_header, message_start
from lore.prefix.overlap import has_same_content
from lore.prefix.tools import is_deferred, tool_name
from lore.prefix.volatile import find_wrapper

DISTINCT = 48  # bytes or characters of a text that identifies an answer: "Done." occurs in many conversations
_DISTINCT_ID = 16  # characters of an id that identifies an answer: some servers count their calls
_MOST_KEYS = 64  # texts and ids by which a reply is recognised
_ID_MEMBERS = ("id", "call_id", "toolUseId")

ReplyKeys: TypeAlias = frozenset[int]  # hashes of the texts and ids by which a reply is recognised

_SIMILAR = 0.8  # share of a text that is unchanged in a nearly equal one
_LEAST_ALIKE = 64  # bytes of a block that may be nearly equal by intention, its type included
_LEAST_LOG = 256  # bytes of a text that a longer one repeats by intention
_COMPARED_BLOCKS = 8  # if their contents are equal, so are those of the rest
_NO_ARGUMENTS = b'"{}"'  # of a call: equal in every run
_LINE = pattern(rb"\n|\\n")  # ends of lines, also in JSON
_COMPARED_WORDS = 512  # bytes of a block whose words are compared before its content
_HEADER_BYTES = 4096  # of a block in which a header ends
_NUMBER = pattern(rb"\d+")
_WORD = pattern(rb"[A-Za-z]{4,}")
_SESSION = pattern(r'"session_id"\s*:\s*"([^"\\]{1,128})"|_session_([0-9A-Za-z-]{8,128})$')
_PREVIOUS_REQUEST = pattern(rb"cc_prev_req=([\w-]{1,128})")


# Who sends a request


class Identity(Struct, frozen=True):
    """Who sends a request; a field is empty if the recording does not say it."""

    session: str = ""  # the session that the request names, or a key for its cache
    agent: str = ""  # the subagent that sent it; of the main agent empty
    endpoint: str = ""  # without the model and the way of delivery
    previous: str = ""  # the response that the request continues
    has_cache_key: bool = False  # the session is only a key for the cache, which some clients choose for each request

    def may_share_conversation(self, other: Identity) -> bool:
        """Return whether two requests may belong to one conversation: sessions and agents agree, if known."""
        if self.session and other.session:  # no agent is the main one
            return self.session == other.session and self.agent == other.agent
        return not (self.agent and other.agent) or self.agent == other.agent


def identify_sender(prompt: Prompt, exchange: Exchange | None) -> Identity:
    """Return who sent a request: by its reader (`exchange`), then its body; without an exchange by the body only."""
    call = Call() if exchange is None else exchange.call
    metadata = prompt.params.get("metadata", b"")
    in_body = None
    if b"session_" in metadata:
        in_body = _SESSION.search(text_of((raw_members(metadata) or {}).get("user_id", b'""')))
    session = call.session or ("" if in_body is None else in_body[1] or in_body[2])
    first = prompt.dropped or next((segment.data for segment in prompt.head if segment.section == "system"), b"")
    in_header = _PREVIOUS_REQUEST.search(first) if HEADER in first[:_HEADER_BYTES] else None
    previous = call.previous or ("" if in_header is None else in_header[1].decode())
    has_key = bool(call.session) and call.session == string_in(prompt.params, "prompt_cache_key")
    return Identity(session, call.agent, place_in(call.endpoint), previous, has_key)


def drop_unrendered(prompt: Prompt, endpoint: str) -> Prompt:
    """Return the prompt without what its provider does not render: the billing header that it drops, deferred tools.

    `endpoint` is a host with its path, without `https://`; if it is empty, the model decides who the provider is.
    In the returned prompt, `dropped` is the header's block as JSON, and `deferred` the names of the tools. Deferred
    tools are outside the prefix until a search finds them, and then in a message (documentation of Anthropic
    and OpenAI). Returns `prompt` itself if there is nothing to drop.
    """
    head = prompt.head
    dropped = {at for at, segment in enumerate(head) if segment.section == "tools" and is_deferred(segment)}
    dropped.difference_update(prompt.breakpoints)  # a breakpoint on one is refused
    deferred = tuple([tool_name(head[at]) for at in sorted(dropped)])
    header = next((at for at, segment in enumerate(head) if segment.section == "system"), -1)
    has_header = header >= 0 and is_header(head[header])
    has_header = has_header and provider_of(endpoint, prompt.model, prompt.dialect) == "anthropic"
    if has_header:
        dropped.add(header)
    if not dropped:
        return prompt
    breakpoints = zip(prompt.breakpoints, prompt.breakpoint_values, strict=True)
    marks = [(place - sum(at < place for at in dropped), value) for place, value in breakpoints if place not in dropped]
    return replace(
        prompt,
        head=tuple([segment for at, segment in enumerate(head) if at not in dropped]),
        breakpoints=tuple([place for place, _ in marks]),
        breakpoint_values=tuple([value for _, value in marks]),
        dropped=head[header].data if has_header else b"",
        deferred=deferred,
    )


# How alike two requests are


def is_model_message(segment: Segment) -> bool:
    """Return whether a segment is the envelope of a message of the model (answer, call or reasoning)."""
    return segment.kind == "envelope" and is_by_model(segment.data)


def mark_answers(segments: Iterable[Segment]) -> Iterator[tuple[Segment, bool]]:
    """Yield each segment with whether it belongs to a message of the model; those before an envelope do not."""
    is_answer = False
    for segment in segments:
        is_answer = is_model_message(segment) if segment.kind == "envelope" else is_answer
        yield segment, is_answer


def is_another_run(previous: Prompt, current: Prompt, shared: int) -> bool:
    """Return whether two prompts differ from an answer of the model on, and most of what follows differs.

    The same task that is run again gets other answers; a history that is rewritten keeps the rest. If they differ
    before an answer, all answers have to differ; if neither is longer, that suffices. `shared` is the number of their
    equal leading message segments, less than the previous prompt has.
    """
    start = message_start(previous, shared)
    is_answer = is_model_message(previous.messages[start])
    if not is_answer or len(previous.messages) == len(current.messages):
        keys, others = (answer_keys(side, start) for side in (previous, current))
        has_other_answers = bool(keys and others) and keys.isdisjoint(others)
        if has_other_answers or not is_answer:
            return has_other_answers
    # by text: many clients write the marked last message as a block, and later as a plain text
    before, after = (
        Counter(block_of(block).text or block.data for block in side.messages.since(shared)
                if block.kind != "envelope" and block.data != _NO_ARGUMENTS)
        for side in (previous, current)
    )  # fmt: skip
    return 2 * (before & after).total() < before.total()  # at any place: a dropped block moves the others


def continues_rewritten(previous: Prompt, current: Prompt) -> bool:
    """Return whether a prompt with more messages continues the previous one although texts of that were rewritten.

    The previous prompt's blocks are compared with those at the same places: at least half have to be equal or nearly
    equal (short ones of several equal), or all to have equal content in another spelling. False if it is not longer, or
    if only images are equal: unrelated requests ask about one image.
    """
    pairs = _block_pairs(previous, current)
    if not pairs:
        return False
    if all(_share_words(old.data, new.data) and has_same_content(old, new) for old, new in pairs[:_COMPARED_BLOCKS]):
        return True  # another serialiser wrote it
    least = _LEAST_ALIKE if len(pairs) > 1 else 0
    similar = [old == new or (len(old.data) >= least and is_nearly_equal(old, new)) for old, new in pairs]
    has_equal_text = any(block_of(old).kind != "image" for (old, _), same in zip(pairs, similar, strict=True) if same)
    return has_equal_text and 2 * sum(similar) >= len(pairs)


def has_grown_text(previous: Prompt, current: Prompt) -> bool:
    """Return whether a prompt repeats the previous one and only inserts something into its last text.

    An agent that keeps its history in one text sends the log so far and a closing sentence in each request; numbers
    in it may count its steps. False if the previous last text is shorter than 256 bytes.
    """
    size = len(previous.messages)
    old, new = previous.messages.last(), current.messages.last()
    if size != len(current.messages) or old is None or new is None or not has_same_head(previous, current):
        return False
    if not _LEAST_LOG <= len(old.data) < len(new.data) or previous.messages.common(current.messages) != size - 1:
        return False
    before, after = old.data, new.data
    front = common_prefix(before, after)
    if before[front : front + 1].isdigit() or after[front : front + 1].isdigit():  # else the numbers are not read
        before, after = (_NUMBER.sub(b"0", side) for side in (before, after))
        front = common_prefix(before, after)
    return front + common_suffix(before, after, len(before) - front) == len(before)


def _block_pairs(previous: Prompt, current: Prompt) -> list[tuple[Segment, Segment]]:
    """Return the previous prompt's blocks with the segments at the same places of a longer one; empty if none is."""
    if len(current.messages) <= len(previous.messages):
        return []
    pairs = zip(previous.messages, current.messages, strict=False)
    return [(old, new) for old, new in pairs if old.kind != "envelope"]


def has_lost_wrapper(previous: Prompt, current: Prompt) -> bool:
    """Return whether a longer prompt begins with the previous one's only text, without what a program put around it."""
    pairs = _block_pairs(previous, current)
    if len(pairs) != 1 or not DISTINCT <= len(pairs[0][1].data) < len(pairs[0][0].data):
        return False
    before, after = (block_of(side).text for side in pairs[0])
    return before is not None and after is not None and find_wrapper(before, after) is not None


def _share_words(previous: bytes, current: bytes) -> bool:
    """Return whether two blocks may have one content in different spellings: a quick test."""
    before, after = (set(_WORD.findall(data[:_COMPARED_WORDS])) for data in (previous, current))
    return 2 * len(before & after) >= min(len(before), len(after))


def is_nearly_equal(previous: Segment, current: Segment) -> bool:
    """Return whether two texts are equal except for one place of at most a fifth of the longer one."""
    sizes = len(previous.data), len(current.data)
    front = common_prefix(previous.data, current.data)
    return _SIMILAR * max(sizes) <= front + common_suffix(previous.data, current.data, min(sizes) - front)


def has_same_system(previous: Prompt, current: Prompt) -> bool:
    """Return whether two prompts have equal system segments, those with a billing header left out."""
    return _system_of(previous) == _system_of(current)


def has_other_system(previous: Prompt, current: Prompt) -> bool:
    """Return whether two system prompts have no line in common, nor a tenth of their bytes at the ends."""
    before, after = (b"\n".join(part.data for part in _system_of(side)) for side in (previous, current))
    size, front = min(len(before), len(after)), common_prefix(before, after)
    lines = ({line for line in _LINE.split(text) if len(line) >= DISTINCT} for text in (before, after))
    is_long = size >= _COMPARED_WORDS and 10 * (front + common_suffix(before, after, size - front)) < size
    return is_long and next(lines).isdisjoint(next(lines))


def has_kept_system(previous: Prompt, current: Prompt) -> bool:
    """Return whether the system prompt is the same, or a compaction only moved texts of it into the messages."""
    if has_same_system(previous, current):
        return True
    if tools_of(previous) != tools_of(current):
        return False
    before, after = (
        {block.data for block in _system_of(side) if block.kind != "envelope"} for side in (previous, current)
    )
    in_messages = {segment.data for segment in current.messages if segment.kind != "envelope"}
    return after <= before and before - after <= in_messages


def has_same_head(previous: Prompt, current: Prompt) -> bool:
    """Return whether two prompts have equal tools and system segments, those with a billing header left out."""
    is_same = previous.head is current.head
    return is_same or (tools_of(previous) == tools_of(current) and has_same_system(previous, current))


def tools_of(prompt: Prompt) -> list[Segment]:
    """Return the tool segments of a prompt's head, in order."""
    return [part for part in prompt.head if part.section == "tools"]


def _system_of(prompt: Prompt) -> list[Segment]:
    """Return the system segments of a prompt's head, those with a billing header left out."""
    return [segment for segment in prompt.head if segment.section == "system" and not is_header(segment)]


# What the model replied


def latest_answer_keys(prompt: Prompt) -> ReplyKeys:
    """Return the `reply_keys` of the last answer with any among the last `ANSWER_SEGMENTS` message segments."""
    size, keys = len(prompt.messages), set[int]()
    blocks: list[Segment] = []
    for place in range(size - 1, max(-1, size - 1 - ANSWER_SEGMENTS), -1):
        segment = prompt.messages[place]
        blocks.append(segment)
        if segment.kind != "envelope":
            continue
        if is_model_message(segment):
            keys.update(*(reply_keys(block.json) for block in blocks))
        elif keys:
            break
        blocks = []
    return frozenset(keys)


def answer_keys(prompt: Prompt, start: int) -> ReplyKeys:
    """Return the `reply_keys` of all answers in `ANSWER_SEGMENTS` message segments from number `start` on."""
    marked = mark_answers(islice(prompt.messages.since(start), ANSWER_SEGMENTS))
    return frozenset[int]().union(*(reply_keys(segment.json) for segment, is_answer in marked if is_answer))


def reply_keys(raw: bytes, *, of_any_length: bool = False) -> ReplyKeys:
    """Return hashes of texts (48 characters or more) and ids (16) in JSON, 64 at most; empty if it is not JSON.

    `of_any_length`: return hashes of what the model said instead, which alone identifies no conversation.
    """
    keys: set[int] = set()
    try:
        waiting: list[tuple[str, object]] = [("", decode(raw))]
    except (ValueError, RecursionError):
        return frozenset()
    while waiting and len(keys) < _MOST_KEYS:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += cast("dict[str, object]", value).items()
        elif isinstance(value, list):
            waiting += [(key, element) for element in cast("list[object]", value)]
        elif isinstance(value, str):
            text = value.strip()
            if of_any_length:
                keys.update([hash(text)] if text and key in ("", "text", "content") else ())
            elif len(text) >= (_DISTINCT_ID if key in _ID_MEMBERS else DISTINCT):
                keys.add(hash(text))
    return frozenset(keys)
