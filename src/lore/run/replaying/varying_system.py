"""What varies in a session's system prompt, as context of its turns: so a replay tries where it may stand.

In: lines of lore's own log, as a recording is converted, looked at twice. Out: the same lines, of which the system
prompts hold what every request of their chain has, and the turns the rest as `context`. Rules: lines of text are moved
whole, in their order, and only in a chain of which at least every other request has another system prompt than the one
before it: a prompt that changes seldom is no volatile text. What is not moved keeps its bytes. Cost O(bytes of the
system prompts) each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lore.model.canonical import encode, text_of
from lore.model.events import MAIN
from lore.model.jsonslice import array, table

_SYSTEMS = (b'{"kind":"session_started"', b'{"kind":"session_changed"')
_TURN = b'{"kind":"turn_started"'


class Moved(NamedTuple):
    """What stands in the tail of a turn instead of its system prompt: in how many turns, and bytes of them all."""

    turns: int = 0
    bytes: int = 0


class _Chain:
    """What a first look found of a chain: the lines that all of its system prompts have, turns, changes."""

    def __init__(self) -> None:
        self.stable: set[str] | None = None
        self.turns = self.changes = 0

    @property
    def varies(self) -> bool:
        """Whether at least every other request changes the system prompt."""
        return self.changes > 0 and 2 * self.changes >= self.turns - 1


class VaryingSystem:
    """The system prompts of one session; made by a first look at its lines."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._chains: dict[str, _Chain] = {}
        self.moved = Moved()
        for line in lines:
            if not line.startswith((*_SYSTEMS, _TURN)):
                continue
            members = table(line) or {}
            chain = self._chains.setdefault(_chain_of(members), _Chain())
            if line.startswith(_TURN):
                chain.turns += 1
            elif members.get("system", b"null") != b"null":
                found = {part for text in _texts(members["system"]) for part in text.split("\n")}
                chain.changes += chain.stable is not None
                chain.stable = found if chain.stable is None else chain.stable & found

    def lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines with what varies moved; `moved` counts it anew."""
        self.moved = Moved()
        contexts: dict[str, str] = {}
        kept_before: dict[str, bytes] = {}
        for line in lines:
            members = table(line) or {} if line.startswith((*_SYSTEMS, _TURN)) else {}
            name = _chain_of(members)
            chain = self._chains.get(name) if members else None
            if chain is None or not chain.varies:
                yield line
            elif line.startswith(_TURN):
                if contexts.get(name):
                    members["context"] = encode({"extra": [contexts[name]]})
                    self.moved = Moved(self.moved.turns + 1, self.moved.bytes + len(contexts[name].encode()))
                yield _line(members)
            elif members.get("system", b"null") != b"null":
                kept, gone = _parted(members["system"], chain.stable or set())
                same, kept_before[name] = kept_before.get(name) == kept, kept
                contexts[name] = "\n".join(gone)
                if same:
                    del members["system"]
                else:
                    members["system"] = kept
                yield _line(members)
            else:
                yield line


def _chain_of(members: dict[str, bytes]) -> str:
    return text_of(members["chain"]) if "chain" in members else MAIN


def _texts(system: bytes) -> Iterator[str]:
    """Yield the texts of a system prompt: a text, or a list of texts and of blocks that hold one."""
    for part in array(system) if system[:1] == b"[" else [system]:
        raw = (table(part) or {}).get("text", b"") if part[:1] == b"{" else part
        if raw[:1] == b'"':
            yield text_of(raw)


def _parted(system: bytes, stable: set[str]) -> tuple[bytes, list[str]]:
    """Return a system prompt without the lines that vary, and these; a part without any text is left out."""
    kept, gone = list[bytes](), list[str]()
    for part in array(system) if system[:1] == b"[" else [system]:
        members = table(part) or {} if part[:1] == b"{" else {"text": part}
        raw = members.get("text", b"")
        lines = text_of(raw).split("\n") if raw[:1] == b'"' else []
        varying = [line for line in lines if line not in stable]
        gone += varying
        if not varying:
            kept.append(part)
        elif rest := "\n".join([line for line in lines if line in stable]).strip("\n"):
            text = encode(rest)
            kept.append(_line(members | {"text": text}).rstrip() if part[:1] == b"{" else text)
    return (b"[" + b",".join(kept) + b"]" if system[:1] == b"[" else kept[0] if kept else b'""'), gone


def _line(members: dict[str, bytes]) -> bytes:
    return b"{" + b",".join([encode(key) + b":" + raw for key, raw in members.items()]) + b"}\n"
