"""Texts between the items of a timeline: durable prompt deltas and persisted context.

Their content is a list of `{"role", "text"}`, or of messages of a provider's API (`{"role", "content"}` with a text or
blocks), kept byte for byte; one such object and a plain text are read as well. Content that cannot be read is
None, never a guess.

A delta names the entries that it updates, each with a signature of its meaning: two wordings have the same signature if
they differ only in case, quotes, mark-up, punctuation and white space. Operators (`= < > & | + / ^ % - ! ?`) carry
meaning; the category is not part of it. Prompts show ids by short forms, which never change once they were shown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, cast

from msgspec import Raw, Struct

from lore.model.canonical import encode, text_of
from lore.model.deferred import sha256
from lore.model.items import NULL, Block, RawBlock, TextBlock, is_absent
from lore.model.jsonslice import array, object_of, raw_members
from lore.model.mask import mask
from lore.model.vector import common_prefix

Speaker: TypeAlias = Literal["user", "assistant"]
_BLANK = str.maketrans(dict.fromkeys("\"'`*_~#()[]{}.,;:…—–", " "))
_SPEAKERS: dict[bytes, Speaker] = {b'"user"': "user", b'"assistant"': "assistant"}


class Insert(Struct, frozen=True, gc=False):
    """A text that lore put before an item of the timeline: a durable delta, or persisted context."""

    place: int  # number of items before it
    age: int  # number of turns before it came
    number: int  # of a delta its `seq`, of context its turn; further `outside` context has the next free number
    content: Raw  # as it was recorded
    selector: Raw = NULL  # of a delta, as it was recorded
    outside: bool = False  # context that a compaction asked other programs for
    after_results: bool = False  # a delta that extends the message of tool results before its place
    turn: int = 0  # the turn of outside context, whose `number` may be a later one

    @property
    def is_delta(self) -> bool:
        """Whether this is a durable delta (it has a selector); otherwise it is persisted context."""
        return not is_absent(self.selector)

    @property
    def key(self) -> tuple[int, int]:
        """What identifies it: its kind (0 a delta, 1 context from outside, 2 context of a turn) and its number."""
        return (0 if self.is_delta else 1 if self.outside else 2, self.number)

    @property
    def order(self) -> tuple[int, int, int, int]:
        """A sort key for prompts: `place`, then `age`, then the two numbers of `key`."""
        return (self.place, self.age, *self.key)


class InsertText(Struct, frozen=True):
    """One text of an insert."""

    role: Speaker  # in which it is sent
    text: bytes  # a JSON string; of a message with blocks the texts of its text blocks, with blank lines between
    message: bytes = b""  # the message of a provider's API as it was recorded, if it is one

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The text as one block, none if it is empty; of a message with blocks its blocks as they were recorded."""
        content = (raw_members(self.message) or {}).get("content", b"")
        if content[:1] == b"[":
            return tuple([RawBlock(Raw(raw)) for raw in array(content)])
        return (TextBlock(Raw(self.text)),) if self.text != b'""' else ()


def insert_texts(content: Raw) -> tuple[InsertText, ...] | None:
    """Return an insert's texts in order, without empty ones; None if none is left or an element is unreadable.

    A plain text, or an object without a role, is the user's. Unreadable are another role than user or assistant, and a
    plain text in a list. A message with blocks is kept, even if none is a text.
    """
    raw = bytes(content)
    if raw[:1] == b'"':
        return (InsertText("user", raw),) if raw != b'""' else None
    texts: list[InsertText] = []
    for element in array(raw) if raw[:1] == b"[" else [raw]:
        text = _insert_text(element)
        if text is None:
            return None
        if text.blocks:
            texts.append(text)
    return tuple(texts) or None


def _insert_text(raw: bytes) -> InsertText | None:
    """Read one element of an insert's content; None if it is neither a text nor a message of a provider's API."""
    members = raw_members(raw) or {}
    role, content = _SPEAKERS.get(members.get("role", b'"user"')), members.get("content", b"")
    text = members.get("text", content)
    if role is not None and text[:1] == b'"':
        return InsertText(role, text, b"" if "text" in members else raw)
    if role is None or content[:1] != b"[":
        return None
    blocks = [raw_members(block) for block in array(content)]
    if any(block is None for block in blocks):
        return None
    texts = [text_of(block["text"]) for block in blocks if block and block.get("text", b"")[:1] == b'"']
    return InsertText(role, encode("\n\n".join(texts)), raw)


def selector_place(selector: Raw) -> int | None:
    """Return a selector's `insert_at` (items before the delta); None if unreadable or of a target not `messages`."""
    members = raw_members(bytes(selector)) or {}
    place = members.get("insert_at", members.get("insertAt", b""))
    is_readable = members.get("target") == b'"messages"' and place.isdigit() and len(place) <= 15
    return int(place) if is_readable else None


def joins_results(selector: Raw, content: Raw) -> bool:
    """Return whether a delta is put into the message of tool results before it, instead of a message of its own.

    Its selector has to say so, and its content to be plain texts of the user; content that cannot be read joins too.
    """
    members = raw_members(bytes(selector)) or {}
    texts = insert_texts(content) or ()
    return members.get("behind") == b'"results"' and all(text.role == "user" and not text.message for text in texts)


def with_place(selector: Raw, place: int) -> Raw:
    """Return a selector whose `insert_at` (or `insertAt`, if only that is there) is `place`; other fields stay.

    A selector that is not a JSON object is replaced by one with this field alone.
    """
    members = raw_members(bytes(selector)) or {}
    members["insertAt" if "insertAt" in members and "insert_at" not in members else "insert_at"] = str(place).encode()
    return Raw(object_of(members))


class DeltaNews(Struct, frozen=True):
    """What a delta updates."""

    changed: dict[str, str]  # signatures of entries that were added or changed, by id
    removed: tuple[str, ...]  # ids of entries that were removed
    layers: dict[str, str]  # signatures of late layers, by name


def delta_news(delta: Insert) -> DeltaNews:
    """Return what a delta updates, read from `mut` of its selector: ids and signatures, no texts.

    Empty without a readable selector, or without `mut`, as other programs may write it.
    """
    mut = raw_members((raw_members(bytes(delta.selector)) or {}).get("mut", b"null")) or {}
    return DeltaNews(
        _signatures(mut.get("changed", b"[]"), "id"),
        tuple([text_of(name) for name in array(mut.get("removed", b"[]")) if name[:1] == b'"']),
        _signatures(mut.get("layers", b"[]"), "name"),
    )


def _signatures(raw: bytes, key: str) -> dict[str, str]:
    signatures: dict[str, str] = {}
    for entry in array(raw):
        members = raw_members(entry) or {}
        name, signature = members.get(key, b""), members.get("h", b'""')
        if name[:1] == b'"' and signature[:1] == b'"':
            signatures[text_of(name)] = text_of(signature)
    return signatures


def selector(place: int, news: DeltaNews, *, after_results: bool = False) -> Raw:
    """Return the selector of a new delta at `place` as JSON; `after_results`: it extends the tool results before it."""
    mut: dict[str, object] = {"changed": [{"id": name, "h": sign} for name, sign in news.changed.items()]}
    if news.removed:
        mut["removed"] = list(news.removed)
    if news.layers:
        mut["layers"] = [{"name": name, "h": sign} for name, sign in news.layers.items()]
    where: dict[str, object] = {"target": "messages", "insert_at": place}
    if after_results:
        where["behind"] = "results"
    return Raw(encode(cast("object", {**where, "mut": mut})))


def normal_form(text: str) -> str:
    """Return a text in lower case; ASCII quotes, brackets, `.,;:*_~#…—–` and white space become single spaces."""
    return " ".join(text.lower().translate(_BLANK).split())


def signature(title: str, content: str) -> str:
    """Return 16 hex digits, equal for two entries whose title and content have equal normal forms (SHA-256)."""
    return sha256(f"{normal_form(title)}\x1f{normal_form(content)}".encode("utf-8", "surrogatepass"))[:16]


# Short forms

SHORTEST_ID, LONGEST_ID = 5, 64


def short_digest(name: str) -> str:
    """Return 8 hex digits of a name's SHA-256: of a session's id the mark of lore's deltas, of a cut id its end."""
    return sha256(name.encode("utf-8", "surrogatepass"))[:8]


def shorten_ids(names: Iterable[str], short_ids: Mapping[str, str]) -> Mapping[str, str]:
    """Return the short form of every id in `short_ids` and `names`; forms in `short_ids` stay.

    A new form is the shortest prefix of at least 5 characters that no other id begins with. If it is longer than 64
    characters, or is another id's form, it is cut, and a digest follows. An id that holds a credential, of which a
    report could not mask a part, has a digest alone. `short_ids` itself is returned if no name is new, else a copy.
    Costs O(ids).
    """
    new = sorted({name for name in names if name not in short_ids})
    if not new:
        return short_ids
    ordered = sorted((*short_ids, *new))
    forms = dict(short_ids)
    used_forms = set(forms.values())
    for name in new:
        at = bisect_left(ordered, name)
        beside = (*ordered[max(0, at - 1) : at], *ordered[at + 1 : at + 2])
        shared = [len(name) if name.startswith(other) else common_prefix(name, other) for other in beside]
        form = name[: max([SHORTEST_ID - 1, *shared]) + 1] if mask(name) == name else f"…{short_digest(name)}"
        if len(form) > LONGEST_ID:
            form = f"{cut_graphemes(form, 48)}…{short_digest(form)}"
        while form in used_forms:
            form = f"{cut_graphemes(name, 48)}…{short_digest(form)}"
        forms[name] = form
        used_forms.add(form)
    return forms


def cut_graphemes(text: str, limit: int) -> str:
    """Return the longest beginning of whole grapheme clusters that has at most `limit` code points; may be empty."""
    if len(text) <= limit:
        return text
    import regex  # noqa: PLC0415 - rarely needed, and slow to import

    end = 0
    for match in regex.finditer(r"\X", text[: limit + 1]):
        if match.end() > limit:
            break
        end = match.end()
    return text[:end]
