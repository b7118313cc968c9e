"""Engines read their own output: captures of chats, compared with engines that count each token."""

import json
import random

import pytest
from msgspec.structs import replace

from cache.asking import piece, reads, request
from lore.run.checking.verdicts import CheckContext
from lore.run.simulation import simulate

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "cache", "prefix", "prompt", "token", "judge"]
URLS = {"openai-chat": "chat/completions", "anthropic": "messages", "openai-responses": "responses"}


class Engine:
    """A cache of token pages over a chat template; each word and each mark is a token."""

    def __init__(self, page):
        self.page, self.held = page, set()

    def ends(self, tokens):
        for end in range(self.page, len(tokens) + 1, self.page):
            yield end, tuple(tokens[:end])

    def ask(self, messages, answer):
        """Return the numbers of prompt, read and output tokens."""
        prompt = [token for role, text in messages for token in (f"<{role}>", *text.split(), "<end>")]
        prompt, output = [*prompt, "<assistant>"], [*answer.split(), "<end>"]
        read = max((end for end, key in self.ends(prompt) if key in self.held and end < len(prompt)), default=0)
        self.held |= {key for _, key in self.ends([*prompt, *output[:-1]])}
        return len(prompt), read, len(output)


def body_of(dialect, messages):
    if dialect == "openai-responses":
        items = [
            {"role": role, "content": [{"type": "output_text" if role == "assistant" else "input_text", "text": text}]}
            for role, text in messages
        ]
        return {"model": "tiny", "input": items}
    return {"model": "tiny", "messages": [{"role": role, "content": text} for role, text in messages]}


def answer_of(dialect, number, text, counts):
    """Return a response as servers write it, with members that clients do not send back."""
    total, read, generated = counts
    if dialect == "anthropic":
        usage = {"input_tokens": total - read, "cache_read_input_tokens": read, "output_tokens": generated}
        content = [{"type": "text", "text": text, "citations": None}]
        return {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": content, "usage": usage}
    if dialect == "openai-responses":
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        item = {"id": f"m{number}", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
        usage = {"input_tokens": total, "input_tokens_details": {"cached_tokens": read}, "output_tokens": generated}
        return {"id": f"resp_{number}", "object": "response", "output": [item], "usage": usage}
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    usage = {"prompt_tokens": total, "completion_tokens": generated, "prompt_tokens_details": {"cached_tokens": read}}
    return {"id": f"c{number}", "object": "chat.completion", "choices": [{"index": 0, "message": message}],
            "usage": usage}  # fmt: skip


def recorded(path, dialect, engine, page, *, answered_in=0.5):
    """Write a capture of a conversation with ten turns; return the tokens that the engine read of each."""
    draw, server, reads, lines = random.Random(5), Engine(page), [], []

    def text(most):
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(most // 4, most)))

    messages = [("user", text(400))]
    for number in range(10):
        at, question = 1.7e9 + 10 * number, text(120)
        counts = server.ask(messages, question)
        answer = answer_of(dialect, number, question, counts)
        response = {"status": 200, "headers": {}, "body": answer, "timestamp": at + 0.1}
        request = {"method": "POST", "url": f"http://x/v1/{URLS[dialect]}", "headers": {}, "timestamp": at}
        call = {"request": {**request, "body": body_of(dialect, messages)}, "response": response}
        lines.append(json.dumps({**call, "served_by": engine, "replay": {"seconds": answered_in}}))
        reads.append(counts[1])
        messages += [("assistant", question), ("user", text(80))]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return reads


def predicted(path, *caches):
    (result,) = simulate([str(path)], CheckContext(), caches=caches)
    return [turn.predicted.read_tokens for turn in result.turns]


@pytest.mark.parametrize(("engine", "page"), [("vllm", 16), ("sglang", 1), ("llama.cpp", 1)])
@pytest.mark.parametrize("dialect", URLS)
def test_engine_reads_its_own_output(dialect, engine, page, tmp_path):
    read = recorded(tmp_path / "c.jsonl", dialect, engine, page)
    assert predicted(tmp_path / "c.jsonl") == read


def test_provider_output_is_not_cached(tmp_path):
    recorded(tmp_path / "c.jsonl", "openai-chat", "openai", 128)
    whole = predicted(tmp_path / "c.jsonl", "openai")
    recorded(tmp_path / "d.jsonl", "openai-chat", "openai", 128, answered_in=60.0)
    assert predicted(tmp_path / "d.jsonl", "openai") == whole


def test_usage_corrects_estimated_block_ends():
    """Of a prompt of 401 tokens, estimated at 390, 400 are read, not 384."""
    from lore.cache.registry import make
    from lore.model.events import Usage

    guessed = replace(piece("a", None), data=b"x" * 1404)
    model = make("vllm", lambda *_: None)
    assert model.predict(request([guessed])).total == 390
    model.learn(Usage(uncached_tokens=401, read_tokens=0))
    assert model.predict(request([guessed, piece("b")])).read == 400
    assert reads("vllm", [request([guessed]), request([guessed, piece("b")])]) == [0, 384]
