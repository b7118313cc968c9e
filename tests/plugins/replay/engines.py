"""Local servers that cache and report like engines, for tests of `lore replay`.

Each counts tokens with o200k over the JSON of tools and messages, keeps the requests, and answers one token.
"""

import json
import threading
from contextlib import contextmanager

from helpers.serving import Handler, Loopback
from lore.tokens.o200k import Counter

_COUNTER = Counter()


def _pieces(body):
    """Yield the texts of a request in an engine's render order, with separators."""
    yield json.dumps(body.get("tools", body.get("toolConfig", [])))
    system = body.get("system", body.get("instructions", body.get("systemInstruction", {}).get("parts", [])))
    yield from (system if isinstance(system, str) else [json.dumps(block) for block in system])
    for message in body.get("messages", body.get("input", body.get("contents", []))):
        yield f"<|{message.get('role', message.get('type'))}|>"
        content = message.get("content") or message.get("parts") or ("" if "role" in message else json.dumps(message))
        yield content if isinstance(content, str) else json.dumps([_bare(part) for part in content])
        yield json.dumps(message.get("tool_calls", []))


def _bare(part):
    return {key: value for key, value in part.items() if key != "cache_control"} if isinstance(part, dict) else part


def tokens_of(body):
    """Return the tokens of a request as strings; equal tokens are equal strings."""
    found = []
    for piece in _pieces(body):
        found += [f"{at}:{piece[:40]}:{hash(piece)}" for at in range(_COUNTER.count(piece.encode()))]
    return found


class Engine:
    """A server's cache, its requests, and its answers; the callables in `failing` answer the first requests."""

    block = 16

    def __init__(self):
        self.blocks = set()
        self.asked = []
        self.paths = []
        self.headers = []
        self.failing = []
        self.done = threading.Event()

    def probes(self, path):
        return {}

    def tokens(self, body):
        return tokens_of(body)

    def cached(self, body):
        """Return the numbers of prompt and read tokens; keep the whole blocks."""
        tokens, read, reading = self.tokens(body), 0, True
        chain = (body.get("cache_salt"),)
        for end in range(self.block, len(tokens) + 1, self.block):
            chain = hash((chain, tuple(tokens[end - self.block : end])))
            reading = reading and chain in self.blocks and end < len(tokens)
            read = end if reading else read
            self.blocks.add(chain)
        return len(tokens), read

    def answer(self, path, body):
        total, read = self.cached(body)
        return {
            "id": f"chatcmpl-{len(self.asked)}", "object": "chat.completion", "model": body.get("model"),
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}],
            "usage": {
                "prompt_tokens": total, "completion_tokens": 1, "total_tokens": total + 1,
                "prompt_tokens_details": {"cached_tokens": read},
            },
        }  # fmt: skip


class VLLM(Engine):
    """vLLM: blocks of 16."""

    def probes(self, path):
        return {"/version": {"version": "0.32.0"}, "/v1/models": {"data": [{"id": "tiny"}]}}.get(path, {})


class Everything(VLLM):
    """Accepts requests of every API, and answers in its shape."""

    def answer(self, path, body):
        if path.endswith("/chat/completions"):
            return super().answer(path, body)
        total, read = self.cached(body)
        number = len(self.asked)
        said = {"type": "text", "text": "x"}
        if path.endswith("/messages"):
            usage = {"input_tokens": total - read, "cache_read_input_tokens": read, "output_tokens": 1}
            return {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": [said], "usage": usage}
        if path.endswith("/responses"):
            item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
            usage = {"input_tokens": total, "input_tokens_details": {"cached_tokens": read}, "output_tokens": 1}
            return {"id": f"resp_{number}", "object": "response", "output": [item], "usage": usage}
        if path.endswith(":generateContent"):
            content = {"role": "model", "parts": [{"text": "x"}]}
            usage = {"promptTokenCount": total, "cachedContentTokenCount": read, "candidatesTokenCount": 1}
            return {"responseId": f"g{number}", "candidates": [{"content": content}], "usageMetadata": usage}
        if path.endswith("/converse"):
            usage = {"inputTokens": total - read, "cacheReadInputTokens": read, "outputTokens": 1}
            return {"output": {"message": {"role": "assistant", "content": [{"text": "x"}]}}, "usage": usage}
        raise AssertionError(path)


class LlamaCpp(Engine):
    slot = ()

    def probes(self, path):
        return {"/props": {"default_generation_settings": {}, "total_slots": 1, "build_info": "b9000"}}.get(path, {})

    def answer(self, path, body):
        tokens = tuple(tokens_of(body))
        same = next((at for at, (a, b) in enumerate(zip(self.slot, tokens, strict=False)) if a != b), None)
        same = min(len(self.slot), len(tokens)) if same is None else same
        read = min(same, len(tokens) - 1)
        self.slot = tokens
        found = super().answer(path, body)
        found["usage"] = {"prompt_tokens": len(tokens), "completion_tokens": 1}
        return {**found, "timings": {"cache_n": read, "prompt_n": len(tokens) - read, "predicted_n": 1}}


class Anthropic(Engine):
    """The Messages API: entries at breakpoints, found from any later breakpoint; reads whole entries."""

    def __init__(self):
        super().__init__()
        self.entries = set()

    def answer(self, path, body):
        marked, place, seen, read = [], 0, "", 0
        blocks = [*body.get("tools", []), *body.get("system", [])]
        for message in body["messages"]:
            content = message["content"]
            blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            seen += json.dumps(_bare(block))
            place += _COUNTER.count(json.dumps(_bare(block)).encode())
            if "cache_control" in block:
                marked.append((hash(seen), place))
            if hash(seen) in self.entries and place > read:
                read = place
        last = marked[-1][1] if marked else 0
        self.entries |= {entry for entry, _ in marked}
        return {
            "id": f"msg_{len(self.asked)}", "type": "message", "role": "assistant", "model": body["model"],
            "content": [{"type": "text", "text": "x"}], "stop_reason": "max_tokens",
            "usage": {
                "input_tokens": place - max(last, read), "cache_read_input_tokens": read,
                "cache_creation_input_tokens": max(0, last - read), "output_tokens": 1,
            },
        }  # fmt: skip


def status(code, body=b'{"error":{"message":"no"}}', **headers):
    """Return an answer with a status, for `failing`."""

    return lambda handler: handler.answer(code, body, **headers)


def reset(handler):
    handler.close_connection = True


@contextmanager
def serving(engine):
    """Serve until the block ends, yielding the URL; hanging answers wait for `engine.done`."""

    class Answering(Handler):
        def get(self):
            engine.paths.append(f"GET {self.path}")
            found = engine.probes(self.path)
            self.answer(200 if found else 404, json.dumps(found).encode())

        def post(self):
            raw = self.read_body()
            engine.paths.append(self.path)
            engine.headers.append({name.lower(): value for name, value in self.headers.items()})
            if engine.failing:
                engine.failing.pop(0)(self)
                return
            body = json.loads(raw)
            engine.asked.append(body)
            self.answer(200, json.dumps(engine.answer(self.path, body)).encode(), content_type="application/json")

    with Loopback(Answering) as http:
        try:
            yield http.url
        finally:
            engine.done.set()
