"""Answers that an agent sends back otherwise than the model wrote them, to an engine that keeps what it generated.

An engine's cache holds the prompt and the generated tokens after it. If the next request repeats the answer in other
bytes (sorted arguments, no reasoning), the engine computes it again, although that request extends the previous one.

Source: public reports of llama.cpp and vLLM (arguments with sorted keys, missing `reasoning_content`). A template may
omit the reasoning of earlier turns itself, so only within a turn of the user is its absence the client's.
"""

from __future__ import annotations

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.served import served_by
from lore.judge.pairs.pair import Pair, is_remark
from lore.model.codes import Code
from lore.model.providers import ENGINES
from lore.model.turn import Turn
from lore.prefix.causes import find_causes
from lore.prefix.overlap import byte_size, compare_prompts, iterate_from
from lore.prefix.purpose import begins_user_turn


def explain_answer(pair: Pair) -> Pair:
    """Return the pair, with the changed answer as a cause if an engine read less than prompt and answer.

    The previous turn of that pair has its answer in its prompt and usage.
    """
    current, previous = pair.current, None if pair.is_break else _with_answer(pair)
    read = counts.first_pass_read(current.usage)
    if previous is None or read is None:
        return pair
    unread = counts.prompt_tokens(previous.usage) - read
    overlap = compare_prompts(previous.prompt, current.prompt)
    if overlap.is_covered or unread <= 2 * counts.block_tokens(previous):
        return pair
    causes = find_causes(
        previous.prompt, current.prompt, overlap, (), previous_call=previous.call, current_call=current.call
    )
    is_template = begins_user_turn(current.prompt)
    answer_causes = [
        replace(
            cause, lost=sum(map(byte_size, iterate_from(previous.prompt, cause.position, tail=False))),
            override="unattributable" if cause.evidence.fix_detail() == "call" else cause.override,  # few render ids
        ) for cause in causes if not is_remark(cause) and not (is_template and cause.code == Code.THINKING_CHANGED)
    ]  # fmt: skip
    return replace(pair, previous=previous, causes=(*answer_causes, *pair.causes)) if answer_causes else pair


def _with_answer(pair: Pair) -> Turn | None:
    """Return the previous turn with its answer in its prompt; None if no engine gave the answer, or it is unknown."""
    turn, prompt, current = pair.previous, pair.previous.prompt, pair.current.prompt
    at, usage = len(prompt.messages), turn.usage
    extends = pair.overlap.is_covered and at < len(current.messages)
    if turn.generated is None or usage is None or not extends or served_by(turn).provider not in ENGINES:
        return None
    answer = turn.generated()
    if sum(segment.kind == "envelope" for segment in answer) != 1:
        return None
    begin, place = len(answer[0].path), current.messages[at].path
    parts = [replace(segment, path=place + segment.path[begin:]) for segment in answer]
    paid = replace(usage, uncached_tokens=(usage.uncached_tokens or 0) + (usage.output_tokens or 0))
    return replace(turn, source=replace(prompt, messages=prompt.messages.extend(parts)), usage=paid, generated=None)
