"""Complete the prompts of sessions whose format records neither system prompt nor tools (`--system`, `--tools`).

The given parts become a change of the session before its first turn. They belong to the main chain, because subagents
have other prompts. A session that records its own parts keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Raw

from lore.errors import LoreError, Where
from lore.fold.step import tool_name
from lore.formats.base import Read, Reader
from lore.formats.beginning import BOM, SPACE
from lore.model.canonical import decode, encode
from lore.model.codes import Problem
from lore.model.events import MAIN, OpaqueEvent, SessionChanged, SessionStarted
from lore.model.items import NULL, is_absent
from lore.model.jsonslice import array, is_json, raw_members
from lore.model.results.measured import Measurement
from lore.model.turn import Exchange
from lore.recording import corpus

_BREAKS = re.compile(rb"[ \t]*[\r\n][ \t\r\n]*")  # never inside a string, where line ends are escapes
HINT_COMPLETE = "leave --system and --tools out"
HINT_SYSTEM = "give text, or JSON: a string, a list of strings, a list of text blocks"
HINT_TOOLS = "give a JSON array of tools, an object with `tools`, or one that has each tool under its name"


class Completion(NamedTuple):
    """The parts that complete a session's prompts."""

    system: bytes | None = None  # a JSON string, or an array of them
    tools: tuple[bytes, ...] | None = None  # each as JSON
    strict: bool = True  # one session was named: its own parts are an error, and a subagent's log is completed too

    def chain(self, kind: type[Reader], head: bytes) -> str | None:
        """Return the chain to complete, read from the beginning of a log; None if it has none."""
        first: str | None = None
        for read in kind().read([head]):
            event = read.value
            if isinstance(event, Problem | Exchange | Measurement | OpaqueEvent):
                continue
            if event.chain == MAIN:
                return MAIN
            first = first or event.chain
        return first if self.strict else None


def completed(reads: Iterator[Read], given: Completion, chain: str, shown: str) -> Iterator[Read]:
    """Yield a log's events, and after its header the change that completes it.

    Raises LoreError if a session that was named (`given.strict`) records the given parts itself.
    """
    is_done = False
    for read in reads:
        event = read.value
        if isinstance(event, SessionStarted | SessionChanged) and (given.strict or not is_done):
            given = _without_recorded(event, given, Where(shown, read.line, read.byte))
        yield read
        if isinstance(event, SessionStarted) and not is_done:
            is_done = True
            system = NULL if given.system is None else Raw(given.system)
            tools = None if given.tools is None else tuple(map(Raw, given.tools))
            if given.system is not None or tools is not None:
                changed = SessionChanged(chain=chain, at=event.at, system=system, tools=tools)
                yield Read(changed, read.line, read.byte)


def _without_recorded(event: SessionStarted | SessionChanged, given: Completion, where: Where) -> Completion:
    recorded = [
        ("system", "system prompt", given.system is not None and not is_absent(event.system)),
        ("tools", "tools", given.tools is not None and event.tools is not None),
    ]
    for name, what, is_recorded in recorded:
        if is_recorded and given.strict:
            hint = f"leave --{name} out: the recorded ones are those that were sent"
            raise LoreError(f"{where.file} records its own {what}", hint=hint, where=where)
        given = given._replace(**{name: None}) if is_recorded else given
    return given


def read_completion(system: str | None, tools: str | None, *, strict: bool) -> Completion | None:
    """Read the files of --system and --tools; None if neither is named.

    Raises LoreError with the place of the fault in a file.
    """
    if system is None and tools is None:
        return None
    if system == tools == corpus.STDIN:
        raise LoreError("standard input can be one of --system and --tools only", hint="name a file for the other")
    return Completion(
        None if system is None else _read_system(system), None if tools is None else _read_tools(tools), strict
    )


def _read_system(path: str) -> bytes:
    """Return a system prompt: JSON if the file holds a value of a fitting kind, else the text as it is."""
    data = b"".join(corpus.pieces(path)).removeprefix(BOM)
    start = data.lstrip(SPACE)[:1]
    if path.endswith(".json") or (start in (b'"', b"[", b"{") and is_json(data)):
        value = _read_value(path, data)
        members = raw_members(value)
        return _texts_of(path, members["system"] if members is not None and "system" in members else value)
    try:
        return encode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _fault(path, " holds bytes that are not UTF-8", HINT_SYSTEM, at=(data, error.start)) from None


def _texts_of(path: str, raw: bytes) -> bytes:
    if raw[:1] == b'"':
        return raw
    if raw[:1] != b"[":
        raise _fault(path, " holds no system prompt", HINT_SYSTEM)
    texts: list[bytes] = []
    for number, element in enumerate(array(raw)):
        block = raw_members(element) or {}
        text = block.get("text", b"") if block.get("type") == b'"text"' else element
        if text[:1] != b'"':
            reason = f": element {number} of the system prompt is neither a string nor a text block"
            raise _fault(path, reason, HINT_SYSTEM)
        texts.append(text)
    return b"[" + b",".join(texts) + b"]"


def _read_tools(path: str) -> tuple[bytes, ...]:
    """Return tools in the order given; an object that has each tool under its name has no order: by name then."""
    value = _read_value(path, b"".join(corpus.pieces(path)).removeprefix(BOM))
    members = raw_members(value) or {}
    if members and "tools" not in members and all(map(_is_named, members.items())):
        return tuple(members[name] for name in sorted(members))
    listed = members.get("tools", b"") if value[:1] == b"{" else value
    if listed[:1] != b"[":
        raise _fault(path, " holds no tools", HINT_TOOLS)
    tools = tuple(array(listed))
    for number, tool in enumerate(tools):
        if tool[:1] != b"{":
            raise _fault(path, f": element {number} of the tools is no object", HINT_TOOLS)
    return tools


def _is_named(member: tuple[str, bytes]) -> bool:
    name, tool = member
    return tool[:1] == b"{" and tool_name(Raw(tool)) == name


def _read_value(path: str, data: bytes) -> bytes:
    """Return a file's JSON value without line feeds, because a log has one record a line; raises LoreError."""
    try:
        data.decode("utf-8")
        decode(data)
    except UnicodeDecodeError as error:
        raise _fault(path, " holds bytes that are not UTF-8", at=(data, error.start)) from None
    except ValueError as error:
        at = len(str(getattr(error, "doc", ""))[: getattr(error, "pos", 0)].encode("utf-8", "surrogatepass"))
        raise _fault(path, f" is not JSON: {str(error).partition(': line')[0].lower()}", at=(data, at)) from None
    except RecursionError:
        raise _fault(path, " is nested too deeply", at=(data, 0)) from None
    return _BREAKS.sub(b"", data.strip(SPACE))


def _fault(path: str, reason: str, hint: str = "", at: tuple[bytes, int] | None = None) -> LoreError:
    """Return the error about a file; `at` is its bytes and the offset of the fault, if that is known."""
    shown = corpus.show(path)
    where = Where(shown) if at is None else Where(shown, at[0].count(b"\n", 0, at[1]) + 1, at[1])
    return LoreError(shown + reason, hint=hint, where=where)
