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
from lore.model.canonical import decode, encode
from lore.model.codes import Problem
from lore.model.events import MAIN, OpaqueEvent, SessionChanged, SessionStarted
from lore.model.items import NULL, is_absent
from lore.model.jsonslice import array, table
from lore.model.turn import Exchange
from lore.recording import corpus

_SPACE = b" \t\r\n"
_BREAKS = re.compile(rb"[ \t]*[\r\n][ \t\r\n]*")  # never inside a string, where line ends are escapes
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
        for read in kind().feed(head if head.endswith(b"\n") else head + b"\n"):
            event = read.value
            if isinstance(event, Problem | Exchange | OpaqueEvent):
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
    return b"".join(corpus.pieces(path)).removeprefix(b"\xef\xbb\xbf")


def _system(path: str, data: bytes) -> bytes:
    """Read a system prompt: JSON where the file holds a value of a fitting kind, else text as it is."""
    start = data.lstrip(_SPACE)[:1]
    if path.endswith(".json") or (start in (b'"', b"[", b"{") and _is_json(data)):
        found = _value(path, data)
        held = table(found)
        return _texts(path, held["system"] if held is not None and "system" in held else found)
    try:
        return encode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _fault(path, data, error.start, "holds bytes that are not UTF-8", HINT_SYSTEM) from None


def _texts(path: str, raw: bytes) -> bytes:
    if raw[:1] == b'"':
        return raw
    if raw[:1] != b"[":
        raise LoreError(f"{corpus.show(path)} holds no system prompt", hint=HINT_SYSTEM, where=Where(corpus.show(path)))
    texts: list[bytes] = []
    for number, one in enumerate(array(raw)):
        block = table(one) or {}
        text = block.get("text", b"") if block.get("type") == b'"text"' else one
        if text[:1] != b'"':
            shown = corpus.show(path)
            said = f"{shown}: element {number} of the system prompt is neither a string nor a text block"
            raise LoreError(said, hint=HINT_SYSTEM, where=Where(shown))
        texts.append(text)
    return b"[" + b",".join(texts) + b"]"


def _tools(path: str, data: bytes) -> tuple[bytes, ...]:
    """Read tools in the order given; a set, each tool under its name, has none: it is ordered by name."""
    found = _value(path, data)
    held = table(found)
    shown = corpus.show(path)
    if (
        held
        and "tools" not in held
        and all(one[:1] == b"{" and tool_name(Raw(one)) == name for name, one in held.items())
    ):
        return tuple(held[name] for name in sorted(held))
    listed = found if held is None else held.get("tools", b"")
    if listed[:1] != b"[":
        raise LoreError(f"{shown} holds no tools", hint=HINT_TOOLS, where=Where(shown))
    tools = tuple(array(listed))
    for number, tool in enumerate(tools):
        if tool[:1] != b"{":
            raise LoreError(f"{shown}: element {number} of the tools is no object", hint=HINT_TOOLS, where=Where(shown))
    return tools


def _is_json(data: bytes) -> bool:
    try:
        decode(data)
    except (ValueError, RecursionError):
        return False
    return True


def _value(path: str, data: bytes) -> bytes:
    """Return a file's JSON value on one line; raises LoreError where it holds none."""
    try:
        data.decode("utf-8")
        decode(data)
    except UnicodeDecodeError as error:
        raise _fault(path, data, error.start, "holds bytes that are not UTF-8") from None
    except ValueError as error:
        at = len(str(getattr(error, "doc", ""))[: getattr(error, "pos", 0)].encode("utf-8", "surrogatepass"))
        raise _fault(path, data, at, f"is not JSON: {str(error).partition(': line')[0].lower()}") from None
    except RecursionError:
        raise _fault(path, data, 0, "is nested too deeply") from None
    return _BREAKS.sub(b"", data.strip(_SPACE))


def _fault(path: str, data: bytes, at: int, said: str, hint: str = "") -> LoreError:
    shown = corpus.show(path)
    return LoreError(f"{shown} {said}", hint=hint, where=Where(shown, data.count(b"\n", 0, at) + 1, at))
