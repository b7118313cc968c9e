"""Explain how a list of tools became another: order, members, definitions, spelling, deferred loading.

In: the tools of both prompts. Out: notes, each at the place where it begins to cost. Rules: tools are known by
their names (of one name, by their number); each of the reasons is found, whatever else changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from lore.model.canonical import printable, text_of
from lore.model.jsonslice import table
from lore.model.prompt import Segment
from lore.prefix.empty_values import say_the_same, says_nothing
from lore.prefix.notes import Note
from lore.prefix.overlap import same_content
from lore.prefix.spelling import of_segments, of_values, same_numbers

SHOWN = 5


def tool_notes(left: Sequence[Segment], right: Sequence[Segment], found: frozenset[str]) -> list[Note]:
    """Return why two lists of tools differ; `found` are the names that the right prompt's messages have discovered."""
    if len(left) == len(right) and all(one == other for one, other in zip(left, right, strict=True)):
        return []
    mine, theirs = _named(left), _named(right)
    here = {name: at for at, name in enumerate(theirs)}
    notes = _members(left, right, mine, theirs, found)
    kept = [(at, here[name], name) for at, name in enumerate(mine) if name in here]
    moved = next((one[0] for one, other in pairwise(kept) if one[1] > other[1]), None)
    if moved is not None:
        first = next(at for at, (one, other) in enumerate(zip(kept, sorted(kept, key=lambda k: k[1]), strict=True))
                     if one != other)  # fmt: skip
        words = f"the same {len(kept)} tools in another order"
        notes.append(Note("LORE102", "tools", kept[first][0], words, path=left[kept[first][0]].path))
    notes += _definitions(left, right, kept)
    return notes


def _named(tools: Sequence[Segment]) -> list[tuple[str, int]]:
    seen: Counter[str] = Counter()
    found: list[tuple[str, int]] = []
    for tool in tools:
        name = name_of(tool)
        found.append((name, seen[name]))
        seen[name] += 1
    return found


def _members(
    left: Sequence[Segment], right: Sequence[Segment], mine: list[tuple[str, int]], theirs: list[tuple[str, int]],
    found: frozenset[str],
) -> list[Note]:  # fmt: skip
    ours, others = set(mine), set(theirs)
    gone = [(at, left[at]) for at, name in enumerate(mine) if name not in others]
    new = [(at, right[at]) for at, name in enumerate(theirs) if name not in ours]
    empty = [one for one in (*gone, *new) if says_nothing(one[1])]
    gone, new = ([one for one in some if one not in empty] for some in (gone, new))
    deferred = [one for one in (*gone, *new) if is_deferred(one[1]) or name_of(one[1]) in found]
    notes: list[Note] = [_empty(at, one) for at, one in empty[:1]]
    rest = [[one for one in some if one not in deferred] for some in (gone, new)]
    if deferred:
        at = min(_place(at, one in gone, mine, theirs) for one in deferred for at in (one[0],))
        words = f"deferred tools were loaded into the list: {_listed([name_of(one[1]) for one in deferred])}"
        notes.append(Note("LORE124", "tools", at, words, path=_path(left, at)))
    if any(rest):
        said = [f"{word} {_listed([name_of(one) for _, one in some])}"
                for word, some in (("added", rest[1]), ("removed", rest[0])) if some]  # fmt: skip
        places = [at for at, _ in rest[0]] + [_place(at, False, mine, theirs) for at, _ in rest[1]]  # noqa: FBT003
        notes.append(Note("LORE103", "tools", min(places), "; ".join(said), path=_path(left, min(places))))
    return notes


def _empty(at: int, tool: Segment) -> Note:
    words = f"{tool.path}: what holds nothing comes or goes: no prompt shows that"
    return Note("LORE106", "tools", at, words, "expected", tool.path, spelled=True)


def _place(at: int, gone: bool, mine: list[tuple[str, int]], theirs: list[tuple[str, int]]) -> int:  # noqa: FBT001
    """Return where a change of the right list begins to cost on the left one."""
    if gone:
        return at
    known = {name: place for place, name in enumerate(mine)}
    while at > 0:
        at -= 1
        if theirs[at] in known:
            return known[theirs[at]] + 1
    return 0


def _path(left: Sequence[Segment], at: int) -> str:
    return left[at].path if at < len(left) else ""


def _definitions(
    left: Sequence[Segment], right: Sequence[Segment], kept: list[tuple[int, int, tuple[str, int]]]
) -> list[Note]:
    changed: list[int] = []
    flipped: list[int] = []
    spelled: dict[str, Note] = {}
    for at, other, _ in kept:
        mine, theirs = left[at], right[other]
        if mine == theirs:
            continue
        if same_content(mine, theirs):
            said = of_segments(mine, theirs)
            spelled.setdefault(said.code, Note(said.code, "tools", at, said.words, said.here, mine.path, spelled=True))
        elif say_the_same(mine, theirs):
            spelled.setdefault("LORE106", _empty(at, mine))
        elif is_deferred(mine) != is_deferred(theirs):
            flipped.append(at)
        elif same_numbers(mine.data, theirs.data):
            words = f"{mine.path}: a number is written otherwise (1.0 or 1)"
            spelled.setdefault("LORE106", Note("LORE106", "tools", at, words, path=mine.path, spelled=True))
        elif (other_text := of_values(mine.data, theirs.data)) is not None:
            words = f"{mine.path}: {other_text.words}"
            spelled.setdefault(other_text.code, Note(other_text.code, "tools", at, words, other_text.here, mine.path))
        else:
            changed.append(at)
    notes = list(spelled.values())
    for code, places, word in (("LORE104", changed, "changed"), ("LORE124", flipped, "loaded or put off again")):
        if places:
            words = f"{word} {_listed([name_of(left[at]) for at in places])}"
            notes.append(Note(code, "tools", places[0], words, path=left[places[0]].path))
    return notes


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:SHOWN])}{' …' if len(names) > SHOWN else ''}"


def is_deferred(tool: Segment) -> bool:
    """Tell whether a tool is only announced, and loaded when it is searched for."""
    if b'"defer_loading"' not in tool.data:
        return False
    own = table(tool.data) or {}
    inner = table(own.get("function", b"null")) or table(own.get("toolSpec", b"null")) or own
    return b"true" in (own.get("defer_loading"), inner.get("defer_loading"))


def name_of(tool: Segment) -> str:
    """Name a tool of any provider's shape."""
    own = table(b"{" + tool.data + b"}" if tool.kind == "envelope" else tool.data) or {}
    inner = table(own.get("function", b"null")) or table(own.get("toolSpec", b"null")) or own
    if "name" not in inner and "type" not in inner and len(own) == 1:  # one of the provider's own: its only member
        return printable(next(iter(own)))
    return printable(text_of(inner.get("name", inner.get("type", b'"(unnamed)"'))))
