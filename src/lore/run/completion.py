"""Read the files of --system and --tools, which complete the prompts of sessions that record neither."""

from __future__ import annotations

import re

from lore.errors import LoreError, Where
from lore.formats.beginning import BOM, SPACE
from lore.model.canonical import decode, encode
from lore.model.jsonslice import array, is_json, raw_members
from lore.recording import corpus
from lore.recording.overrides import Completion

_BREAKS = re.compile(rb"[ \t]*[\r\n][ \t\r\n]*")  # never inside a string, where line ends are escapes
_HINT_SYSTEM = "give text, or JSON: a string, a list of strings, a list of text blocks"
_HINT_TOOLS = "give a JSON array of tools, or an object with `tools`"


def read_completion(system: str | None, tools: str | None, *, strict: bool = True) -> Completion | None:
    """Read the files of --system and --tools; None if neither is given. Raises LoreError with the place of a fault."""
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
    if not path.endswith(".json") and (start not in (b'"', b"[", b"{") or not is_json(data)):
        try:
            return encode(data.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise _fault(path, " holds bytes that are not UTF-8", _HINT_SYSTEM, at=(data, error.start)) from None
    value = _read_value(path, data)
    raw = (raw_members(value) or {}).get("system", value)
    if raw[:1] == b'"':
        return raw
    if raw[:1] != b"[":
        raise _fault(path, " holds no system prompt", _HINT_SYSTEM)
    texts: list[bytes] = []
    for number, element in enumerate(array(raw)):
        block = raw_members(element) or {}
        text = block.get("text", b"") if block.get("type") == b'"text"' else element
        if text[:1] != b'"':
            reason = f": element {number} of the system prompt is neither a string nor a text block"
            raise _fault(path, reason, _HINT_SYSTEM)
        texts.append(text)
    return b"[" + b",".join(texts) + b"]"


def _read_tools(path: str) -> tuple[bytes, ...]:
    """Return tools in the order given."""
    value = _read_value(path, b"".join(corpus.pieces(path)).removeprefix(BOM))
    raw_tools = (raw_members(value) or {}).get("tools", b"") if value[:1] == b"{" else value
    if raw_tools[:1] != b"[":
        raise _fault(path, " holds no tools", _HINT_TOOLS)
    tools = tuple(array(raw_tools))
    for number, tool in enumerate(tools):
        if tool[:1] != b"{":
            raise _fault(path, f": element {number} of the tools is no object", _HINT_TOOLS)
    return tools


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
    label = corpus.show(path)
    where = Where(label) if at is None else Where(label, at[0].count(b"\n", 0, at[1]) + 1, at[1])
    return LoreError(label + reason, hint=hint, where=where)
