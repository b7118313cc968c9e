"""The built-in summariser: no model, no network, the same entries give the same bytes.

It repeats and never judges; what does not fit is counted; the summary that is replaced is carried on, one of its own
line by line, another summariser's as a shortened text. Each section has its share of the room, so it never grows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from lore.compaction.base import BYTES_PER_TOKEN, SummaryAnswer, SummaryRequest
from lore.compaction.summary_facts import ASKED, FAILED, INTERRUPTED, RUNNING, TO_DO, SummaryFacts, Talk, found_in
from lore.compaction.transcripts import clipped
from lore.compaction.untrusted import cut_bytes, harmless, one_line
from lore.model.canonical import text_of
from lore.model.items import CompactDivider, is_absent

_HEAD = "Of {} messages that left the context (the session's log keeps them), put together by rule, without a model:"
_OWN = re.compile(r"\AOf ([0-9]{1,9}) messages that left the context ")
_MORE = re.compile(r"\A- \(([0-9]{1,9}) more\)\Z")


class _Section(NamedTuple):
    """A part of the summary: its title, its share of the room, and who gets first what others leave (0: first)."""

    title: str
    share: float
    rank: int


_SECTIONS = {
    "earlier": _Section("An earlier summary said", 0.18, 7),
    "requests": _Section("The user asked", 0.20, 2),
    "decisions": _Section("Decided and found", 0.09, 4),
    "commits": _Section("Committed", 0.04, 6),
    "changed": _Section("Files changed, the latest last", 0.10, 5),
    "read": _Section("Files read, the latest last", 0.04, 8),
    "open": _Section("Open", 0.10, 3),
    "last": _Section("The last whole exchange", 0.15, 1),
    "opening": _Section("The exchange that goes on below began", 0.10, 0),
}
_TITLES = {f"{section.title}:": name for name, section in _SECTIONS.items()}
_KEEPS_FIRST = ("requests",)  # the first request is the task
MOST_OPEN = 50  # lines of what was open before that are looked at
_GREETING = 24  # bytes
_PASSING = ("opening", "last")  # exchanges that are over when they are carried on: their requests are kept


class _Lines(NamedTuple):
    """What a section says; `more` lines were left out before."""

    lines: tuple[str, ...] = ()
    more: int = 0


class Extractive:
    """Sums up by rule. Deterministic, pure, safe between threads. Costs O(bytes of the entries)."""

    name = "extractive"

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return a summary of at most `request.tokens`; never fails. Empty where no token is allowed."""
        found = found_in(request.entries, len(request.entries) - len(request.opening))
        count, before = _before(request)
        if "open" in before and found.messages:
            before["open"] = _still_open(before["open"], found)
        sections: dict[str, _Lines] = {}
        for name, new in _new(found):  # each line once: where it came last, a request where it was made
            old = before.get(name, _Lines())
            lines = (*old.lines, *new)
            once = dict.fromkeys(lines) if name in _KEEPS_FIRST else reversed(dict.fromkeys(reversed(lines)))
            sections[name] = _Lines(tuple(once), old.more)
        head = _HEAD.format(found.messages + count)
        room = request.tokens * BYTES_PER_TOKEN
        body = _fitted(sections, room - len(head.encode()) - 2)
        return SummaryAnswer(cut_bytes("\n\n".join([head, *body]), room))


def _new(found: SummaryFacts) -> list[tuple[str, tuple[str, ...]]]:
    """Return what each section says of these entries, in the order of the summary."""
    talks = list(found.talks)
    opening = found.opening
    last = talks.pop() if talks else None
    return [
        ("earlier", ()),
        ("requests", tuple(_item(talk.user, 400) for talk in talks if talk.user)),
        ("decisions", tuple(map(_item, found.decisions))),
        ("commits", tuple(map(_item, found.commits))),
        ("changed", _files(found.changed)),
        ("read", _files({path: times for path, times in found.read.items() if path not in found.changed})),
        ("open", tuple(map(_item, found.open))),
        ("last", _exchange(last) if last else ()),
        ("opening", _exchange(opening) if opening else ()),
    ]


def _item(text: str, most: int = 240) -> str:
    return "- " + one_line(text, most)


def _files(paths: dict[str, int]) -> tuple[str, ...]:
    return tuple(f"- {path}" + (f" ({times} times)" if times > 1 else "") for path, times in paths.items())


def _exchange(talk: Talk) -> tuple[str, ...]:
    texts = (("user", talk.user), ("assistant", talk.assistant))
    return tuple(f"{role}: {one_line(clipped(text, 900), 1_000)}" for role, text in texts if text)


def _before(request: SummaryRequest) -> tuple[int, dict[str, _Lines]]:
    """Read the summary that is replaced, the request's, else that of the last divider: its messages, its sections."""
    text = request.previous
    for entry in reversed(request.entries):
        if text:
            break
        if isinstance(entry.item, CompactDivider) and not is_absent(entry.item.summary):
            text = text_of(bytes(entry.item.summary))
    text = harmless(text).strip()
    own = _OWN.match(text)
    if own is not None:
        return int(own[1]), _read(text)
    return 0, {"earlier": _Lines(tuple(f"  {line.rstrip()}" for line in text.split("\n") if line.strip()))}


def _read(text: str) -> dict[str, _Lines]:
    """Read a summary of this class by its titles. Costs O(its length): it may have been written by anybody."""
    lines: dict[str, list[str]] = {}
    more: dict[str, int] = {}
    name = ""
    for line in text.split("\n")[1:]:
        if line in _TITLES:
            name = _TITLES[line]
        elif name and (found := _MORE.match(line)):
            more[name] = more.get(name, 0) + int(found[1])
        elif name and line:
            lines.setdefault(name, []).append(line)
    for passing in _PASSING:
        past = lines.pop(passing, [])
        requests = ["- " + one_line(line[6:], 400) for line in past if line.startswith("user: ")]
        lines.setdefault("requests", []).extend(requests)
    return {name: _Lines(tuple(lines.get(name, ())), more.get(name, 0)) for name in (*lines, *more)}


def _still_open(old: _Lines, found: SummaryFacts) -> _Lines:
    """Leave out what later messages settled: questions and running calls by being later, the rest by being tried."""
    over = tuple(f"- {begin}" for begin in (ASKED, RUNNING, INTERRUPTED, *([TO_DO] if found.listed else [])))
    lines = [line for line in old.lines[-MOST_OPEN:] if not line.startswith(over)]
    tried = tuple(f"- {FAILED}{call}: " for call in sorted(found.tried))
    return _Lines(tuple([line for line in lines if not line.startswith(tried)]), old.more)


def _fitted(sections: dict[str, _Lines], room: int) -> list[str]:
    """Give each section its share of the room, then what others leave, and write those that have something to say."""
    full = {name: _size(name, section) for name, section in sections.items() if section.lines or section.more}
    given = {name: min(size, int(room * _SECTIONS[name].share)) for name, size in full.items()}
    left = room - sum(given.values())
    for name in sorted(full, key=lambda name: _SECTIONS[name].rank):
        extra = min(full[name] - given[name], max(0, left))
        given[name] += extra
        left -= extra
    return [text for name in full if (text := _written(name, sections[name], given[name]))]


def _size(name: str, section: _Lines) -> int:
    more = 24 if section.more else 0
    return len(_SECTIONS[name].title) + 4 + more + sum([len(line.encode()) + 1 for line in section.lines])


def _written(name: str, section: _Lines, room: int) -> str:
    """Write a section in `room` bytes: the newest lines, and of requests the first that says more than a greeting."""
    chosen, title = list(section.lines), f"{_SECTIONS[name].title}:"
    if _size(name, section) > room:
        lines = section.lines
        if name in _KEEPS_FIRST:
            lines = lines[next((place for place, line in enumerate(lines) if len(line.encode()) > _GREETING), 0) :]
        chosen = _chosen(lines, room - len(title) - 27, first=name in (*_KEEPS_FIRST, *_PASSING))
    if not chosen:
        return ""
    more = section.more + len(section.lines) - len(chosen)
    lines = [title, *chosen]
    if more and name not in _PASSING:
        lines.insert(2 if name in _KEEPS_FIRST else 1, f"- ({more} more)")
    return "\n".join(lines)


def _chosen(lines: Sequence[str], room: int, *, first: bool) -> list[str]:
    """Choose the last lines that fit (and the first one), each shortened where it must be."""
    kept = [_cut(lines[0], room // 2)] if first and lines else []
    room -= sum(len(line.encode()) + 1 for line in kept)
    tail: list[str] = []
    for line in reversed(lines[len(kept) :]):
        text = line if len(line.encode()) < room else _cut(line, room - 1)
        if not text:
            break
        tail.append(text)
        room -= len(text.encode()) + 1
    return [line for line in [*kept, *reversed(tail)] if line]


def _cut(line: str, most: int) -> str:
    """Shorten a line to `most` bytes; empty where too little of it would be left."""
    if len(line.encode()) <= most:
        return line
    return cut_bytes(line, most - 3).rstrip() + "…" if most >= 48 else ""
