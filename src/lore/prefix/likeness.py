"""How alike two requests are: what tells a conversation that was rewritten from another one.

Cost: O(segments behind the first that differs), and each is compared once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from lore.model.prompt import Prompt, Segment
from lore.model.vector import common_prefix
from lore.prefix.overlap import same_content

SIMILAR = 0.8
_LOOKED_AT = 8  # blocks that are compared by content: where all of these are the same, the rest is
_BEGINNING = 512  # bytes of a block whose words are compared before its content is
_WORD = re.compile(rb"[A-Za-z]{4,}")
_MODELS = (b'"assistant"', b'"model"', b'"function_call"', b'"reasoning"')  # how an envelope says that the model spoke


def is_models(envelope: Segment) -> bool:
    """Tell whether a message is the model's own."""
    return any(sign in envelope.data for sign in _MODELS)


def is_another_run(before: Prompt, prompt: Prompt, shared: int) -> bool:
    """Tell whether two requests part at an answer of the model, and little of what follows is the same.

    The same task that was run again gets another answer; a history that was rewritten keeps the rest.
    """
    place, envelope = shared, before.messages[shared]
    while envelope.kind != "envelope" and place > 0:
        place -= 1
        envelope = before.messages[place]
    if not is_models(envelope):
        return False
    mine, theirs = (
        Counter(one.data for one in side.messages.since(shared) if one.kind != "envelope") for side in (before, prompt)
    )
    return 2 * (mine & theirs).total() < mine.total()  # wherever it stands: a block that is dropped moves the others


def resembles(before: Prompt, prompt: Prompt) -> bool:
    """Tell whether a request is the next one of a conversation whose first message was rewritten."""
    if len(prompt.messages) <= len(before.messages):
        return False
    pairs = [(one, peer) for one, peer in zip(before.messages, prompt.messages, strict=False) if one.kind != "envelope"]
    if not pairs:
        return False
    if len(pairs) > 1 and 2 * sum(one == peer for one, peer in pairs) >= len(pairs):
        return True
    if all(_alike_words(one, peer) and same_content(one, peer) for one, peer in pairs[:_LOOKED_AT]):
        return True  # another serialiser wrote it
    return len(pairs) == 1 and nearly_same(*pairs[0])


def _alike_words(one: Segment, peer: Segment) -> bool:
    """Tell cheaply whether two segments may have one content, however it is spelled."""
    mine, theirs = (set(_WORD.findall(side.data[:_BEGINNING])) for side in (one, peer))
    return 2 * len(mine & theirs) >= min(len(mine), len(theirs))


def nearly_same(one: Segment, peer: Segment) -> bool:
    """Tell whether two texts differ in one place that is less than a fifth of the longer one."""
    if same_content(one, peer):
        return True
    mine, theirs = one.data, peer.data
    front = common_prefix(mine, theirs)
    room = min(len(mine), len(theirs)) - front
    back = common_prefix(mine[::-1][:room], theirs[::-1][:room])
    return SIMILAR * max(len(mine), len(theirs)) <= front + back


def same_system(one: Prompt, other: Prompt) -> bool:
    """Tell whether two requests have one system prompt, a client's own header line aside."""
    mine, theirs = ([seg for seg in side.head if seg.section == "system"] for side in (one, other))
    return _without_header(mine) == _without_header(theirs)


def keeps_system(one: Prompt, other: Prompt) -> bool:
    """Tell whether what the first's system prompt says stands in the other, there or among its messages.

    An agent that compacts may put the same instructions behind the messages that it keeps. Both bring the same tools.
    """
    if same_system(one, other):
        return True
    tools, others = ([seg for seg in side.head if seg.section == "tools"] for side in (one, other))
    if tools != others:
        return False
    said = {seg.data for seg in _without_header(one.head) if seg.section == "system" and seg.kind != "envelope"}
    told = {seg.data for seg in _without_header(other.head) if seg.section == "system" and seg.kind != "envelope"}
    return told <= said and said - told <= {seg.data for seg in other.messages if seg.kind != "envelope"}


def same_head(one: Prompt, other: Prompt) -> bool:
    """Tell whether two requests have the same tools and one system prompt, a client's own header line aside."""
    return one.head is other.head or _without_header(one.head) == _without_header(other.head)


def _without_header(head: Iterable[Segment]) -> list[Segment]:
    return [one for one in head if one.section != "system" or HEADER not in one.data[:_FIRST]]


_FIRST = 256  # bytes of a block in which the header begins, white space of a pretty recording among them
HEADER = b'"x-anthropic-billing-header:'  # a line of Claude Code's own, another one with every request
