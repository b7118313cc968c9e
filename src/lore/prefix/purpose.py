"""What a request is for: the conversation, or a call beside it (a title, a quota probe, a count, a summary).

In: a prompt and what is known of its call. Rules: the content tells, and the client's own word, never a
file's name; a request that was taken for a call beside its conversation costs one comparison, so a
doubtful one is left in the conversation.

Source of the phrases: requests of public agents, as recorded (Claude Code, Codex, OpenCode, Gemini CLI, Flue).
"""

from __future__ import annotations

import re
from itertools import islice

from lore.model.jsonslice import table
from lore.model.prompt import Prompt, Segment
from lore.model.turn import Call
from lore.prefix.likeness import is_models

UTILITY_TOKENS = 16  # quota probes and topic checks ask for 1 to 8 tokens
LOOKED_AT = 4096  # bytes of a text in which its purpose is looked for
MOST_BLOCKS = 32  # of one message

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens")
_ENDPOINTS = ("/count_tokens", ":counttokens", "/input_tokens", "/compact")
_PURPOSES = re.compile(r"title|topic|quota|count|compact|summar|suggest|classif|warm")
_SCHEMAS = re.compile(rb'"properties"\s*:\s*\{\s*"(?:title|isNewTopic|topic)"')
_ASKED_OF_IT = re.compile(
    rb"(?i)\btitle generator|\b(?:generate|create|write)\b[^.]{0,60}\btitle\b|new conversation topic|isNewTopic"
    rb"|summari[sz]ation assistant|component that summari[sz]es|your task is to process bash commands"
)
_TITLE = re.compile(rb"(?i)\btitle for (?:this|the) (?:conversation|session|chat|thread)")
_COMPACT_STEMS = (b"summar", b"compaction", b"text only", b"prompt for continuing")
_COMPACT = re.compile(
    rb"\bsummary (?:of|for) (?:the|this|our) (?:conversation|session|chat)\b|context checkpoint compaction"
    rb"|respond with text only\. do not call any tools|prompt for continuing our conversation"
    rb"|\bsummari[sz]e (?:the|this|our) (?:conversation|session|chat)\b"
)
_USER = re.compile(rb'"role"\s*:\s*"user"')
_RESULT = re.compile(rb'"type"\s*:\s*"tool_result"|"functionResponse"|"function_response"|"toolResult"')


def is_beside(prompt: Prompt, call: Call) -> bool:
    """Tell whether a request is a call beside a conversation."""
    return (
        call.endpoint.lower().endswith(_ENDPOINTS)
        or _PURPOSES.search(call.purpose.lower()) is not None
        or _asks_for_little(prompt)
        or any(_SCHEMAS.search(prompt.params.get(name, b"")) for name in ("output_config", "response_format", "text"))
        or _is_about(prompt)
        or asks_to_compact(prompt)
    )


def _asks_for_little(prompt: Prompt) -> bool:
    params = prompt.params
    nested = [table(params.get(name, b"null")) or {} for name in ("generationConfig", "inferenceConfig")]
    for raw in [one.get(name, b"") for one in (params, *nested) for name in _LIMITS]:
        if raw.isdigit() and len(raw) < 9 and int(raw) <= UTILITY_TOKENS:
            return True
    return False


def _is_about(prompt: Prompt) -> bool:
    """Tell whether a request without tools and with one message asks for something about a conversation."""
    if has_tools(prompt) or sum(one.kind == "envelope" for one in islice(prompt.messages, MOST_BLOCKS)) > 1:
        return False
    system = any(_ASKED_OF_IT.search(one.data[:LOOKED_AT]) for one in prompt.head if one.section == "system")
    return system or any(_TITLE.search(one.data[:LOOKED_AT]) for one in islice(prompt.messages, MOST_BLOCKS))


def asks_to_compact(prompt: Prompt) -> bool:
    """Tell whether a request asks, at the end of a conversation, for its summary."""
    said = last_said(prompt)
    if not said or len(prompt.messages) <= len(said) + 1:
        return False
    return any(_asks(one.data[:LOOKED_AT].lower()) for one in said)


def _asks(low: bytes) -> bool:
    """Look for the phrases only where a part of one stands."""
    return any(stem in low for stem in _COMPACT_STEMS) and _COMPACT.search(low) is not None


def last_said(prompt: Prompt) -> list[Segment]:
    """Return the texts of a user's message behind the model's last answer; none where only results stand there."""
    found: list[Segment] = []
    blocks: list[Segment] = []
    for place in range(len(prompt.messages) - 1, max(-1, len(prompt.messages) - 1 - MOST_BLOCKS), -1):
        one = prompt.messages[place]
        if one.kind != "envelope":
            blocks.append(one)
            continue
        if is_models(one):
            break
        if _USER.search(one.data) or b"role" not in one.data:
            found += [block for block in blocks if not _RESULT.search(block.data[:LOOKED_AT])]
        blocks = []
    return found


def begins_user_turn(prompt: Prompt) -> bool:
    """Tell whether a request's last word is a user's, and no tool's result."""
    said = last_said(prompt)
    results = 0
    for place in range(len(prompt.messages) - 1, max(-1, len(prompt.messages) - 1 - MOST_BLOCKS), -1):
        one = prompt.messages[place]
        if one.kind == "envelope":
            if is_models(one):
                break
            results += b'"tool"' in one.data or b'_output"' in one.data
        else:
            results += _RESULT.search(one.data[:LOOKED_AT]) is not None
    return bool(said) and not results


def has_tools(prompt: Prompt) -> bool:
    """Tell whether a request brings tools."""
    return bool(prompt.head) and prompt.head[0].section == "tools"
