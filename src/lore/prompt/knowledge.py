"""What a session knows, as text: pinned in the system prompt, and as durable deltas behind it.

Rules: the same entries give the same bytes, whatever their ranking: categories by name, entries by title and content.
Each entry is one line that its content cannot leave (further lines are indented). A delta opens with the session's
token, which the static block announces, so that a model can tell it from text that only pretends to be one; where that
block has nothing to announce (nothing was known when the session was pinned), it says itself what it is, without the
token. An entry has one short id for good: that under which it was first shown. Limits: the entries of a delta keep to
the budget; what does not fit is listed shortened (3 entries of 500 characters) or by id; what was taken back is always
listed.

The budget is an estimate of tokens that needs no vocabulary, so that the same session gives the same bytes on every
machine, and errs high on ordinary text (a test compares it with o200k_base; noise can cost up to half more than is
estimated). Cuts fall between grapheme clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lore.model.canonical import text_of
from lore.model.deferred import pattern
from lore.model.events import Layer
from lore.model.inserts import cut, token
from lore.model.labels import KNOWLEDGE_UPDATE
from lore.model.state import Fact

LISTED, LISTED_CHARS, NAMED = 3, 500, 12
FIRST_CHARS = 900
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
_LONG = 12  # letters: longer words are put together of several
_SPACES = 64  # that many are surely one token


class News(NamedTuple):
    """What a delta tells: entries that are new or changed, ids that were taken back, layers."""

    changed: tuple[Fact, ...] = ()
    removed: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()


def pinned_text(
    facts: Iterable[Fact], ids: Mapping[str, str], layers: Iterable[Layer] = (), standing: Iterable[str] = ()
) -> str:
    """Render what is known when a chain is pinned, ids as they are shown; layers that came late stand first.

    Empty for nothing. `standing` are the names of the layers that stand before it: one that lost its text since is
    taken back.
    """
    known, before = _in_order(facts), set(standing)
    parts = [_news_of(layer) if layer.name in before else _layer_text(layer) for layer in layers]
    if known:
        parts.append("\n".join([HEADING, *_lines(known, ids)]))
    return "\n\n".join(part for part in parts if part)


def delta_text(session_id: str | None, news: News, ids: Mapping[str, str], budget: int) -> str:
    """Render a durable delta; `ids` are the ids as they are shown, None stands for a token that was not announced."""
    kept, rest = _packed(_in_order(news.changed), ids, budget)
    opening = UNANNOUNCED if session_id is None else f"{KNOWLEDGE_UPDATE} {token(session_id)}]"
    parts = [opening, *map(_news_of, news.layers)]
    if kept:
        parts.append("\n".join([HEADING, *_lines(kept, ids)]))
    if rest:
        parts.append(_truncated(sorted(rest, key=lambda fact: fact.id), ids))
    if news.removed:
        gone = [f"* [{_inside(ids[name])}]" for name in sorted(news.removed)]
        superseded = "These entries are no longer known; what was said of them before does not hold any more:"
        parts.append("\n".join(["## Superseded Long-term Knowledge", superseded, *gone]))
    return "\n\n".join(part for part in parts if part)


def _in_order(facts: Iterable[Fact]) -> list[Fact]:
    return sorted(facts, key=lambda fact: (fact.category, fact.title, fact.content, fact.id))


def _layer_text(layer: Layer) -> str:
    return text_of(bytes(layer.text)).strip()


def _news_of(layer: Layer) -> str:
    return _layer_text(layer) or f"What was said as {_inside(layer.name)} does not hold any more."


def _lines(facts: Iterable[Fact], ids: Mapping[str, str]) -> list[str]:
    lines: list[str] = []
    category: str | None = None
    for fact in facts:
        if fact.category != category:
            category = fact.category
            lines.append(_category(fact))
        lines.append(_line(fact, ids))
    return lines


def _category(fact: Fact) -> str:
    return f"### {_inside(fact.category) or 'General'}"


def _line(fact: Fact, ids: Mapping[str, str]) -> str:
    title = f"**[{_inside(ids[fact.id])}]{' ' + _inside(fact.title) if fact.title else ''}**"
    return f"* {title}: {_inside(fact.content)}" if fact.content else f"* {title}"


def _inside(text: str) -> str:
    """Indent further lines, so that none can pose as a heading or an entry."""
    return "\n  ".join(text.splitlines())


class _Packed(NamedTuple):
    kept: list[Fact]
    rest: list[Fact]


def _packed(facts: list[Fact], ids: Mapping[str, str], budget: int) -> _Packed:
    """Fill the budget: an entry that does not fit is passed over; where none fits, the first one is cut."""
    room = budget - estimate(HEADING) - 1
    headed: set[str] = set()
    packed = _Packed([], [])
    for fact in facts:
        heading = 0 if fact.category in headed else estimate(_category(fact)) + 1
        cost = heading + estimate(_line(fact, ids)) + 1
        if cost > room:
            packed.rest.append(fact)
            continue
        room -= cost
        headed.add(fact.category)
        packed.kept.append(fact)
    if facts and not packed.kept:
        first = _fitting(facts[0], ids, room)
        if first is not None:
            return _Packed([first], facts[1:])
    return packed


def _fitting(fact: Fact, ids: Mapping[str, str], room: int) -> Fact | None:
    """Cut an entry's content until it fits; None where not even its title does."""
    limit = min(FIRST_CHARS, len(fact.content) - 1)
    while limit > 0:
        shorter = Fact(fact.id, fact.category, fact.title, cut(fact.content, limit) + "…")
        if len(shorter.content) == 1:
            return None
        if estimate(_category(fact)) + estimate(_line(shorter, ids)) + 2 <= room:
            return shorter
        limit = limit * 3 // 4
    return None


def _truncated(rest: list[Fact], ids: Mapping[str, str]) -> str:
    lines = ["## Additional Changed Knowledge (truncated)"]
    for fact in rest[:LISTED]:
        content = cut(fact.content, LISTED_CHARS)
        shorter = Fact(fact.id, "", cut(fact.title, LISTED_CHARS), content)
        lines.append(_line(shorter, ids) + "..." * (content != fact.content))
    more = rest[LISTED:]
    if more:
        named = " ".join(f"[{_inside(ids[fact.id])}]" for fact in more[:NAMED]) + " …" * (len(more) > NAMED)
        entries = "entry" if len(more) == 1 else "entries"
        superseded = "what was said of them before does not hold any more"
        lines.append(f"* {len(more)} more changed {entries} omitted: {named}; {superseded}.")
    return "\n".join(lines)


def estimate(text: str) -> int:
    """Estimate the tokens of a text. Cost O(length)."""
    return sum(map(_cost, _PIECES.findall(text)))


def _cost(piece: str) -> int:
    first = piece[0]
    if first.isascii():
        if first.isalpha():
            return _letters(piece)
        if piece[-1].isdigit():
            return 1 + (first == " ")  # a space before a digit is a token of its own
        return len(piece) // _SPACES + (piece != " ")
    return 2 if "\u3000" <= first <= "\ud7a3" else len(first.encode("utf-8", "surrogatepass"))


def _letters(piece: str) -> int:
    """Words are made of few tokens; letters that are no word (keys, digests) have fewer vowels and more tokens."""
    size = len(piece)
    if size > 2 and 4 * len(_VOWELS.findall(piece)) < size:
        return -(-3 * size // 5)
    return -(-size // (3 if size > _LONG else 4))
