"""What requests say of themselves: a call beside its conversation (a title, a count, a summary), one that is summed up.

In: a prompt and what is known of its call; segments. Rules: the content tells, and the client's own word, never a
file's name; a request that was taken for a call beside its conversation costs one comparison, so a doubtful one is
left in the conversation. What a summary says of itself decides (phrases of known agents; a heading, a tag or a first
sentence in the field's words); words that tell no summary from a user's own heading count only where the text
also names what the vanished messages named. A short text that says that something was left out is no summary.

Source of the phrases: requests of public agents, as recorded (Claude Code, Codex, OpenCode, Gemini CLI, Flue).
Cost: O(the first 4 KB of a segment); `retells` looks through the messages that are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from lore.model.deferred import pattern
from lore.model.jsonslice import table
from lore.model.turn import Call, Prompt, Segment
from lore.prefix.blocks import block_of
from lore.prefix.likeness import is_models

UTILITY_TOKENS = 16  # quota probes and topic checks ask for 1 to 8 tokens
LOOKED_AT = 4096  # bytes at a text's beginning that say what it is
MOST_BLOCKS = 32  # blocks of one message, or before the model's first answer
KEPT = 1024  # segments of a user's messages that an agent may keep before its summary
PLACEHOLDER = 240  # characters: what is shorter stands for what was cut, and retells nothing

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens")
_ENDPOINTS = ("/count_tokens", ":counttokens", "/input_tokens", "/compact")
_PURPOSES = pattern(r"title|topic|quota|count|compact|summar|suggest|classif|warm|utility")
REPLAY = "replay"  # a conversation's request that was sent again, with little to generate
_SCHEMAS = pattern(rb'"properties"\s*:\s*\{\s*"(?:title|isNewTopic|topic)"')
_ASKED_OF_IT = pattern(
    rb"(?i)\btitle generator|\b(?:generate|create|write)\b[^.]{0,60}\btitle\b|new conversation topic|isNewTopic"
    rb"|summari[sz]ation assistant|component that summari[sz]es|your task is to process bash commands"
)
_TITLE = pattern(rb"(?i)\btitle for (?:this|the) (?:conversation|session|chat|thread)")
_COMPACT_STEMS = (b"summar", b"compaction", b"text only", b"prompt for continuing")
_COMPACT = pattern(
    rb"\bsummary (?:of|for) (?:the|this|our) (?:conversation|session|chat)\b|context checkpoint compaction"
    rb"|respond with text only\. do not call any tools|prompt for continuing our conversation"
    rb"|\bsummari[sz]e (?:the|this|our) (?:conversation|session|chat)\b"
)
_USER = pattern(rb'"role"\s*:\s*"user"')
_RESULT = pattern(rb'"type"\s*:\s*"tool_result"|"functionResponse"|"function_response"|"toolResult"')


def is_beside(prompt: Prompt, call: Call) -> bool:
    """Tell whether a request is a call beside a conversation."""
    return (
        call.endpoint.lower().endswith(_ENDPOINTS)
        or _PURPOSES.search(call.purpose.lower()) is not None
        or (call.purpose != REPLAY and _asks_for_little(prompt))
        or any(_SCHEMAS.search(prompt.params.get(name, b"")) for name in ("output_config", "response_format", "text"))
        or _is_about(prompt)
        or asks_to_compact(prompt)
    )


def _asks_for_little(prompt: Prompt) -> bool:
    params = prompt.params
    nested = [table(params.get(name, b"null")) or {} for name in ("generationConfig", "inferenceConfig")]
    for raw in [members.get(name, b"") for members in (params, *nested) for name in _LIMITS]:
        if raw.isdigit() and len(raw) < 9 and int(raw) <= UTILITY_TOKENS:
            return True
    return False


def _is_about(prompt: Prompt) -> bool:
    """Tell whether a request without tools and with one message asks for something about a conversation."""
    if has_tools(prompt) or sum(segment.kind == "envelope" for segment in islice(prompt.messages, MOST_BLOCKS)) > 1:
        return False
    system = any(
        _ASKED_OF_IT.search(segment.data[:LOOKED_AT]) for segment in prompt.head if segment.section == "system"
    )
    return system or any(_TITLE.search(segment.data[:LOOKED_AT]) for segment in islice(prompt.messages, MOST_BLOCKS))


def asks_to_compact(prompt: Prompt) -> bool:
    """Tell whether a request asks, at the end of a conversation, for its summary."""
    texts = last_user_texts(prompt)
    if not texts or len(prompt.messages) <= len(texts) + 1:
        return False
    lows = [text.data[:LOOKED_AT].lower() for text in texts]
    return any(any(stem in low for stem in _COMPACT_STEMS) and _COMPACT.search(low) is not None for low in lows)


def compacts(prompt: Prompt, call: Call) -> bool:
    """Tell whether a request asks for the summary of a conversation, in its own messages or in one text."""
    if (
        _COMPACTING.search(call.purpose.lower())
        or call.endpoint.lower().endswith("/compact")
        or asks_to_compact(prompt)
    ):
        return True
    system = (segment.data[:LOOKED_AT] for segment in prompt.head if segment.section == "system")
    asked = (segment.data[:LOOKED_AT].lower() for segment in last_user_texts(prompt))
    return any(map(_SUMMARISER.search, system)) or any(map(_COMPACT.search, asked))


_COMPACTING = pattern(r"compact|summar")
_SUMMARISER = pattern(
    rb"(?i)summari[sz]ation assistant|component that summari[sz]es"
    rb"|you (?:summari[sz]e|compact) (?:the |this |long )?conversation"
)
_HELD = 48  # bytes of a text by which it is found in another one
_MOST_HELD = 64  # texts of a conversation, the latest, looked for in another request


def held_in(conversation: Prompt, prompt: Prompt) -> float:
    """Return the share of a conversation's latest texts that another request holds, as blocks or within one text."""
    size = len(conversation.messages)
    texts = [
        segment.data[1:-1][-_HELD - 16 : -16]
        for segment in conversation.messages.since(max(0, size - _MOST_HELD))
        if segment.kind != "envelope" and len(segment.data) >= _HELD + 18
    ]
    if not texts:
        return 0.0
    whole = b"\n".join(segment.data for segment in prompt.messages)
    return sum(text in whole for text in texts) / len(texts)


def _since_answer(prompt: Prompt) -> Iterator[tuple[bytes, list[Segment]]]:
    """Yield the messages behind the last answer, the latest first: an envelope (empty: it is too far), and blocks."""
    blocks: list[Segment] = []
    size = len(prompt.messages)
    for place in range(size - 1, max(-1, size - 1 - MOST_BLOCKS), -1):
        segment = prompt.messages[place]
        if segment.kind != "envelope":
            blocks.append(segment)
        elif is_models(segment):
            return
        else:
            yield segment.data, blocks
            blocks = []
    yield b"", blocks


def _is_result(block: Segment) -> bool:
    return _RESULT.search(block.data[:LOOKED_AT]) is not None


def last_user_texts(prompt: Prompt) -> list[Segment]:
    """Return the texts of a user's message behind the model's last answer; none where only results stand there."""
    messages = [blocks for envelope, blocks in _since_answer(prompt)
                if envelope and (_USER.search(envelope) or b"role" not in envelope)]  # fmt: skip
    return [block for blocks in messages for block in blocks if not _is_result(block)]


def begins_user_turn(prompt: Prompt) -> bool:
    """Tell whether a request's last word is a user's, and no tool's result."""
    if not last_user_texts(prompt):
        return False
    return not any(
        b'"tool"' in envelope or b'_output"' in envelope or any(map(_is_result, blocks))
        for envelope, blocks in _since_answer(prompt)
    )


def has_tools(prompt: Prompt) -> bool:
    """Tell whether a request brings tools."""
    return bool(prompt.head) and prompt.head[0].section == "tools"


# One of them is in each phrase.
_STEMS = (b"summar", b"compact", b"continued", b"another language model", b"recap", b"hand", b"snapshot", b"checkpoint")
_PHRASES = pattern(
    rb"session is being continued from a previous conversation"
    rb"|<(?:conversation[_-]|context[_-]|compact[_-])?summary>"
    rb"|another language model started to solve this problem"
    rb"|\bsummary of (?:the|our|this) (?:previous|prior|earlier|conversation)"
    rb"|(?:conversation|history|context) (?:before this point |above |so far )?"
    rb"(?:has been|was) (?:summari[sz]ed|compacted)"
    rb'|"type"\s*:\s*"compaction(?:_summary)?"'
)
# A line of its own, in JSON's spelling: "# Conversation summary", "<session-recap>", "[Context checkpoint]".
_TITLED = pattern(
    rb"(?:\"|\\n)[\W_]{0,8}(?:[\w'-]{1,24}[ _-]){0,3}(?:conversation|session|chat|context|history|transcript|dialogue?)"
    rb"[ _-](?:so[ _-]far[ _-])?(?:summary|recap|hand-?off|snapshot|checkpoint|compaction)[\W_]{0,8}?(?:\\n|\"|:)"
)
_NOUN = (
    r"(?:summary|summari[sz]ed|recap|hand-?off|handover|compacted|compaction|condensed|snapshot|checkpoint"
    r"|(?:progress|story|work|context|conversation) so far|(?:previous|prior|earlier) (?:conversation|context|session)"
    r"|zusammenfassung|r[ée]sum[ée]|resumen|resumo|riassunto|samenvatting|краткое содержание|сводка"
    r"|总结|摘要|概要|要約|まとめ|요약)"
)
_HEADING = pattern(
    rf"^[\W_]{{0,8}}(?:[\w'-]{{1,24}}[ _:-]{{1,3}}){{0,6}}{_NOUN}(?:[ _-][\w'-]{{1,24}}){{0,6}}[\W_]{{0,8}}$"
    rf"|^(?:here(?:'s| is)|this is|below is|the following is|what follows is)\b[^\n]{{0,80}}{_NOUN}",
    re.MULTILINE,
)
# The text itself begins so, and goes on: "Summary so far: the parser reads …".
_OPENS = pattern(rf"[\W_]{{0,8}}(?:[\w'-]{{1,24}}[ _-]){{0,3}}{_NOUN}(?:[ _-][\w'-]{{1,24}}){{0,3}} ?[:：]")
_CUT = pattern(
    r"(?:truncat|omitt|remov|dropp|trimm|delet|clear|elid|left out|cut off|not shown|no longer)", re.IGNORECASE
)
_HEADED = 400  # characters in which a heading stands
_TERM = pattern(r"[A-Za-z_][\w-]*(?:[./:][\w-]+)+|[a-z]+[A-Z]\w+|\w+_\w[\w]*|#?\d{3,}|\b[A-Z][A-Z0-9]{3,}\b")
_TERMS, _FEWEST, _SHARE = 64, 3, 0.6  # terms that are looked for; how many, and how large a share, must be found


def is_summary(segment: Segment) -> bool:
    """Tell whether a text says, in words that agents use for nothing else, that it stands for a conversation."""
    if segment.kind == "envelope":
        return is_sealed(segment)
    low = segment.data[:LOOKED_AT].lower()
    return any(stem in low for stem in _STEMS) and (
        _PHRASES.search(low) is not None or _TITLED.search(low, 0, _HEADED) is not None
    )


_SEALED = pattern(rb'"type"\s*:\s*"compaction(?:_summary)?"')


def is_sealed(segment: Segment) -> bool:
    """Tell whether an item of the Responses API is a summary that only the API can read."""
    return b'"compaction' in segment.data and _SEALED.search(segment.data) is not None


def begins_with_summary(prompt: Prompt) -> bool:
    """Tell whether a summary of what was said before stands before the model's first answer.

    A user's own messages may be kept before it.
    """
    return any(is_summary(block) for block in before_answer(prompt.messages))


def opening(prompt: Prompt) -> Iterator[Segment]:
    """Iterate over the first segments, up to the model's first answer."""
    return before_answer(islice(prompt.messages, MOST_BLOCKS))


def before_answer(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Iterate over what stands before the model's first answer."""
    for segment in islice(segments, KEPT):
        if segment.kind == "envelope" and is_models(segment) and b'"compaction' not in segment.data:
            return
        yield segment


def is_headed(segment: Segment) -> bool:
    """Tell whether a text is headed like a summary; a user may head a report so, too."""
    low = (block_of(segment).text or "")[:_HEADED].lower()
    return _HEADING.search(low) is not None or _OPENS.match(low) is not None


def is_placeholder(segment: Segment) -> bool:
    """Tell whether a text is too short to retell anything, or says in few words that something was left out.

    One that calls itself a summary and goes on retells what little there was.
    """
    text = (block_of(segment).text or "").strip()
    if len(text) < 2 * PLACEHOLDER and _CUT.search(text) is not None:
        return True
    return len(text) < PLACEHOLDER and _OPENS.match(text.lower()) is None


def retells(segment: Segment, gone: Iterable[Segment]) -> bool:
    """Tell whether a text names what the messages named that are gone: files, functions, numbers."""
    terms = list(dict.fromkeys(_TERM.findall((block_of(segment).text or "")[: 4 * LOOKED_AT])))[:_TERMS]
    if len(terms) < _FEWEST:
        return False
    left = {term.encode("utf-8", "replace") for term in terms}
    for lost in gone:
        left -= {term for term in left if term in lost.data}
    found = len(terms) - len(left)
    return found >= _FEWEST and found >= _SHARE * len(terms)
