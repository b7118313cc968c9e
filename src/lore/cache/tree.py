"""Prefixes that were seen: a tree with one node for each, so that equal prefixes are equal numbers.

In: requests. Out: for each piece of a request the node of the prefix that ends with it. Rules: a node stands for
all that leads to it, salts included; nodes count up from 1, so that those made for a request are greater than
those before it; spaces never meet. Cost O(pieces that the chain's request before did not have); a piece is
remembered by digest, but for the latest ones, whose bytes are kept to compare what only begins alike.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from lore.cache.base import Piece, Request
from lore.model.prompt import Section
from lore.model.vector import common_prefix

KEPT = 48 * 1024 * 1024  # bytes of pieces that are kept
_SMALL = 64  # bytes of a piece that is its own digest
_COMPARED = 256  # pieces that stood in the same place, the latest ones


class Path(NamedTuple):
    """A request in the tree: the node behind each piece; `new` is the place of the first that was made for it.

    `alike` counts the bytes at the beginning of the piece at `new` that an earlier piece in its place, that of the
    node `like`, begins with. The first `kept` nodes are those of the chain's path before, `cut` what it had
    behind them; `begins` are the nodes before each piece.
    """

    nodes: list[int]
    new: int
    alike: int = 0
    like: int = 0
    kept: int = 0
    cut: Sequence[int] = ()
    begins: Sequence[int] = ()


class _Trail(NamedTuple):
    """The latest path of a chain."""

    nodes: list[int]
    begins: list[int]  # the node before each piece: that of a salt where a section begins
    sections: list[Section]
    salts: tuple[tuple[Section, bytes], ...]
    space: bytes


class Tree:
    """All prefixes of one recording, or of several."""

    def __init__(self, kept: int = KEPT) -> None:
        self._nodes: dict[tuple[int, bytes], int] = {}
        self._children: dict[int, list[int]] = {}
        self._bytes: OrderedDict[int, tuple[int, bytes]] = OrderedDict()  # the node before a piece, and its bytes
        self._room = kept
        self._trails: dict[str, _Trail] = {}
        self.size = 0  # nodes made so far

    def path(self, request: Request) -> Path:
        """Walk a request from the root, making what is missing; the list is the chain's own and changes with it."""
        before = self.size
        trail, cut = self._kept(request)
        nodes, begins, sections = trail.nodes, trail.begins, trail.sections
        kept = len(nodes)
        node = nodes[-1] if nodes else self._step(0, b"space " + request.space)
        section: str = sections[-1] if sections else ""
        new, alike, like, salts = -1, 0, 0, {str(name): salt for name, salt in request.salts}
        for place in range(len(nodes), len(request.pieces)):
            piece = request.pieces[place]
            if piece.section != section:
                section = piece.section
                node = self._step(node, b"salt %b %b" % (section.encode(), salts.get(section, b"")))
            begins.append(node)
            found = self._nodes.get((node, key_of(piece)))
            if found is None and new < 0:
                new, (alike, like) = place, self._alike(node, piece)
            node = self._made(node, piece) if found is None else found
            nodes.append(node)
            sections.append(piece.section)
        if new < 0:
            new = len(nodes)
        assert new == len(nodes) or nodes[new] > before
        return Path(nodes, new, alike, like, kept, cut, begins)

    def beyond(self, request: Request) -> list[int]:
        """Return the nodes of what is said behind the request that was walked last in its chain: its output."""
        trail = self._trails[request.chain]
        node = trail.nodes[-1] if trail.nodes else self._step(0, b"space " + request.space)
        section: str = trail.sections[-1] if trail.sections else ""
        salts, nodes = {str(name): salt for name, salt in request.salts}, list[int]()
        for piece in request.output:
            if piece.section != section:
                section = piece.section
                node = self._step(node, b"salt %b %b" % (section.encode(), salts.get(section, b"")))
            found = self._nodes.get((node, key_of(piece)))
            node = self._made(node, piece) if found is None else found
            nodes.append(node)
        return nodes

    def common(self, node: int, before: int, piece: Piece) -> int:
        """Count the leading bytes that a piece behind a node shares with that of another node in its place.

        0 where the other does not stand there, or its bytes are not kept any more.
        """
        found = self._bytes.get(node)
        return common_prefix(piece.data, found[1]) if found is not None and found[0] == before else 0

    def _kept(self, request: Request) -> tuple[_Trail, list[int]]:
        """Return the chain's trail as far as it holds for this request, and what was cut off it."""
        trail = self._trails.get(request.chain)
        same = 0
        if trail is not None and trail.space == request.space:
            same = max(0, min(request.same, len(trail.nodes), len(request.pieces)))
            if trail.salts != request.salts:
                moved = {section for section, _ in set(trail.salts) ^ set(request.salts)}
                same = next((n for n in range(same) if trail.sections[n] in moved), same)
        nodes, begins, sections = ([], [], []) if trail is None else trail[:3]
        cut = nodes[same:]
        for one in (nodes, begins, sections):
            del one[same:]
        made = self._trails[request.chain] = _Trail(nodes, begins, sections, request.salts, request.space)
        return made, cut

    def _step(self, node: int, key: bytes) -> int:
        found = self._nodes.get((node, key))
        if found is None:
            self.size += 1
            found = self._nodes[node, key] = self.size
        return found

    def _made(self, node: int, piece: Piece) -> int:
        made = self._step(node, key_of(piece))
        self._children.setdefault(node, []).append(made)
        self._bytes[made] = (node, piece.data)
        self._room -= len(piece.data)
        while self._room < 0 and len(self._bytes) > 1:
            self._room += len(self._bytes.popitem(last=False)[1][1])
        return made

    def _alike(self, node: int, piece: Piece) -> tuple[int, int]:
        """Return the length of the longest common beginning with a piece that stood in the same place, and its node."""
        others = (one for one in self._children.get(node, [])[-_COMPARED:] if one in self._bytes)
        return max(((common_prefix(piece.data, self._bytes[one][1]), one) for one in others), default=(0, 0))


def key_of(piece: Piece) -> bytes:
    """Return what tells a piece from all others in its place."""
    data = piece.data
    kind = piece.kind.encode()
    if len(data) <= _SMALL:
        return b"%b|%b" % (kind, data)
    return b"%b#%b" % (kind, hashlib.blake2b(data, digest_size=16).digest())


def common_nodes(mine: Sequence[int], theirs: Sequence[int]) -> int:
    """Count the leading nodes that are equal. Cost O(log nodes): a node stands for all before it."""
    low, high = 0, min(len(mine), len(theirs))
    if high and mine[high - 1] == theirs[high - 1]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if mine[middle - 1] == theirs[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low
