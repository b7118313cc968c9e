"""The common prefix of two request bodies, computed naively from parsed JSON.

Input: bodies as `json` parses them. Output: segments, and the relation of two bodies. A segment is one tool, one system
block, one message envelope or one content block; breakpoints are not content, and neither is a billing header that
Anthropic removes. Nothing of lore is imported here.
"""

import json
from functools import partial
from typing import Any, NamedTuple

HEADER = "x-anthropic-billing-header:"
BREAKPOINT_KEYS = ("cache_control", "prompt_cache_breakpoint")
POINT = "cachePoint"
written = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))


class Seg(NamedTuple):
    """One segment."""

    section: str
    kind: str
    path: str
    text: str
    has_breakpoint: bool = False

    @property
    def content(self) -> tuple[str, str, str]:
        """The compared part: paths and breakpoints may differ in equal segments."""
        return self.section, self.kind, self.text

    @property
    def size(self) -> int:
        """Its bytes; the braces of an envelope are not counted."""
        return len(self.text.encode("utf-8", "surrogatepass"))


def dialect_of(body: dict[str, Any]) -> str:
    """Return the dialect of a body."""
    if "contents" in body:
        return "gemini"
    if "messages" not in body:
        return "openai-responses"
    if any(key in body for key in ("modelId", "toolConfig", "inferenceConfig")):
        return "bedrock"
    tools = body.get("tools") or []
    messages = written(body["messages"])
    if "system" in body or any("input_schema" in one for one in tools) or '"tool_use"' in messages:
        return "anthropic"
    return "openai-chat"


def flatten(body: dict[str, Any], dialect: str, *, drops_header: bool = False) -> list[Seg]:
    """Return the segments of a body in render order: tools, system, messages."""
    found = _SHAPES[dialect](body)
    return [one for one in found if not (drops_header and one.section == "system" and _is_header(one.text))]


def at_anthropic(body: dict[str, Any], host: str) -> bool:
    """Return whether Anthropic itself serves the request, by the host, else by the model."""
    name = host.partition("/")[0]
    if name:
        return name.endswith("api.anthropic.com")
    return str(body.get("model", "")).startswith("claude-")


def relation(left: list[Seg], right: list[Seg]) -> str:
    """Return the relation of the right body to the left one, in the same dialect."""
    if not _shared(left, right):
        return "unrelated"
    common = common_segments(left, right)
    if common == len(left):
        return "identical" if common == len(right) else "extension"
    return "shrunk" if common == len(right) else "diverged"


def without_end(body: list[Seg], size: int) -> list[Seg]:
    """Return a body without the last `size` bytes, which are whole segments of its last message."""
    begin = len(body)
    while size > 0:
        begin -= 1
        size -= body[begin].size
    last = max(number for number, one in enumerate(body) if one.section == "messages" and one.kind == "envelope")
    assert (size, begin >= last) == (0, True)
    return body[:begin]


def common_segments(left: list[Seg], right: list[Seg]) -> int:
    """Count the leading segments that are equal."""
    count = 0
    for mine, theirs in zip(left, right, strict=False):
        if mine.content != theirs.content:
            break
        count += 1
    return count


def common_bytes(left: list[Seg], right: list[Seg]) -> int:
    """Count the leading bytes that are equal, also in the first segment that differs."""
    common = common_segments(left, right)
    total = sum(one.size for one in left[:common])
    if common < min(len(left), len(right)) and left[common].content[:2] == right[common].content[:2]:
        mine, theirs = left[common].text.encode(), right[common].text.encode()
        total += next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), len(min(mine, theirs)))
    return total


def wanted_bytes(left: list[Seg]) -> int:
    """Count the bytes up to the last breakpoint, or all bytes of a body without breakpoints."""
    ends = [number for number, one in enumerate(left) if one.has_breakpoint]
    return sum(one.size for one in left[: ends[-1] + 1 if ends else len(left)])


def first_difference(left: list[Seg], right: list[Seg]) -> tuple[Seg, ...]:
    """Return the first segments of both bodies that differ, the earlier section first; empty if the right extends."""
    common = common_segments(left, right)
    if common == len(left):
        return ()
    order = ("tools", "system", "messages").index
    parted = [side[common] for side in (right, left) if common < len(side)]
    return tuple(sorted(parted, key=lambda one: order(one.section)))


def _shared(left: list[Seg], right: list[Seg]) -> bool:
    mine, theirs = _contents(left), _contents(right)
    if not mine or not theirs:
        return bool(mine) == bool(theirs) and [one.content for one in left] == [one.content for one in right]
    return not mine.isdisjoint(theirs)


def _contents(segs: list[Seg]) -> set[str]:
    return {_plain(one.text) for one in segs if one.section == "messages" and one.kind != "envelope"}


def _plain(text: str) -> str:
    """Return content in one spelling: keys sorted, a string as a text block."""
    value = json.loads(text)
    if isinstance(value, str):
        value = {"type": "text", "text": value}
    if isinstance(value, dict) and value.get("type") in ("input_text", "output_text"):
        value["type"] = "text"
    return json.dumps(value, sort_keys=True)


def _is_header(text: str) -> bool:
    value = json.loads(text)
    text = value.get("text", "") if isinstance(value, dict) else value
    return isinstance(text, str) and text.lstrip().startswith(HEADER)


def _bare(value: Any) -> tuple[Any, bool]:
    """Return a block without its breakpoints and those of inner blocks, and whether it had one."""
    if not isinstance(value, dict):
        return value, False
    has_breakpoint = any(value.get(key) is not None for key in BREAKPOINT_KEYS)
    kept = {key: inner for key, inner in value.items() if key not in BREAKPOINT_KEYS}
    for key in ("content", "output"):
        if isinstance(kept.get(key), list):
            inside = [_bare(one) for one in kept[key]]
            kept[key] = [one for one, _ in inside]
            has_breakpoint = has_breakpoint or any(found for _, found in inside)
    return kept, has_breakpoint


def _listed(value: Any, section: str, kind: str, path: str) -> list[Seg]:
    if value is None:
        return []
    if not isinstance(value, list):
        return [Seg(section, kind, path, written(value))]
    found: list[Seg] = []
    for number, one in enumerate(value):
        if isinstance(one, dict) and list(one) == [POINT]:
            if found:
                found[-1] = found[-1]._replace(has_breakpoint=True)
            continue
        kept, has_breakpoint = _bare(one)
        found.append(Seg(section, kind, f"{path}[{number}]", written(kept), has_breakpoint))
    return found


def _message(one: Any, path: str, keys: tuple[str, ...], section: str = "messages") -> list[Seg]:
    if not isinstance(one, dict):
        return [Seg(section, "opaque", path, written(one))]
    outer = {key: value for key, value in one.items() if key not in (*keys, *BREAKPOINT_KEYS)}
    empty = [key for key in keys if key in one and keys != _CHAT and one[key] in (None, [])]
    outer = {key: value for key, value in one.items() if key in outer or key in empty}
    found = [Seg(section, "envelope", path, written(outer)[1:-1])]
    for key in keys:
        if key in one and key not in empty:
            found += _listed(one[key], section, "block", f"{path}.{key}")
    if any(one.get(key) is not None for key in BREAKPOINT_KEYS):
        found[-1] = found[-1]._replace(has_breakpoint=True)
    return found


def _messages(value: Any, path: str, keys: tuple[str, ...]) -> list[Seg]:
    if not isinstance(value, list):
        return _listed(value, "messages", "block", path)
    found: list[Seg] = []
    leading = True
    for number, one in enumerate(value):
        role = one.get("role") if isinstance(one, dict) else None
        leading = leading and keys in (_CHAT, _ITEM) and role in ("system", "developer")
        found += _message(one, f"{path}[{number}]", keys, "system" if leading else "messages")
    return found


_CHAT = ("content", "tool_calls")
_ITEM = ("content", "output", "arguments", "input")


def _anthropic(body: dict[str, Any]) -> list[Seg]:
    return [
        *_listed(body.get("tools"), "tools", "tool", "tools"),
        *_listed(body.get("system"), "system", "text", "system"),
        *_messages(body["messages"], "messages", ("content",)),
    ]


def _chat(body: dict[str, Any]) -> list[Seg]:
    return [*_listed(body.get("tools"), "tools", "tool", "tools"), *_messages(body["messages"], "messages", _CHAT)]


def _responses(body: dict[str, Any]) -> list[Seg]:
    system = body.get("instructions")
    return [
        *_listed(body.get("tools"), "tools", "tool", "tools"),
        *([] if system is None else [Seg("system", "text", "instructions", written(system))]),
        *_messages(body["input"], "input", _ITEM),
    ]


def _gemini(body: dict[str, Any]) -> list[Seg]:
    found: list[Seg] = []
    for number, entry in enumerate(body.get("tools") or []):
        path = f"tools[{number}]"
        key = next((one for one in ("functionDeclarations", "function_declarations") if one in entry), None)
        if key is None:
            found.append(Seg("tools", "tool", path, written(entry)))
            continue
        rest = {name: value for name, value in entry.items() if name != key}
        found += [Seg("tools", "envelope", path, written(rest)[1:-1])] if rest else []
        found += _listed(entry[key], "tools", "tool", f"{path}.{key}")
    for key in ("systemInstruction", "system_instruction"):
        if isinstance(body.get(key), dict):
            found += [one for one in _message(body[key], key, ("parts",), "system") if one.text]
        elif body.get(key) is not None:
            found.append(Seg("system", "text", key, written(body[key])))
    return [*found, *_messages(body["contents"], "contents", ("parts",))]


def _bedrock(body: dict[str, Any]) -> list[Seg]:
    tools = (body.get("toolConfig") or {}).get("tools")
    return [
        *_listed(tools, "tools", "tool", "toolConfig.tools"),
        *_listed(body.get("system"), "system", "text", "system"),
        *_messages(body["messages"], "messages", ("content",)),
    ]


_SHAPES = {
    "anthropic": _anthropic, "openai-chat": _chat, "openai-responses": _responses, "gemini": _gemini,
    "bedrock": _bedrock,
}  # fmt: skip
