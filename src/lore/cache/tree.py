"""Prefixes that were seen: a tree with one node for each, so that equal prefixes are equal numbers.

In: requests. Out: for each piece of a request the node of the prefix that ends with it. Rules: a node stands for
all that leads to it, salts included; nodes count up from 1, so that those made for a request are greater than
those before it; spaces never meet. Cost O(pieces that the chain's request before did not have); a piece is
remembered by digest, but for the latest ones, whose bytes are kept to compare what only begins alike.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import NamedTuple

from lore.cache.base import Piece, Request
from lore.model.common import common_bytes
from lore.model.prompt import Section

KEPT = 48 * 1024 * 1024  # bytes of pieces that are kept
_SMALL = 64  # bytes of a piece that is its own digest
_COMPARED = 256  # pieces that stood in the same place, the latest ones


class Path(NamedTuple):
    """A request in the tree: the node behind each piece; `new` is the place of the first that was made for it.

    `alike` counts the bytes at the beginning of the piece at `new` that an earlier piece in its place
    begins with.
    """

    nodes: list[int]
    new: int
    alike: int = 0


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
        self._bytes: OrderedDict[int, bytes] = OrderedDict()
        self._room = kept
        self._trails: dict[str, _Trail] = {}
        self.size = 0  # nodes made so far

    def path(self, request: Request) -> Path:
        """Walk a request from the root, making what is missing; the list is the chain's own and changes with it."""
        before = self.size
        trail = self._kept(request)
        nodes, begins, sections = trail.nodes, trail.begins, trail.sections
        node = nodes[-1] if nodes else self._step(0, b"space " + request.space)
        section: str = sections[-1] if sections else ""
        new, alike, salts = -1, 0, {str(name): salt for name, salt in request.salts}
        for place in range(len(nodes), len(request.pieces)):
            piece = request.pieces[place]
            if piece.section != section:
                section = piece.section
                node = self._step(node, b"salt %b %b" % (section.encode(), salts.get(section, b"")))
            begins.append(node)
            found = self._nodes.get((node, key_of(piece)))
            if found is None and new < 0:
                new, alike = place, self._alike(node, piece)
            node = self._made(node, piece) if found is None else found
            nodes.append(node)
            sections.append(piece.section)
        if new < 0:
            new = len(nodes)
        assert new == len(nodes) or nodes[new] > before
        return Path(nodes, new, alike)

    def _kept(self, request: Request) -> _Trail:
        """Return the chain's trail as far as it holds for this request."""
        trail = self._trails.get(request.chain)
        same = 0
        if trail is not None and trail.space == request.space:
            same = min(request.same, len(trail.nodes), len(request.pieces))
            if trail.salts != request.salts:
                moved = {section for section, _ in set(trail.salts) ^ set(request.salts)}
                same = next((n for n in range(same) if trail.sections[n] in moved), same)
        nodes, begins, sections = ([], [], []) if trail is None else trail[:3]
        for one in (nodes, begins, sections):
            del one[same:]
        made = self._trails[request.chain] = _Trail(nodes, begins, sections, request.salts, request.space)
        return made

    def _step(self, node: int, key: bytes) -> int:
        found = self._nodes.get((node, key))
        if found is None:
            self.size += 1
            found = self._nodes[node, key] = self.size
        return found

    def _made(self, node: int, piece: Piece) -> int:
        made = self._step(node, key_of(piece))
        self._children.setdefault(node, []).append(made)
        self._bytes[made] = piece.data
        self._room -= len(piece.data)
        while self._room < 0 and len(self._bytes) > 1:
            self._room += len(self._bytes.popitem(last=False)[1])
        return made

    def _alike(self, node: int, piece: Piece) -> int:
        """Return the length of the longest common beginning with a piece that stood in the same place."""
        others = (self._bytes[one] for one in self._children.get(node, [])[-_COMPARED:] if one in self._bytes)
        return max((common_bytes(piece.data, other) for other in others), default=0)


def key_of(piece: Piece) -> bytes:
    """Return what tells a piece from all others in its place."""
    data = piece.data
    kind = piece.kind.encode()
    if len(data) <= _SMALL:
        return b"%b|%b" % (kind, data)
    return b"%b#%b" % (kind, hashlib.blake2b(data, digest_size=16).digest())
