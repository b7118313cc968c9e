"""One small conversation of two turns in every capture format, with places for odd values.

`body` and `answer` take the place of the second request's body and of its response, as JSON text.
"""

import io
import json
import zipfile
from typing import Any

SYSTEM = "You work in a small repository. Read before you write, and say plainly what you did."
ASKED = [{"role": "user", "content": [{"type": "text", "text": "The parser drops the last row."}]}]
SAID = [
    {"role": "assistant", "content": [{"type": "text", "text": "I look at it."}]},
    {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
]
URL = "https://api.anthropic.com/v1/messages"
HEADERS = {"content-type": "application/json", "anthropic-version": "2023-06-01"}


def request(messages: list[Any]) -> dict[str, Any]:
    return {"model": "claude-sonnet-4-6", "max_tokens": 4096, "system": SYSTEM, "messages": messages}


def response(number: int, read: int, write: int) -> dict[str, Any]:
    usage = {"input_tokens": 3, "cache_read_input_tokens": read, "cache_creation_input_tokens": write}
    content, usage = [{"type": "text", "text": "Done."}], {**usage, "output_tokens": 9}
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": content, "usage": usage}


FIRST, SECOND = request(ASKED), request([*ASKED, *SAID])
ANSWERS = response(1, 0, 2400), response(2, 2400, 90)
TURNS = list(zip((FIRST, SECOND), ANSWERS, strict=True))


def _two(second: Any = None, answer: Any = None) -> list[tuple[Any, Any]]:
    return [TURNS[0], (SECOND if second is None else second, ANSWERS[1] if answer is None else answer)]


def sse(answer: dict[str, Any]) -> str:
    """Write a response as the stream that it came in."""
    start = {"type": "message_start", "message": {**answer, "content": []}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in (start, block, delta, end))


def har(turns: list[tuple[Any, Any]]) -> bytes:
    entries = [
        {
            "startedDateTime": f"2026-09-14T09:1{number}:00.000Z", "time": 2000,
            "request": {"method": "POST", "url": URL, "headers": [], "postData": _text(body)},
            "response": {"status": 200, "headers": [], "content": _text(answer)},
        }
        for number, (body, answer) in enumerate(turns)
    ]  # fmt: skip
    return _json({"log": {"version": "1.2", "creator": {"name": "x", "version": "1"}, "entries": entries}})


def _text(value: Any) -> Any:
    return (
        value
        if isinstance(value, dict) and "text" in value
        else {"mimeType": "application/json", "text": value if isinstance(value, str) else json.dumps(value)}
    )


KIND = "    headers:\n      content-type:\n      - application/json\n"
OK = "    status:\n      code: 200\n      message: OK\n"


def vcr(turns: list[tuple[Any, Any]]) -> bytes:
    made = "interactions:\n"
    for body, answer in turns:
        asked, said = (json.dumps(one if isinstance(one, str) else json.dumps(one)) for one in (body, answer))
        made += f"- request:\n    body: {asked}\n{KIND}    method: POST\n    uri: {URL}\n"
        made += f"  response:\n    body:\n      string: {said}\n{KIND}{OK}"
    return f"{made}version: 1\n".encode()


def vcr_parsed(turns: list[tuple[Any, Any]]) -> bytes:
    made = "interactions:\n"
    for body, answer in turns:
        made += (
            f"- request:\n    headers: {{}}\n    method: POST\n    parsed_body: {json.dumps(body)}\n    uri: {URL}\n"
        )
        made += f"  response:\n    headers: {{}}\n    parsed_body: {json.dumps(answer)}\n{OK}"
    return f"{made}version: 1\n".encode()


def _asked(number: int, body: Any) -> dict[str, Any]:
    """A request as proxies write it."""
    return {"timestamp": 1789377300.0 + number, "method": "POST", "url": URL, "headers": HEADERS, "body": body}


def trace(turns: list[tuple[Any, Any]]) -> bytes:
    """As claude-trace writes it."""
    return _lines(
        {
            "request": _asked(number, body),
            "response": {"timestamp": 1789377301.0 + number, "status_code": 200, "headers": {}, **_streamed(answer)},
            "logged_at": "2026-09-14T09:15:00Z",
        }
        for number, (body, answer) in enumerate(turns)
    )


def _streamed(answer: Any) -> dict[str, Any]:
    return {"body_raw": answer} if isinstance(answer, str) else {"body": answer}


def tap(turns: list[tuple[Any, Any]]) -> bytes:
    packets = [
        {
            "index": number, "method": "POST", "path": "/v1/messages", "http_status": 200, "summary": {},
            "request": {"headers": HEADERS, "body": body}, "response": {"status": 200, "headers": {}, "body": answer},
        }
        for number, (body, answer) in enumerate(turns)
    ]  # fmt: skip
    return _json({"session": "s-1", "agent": "claude", "task": "mend", "packets": packets})


def proxy(turns: list[tuple[Any, Any]]) -> bytes:
    """As vibe-proxy writes it."""
    said = {"timestamp": 1789377301.0, "status_code": 200, "headers": {}, "api_format": "anthropic"}
    return _lines(
        {"request": _asked(number, body), "response": {**said, "body": answer}}
        for number, (body, answer) in enumerate(turns)
    )


def cassette(turns: list[tuple[Any, Any]]) -> bytes:
    entries = [
        {
            "callIndex": number, "id": f"e{number}", "matchKey": f"POST {URL}",
            "recordedAt": "2026-09-14T09:15:00.000Z",
            "request": {"body": {"kind": "json", "value": body}, "headers": HEADERS, "method": "POST", "url": URL},
            "response": {"body": {"kind": "json", "value": answer}, "headers": {}, "status": 200, "statusText": "OK"},
        }
        for number, (body, answer) in enumerate(turns)
    ]  # fmt: skip
    return _json({"entries": entries, "meta": {"createdAt": "2026-09-14T09:15:00.000Z"}})


def litellm(turns: list[tuple[Any, Any]]) -> bytes:
    return _lines(
        {
            "id": f"chatcmpl-{number}", "trace_id": "t", "call_type": "acompletion", "stream": False,
            "status": "success", "model": "claude-sonnet-4-6", "custom_llm_provider": "anthropic", "api_base": URL,
            "startTime": 1789377320.0 + number, "endTime": 1789377324.0 + number, "completionStartTime": 1789377322.0,
            "metadata": {"usage_object": {"prompt_tokens": 2403, "completion_tokens": 40}},
            "model_parameters": {"max_tokens": 4096},
            "messages": body.get("messages", body) if isinstance(body, dict) else body,
            "prompt_tokens": 2403, "completion_tokens": 40, "response_cost": 0.01, "response": answer,
        }
        for number, (body, answer) in enumerate(turns)
    )  # fmt: skip


def otel(turns: list[tuple[Any, Any]]) -> bytes:
    return _lines(
        {
            "name": "chat claude-sonnet-4-6", "context": {"trace_id": "0x5b", "span_id": f"0x0{number}"},
            "kind": "SpanKind.CLIENT", "start_time": f"2026-09-14T09:15:1{number}.000000Z",
            "end_time": f"2026-09-14T09:15:2{number}.000000Z",
            "attributes": {
                "gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic",
                "gen_ai.request.model": "claude-sonnet-4-6", "gen_ai.conversation.id": "c",
                "gen_ai.system_instructions": json.dumps([{"type": "text", "content": SYSTEM}]),
                "gen_ai.input.messages": json.dumps(_parts(body)), "gen_ai.output.messages": json.dumps(answer),
                "gen_ai.usage.input_tokens": 2403, "gen_ai.usage.cache_read.input_tokens": 0,
            },
        }
        for number, (body, answer) in enumerate(turns)
    )  # fmt: skip


def _parts(body: Any) -> Any:
    if body not in (FIRST, SECOND):
        return body
    return [
        {"role": one["role"], "parts": [{"type": "text", "content": part["text"]} for part in one["content"]]}
        for one in body["messages"]
    ]


def _sample(turns: list[tuple[Any, Any]]) -> dict[str, Any]:
    events: list[Any] = [
        {
            "event": "model", "timestamp": f"2026-09-14T09:15:1{number}+00:00", "model": "anthropic/claude-sonnet-4-6",
            "input": [], "tools": [], "tool_choice": "auto", "config": {}, "output": {"usage": {"input_tokens": 3}},
            "call": {"request": body, "response": answer},
        }
        for number, (body, answer) in enumerate(turns)
    ]  # fmt: skip
    known = {"id": "row", "epoch": 1, "input": "x", "target": "", "messages": [], "output": {}, "scores": {}}
    return {**known, "events": events}


_EVAL = {
    "eval_id": "e", "run_id": "r", "created": "2026-09-14T09:15:00+00:00", "task": "mend", "dataset": {"name": "two"},
    "model": "anthropic/claude-sonnet-4-6", "config": {},
}  # fmt: skip


def inspect(turns: list[tuple[Any, Any]]) -> bytes:
    made = {"version": 2, "status": "success", "eval": _EVAL, "plan": {"name": "plan", "steps": []}, "results": {}}
    return _json({**made, "stats": {}, "samples": [_sample(turns)]})


def archive(members: dict[str, bytes], **how: Any) -> bytes:
    """Write a zip file with these members, however they are called."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, **how) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return made.getvalue()


def evaluation(turns: list[tuple[Any, Any]]) -> bytes:
    return archive(members(_json(_sample(turns))))


def members(sample: bytes) -> dict[str, bytes]:
    """Return what an `.eval` file holds, with this one sample."""
    return {
        "_journal/start.json": _json({"version": 2, "eval": _EVAL, "plan": {}}),
        "samples/row_epoch_1.json": sample,
        "header.json": _json({"version": 2, "status": "success", "eval": _EVAL, "plan": {}}),
    }


def bodies(turns: list[tuple[Any, Any]]) -> bytes:
    return _lines(body for body, _ in turns)


def records(turns: list[tuple[Any, Any]]) -> bytes:
    return _lines(
        {"request": body, "response": answer, "timestamp": 1789377300 + n} for n, (body, answer) in enumerate(turns)
    )


def _json(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _lines(values: Any) -> bytes:
    return b"".join(_json(one) + b"\n" for one in values)


WRITERS = {
    "har": har, "vcr": vcr, "vcr-parsed": vcr_parsed, "claude-trace": trace, "claude-tap": tap, "vibe-proxy": proxy,
    "cassette": cassette, "litellm": litellm, "otel": otel, "inspect": inspect, "eval": evaluation, "bodies": bodies,
    "records": records,
}  # fmt: skip
ENDS = {"vcr": "yaml", "vcr-parsed": "yaml", "har": "har", "eval": "eval"}


def capture(format: str, *, second: Any = None, answer: Any = None) -> bytes:
    """Write the conversation, with this in place of the second request or of its response."""
    return WRITERS[format](_two(second, answer))


def named(format: str) -> str:
    """Name a file of a format."""
    return f"capture.{ENDS.get(format, 'jsonl')}"


def folder(path: Any, *, body: bytes | None = None, answer: bytes | None = None) -> None:
    """Write a folder of requests and responses, as Claude Code does."""
    path.mkdir()
    for number, (asked, said) in enumerate(TURNS):
        (path / f"0{number}.request.json").write_bytes(_json(asked) if body is None else body)
        (path / f"req_{number}.response.json").write_bytes(_json(said) if answer is None else answer)
