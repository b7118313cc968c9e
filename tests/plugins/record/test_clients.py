"""Real SDKs that the environment points to the recorder: requests, answers, records."""

import os

import pytest

from helpers.provider_answers import TEXT
from lore.formats.captures.lore_capture import LoreCapture
from lore.model.turn import Exchange
from lore.recording.requests import dialect_of
from lore.testing import everything

KEY = "sk-SECRET-0123456789abcdef"


@pytest.fixture
def pointed(recorded, monkeypatch):
    for name, value in {**recorded.recorder.environment(), "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def anthropic(stream):
    from anthropic import Anthropic

    with Anthropic(api_key=KEY, max_retries=0) as client:
        arguments = {"model": "claude-opus-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hé"}]}
        if not stream:
            return client.messages.create(**arguments).content[0].text
        with client.messages.stream(**arguments) as events:
            return "".join(events.text_stream)


def chat(stream):
    from openai import OpenAI

    with OpenAI(api_key=KEY, max_retries=0) as client:
        arguments = {"model": "gpt-5.6", "messages": [{"role": "user", "content": "hé"}]}
        if not stream:
            return client.chat.completions.create(**arguments).choices[0].message.content
        chunks = client.chat.completions.create(**arguments, stream=True, stream_options={"include_usage": True})
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def responses(stream):
    from openai import OpenAI

    with OpenAI(api_key=KEY, max_retries=0) as client:
        arguments = {"model": "gpt-5.6", "input": "hé", "instructions": "Be short."}
        if not stream:
            return client.responses.create(**arguments).output_text
        events = client.responses.create(**arguments, stream=True)
        return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def gemini(stream):
    from google import genai

    client = genai.Client(api_key=KEY)
    arguments = {"model": "gemini-3-pro", "contents": "hé"}
    if not stream:
        return client.models.generate_content(**arguments).text
    return "".join(chunk.text for chunk in client.models.generate_content_stream(**arguments))


def bedrock(stream):
    import boto3

    del stream
    client = boto3.Session().client("bedrock-runtime", region_name="us-east-1")
    answer = client.converse(
        modelId="amazon.nova-pro-v1:0", messages=[{"role": "user", "content": [{"text": "hé"}]}],
        system=[{"text": "Be short."}],
    )  # fmt: skip
    return answer["output"]["message"]["content"][0]["text"]


CASES = [
    (anthropic, False, "anthropic"), (anthropic, True, "anthropic"), (chat, False, "openai-chat"),
    (chat, True, "openai-chat"), (responses, False, "openai-responses"), (responses, True, "openai-responses"),
    (gemini, False, "gemini"), (gemini, True, "gemini"), (bedrock, False, "bedrock"),
]  # fmt: skip


@pytest.mark.parametrize(("client", "stream", "dialect"), CASES, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_each_sdk_is_answered_and_recorded(client, stream, dialect, pointed, recorded, standin, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASECRET0123456789")  # of a gateway that checks no signature
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    assert client(stream) == TEXT
    _, target, _, body = standin.got[-1]
    request, *rest = recorded.last()
    assert request["body"].encode() == body
    assert request["url"].endswith(target.partition("?")[0]) or "?" in request["url"]
    assert rest[-1]["ended"] == "complete"
    exchange = [
        read.value for read in everything(LoreCapture(), recorded.path.read_bytes()) if isinstance(read.value, Exchange)
    ][-1]
    assert bytes(exchange.body) == body
    assert dialect_of(exchange.body).name == dialect
    assert exchange.usage.read_tokens == 20
    assert exchange.answered >= exchange.at
    assert "SECRET" not in recorded.path.read_text("utf-8")


def test_stream_is_recorded_with_times_of_its_chunks(pointed, recorded):
    assert anthropic(stream=True) == TEXT
    sides = [record for record in recorded.last() if record["part"] == "response"]
    arrived = [pair for record in sides for pair in record.get("arrived", ())]
    body = recorded.answer()[1].decode()
    assert sum(size for _, size in arrived) == len(body.encode())
    assert [since for since, _ in arrived] == sorted(since for since, _ in arrived)
    assert len(arrived) > 1
    assert body.startswith("event: message_start\n")
    assert sides[0]["headers"]["request-id"] == "req_1"


def test_command_reaches_the_recorder_without_a_proxy():
    from lore_plugins.record.recorder import child_environment

    made = child_environment({"NO_PROXY": "corp.example", "HTTPS_PROXY": "http://p:1", "PATH": os.defpath}, {"A": "b"})
    assert made["NO_PROXY"] == "corp.example,127.0.0.1,localhost,::1"
    assert made["no_proxy"] == made["NO_PROXY"]  # some clients read the one first, some the other
    assert (made["HTTPS_PROXY"], made["A"]) == ("http://p:1", "b")
