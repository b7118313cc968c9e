"""Whether two requests may be of one conversation: who asks, where the recording says, and how alike they are.

In: prompts and what is known of their calls. Rules: nothing that both say differs; a history that was rewritten keeps
most of what it had. Claude Code's billing header, a line of its own that opens its system prompt, is no likeness: it is
another one with every request. The Claude API takes it out of a prompt before it caches (public threads, 2026-02);
vLLM, llama.cpp, Ollama, gateways and a host that nobody knows keep it, as content like all other.

Sources: headers and ids as readers found them; `metadata.user_id` of Claude Code's bodies, which holds the
session as JSON or behind `_session_`; `cc_prev_req` in the billing header.
Cost: O(segments behind the first that differs), and each is compared once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from lore.model.canonical import text_of
from lore.model.jsonslice import table
from lore.model.prompt import Prompt, Segment
from lore.model.providers import place_in, provider_of
from lore.model.turn import Exchange
from lore.model.vector import common_prefix, common_suffix
from lore.prefix.blocks import HEADER, is_header
from lore.prefix.overlap import same_content

SIMILAR = 0.8
_LOOKED_AT = 8  # blocks that are compared by content: where all of these are the same, the rest is
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
    """Return the prompt without the header that its provider drops; `dropped` then holds that text."""
    at = next((n for n, segment in enumerate(prompt.head) if segment.section == "system"), None)
    if at is None or not is_header(prompt.head[at]):
        return prompt
    if provider_of(endpoint, prompt.model, prompt.dialect) != "anthropic":
        return prompt
    breakpoints = zip(prompt.breakpoints, prompt.breakpoint_values, strict=True)
    kept = [(place - (place > at), value) for place, value in breakpoints if place != at]
    return replace(
        prompt,
        head=(*prompt.head[:at], *prompt.head[at + 1 :]),
        breakpoints=tuple([place for place, _ in kept]),
        breakpoint_values=tuple([value for _, value in kept]),
        dropped=prompt.head[at].data,
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
