"""What the reader of Claude Code's logs remembers between lines, and what it finds in that memory.

Lines form a graph by `parentUuid`; files may hold cycles, parents that are not there, and copies. Every
walk here visits a line at most once.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from lore.formats.claude_records import Compact, Segment, Usage
from lore.model import events as e
from lore.model.items import NULL

WALKS = 16  # how often each line may be walked over, on average, for compactions that name a first and a last one


class HeldEvent(Struct, frozen=True):
    """An event that waits, with the place where it was read."""

    line: int
    byte: int
    event: e.Append


class ChainMemory(Struct):
    """What the reader remembers of one chain.

    `seen` has every response and its turn; `order` the lines since the last compaction (and those that it
    kept) that make items or may lead to some, each with its response; `calls` the item of each of their
    calls; `prompts` the user's message under each parent; `boundary` a compaction that waits for its
    summary, `held` what came between the two. `version`, `effort` and `permission_mode` are the latest that it said.
    """

    response: str | None = None
    turn: int = 0
    model: str | None = None
    usage: Usage | None = None
    verdict: e.Verdict | None = None
    answered_at: str | None = None
    asked_at: str | None = None
    seen: dict[str, int] = {}
    boundary: e.CompactApplied | None = None
    held: list[HeldEvent] = []
    order: dict[str, str | None] = {}
    calls: dict[str, str] = {}
    prompts: dict[str, str] = {}
    version: Raw = NULL
    effort: Raw = NULL
    permission_mode: Raw = NULL


class Memory(Struct):
    """All that the reader remembers.

    `parents` has every line that has a uuid; `items` those that made other than one item of their own
    uuid; `missing` the parents that no line so far has, with the places where they were named; `taken` the
    lines that rewinds took back; `walked` how many lines compactions were followed over.
    """

    last: tuple[int, int] = (0, 0)
    session: str | None = None
    parents: dict[str, str | None] = {}
    items: dict[str, tuple[str, ...]] = {}
    missing: dict[str, list[tuple[int, int]]] = {}
    taken: dict[str, None] = {}
    side: dict[str, str] = {}
    sides: int = 0
    walked: int = 0
    chains: dict[str, ChainMemory] = {}

    def made(self, chain: ChainMemory, uuid: str) -> tuple[str, ...]:
        """Return the items that a line of this chain made."""
        return self.items.get(uuid, (uuid,) if uuid in chain.order else ())


def preserved(memory: Memory, chain: ChainMemory, meta: Compact) -> list[str] | None:
    """Return the lines that a compaction kept; None where it says nothing of it.

    A list supersedes a segment. A segment whose tail does not lead to its head gives one name that no
    line has: the fold then prunes nothing and says so.
    """
    if meta.preserved_messages is not None and meta.preserved_messages.uuids is not None:
        return list(dict.fromkeys(meta.preserved_messages.uuids))
    if meta.preserved_segment is None:
        return None
    path = _path(memory, meta.preserved_segment)
    if path is None:
        return [f"{meta.preserved_segment.head_uuid} to {meta.preserved_segment.tail_uuid}"]
    responses = {chain.order.get(uuid) for uuid in path} - {None}  # parallel calls hang beside the path
    kept = [uuid for uuid, response in chain.order.items() if uuid in path or response in responses]
    memory.walked += len(kept)
    return kept


def _path(memory: Memory, segment: Segment) -> set[str] | None:
    """Walk from a segment's tail to its head; None where the way ends before it.

    Work stays linear in the lines: where too many were walked over already, the way ends too.
    """
    at, path, found = segment.tail_uuid, set[str](), False
    room = WALKS * len(memory.parents) - memory.walked
    while not found and at is not None and at not in path and at in memory.parents and len(path) < room:
        path.add(at)
        found = at == segment.head_uuid
        at = memory.parents[at]
    memory.walked += len(path)
    return path if found else None


def kept_items(memory: Memory, chain: ChainMemory, kept: list[str]) -> tuple[str, ...]:
    """Return the items of these lines; a line that no one knows stands for itself, for the fold to report."""
    found: dict[str, None] = {}
    for uuid in kept:
        own = memory.made(chain, uuid) if uuid in memory.parents else (uuid,)
        found.update(dict.fromkeys(own))
    return tuple(found)


def branch(memory: Memory, chain: ChainMemory, prompt: str, new: str) -> list[str]:
    """Return a prompt's line and the live lines that descend from it, the new prompt left out."""
    if prompt not in chain.order:
        return []
    since: list[str] = []
    for uuid in reversed(chain.order):
        since.append(uuid)
        if uuid == prompt:
            break
    gone, stay = {prompt}, {new}
    for uuid in reversed(since[:-1]):
        if uuid not in stay:
            _settle(memory, uuid, gone, stay)
    return [uuid for uuid in reversed(since) if uuid in gone]


def _settle(memory: Memory, uuid: str, gone: set[str], stay: set[str]) -> None:
    """Put a line and all above it that is not known yet on the side where its ancestors are."""
    path: dict[str, None] = {}
    at: str | None = uuid
    while at is not None and at not in gone and at not in stay and at not in path:
        path[at] = None
        at = memory.parents.get(at)
    (gone if at in gone else stay).update(path)
