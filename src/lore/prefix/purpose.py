"""The purpose of a request: a side call (a title, a count, a summary) or a turn, which may begin with a summary.

The content decides, and what the client says of the request, never a file's name. A side call that is taken for a
conversation's request costs a comparison; the reverse loses one: doubtful requests stay in the conversation. A summary
is known by phrases of agents, or by a heading, tag or first sentence in common words; a heading that a user could have
written counts only if the text also names what the messages named that are gone. A short text that says that something
was left out is no summary.

Phrases: recorded requests of public agents (Claude Code, Codex, OpenCode, Gemini CLI, Flue). Cost: O(the first 4 KB of
a segment); `retells` searches the messages that are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from lore.model.deferred import pattern
from lore.model.events import REPLAY
from lore.model.jsonslice import raw_members
from lore.model.turn import Call, Prompt, Segment
from lore.prefix.blocks import block_of
from lore.prefix.likeness import is_model_message

_SIDE_CALL_TOKENS = 16  # quota probes and topic checks ask for 1 to 8 tokens
_TEXT_BYTES = 4096  # at a text's beginning that show its kind
_MOST_BLOCKS = 32  # of one message, or before the model's first answer
_MOST_KEPT = 1024  # segments of a user's messages that an agent may keep before its summary
_SHORT = 240  # characters: a shorter text may replace messages that were cut, and retell nothing
_FEWEST_SPACES = 4  # of a sentence; in a script without spaces it has at least so many characters:
_FEWEST_CHARACTERS = 24

# Side calls

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens")
_PURPOSES = pattern(r"title|topic|quota|count|compact|summar|suggest|classif|warm|utility")
_SCHEMAS = pattern(rb'"properties"\s*:\s*\{\s*"(?:title|isNewTopic|topic)"')
_SIDE_SYSTEM = pattern(
    rb"(?i)\btitle generator|\b(?:generate|create|write)\b[^.]{0,60}\btitle\b|new conversation topic|isNewTopic"
    rb"|summari[sz]ation assistant|component that summari[sz]es|your task is to process bash commands"
)
_TITLE = pattern(rb"(?i)\btitle for (?:this|the) (?:conversation|session|chat|thread)")
_COMPACT_STEMS = (b"summar", b"compaction", b"text only", b"prompt for continuing")  # one is in each phrase
_COMPACT = pattern(
    rb"\bsummary (?:of|for) (?:the|this|our) (?:conversation|session|chat)\b|context checkpoint compaction"
    rb"|respond with text only\. do not call any tools|prompt for continuing our conversation"
    rb"|\bsummari[sz]e (?:the|this|our) (?:conversation|session|chat)\b"
)
_COMPACTING = pattern(r"compact|summar")
_SUMMARISER = pattern(
    rb"(?i)summari[sz]ation assistant|component that summari[sz]es"
    rb"|you (?:summari[sz]e|compact) (?:the |this |long )?conversation"
)
_OUTPUT = b'_output"'  # ends the type of an item of the Responses API that is a tool's result
_USER = pattern(rb'"role"\s*:\s*"user"')
_RESULT = pattern(rb'"type"\s*:\s*"tool_result"|"functionResponse"|"function_response"|"toolResult"')


def is_side_call(prompt: Prompt, call: Call) -> bool:
    """Return whether a request is a side call of a conversation: a title, probe, summary or the like."""
    return (
        call.endpoint.lower().endswith("/compact")
        or _PURPOSES.search(call.purpose.lower()) is not None
        or (call.purpose != REPLAY and _is_probe(prompt))
        or any(_SCHEMAS.search(prompt.params.get(name, b"")) for name in ("output_config", "response_format", "text"))
        or _is_about_conversation(prompt)
        or asks_to_compact(prompt)
    )


def _is_probe(prompt: Prompt) -> bool:
    """Return whether a request checks a quota or a key: it asks for few tokens, and no message is an answer."""
    params = prompt.params
    nested = [raw_members(params.get(name, b"null")) or {} for name in ("generationConfig", "inferenceConfig")]
    limits = [members.get(name, b"") for members in (params, *nested) for name in _LIMITS]
    token_limits = [int(raw) for raw in limits if raw.isdigit() and len(raw) < 9]
    has_system = any(segment.section == "system" for segment in prompt.head)
    # an agent that limits each answer to a few tokens has a system prompt
    if min(token_limits, default=_SIDE_CALL_TOKENS + 1) > (1 if has_system else _SIDE_CALL_TOKENS):
        return False
    return not any(map(is_model_message, prompt.messages))


def _is_about_conversation(prompt: Prompt) -> bool:
    """Return whether a request without tools and with one message asks for a title, a topic or the like."""
    first = list(islice(prompt.messages, _MOST_BLOCKS))
    if has_tools(prompt) or sum(segment.kind == "envelope" for segment in first) > 1:
        return False
    system = (segment.data[:_TEXT_BYTES] for segment in prompt.head if segment.section == "system")
    return any(map(_SIDE_SYSTEM.search, system)) or any(_TITLE.search(segment.data[:_TEXT_BYTES]) for segment in first)


def asks_to_compact(prompt: Prompt) -> bool:
    """Return whether a text of the user after the model's last answer asks for a summary of messages before it."""
    texts = last_user_texts(prompt)
    if not texts or len(prompt.messages) <= len(texts) + 1:
        return False
    lowered = [text.data[:_TEXT_BYTES].lower() for text in texts]
    return any(any(stem in text for stem in _COMPACT_STEMS) and _COMPACT.search(text) for text in lowered)


def asks_for_summary(prompt: Prompt, call: Call) -> bool:
    """Return whether a request asks for the summary of a conversation, in its own messages or in one text."""
    if _COMPACTING.search(call.purpose.lower()) or call.endpoint.lower().endswith("/compact"):
        return True
    system = (segment.data[:_TEXT_BYTES] for segment in prompt.head if segment.section == "system")
    texts = (segment.data[:_TEXT_BYTES].lower() for segment in last_user_texts(prompt))
    return any(map(_SUMMARISER.search, system)) or any(map(_COMPACT.search, texts))


_QUOTED_BYTES = 48  # of a text, by which it is found in another one
_QUOTED_TEXTS = 64  # latest texts of a conversation that are looked for


def quoted_share(conversation: Prompt, prompt: Prompt) -> float:
    """Return the share (0 to 1, by number) of a conversation's latest long texts that another request quotes.

    Long are texts of 66 bytes or more among the last 64 segments. A text counts as quoted if the other request's
    messages contain 48 bytes of it, those 16 bytes before its end. 0 if there is no long text.
    """
    size = len(conversation.messages)
    texts = [
        segment.data[1:-1][-_QUOTED_BYTES - 16 : -16]
        for segment in conversation.messages.since(max(0, size - _QUOTED_TEXTS))
        if segment.kind != "envelope" and len(segment.data) >= _QUOTED_BYTES + 18
    ]
    messages = b"\n".join(segment.data for segment in prompt.messages) if texts else b""
    return sum(text in messages for text in texts) / max(1, len(texts))


def _messages_since_answer(prompt: Prompt) -> Iterator[tuple[bytes, list[Segment]]]:
    """Yield the messages after the last answer, the latest first: envelope and blocks; an empty envelope if cut off."""
    blocks: list[Segment] = []
    size = len(prompt.messages)
    for place in range(size - 1, max(-1, size - 1 - _MOST_BLOCKS), -1):
        segment = prompt.messages[place]
        if segment.kind != "envelope":
            blocks.append(segment)
        elif is_model_message(segment):
            return
        else:
            yield segment.data, blocks
            blocks = []
    yield b"", blocks


def last_user_texts(prompt: Prompt) -> list[Segment]:
    """Return the user's texts and images after the last answer, without results; the latest first, 32 at most."""
    return [
        block
        for envelope, blocks in _messages_since_answer(prompt)
        if envelope and (_USER.search(envelope) or (b"role" not in envelope and _OUTPUT not in envelope))
        for block in blocks
        if not _RESULT.search(block.data, 0, _TEXT_BYTES)
    ]


def begins_user_turn(prompt: Prompt) -> bool:
    """Return whether a user's text follows the model's last answer, and no tool's result does."""
    if not last_user_texts(prompt):
        return False
    return not any(
        b'"tool"' in envelope
        or _OUTPUT in envelope
        or any(_RESULT.search(block.data, 0, _TEXT_BYTES) for block in blocks)
        for envelope, blocks in _messages_since_answer(prompt)
    )


def has_tools(prompt: Prompt) -> bool:
    """Return whether a request defines tools."""
    return bool(prompt.head) and prompt.head[0].section == "tools"


# Summaries

# One of these is in each phrase.
_STEMS = (b"summar", b"compact", b"continued", b"another language model", b"recap", b"hand", b"snapshot", b"checkpoint")
_PHRASES = pattern(
    rb"session is being continued from a previous conversation"
    rb"|<(?:conversation[_-]|context[_-]|compact[_-])?summary>"
    rb"|another language model started to solve this problem"
    rb"|\bsummary of (?:the|our|this|[0-9]{1,9}) (?:previous|prior|earlier|conversation)"
    rb"|(?:conversation|history|context) (?:before this point |above |so far )?"
    rb"(?:has been|was) (?:summari[sz]ed|compacted)"
    rb'|"type"\s*:\s*"compaction(?:_summary)?"'
)
# A line by itself, as JSON writes it: "# Conversation summary", "<session-recap>", "[Context checkpoint]".
_TITLE_LINE = pattern(
    rb"(?:\"|\\n)[\W_]{0,8}(?:[\w'-]{1,24}[ _-]){0,3}(?:conversation|session|chat|context|history|transcript|dialogue?)"
    rb"[ _-](?:so[ _-]far[ _-])?(?:summary|recap|hand-?off|snapshot|checkpoint|compaction)[\W_]{0,8}?(?:\\n|\"|:)"
)
_NOUN = (
    r"(?:summary|summari[sz]ed|recap|hand-?off|handover|compacted|compaction|condensed|snapshot|checkpoint"
    r"|(?:progress|story|work|context|conversation) so far|(?:previous|prior|earlier) (?:conversation|context|session)"
    r"|zusammenfassung|r[ée]sum[ée]|resumen|resumo|riassunto|samenvatting|краткое содержание|сводка"
    r"|总结|摘要|概要|要約|まとめ|요약)"
)
_NAMES_SUMMARY = pattern(_NOUN)
_HEADING = pattern(
    rf"^[\W_]{{0,8}}(?:[\w'-]{{1,24}}[ _:-]{{1,3}}){{0,6}}{_NOUN}(?:[ _-][\w'-]{{1,24}}){{0,6}}[\W_]{{0,8}}$"
    rf"|^(?:here(?:'s| is)|this is|below is|the following is|what follows is)\b[^\n]{{0,80}}{_NOUN}",
    re.MULTILINE,
)
# The first words of a text that continues: "Summary so far: the parser reads …".
_FIRST_WORDS = pattern(rf"[\W_]{{0,8}}(?:[\w'-]{{1,24}}[ _-]){{0,3}}{_NOUN}(?:[ _-][\w'-]{{1,24}}){{0,3}} ?[:：]")
_CUT = pattern(
    r"(?:truncat|omitt|remov|dropp|trimm|delet|clear|elid|left out|cut off|not shown|no longer)", re.IGNORECASE
)
_HEADING_CHARACTERS = 400  # at a text's beginning, in which its heading is
_TERM = pattern(r"[A-Za-z_][\w-]*(?:[./:][\w-]+)+|[a-z]+[A-Z]\w+|\w+_\w[\w]*|#?\d{3,}|\b[A-Z][A-Z0-9]{3,}\b")
_LONG_WORD = pattern(r"\w{4,}")
_MOST_TERMS, _FEWEST_FOUND, _FOUND_SHARE = 64, 3, 0.6
_SEALED = pattern(rb'"type"\s*:\s*"compaction(?:_summary)?"')


def is_sealed_summary(segment: Segment) -> bool:
    """Return whether an item of the Responses API is a summary that only the API can read."""
    return b'"compaction' in segment.data and _SEALED.search(segment.data) is not None


def is_summary(segment: Segment) -> bool:
    """Return whether a text has a phrase or title by which agents mark summaries, or an item is a sealed summary."""
    if segment.kind == "envelope":
        return is_sealed_summary(segment)
    lowered = segment.data[:_TEXT_BYTES].lower()
    if not any(stem in lowered for stem in _STEMS):
        return False
    return _PHRASES.search(lowered) is not None or _TITLE_LINE.search(lowered, 0, _HEADING_CHARACTERS) is not None


def is_template(removed: list[Segment]) -> bool:
    """Return whether replaced messages were no history, but looked like a summary: requests ask for one in one form."""
    return not any(map(is_model_message, removed)) and any(map(is_summary, removed))


def begins_with_summary(prompt: Prompt) -> bool:
    """Return whether a summary comes before the model's first answer, maybe after messages of the user."""
    return any(is_summary(block) for block in segments_before_answer(prompt.messages))


def segments_before_answer(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Iterate over the segments (1,024 at most, envelopes too) before the model's first answer."""
    for segment in islice(segments, _MOST_KEPT):
        if is_model_message(segment) and b'"compaction' not in segment.data:
            return
        yield segment


def has_summary_heading(segment: Segment) -> bool:
    """Return whether a text or result, maybe a user's, has a summary's heading near its beginning, or begins as one."""
    lowered = (block_of(segment).text or "")[:_HEADING_CHARACTERS].lower()
    if _NAMES_SUMMARY.search(lowered) is None:  # most texts: the two forms take long to compile
        return False
    return _HEADING.search(lowered) is not None or _FIRST_WORDS.match(lowered) is not None


def is_placeholder(segment: Segment) -> bool:
    """Return whether a text of under 480 characters says that something was left out, or is not a sentence."""
    text = (block_of(segment).text or "").strip()
    is_word = text.count(" ") < _FEWEST_SPACES and (text.isascii() or len(text) < _FEWEST_CHARACTERS)
    return len(text) < 2 * _SHORT and (is_word or _CUT.search(text) is not None)


def is_short(segment: Segment) -> bool:
    """Return whether a text has under 240 characters, and does not begin as a summary."""
    text = (block_of(segment).text or "").strip()
    return len(text) < _SHORT and _FIRST_WORDS.match(text.lower()) is None


def retells(segment: Segment, removed: Iterable[Segment], *, words: bool = False) -> bool:
    """Return whether at least 3 and 60 % of a text's names (files, functions, numbers) are in the removed segments.

    With `words` the words of 4 letters or more count instead, in any case: a short text has few names.
    """
    text = block_of(segment).text or ""
    terms = _LONG_WORD.findall(text.lower()) if words else _TERM.findall(text[: 4 * _TEXT_BYTES])
    terms = list(dict.fromkeys(terms))[:_MOST_TERMS]
    missing = {term.encode("utf-8", "replace") for term in terms}
    for lost in removed:
        data = lost.data.lower() if words else lost.data
        missing -= {term for term in missing if term in data}
    found = len(terms) - len(missing)
    return found >= _FEWEST_FOUND and found >= _FOUND_SHARE * len(terms)
