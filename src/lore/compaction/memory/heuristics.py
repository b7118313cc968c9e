"""What can be learnt from words without a model: deterministic, line by line, and modest.

In: what was said, and what is known. Out: what is known then. Rules: a sentence is remembered as it was said, in the
first section whose pattern it fits; only a user says facts and preferences; code, quotations, questions and headings
are passed over; a sentence that says of a subject what another said before takes its place ("my editor is …"), what is
done is closed, and what a user asks to forget goes; what was learnt from before says nothing again. English patterns:
in another language nothing is learnt, and nothing invented.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lore.compaction.memory.records import SECTIONS, Structure
from lore.compaction.memory.transcript import Message
from lore.model.inserts import normalised

MOST = 40  # texts of a section: the oldest go
WRAPPED = 50  # characters of a line that may have been broken
SHORTEST, LONGEST = 8, 300  # characters of a sentence: shorter ones say nothing alone, longer ones are no sentences


def _pattern(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(words), re.IGNORECASE)


_BOTH, _USER = ("user", "assistant"), ("user",)
_TABLE: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = (
    ("preferences", _USER, _pattern(
        r"\b(?:i|we)(?:'d)? (?:much |really |strongly )?(?:prefer|dislike|hate)\b", r"\bi like (?:to|my|the|when)\b",
        r"\bfrom now on\b", r"^(?:please )?(?:always|never) \w+", r"\byou (?:should|must) (?:always|never)\b",
        r"\bdon'?t ever\b", r"^(?:please )?call me\b", r"\bwant you to (?:always|never)\b",
    )),
    ("decisions", _BOTH, _pattern(
        r"\blet'?s (?:use|go with|keep|stick|switch|drop)\b",
        r"\bwe(?:'ll| will| shall) (?:use|go with|keep|switch)\b", r"^(?:decision|decided|agreed)\s*[:\-]",
        r"\b(?:we|i)(?:'ve| have)? (?:decided|chose|chosen|agreed)\b", r"\b(?:go|going) with\b",
    )),
    ("tasks", _BOTH, _pattern(r"^(?:todo|task|next step)s?\s*(?::|- )")),
    ("tasks", _USER, _pattern(  # a model that "needs to" is about to
        r"\bremind me to\b", r"\bdon'?t forget to\b", r"\b(?:we|i)(?: still)? (?:need|have|ought) to\b",
        r"\b(?:we|i) must\b", r"\bby (?:tomorrow|monday|friday|next week)\b",
    )),
    ("open_items", _BOTH, _pattern(
        r"\b(?:still|remains?) (?:open|unclear|unresolved|failing|broken|missing)\b",
        r"^open (?:question|issue|item)s?\s*:", r"\bblocked (?:on|by)\b",
        r"\b(?:not|n't) (?:yet )?(?:decided|resolved|fixed)\b", r"\bto be (?:decided|confirmed)\b",
    )),
    ("facts", _USER, _pattern(
        r"^(?:my|our) [\w' -]{1,40} (?:is|are|was|has|uses?|runs?|lives?)\b",
        r"\b(?:i am|i'm) (?:a|an|the|from|based|called)\b", r"\bi (?:work|live|own|maintain)\b",
        r"^(?:\w+,? )?we (?:use|run|deploy|host|own|maintain)\b", r"^(?:please )?(?:remember|note) that\b",
        r"^(?:fyi|for the record)\b",
    )),
)  # fmt: skip
_SUBJECT = re.compile(r"^((?:my|our) [\w' -]{1,40}?) (?:is|are|was)\b|^(?:please )?(call me)\b", re.IGNORECASE)
_FORGET = re.compile(
    r"^(?:please )?forget (?:that |about |what i said about |what i told you about )?(.+)", re.IGNORECASE
)
_DONE = re.compile(
    r"^(?:done|finished|completed|fixed|resolved|closed)\s*[:\-]?\s+(.+)"
    r"|^(.+?) (?:is|are|has been|have been)(?: now)? (?:done|finished|completed|fixed|resolved|closed)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_LEAD = re.compile(r"^[\s*+\-•>#\d.)]*(?:\[[ xX]\]\s*)?")
_SMALL = frozenset(
    ("a", "an", "and", "are", "by", "for", "from", "in", "is", "it", "of", "on", "or", "our", "my", "that", "the",
     "this", "to", "was", "we", "with", "you")
)  # fmt: skip


def noticed(messages: Iterable[Message], known: Structure) -> Structure:
    """Return what is known after these messages. Costs O(their text)."""
    kept = {section: dict.fromkeys(known.of(section)) for section in SECTIONS}
    for message in messages:
        for sentence in () if not message.is_new else _sentences(message.text):
            _take(kept, message.role, sentence)
    return Structure(**{section: tuple(texts) for section, texts in kept.items()})


def _take(kept: dict[str, dict[str, None]], role: str, sentence: str) -> None:
    if role == "user" and (forget := _FORGET.match(sentence)):
        _drop(kept, SECTIONS, forget[1])
        return
    if done := _DONE.match(sentence):
        _drop(kept, ("tasks", "open_items"), done[1] or done[2])
        return
    for section, roles, pattern in _TABLE:
        if role in roles and pattern.search(sentence):
            _put(kept[section], sentence)
            return


def _put(texts: dict[str, None], sentence: str) -> None:
    same, subject = normalised(sentence), _subject(sentence)
    for text in list(texts):
        if text != sentence and (normalised(text) == same or (subject and _subject(text) == subject)):
            del texts[text]  # the new one wins
    texts[sentence] = None
    while len(texts) > MOST:  # at once: each new one is compared with all
        del texts[next(iter(texts))]


def _subject(sentence: str) -> str:
    found = _SUBJECT.match(sentence)
    return normalised(found[1] or found[2]) if found else ""


def _drop(kept: dict[str, dict[str, None]], sections: Iterable[str], about: str) -> None:
    """Take away what holds every word that says something; a lone small word takes nothing."""
    words = _telling(about)
    for section in sections if words else ():
        for found in [text for text in kept[section] if words <= _telling(text)]:
            del kept[section][found]


def _telling(text: str) -> frozenset[str]:
    return frozenset(normalised(text.replace("!", " ").replace("?", " ")).split()) - _SMALL


def _unwrapped(text: str) -> Iterator[str]:
    """Yield lines, those joined that were broken for their length: half a sentence says something else."""
    held = ""
    for line in text.split("\n"):
        if held and line[:1].islower():
            held = f"{held} {line}"
            continue
        if held:
            yield held
        held = line if len(line) >= WRAPPED and line.rstrip()[-1:] not in ".!?:" else ""
        if not held:
            yield line
    if held:
        yield held


def _sentences(text: str) -> Iterator[str]:
    inside = False
    for line in _unwrapped(text):
        if line.lstrip().startswith(("```", "~~~")):
            inside = not inside
        elif not inside and not line.lstrip().startswith(">"):
            for part in _SENTENCE.split(_LEAD.sub("", line)):
                sentence = " ".join(part.replace("**", "").split())
                if SHORTEST <= len(sentence) <= LONGEST and not sentence.endswith((":", "?")):
                    yield sentence
