"""What is remembered, and the records that a bucket keeps of it.

A line that is none of these records is counted, and changes nothing; the latest record of a name holds; a change takes
away before it adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lore.model.canonical import encode
from lore.model.turn import seconds_in

SECTIONS: tuple[str, ...] = ("facts", "preferences", "decisions", "tasks", "open_items")
KINDS: tuple[str, ...] = (*SECTIONS, "topics")
STATED = ("facts", "preferences", "decisions")  # what of it may contradict each other: not what is still to be done
GENERAL = "general"
MOST_MARKS = 500  # sessions of a bucket whose marks are kept: the oldest go, and the horizon stands for them


class Structure(Struct, frozen=True):
    """What was extracted, by kind: texts in the order in which they were learnt."""

    facts: tuple[str, ...] = ()
    preferences: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()

    def of(self, section: str) -> tuple[str, ...]:
        """The texts of one section."""
        found: tuple[str, ...] = getattr(self, section)
        return found

    def stated(self) -> Iterator[str]:
        """Yield what is held to be so, oldest first in each section: what may be in conflict."""
        for section in STATED:
            yield from self.of(section)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return not any(map(self.of, SECTIONS))


class _Record(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    at: str | None = None


class Remembered(_Record, frozen=True, kw_only=True, tag="remembered"):
    """A text that is known from now on; `session_id` says where it was said."""

    section: str
    text: str
    session_id: str | None = None


class Forgotten(_Record, frozen=True, kw_only=True, tag="forgotten"):
    """A text that is not known any more."""

    section: str
    text: str


class Topic(_Record, frozen=True, kw_only=True, tag="topic"):
    """A consolidated topic; hidden from `expires_at` on."""

    topic: str
    summary: str
    content: str
    expires_at: str | None = None


class Superseded(_Record, frozen=True, kw_only=True, tag="superseded"):
    """A topic that another one took the place of."""

    topic: str


class Extracted(_Record, frozen=True, kw_only=True, tag="extracted"):
    """What was extracted changed: there is something to dream over."""

    session_id: str | None = None


class Consolidated(_Record, frozen=True, kw_only=True, tag="dreamt"):
    """All that was extracted so far has been dreamt over."""


class Learnt(_Record, frozen=True, kw_only=True, tag="learnt"):
    """How far a session was learnt from, as `conversation.mark_of` notes it."""

    session_id: str
    mark: tuple[str, ...]


class Horizon(_Record, frozen=True, kw_only=True, tag="horizon"):
    """Marks up to `at` were dropped: a session without a mark that has been silent since was learnt from."""


class Sealed(_Record, frozen=True, kw_only=True, tag="sealed"):
    """The volume takes no more records: its contents move to the next one."""


Record: TypeAlias = Remembered | Forgotten | Topic | Superseded | Extracted | Consolidated | Learnt | Horizon | Sealed
_DECODER = msgspec.json.Decoder(Record)


class Known(Struct):
    """What a bucket holds. `is_fresh`: something was extracted since the last dream; `odd` lines are no records.

    `learnt` are the marks of sessions, the oldest first; `horizon` is when the latest was made that was let go of.
    """

    entries: dict[tuple[str, str], Remembered] = {}
    topics: dict[str, Topic] = {}
    is_fresh: bool = False
    is_sealed: bool = False
    odd: int = 0
    learnt: dict[str, Learnt] = {}
    horizon: str | None = None

    @property
    def structure(self) -> Structure:
        """What was extracted."""
        found: dict[str, list[str]] = {section: [] for section in SECTIONS}
        for section, text in self.entries:
            found[section].append(text)
        return Structure(**{section: tuple(texts) for section, texts in found.items()})

    def visible(self, now: str) -> tuple[Topic, ...]:
        """The topics that have not expired at a time (RFC 3339), by name."""
        return tuple(topic for _, topic in sorted(self.topics.items()) if not has_expired(topic, now))

    def counts(self) -> dict[str, int]:
        """How many of each kind there are."""
        return {**{section: len(self.structure.of(section)) for section in SECTIONS}, "topics": len(self.topics)}


def has_expired(topic: Topic, now: str) -> bool:
    """Tell whether a topic is not to be shown any more; a time that cannot be read is none."""
    ends = None if topic.expires_at is None else seconds_in(encode(topic.expires_at))
    today = seconds_in(encode(now))
    return ends is not None and today is not None and ends <= today


def known_of(lines: Iterable[bytes]) -> Known:
    """Fold the lines behind a header. Costs O(their bytes)."""
    known = Known()
    for line in lines:
        try:
            _take(known, _DECODER.decode(line))
        except (ValueError, RecursionError):
            known.odd += 1
    return known


def _take(known: Known, record: Record) -> None:
    match record:
        case Remembered() | Forgotten() if record.section not in SECTIONS:
            known.odd += 1
        case Remembered():
            known.entries[(record.section, record.text)] = record
        case Forgotten():
            known.entries.pop((record.section, record.text), None)
        case Topic():
            known.topics[record.topic] = record
        case Superseded():
            known.topics.pop(record.topic, None)
        case Extracted() | Consolidated():
            known.is_fresh = isinstance(record, Extracted)
        case Learnt():
            known.learnt.pop(record.session_id, None)
            known.learnt[record.session_id] = record
            if len(known.learnt) > MOST_MARKS:
                known.horizon = known.learnt.pop(next(iter(known.learnt))).at or known.horizon
        case Horizon():
            known.horizon = record.at
        case Sealed():
            known.is_sealed = True


def applied(known: Known, records: Iterable[Record]) -> Known:
    """Return what is known after a change."""
    return replace(known_of(lines_of([*whole(known), *records])), odd=known.odd)


def whole(known: Known) -> Iterator[Record]:
    """Yield the fewest records that give what is known."""
    yield from known.entries.values()
    yield from known.topics.values()
    if known.horizon is not None:
        yield Horizon(at=known.horizon)
    yield from known.learnt.values()
    if known.is_fresh:
        yield Extracted()


def lines_of(records: Iterable[Record]) -> tuple[bytes, ...]:
    """Write records as lines of a session."""
    return tuple(map(msgspec.json.encode, records))


def replaced(known: Known, new: Structure, *, at: str, session_id: str | None) -> tuple[Record, ...]:
    """Return the records that turn what is known into a structure: removals first, then additions."""
    wanted = dict.fromkeys((section, text) for section in SECTIONS for text in new.of(section))
    gone = [Forgotten(section=key[0], text=key[1], at=at) for key in known.entries if key not in wanted]
    new_keys = [key for key in wanted if key not in known.entries]
    came = [Remembered(section=key[0], text=key[1], at=at, session_id=session_id) for key in new_keys]
    return (*gone, *came, Extracted(at=at, session_id=session_id)) if gone or came else ()


def consolidated(
    known: Known, topics: Mapping[str, Topic], supersedes: Iterable[str], *, at: str, is_whole: bool = True
) -> tuple[Record, ...]:
    """Return the change of a dream; after one that is not whole, what was extracted waits for the next one."""
    gone = [name for name in known.topics if name in set(supersedes) and name not in topics]
    old = {name: replace(topic, at=topics[name].at) for name, topic in known.topics.items() if name in topics}
    return (
        *(Superseded(topic=name, at=at) for name in gone),
        *(topic for name, topic in topics.items() if old.get(name) != topic),
        *((Consolidated(at=at),) if known.is_fresh and is_whole else ()),
    )


def id_of(section: str, text: str) -> str:
    """Return the name by which an entry can be taken away: its section, and 8 digits of its text's SHA-256."""
    return f"{section}.{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
