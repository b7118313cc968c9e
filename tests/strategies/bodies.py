"""Request bodies of both dialects: alone, growing, in files."""

from typing import Any

from hypothesis import strategies as st
from msgspec import Raw

from strategies.logs import _oddly
from strategies.spelling import Spelled, numbers, styles, texts, values, write

# request bodies

MARK = {"type": "ephemeral"}
DIALECTS = ("anthropic", "openai-chat")


@st.composite
def _anthropic(draw: Any, length: int) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"n": {"maximum": draw(numbers)}}}
    messages: list[dict[str, Any]] = []
    for number in range(length):
        messages.append({"role": "user", "content": [{"type": "text", "text": draw(texts)}]})
        call = f"toolu_{number}"
        said = [
            {"type": "text", "text": draw(texts)},
            {"type": "tool_use", "id": call, "name": "read", "input": {"v": draw(values)}},
        ]
        messages.append({"role": "assistant", "content": said})
        inner = [{"type": "text", "text": draw(texts)}, {"type": "text", "text": "end"}]
        result = {"type": "tool_result", "tool_use_id": call, "content": inner if draw(st.booleans()) else draw(texts)}
        messages.append({"role": "user", "content": [result, {"type": "text", "text": draw(texts)}]})
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 1024,
        "tools": [
            {"name": "read", "description": draw(texts), "input_schema": schema},
            {"name": "b", "input_schema": {}},
        ],
        "system": [{"type": "text", "text": draw(texts)}, {"type": "text", "text": "two"}],
        "messages": messages,
    }


@st.composite
def _openai(draw: Any, length: int) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"n": {"maximum": draw(numbers)}}}
    messages: list[dict[str, Any]] = [{"role": "system", "content": [{"type": "text", "text": draw(texts)}]}]
    for number in range(length):
        messages.append({"role": "user", "name": "ann", "content": [{"type": "text", "text": draw(texts)}]})
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "read", "arguments": '{"a": 1}'}}
        messages.append({"role": "assistant", "content": draw(st.sampled_from([None, "so"])), "tool_calls": [call]})
        messages.append(
            {"role": "tool", "tool_call_id": call["id"], "content": [{"type": "text", "text": draw(texts)}]}
        )
    return {
        "model": "gpt-5",
        "messages": messages,
        "tools": [
            {"type": "function", "function": {"name": "read", "description": draw(texts), "parameters": parameters}}
        ],
    }


@st.composite
def bodies(draw: Any, dialect: str | None = None, min_length: int = 1) -> dict[str, Any]:
    """One request body, as a value."""
    dialect = dialect or draw(st.sampled_from(DIALECTS))
    length = draw(st.integers(min_length, 3))
    return draw(_anthropic(length) if dialect == "anthropic" else _openai(length))


@st.composite
def conversations(draw: Any) -> list[dict[str, Any]]:
    """Bodies that grow by one exchange each, as values."""
    body = draw(bodies(min_length=2))
    step = 3
    start = len(body["messages"]) % step
    ends = range(start + step, len(body["messages"]) + 1, step)
    return [{**body, "messages": body["messages"][:end]} for end in ends]


def places_for_marks(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a body that may carry a cache mark."""
    found: list[dict[str, Any]] = [*body.get("tools", ())]
    if isinstance(body.get("system"), list):
        found += body["system"]
    for message in body["messages"]:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            found.append(block)
            if isinstance(block.get("content"), list):
                found += block["content"]
    return found


def marked(body: dict[str, Any], places: set[int], *, first: bool = False) -> dict[str, Any]:
    """Return a copy of a body with marks on these of its places, as first or as last member."""
    targets = {id(place): number in places for number, place in enumerate(places_for_marks(body))}

    def copy(value: Any) -> Any:
        if isinstance(value, Spelled):
            return value
        if isinstance(value, list):
            return [copy(one) for one in value]
        if not isinstance(value, dict):
            return value
        made = {key: copy(one) for key, one in value.items()}
        if not targets.get(id(value)):
            return made
        return {"cache_control": MARK, **made} if first else {**made, "cache_control": MARK}

    return copy(body)


@st.composite
def body_files(draw: Any) -> bytes:
    """A file of request bodies: one body over several lines, JSON Lines of bodies, or of records."""
    style = draw(styles)
    shape = draw(st.sampled_from(["pretty", "lines", "records", "texts"]))
    if shape == "pretty":
        body = write(draw(bodies()), style)
        end = draw(st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n \n"]))
        return draw(st.sampled_from([b"", b"\xef\xbb\xbf", b"\n"])) + b"{" + end + body[1:-1] + end + b"}" + end
    made: list[bytes] = []
    for number, body in enumerate(draw(conversations())):
        text = write(body, style)
        record: dict[str, Any] = {"ts": 1767225600 + number, "usage": {"input_tokens": 10, "output_tokens": 1}}
        if shape == "records":
            text = write({"request": Raw(text), **record})
        elif shape == "texts":
            text = write({"request": text.decode("utf-8"), **record})
        made.append(text)
    return b"\n".join(draw(_oddly(made))) + draw(st.sampled_from([b"\n", b""]))
