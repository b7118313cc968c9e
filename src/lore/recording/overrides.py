"""Complete the prompts of sessions whose format records neither system prompt nor tools.

In: a file with the system prompt, a file with the tools. Out: their JSON, folded as a change of the
session before its first turn, so that everything behind the fold sees it. Rules: they belong to the main
chain, a subagent has others; what a session records itself is never replaced; content stays as it was
spelled, but for line breaks and indentation between values: a log has one record a line.
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
    """A system prompt (a JSON string, or an array of them) and tools, as JSON; None where not given.

    `strict`: one session was named, so one that records its own is an error, and in a subagent's own file
    the first chain is meant. Otherwise such sessions are left as they are.
    """

    system: bytes | None = None
    tools: tuple[bytes, ...] | None = None
    strict: bool = True

    def chain(self, kind: type[Reader], head: bytes) -> str | None:
        """Return the chain to complete, as the beginning of a log shows it; None where there is none."""
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
    """Yield a log's events, and after its header what completes it."""
    done = False
    for read in reads:
        event = read.value
        if isinstance(event, SessionStarted | SessionChanged) and (given.strict or not done):
            given = _beside(event, given, Where(shown, read.line, read.byte))
        yield read
        if isinstance(event, SessionStarted) and not done:
            done = True
            system = NULL if given.system is None else Raw(given.system)
            tools = None if given.tools is None else tuple(map(Raw, given.tools))
            if given.system is not None or tools is not None:
                changed = SessionChanged(chain=chain, at=event.at, system=system, tools=tools)
                yield Read(changed, read.line, read.byte)


def _beside(event: SessionStarted | SessionChanged, given: Completion, where: Where) -> Completion:
    """Return what is given and not recorded; raises LoreError for a session that was named and records it."""
    if given.system is not None and not is_absent(event.system):
        _refuse("system prompt", "--system", given, where)
        given = given._replace(system=None)
    if given.tools is not None and event.tools is not None:
        _refuse("tools", "--tools", given, where)
        given = given._replace(tools=None)
    return given


def _refuse(what: str, option: str, given: Completion, where: Where) -> None:
    if given.strict:
        hint = f"leave {option} out: what was recorded is what was sent"
        raise LoreError(f"{where.file} records its own {what}", hint=hint, where=where)


# files


def read_completion(system: str | None, tools: str | None, *, strict: bool) -> Completion | None:
    """Read the named files; raises LoreError with the place where one is not what it should be."""
    if system is None and tools is None:
        return None
    if system == tools == corpus.STDIN:
        raise LoreError("standard input can be one of --system and --tools only", hint="name a file for the other")
    return Completion(
        None if system is None else _system(system, _read(system)),
        None if tools is None else _tools(tools, _read(tools)),
        strict,
    )


def _read(path: str) -> bytes:
    return b"".join(corpus.pieces(path)).removeprefix(BOM)


def _system(path: str, data: bytes) -> bytes:
    """Read a system prompt: JSON where the file holds a value of a fitting kind, else text as it is."""
    start = data.lstrip(SPACE)[:1]
    if path.endswith(".json") or (start in (b'"', b"[", b"{") and is_json(data)):
        found = _value(path, data)
        held = raw_members(found)
        return _texts(path, held["system"] if held is not None and "system" in held else found)
    try:
        return encode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _fault(path, " holds bytes that are not UTF-8", HINT_SYSTEM, at=(data, error.start)) from None


def _texts(path: str, raw: bytes) -> bytes:
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


def _tools(path: str, data: bytes) -> tuple[bytes, ...]:
    """Read tools in the order given; a set, each tool under its name, has none: it is ordered by name."""
    found = _value(path, data)
    held = raw_members(found)
    if (
        held
        and "tools" not in held
        and all(tool[:1] == b"{" and tool_name(Raw(tool)) == name for name, tool in held.items())
    ):
        return tuple(held[name] for name in sorted(held))
    listed = found if held is None else held.get("tools", b"")
    if listed[:1] != b"[":
        raise _fault(path, " holds no tools", HINT_TOOLS)
    tools = tuple(array(listed))
    for number, tool in enumerate(tools):
        if tool[:1] != b"{":
            raise _fault(path, f": element {number} of the tools is no object", HINT_TOOLS)
    return tools


def _value(path: str, data: bytes) -> bytes:
    """Return a file's JSON value on one line; raises LoreError where it holds none."""
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
    """Say what is wrong with a file, and where in its bytes if that is known."""
    shown = corpus.show(path)
    where = Where(shown) if at is None else Where(shown, at[0].count(b"\n", 0, at[1]) + 1, at[1])
    return LoreError(shown + reason, hint=hint, where=where)
