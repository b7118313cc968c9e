"""Render the knowledge of a session as text: pinned in the system prompt, and in durable deltas.

The same entries give the same bytes in whatever order they came: categories by name, entries by title and content. An
entry is one list item; further lines of its content are indented, so that none can pass for a heading or an entry. It
is shown under one short id for good, the first one that a prompt showed.

A delta opens with the session's token, which the system prompt announces, so that a model can tell it from text that
imitates one. If the prompt announces none (nothing was known when it was pinned), the delta says itself what it is. Its
entries keep to a budget of estimated tokens. Of those that do not fit, three are shown cut; every entry that is not
shown in full follows in a later delta, unless it is larger than the budget.

The estimate needs no vocabulary, so a session gives the same bytes on every machine. It errs high on ordinary text (a
test compares it with o200k_base). Text is cut between grapheme clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from lore.model.canonical import text_of
from lore.model.deferred import pattern
from lore.model.events import Layer
from lore.model.inserts import cut_graphemes, short_digest
from lore.model.labels import KNOWLEDGE_UPDATE
from lore.model.state import Fact

MOST_CUT, CUT_CHARACTERS = 3, 500  # entries that do not fit and are shown cut; characters of each
MOST_NAMED = 12  # outdated entries that are named when they do not fit
FIRST_CHARACTERS = 900  # of an entry that is larger than the budget
ANNOUNCED = (
    f"knowledge updates: text that opens with {KNOWLEDGE_UPDATE} {{}}] comes from this system, not from the user; "
    "it is newer than this prompt, and needs no answer"
)
UNANNOUNCED = (
    f"{KNOWLEDGE_UPDATE}] This text is put in by this system, not by the user; it is later than what the text before "
    "it says, and needs no answer of its own."
)
HEADING = "## Long-term Knowledge"
_PIECES = pattern(r"[A-Z]?[a-z]+|[A-Z]+| ?[0-9]{1,3}| +|[^\S\n]|\n|[^\s]")
_VOWELS = pattern("[aeiouyAEIOUY]")
_LONG = 12  # letters; longer words are compounds
_SPACES = 64  # spaces that are surely one token


class News(NamedTuple):
    """What changed since the prompt stated it."""

    changed: tuple[Fact, ...] = ()  # entries that are new or changed
    removed: tuple[str, ...] = ()  # ids of entries that are no longer known
    layers: tuple[Layer, ...] = ()  # layers that are new or changed
    outdated: frozenset[str] = frozenset()  # ids of changed entries that the prompt states as they were


class DeltaText(NamedTuple):
    """The text of a durable delta, and how it shows the changed entries."""

    text: str  # as the prompt holds it
    delivered: frozenset[str] = frozenset()  # ids of entries that are shown in full, or as far as they ever will be
    shortened: frozenset[str] = frozenset()  # ids of entries that are shown cut, and follow in full later


def pinned_text(
    facts: Iterable[Fact], ids: Mapping[str, str], layers: Iterable[Layer] = (), earlier: Iterable[str] = ()
) -> str:
    """Render the knowledge that a chain pins: layers that came late, then entries; empty without either.

    `ids` are the short forms. `earlier` names the layers before this text: if one of them lost its text
    since, the text says so.
    """
    entries, before = _sort_facts(facts), set(earlier)
    parts = [_layer_news(layer) if layer.name in before else text_of(bytes(layer.text)).strip() for layer in layers]
    if entries:
        parts.append("\n".join([HEADING, *_lines(entries, ids)]))
    return "\n\n".join(part for part in parts if part)


def delta_text(session_id: str | None, news: News, ids: Mapping[str, str], budget: int) -> DeltaText:
    """Render a durable delta; without a `session_id` the prompt does not announce the session's token."""
    room = budget - estimate(HEADING) - 1
    fitting, remaining = _pack(_sort_facts(news.changed), ids, room)
    remaining.sort(key=lambda fact: fact.id)
    parts = [UNANNOUNCED if session_id is None else f"{KNOWLEDGE_UPDATE} {short_digest(session_id)}]"]
    parts += map(_layer_news, news.layers)
    if fitting:
        parts.append("\n".join([HEADING, *_lines(fitting, ids)]))
    if remaining:
        parts.append(_cut_entries(remaining, news.outdated, ids))
    if news.removed:
        removed_lines = [f"* [{_indent(ids[name])}]" for name in sorted(news.removed)]
        superseded = "These entries are no longer known; what was said of them before does not hold any more:"
        parts.append("\n".join(["## Superseded Long-term Knowledge", superseded, *removed_lines]))
    cut = [fact for fact in remaining[:MOST_CUT] if max(len(fact.content), len(fact.title)) > CUT_CHARACTERS]
    follow = {fact.id for fact in cut if _cost(fact, ids) <= room}
    shown_ids = {fact.id for fact in (*fitting, *remaining[:MOST_CUT])}
    return DeltaText("\n\n".join(part for part in parts if part), frozenset(shown_ids - follow), frozenset(follow))


def _sort_facts(facts: Iterable[Fact]) -> list[Fact]:
    return sorted(facts, key=lambda fact: (fact.category, fact.title, fact.content, fact.id))


def _layer_news(layer: Layer) -> str:
    text = text_of(bytes(layer.text)).strip()
    return text or f"What was said as {_indent(layer.name)} does not hold any more."


def _lines(facts: Iterable[Fact], ids: Mapping[str, str]) -> list[str]:
    lines: list[str] = []
    for _, some in groupby(facts, lambda fact: fact.category):
        first, *others = some
        lines += [_category(first), *(_line(fact, ids) for fact in (first, *others))]
    return lines


def _category(fact: Fact) -> str:
    return f"### {_indent(fact.category) or 'General'}"


def _line(fact: Fact, ids: Mapping[str, str]) -> str:
    title = f"**[{_indent(ids[fact.id])}]{' ' + _indent(fact.title) if fact.title else ''}**"
    return f"* {title}: {_indent(fact.content)}" if fact.content else f"* {title}"


def _indent(text: str) -> str:
    return "\n  ".join(text.splitlines())


def _cost(fact: Fact, ids: Mapping[str, str], *, has_heading: bool = False) -> int:
    return (0 if has_heading else estimate(_category(fact)) + 1) + estimate(_line(fact, ids)) + 1


def _pack(facts: list[Fact], ids: Mapping[str, str], room: int) -> tuple[list[Fact], list[Fact]]:
    """Return the entries that fit, in order, and the others; if none fits, the first one is cut until it does."""
    fitting, remaining, free = list[Fact](), list[Fact](), room
    categories: set[str] = set()
    for fact in facts:
        cost = _cost(fact, ids, has_heading=fact.category in categories)
        if cost > free:
            remaining.append(fact)
            continue
        free -= cost
        categories.add(fact.category)
        fitting.append(fact)
    first = _cut_to_fit(facts[0], ids, room) if facts and not fitting else None
    return (fitting, remaining) if first is None else ([first], facts[1:])


def _cut_to_fit(fact: Fact, ids: Mapping[str, str], room: int) -> Fact | None:
    """Return an entry with its content cut to the room; None if not even its title fits."""
    limit = min(FIRST_CHARACTERS, len(fact.content) - 1)
    while limit > 0:
        shorter = Fact(fact.id, fact.category, fact.title, cut_graphemes(fact.content, limit) + "…")
        if len(shorter.content) == 1:
            return None
        if _cost(shorter, ids) <= room:
            return shorter
        limit = limit * 3 // 4
    return None


def _cut_entries(remaining: list[Fact], outdated: frozenset[str], ids: Mapping[str, str]) -> str:
    """Return a section with the first entries that do not fit, shortened, and a line that counts the others."""
    lines = ["## Additional Changed Knowledge (truncated)"]
    for fact in remaining[:MOST_CUT]:
        title, content = (cut_graphemes(text, CUT_CHARACTERS) for text in (fact.title, fact.content))
        shorter = Fact(fact.id, "", title, content)
        lines.append(_line(shorter, ids) + "..." * (shorter.content != fact.content))
    more = remaining[MOST_CUT:]
    if more:
        old = [f"[{_indent(ids[fact.id])}]" for fact in more if fact.id in outdated]
        names = " ".join(old[:MOST_NAMED]) + " …" * (len(old) > MOST_NAMED)
        superseded = f"; what was said of {names} before does not hold any more" if old else ""
        entry = "entry follows" if len(more) == 1 else "entries follow"
        lines.append(f"* {len(more)} more changed {entry} in later updates{superseded}.")
    return "\n".join(lines)


def estimate(text: str) -> int:
    """Estimate the tokens of a text. Cost O(length)."""
    return sum(map(_tokens_of_piece, _PIECES.findall(text)))


def _tokens_of_piece(piece: str) -> int:
    first = piece[0]
    if first.isascii():
        if first.isalpha():
            size = len(piece)
            if size > 2 and 4 * len(_VOWELS.findall(piece)) < size:
                return -(-3 * size // 5)  # keys and digests, which have fewer vowels than words, take more tokens
            return -(-size // (3 if size > _LONG else 4))
        if piece[-1].isdigit():
            return 1 + (first == " ")  # a space before a digit is a token of its own
        return len(piece) // _SPACES + (piece != " ")
    return 2 if "\u3000" <= first <= "\ud7a3" else len(first.encode("utf-8", "surrogatepass"))
