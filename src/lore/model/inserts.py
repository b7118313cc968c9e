"""Texts that stand between the items of a timeline: durable prompt deltas and persisted context.

Shape of their `content`: a list of `{"role", "text"}`, or of a provider's own messages, `{"role", "content"}` with a
text or blocks, which are kept to the byte (one such object and a plain text are read as well). Rule: what cannot be
read is None, never a guess. A delta names what it brings up to date by signatures: two wordings say the same where
case, quotes, mark-up, punctuation and white space differ; operators (`= < > & | + / ^ % - ! ?`) carry meaning, the
category is not part of it.

Ids are shown by their shortest prefixes. Rule: the short form of an id, once shown, is its form for good: what is shown
later gets forms that differ from it. Text is cut between grapheme clusters.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias, cast

from msgspec import Raw, Struct

from lore.model.canonical import encode, text_of
from lore.model.items import NULL, Block, RawBlock, TextBlock, is_absent
from lore.model.jsonslice import array, table
from lore.model.vector import common_prefix

Speaker: TypeAlias = Literal["user", "assistant"]
_BLANK = str.maketrans(dict.fromkeys("\"'`*_~#()[]{}.,;:…—–", " "))
_SPEAKERS: dict[bytes, Speaker] = {b'"user"': "user", b'"assistant"': "assistant"}


class Insert(Struct, frozen=True, gc=False):
    """Text that lore put before the entry at `place`: a durable delta, or persisted context.

    `number` is a delta's seq, or the turn of a context, which is `outside` where a compaction asked for it; `age`
    counts the turns before it came; `content` and a delta's `selector` are kept to the byte. A delta that is `behind`
    extends the message of the tool results that stand before its place.
    """

    place: int
    age: int
    number: int
    content: Raw
    selector: Raw = NULL
    outside: bool = False
    behind: bool = False

    @property
    def is_delta(self) -> bool:
        """Whether this is a durable delta."""
        return not is_absent(self.selector)

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from others: deltas, context from outside and that of turns, each by number."""
        return (0 if self.is_delta else 1 if self.outside else 2, self.number)

    @property
    def order(self) -> tuple[int, int, int, int]:
        """Where it stands among others: by place, what was sent first, deltas by seq, then context."""
        return (self.place, self.age, *self.key)


class InsertText(NamedTuple):
    """One text of an insert, as a JSON string, and whose turn it takes; or a provider's `message`, as it was recorded.

    Of a message whose content is blocks, `text` is that of its text blocks, with blank lines between; `""` for none.
    """

    role: Speaker
    text: bytes
    message: bytes = b""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What it says: its text, or the blocks of the provider's message as they stand."""
        content = (table(self.message) or {}).get("content", b"")
        if content[:1] == b"[":
            return tuple([RawBlock(Raw(raw)) for raw in array(content)])
        return (TextBlock(Raw(self.text)),) if self.text != b'""' else ()


def insert_texts(content: Raw) -> tuple[InsertText, ...] | None:
    """Return the texts of an insert's content; None where it cannot be read or says nothing."""
    raw = bytes(content)
    if raw[:1] == b'"':
        return (InsertText("user", raw),) if raw != b'""' else None
    listed = array(raw) if raw[:1] == b"[" else [raw]
    found: list[InsertText] = []
    for raw_text in listed:
        own = table(raw_text) or {}
        role = _SPEAKERS.get(own.get("role", b'"user"'))
        made = None if role is None else _said(role, own, raw_text)
        if made is None:
            return None
        if made.blocks:
            found.append(made)
    return tuple(found) or None


def _said(role: Speaker, own: dict[str, bytes], raw: bytes) -> InsertText | None:
    """Read one element of an insert's content; None where it is neither a text nor a provider's message."""
    text, content = own.get("text", own.get("content", b"")), own.get("content", b"")
    if text[:1] == b'"':
        return InsertText(role, text, b"" if "text" in own else raw)
    if content[:1] != b"[":
        return None
    blocks = [table(block) for block in array(content)]
    if any(block is None for block in blocks):
        return None
    texts = [text_of(block["text"]) for block in blocks if block and block.get("text", b"")[:1] == b'"']
    return InsertText(role, encode("\n\n".join(texts)), raw)


def place_in(selector: Raw) -> int | None:
    """Return the place that a selector names; None where it cannot be read."""
    own = table(bytes(selector)) or {}
    place = own.get("insert_at", own.get("insertAt", b""))
    readable = own.get("target") == b'"messages"' and place.isdigit() and len(place) <= 15
    return int(place) if readable else None


def is_behind(selector: Raw, content: Raw) -> bool:
    """Tell whether a delta extends the message of tool results: its selector says so, and its content is plain text."""
    own = table(bytes(selector)) or {}
    texts = insert_texts(content) or ()
    return own.get("behind") == b'"results"' and all(text.role == "user" and not text.message for text in texts)


def with_place(selector: Raw, place: int) -> Raw:
    """Return a selector that names another place; all its other fields stay as they are."""
    own = table(bytes(selector)) or {}
    own["insertAt" if "insertAt" in own and "insert_at" not in own else "insert_at"] = str(place).encode()
    return Raw(b"{" + b",".join(encode(key) + b":" + value for key, value in own.items()) + b"}")


class DeltaNews(NamedTuple):
    """What a delta brought up to date: entries with their signatures, entries taken back, layers."""

    changed: dict[str, str]
    removed: tuple[str, ...]
    layers: dict[str, str]


def delta_news(delta: Insert) -> DeltaNews:
    """Return what a delta says that it told (`mut` of its selector); a foreign or damaged one told nothing."""
    mut = table((table(bytes(delta.selector)) or {}).get("mut", b"null")) or {}
    return DeltaNews(
        _signs(mut.get("changed", b"[]"), "id"),
        tuple([text_of(name) for name in array(mut.get("removed", b"[]")) if name[:1] == b'"']),
        _signs(mut.get("layers", b"[]"), "name"),
    )


def _signs(raw: bytes, key: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in array(raw):
        own = table(entry) or {}
        name, sign = own.get(key, b""), own.get("h", b'""')
        if name[:1] == b'"' and sign[:1] == b'"':
            found[text_of(name)] = text_of(sign)
    return found


def selector(place: int, news: DeltaNews, *, behind: bool = False) -> Raw:
    """Write the selector of a new delta; one that is `behind` extends the message of the results before its place."""
    mut: dict[str, object] = {"changed": [{"id": name, "h": sign} for name, sign in news.changed.items()]}
    if news.removed:
        mut["removed"] = list(news.removed)
    if news.layers:
        mut["layers"] = [{"name": name, "h": sign} for name, sign in news.layers.items()]
    where: dict[str, object] = {"target": "messages", "insert_at": place}
    if behind:
        where["behind"] = "results"
    return Raw(encode(cast("object", {**where, "mut": mut})))


def normalised(text: str) -> str:
    """Return the text without what carries no meaning."""
    return " ".join(text.lower().translate(_BLANK).split())


def signature(title: str, content: str) -> str:
    """Return 16 hex digits that change when the meaning of an entry does (SHA-256 of the normal form)."""
    text = f"{normalised(title)}\x1f{normalised(content)}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


# texts made short

SHORTEST_ID, LONGEST_ID = 5, 64


def token(name: str) -> str:
    """Return 8 hex digits for a name; by those of a session its deltas are known."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def shown_ids(names: Iterable[str], shown: Mapping[str, str]) -> Mapping[str, str]:
    """Return the short forms `shown` so far, by id, with those of the names that have none yet.

    A form is the shortest prefix of at least 5 characters that no other id begins with; a longer one than 64, and a
    whole id that another one was shown as, is cut with a digest behind it. The same `shown` where nothing is new, else
    a new mapping; costs O(ids).
    """
    new = sorted({name for name in names if name not in shown})
    if not new:
        return shown
    ordered = sorted((*shown, *new))
    forms = dict(shown)
    taken = set(forms.values())
    for name in new:
        at = bisect_left(ordered, name)
        beside = (*ordered[max(0, at - 1) : at], *ordered[at + 1 : at + 2])
        shared = [len(name) if name.startswith(other) else common_prefix(name, other) for other in beside]
        form = name[: max([SHORTEST_ID - 1, *shared]) + 1]
        if len(form) > LONGEST_ID:
            form = f"{cut(form, 48)}…{token(form)}"
        while form in taken:
            form = f"{cut(name, 48)}…{token(form)}"
        forms[name] = form
        taken.add(form)
    return forms


def cut(text: str, limit: int) -> str:
    """Return the longest beginning of at most `limit` code points that splits no grapheme cluster."""
    if len(text) <= limit:
        return text
    import regex  # noqa: PLC0415 - seldom needed, and slow to import

    end = 0
    for match in regex.finditer(r"\X", text[: limit + 1]):
        if match.end() > limit:
            break
        end = match.end()
    return text[:end]
