"""What a summary of an earlier conversation looks like, and what a mere cut of history leaves in its place.

In: segments. Rules: what a summary says of itself decides (phrases of known agents; a heading, a tag or a first
sentence in the field's words); words that tell no summary from a user's own heading count only where the text
also names what the vanished messages named. A short text that says that something was left out is no summary.

Source of the phrases: requests of public agents, as recorded (Claude Code, Codex, OpenCode, Gemini CLI, Flue).
Cost: O(the first 4 KB of a segment); `retells` looks through the messages that are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from lore.model.canonical import text_of
from lore.model.jsonslice import table
from lore.model.prompt import Prompt, Segment
from lore.prefix.blocks import text_in
from lore.prefix.likeness import is_models

LOOKED_AT = 4096  # bytes of a text in which it says what it is
MOST_BLOCKS = 32  # segments before the model's first answer
KEPT = 1024  # segments of a user's messages that an agent may keep before its summary
PLACEHOLDER = 240  # characters: what is shorter stands for what was cut, and retells nothing

# One of them is in each phrase.
_STEMS = (b"summar", b"compact", b"continued", b"another language model", b"recap", b"hand", b"snapshot", b"checkpoint")
_PHRASES = re.compile(
    rb"session is being continued from a previous conversation"
    rb"|<(?:conversation[_-]|context[_-]|compact[_-])?summary>"
    rb"|another language model started to solve this problem"
    rb"|\bsummary of (?:the|our|this) (?:previous|prior|earlier|conversation)"
    rb"|(?:conversation|history|context) (?:before this point |above |so far )?"
    rb"(?:has been|was) (?:summari[sz]ed|compacted)"
    rb'|"type"\s*:\s*"compaction(?:_summary)?"'
)
# A line of its own, in JSON's spelling: "# Conversation summary", "<session-recap>", "[Context checkpoint]".
_TITLED = re.compile(
    rb"(?:\"|\\n)[\W_]{0,8}(?:[\w'-]{1,24}[ _-]){0,3}(?:conversation|session|chat|context|history|transcript|dialogue?)"
    rb"[ _-](?:so[ _-]far[ _-])?(?:summary|recap|hand-?off|snapshot|checkpoint|compaction)[\W_]{0,8}?(?:\\n|\"|:)"
)
_NOUN = (
    r"(?:summary|summari[sz]ed|recap|hand-?off|handover|compacted|compaction|condensed|snapshot|checkpoint"
    r"|(?:progress|story|work|context|conversation) so far|(?:previous|prior|earlier) (?:conversation|context|session)"
    r"|zusammenfassung|r[ée]sum[ée]|resumen|resumo|riassunto|samenvatting|краткое содержание|сводка"
    r"|总结|摘要|概要|要約|まとめ|요약)"
)
_HEADING = re.compile(
    rf"^[\W_]{{0,8}}(?:[\w'-]{{1,24}}[ _:-]{{1,3}}){{0,6}}{_NOUN}(?:[ _-][\w'-]{{1,24}}){{0,6}}[\W_]{{0,8}}$"
    rf"|^(?:here(?:'s| is)|this is|below is|the following is|what follows is)\b[^\n]{{0,80}}{_NOUN}",
    re.MULTILINE,
)
# The text itself begins so, and goes on: "Summary so far: the parser reads …".
_OPENS = re.compile(rf"[\W_]{{0,8}}(?:[\w'-]{{1,24}}[ _-]){{0,3}}{_NOUN}(?:[ _-][\w'-]{{1,24}}){{0,3}} ?[:：]")
_CUT = re.compile(
    r"(?:truncat|omitt|remov|dropp|trimm|delet|clear|elid|left out|cut off|not shown|no longer)", re.IGNORECASE
)
_HEADED = 400  # characters in which a heading stands
_TERM = re.compile(r"[A-Za-z_][\w-]*(?:[./:][\w-]+)+|[a-z]+[A-Z]\w+|\w+_\w[\w]*|#?\d{3,}|\b[A-Z][A-Z0-9]{3,}\b")
_TERMS, _FEWEST, _SHARE = 64, 3, 0.6  # terms that are looked for; how many, and how large a share, must be found


def is_summary(segment: Segment) -> bool:
    """Tell whether a text says, in words that agents use for nothing else, that it stands for a conversation."""
    if segment.kind == "envelope":
        return is_sealed(segment)
    low = segment.data[:LOOKED_AT].lower()
    return any(stem in low for stem in _STEMS) and (
        _PHRASES.search(low) is not None or _TITLED.search(low, 0, _HEADED) is not None
    )


_SEALED = re.compile(rb'"type"\s*:\s*"compaction(?:_summary)?"')


def is_sealed(segment: Segment) -> bool:
    """Tell whether an item of the Responses API is a summary that only the API can read."""
    return b'"compaction' in segment.data and _SEALED.search(segment.data) is not None


def begins_with_summary(prompt: Prompt) -> bool:
    """Tell whether a summary of what was said before stands before the model's first answer.

    A user's own messages may be kept before it.
    """
    return any(is_summary(one) for one in before_answer(prompt.messages))


def opening(prompt: Prompt) -> Iterator[Segment]:
    """Iterate over the first segments, up to the model's first answer."""
    return before_answer(islice(prompt.messages, MOST_BLOCKS))


def before_answer(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Iterate over what stands before the model's first answer."""
    for one in islice(segments, KEPT):
        if one.kind == "envelope" and is_models(one) and b'"compaction' not in one.data:
            return
        yield one


def is_headed(segment: Segment) -> bool:
    """Tell whether a text is headed like a summary; a user may head a report so, too."""
    low = text_of_segment(segment)[:_HEADED].lower()
    return _HEADING.search(low) is not None or _OPENS.match(low) is not None


def is_placeholder(segment: Segment) -> bool:
    """Tell whether a text is too short to retell anything, or says in few words that something was left out.

    One that calls itself a summary and goes on retells what little there was.
    """
    text = text_of_segment(segment).strip()
    if len(text) < 2 * PLACEHOLDER and _CUT.search(text) is not None:
        return True
    return len(text) < PLACEHOLDER and _OPENS.match(text.lower()) is None


def retells(segment: Segment, gone: Iterable[Segment]) -> bool:
    """Tell whether a text names what the messages named that are gone: files, functions, numbers."""
    terms = list(dict.fromkeys(_TERM.findall(text_of_segment(segment)[: 4 * LOOKED_AT])))[:_TERMS]
    if len(terms) < _FEWEST:
        return False
    left = {term.encode("utf-8", "replace") for term in terms}
    for one in gone:
        left -= {term for term in left if term in one.data}
    found = len(terms) - len(left)
    return found >= _FEWEST and found >= _SHARE * len(terms)


def text_of_segment(segment: Segment) -> str:
    """Return a segment's text; empty where it has none."""
    if segment.kind == "envelope":
        return ""
    if segment.data[:1] == b'"':
        return text_of(segment.data)
    return text_in(table(segment.data) or {}) or ""
