"""Real SDKs that the environment points to the recorder: requests, answers, records."""

import os
from functools import partial

import pytest

from lore.formats.captures.lore_capture import LoreCapture
from lore.model.turn import Exchange
from lore.recording.requests import dialect_of
from lore.testing import everything
from pytest_plugin import agents
from pytest_plugin.agents import KEY_ID, SECRET, Prompt


@pytest.fixture
def pointed(recorded, monkeypatch):
    for name, value in {**recorded.recorder.environment(), "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


CASES = [
    (agents.anthropic, "anthropic"), (agents.openai, "openai-chat"),
    (partial(agents.openai, responses=True), "openai-responses"), (agents.gemini, "gemini"),
]  # fmt: skip
CASES = [(agent, stream, dialect) for agent, dialect in CASES for stream in (False, True)]


@pytest.mark.parametrize(("agent", "stream", "dialect"), [*CASES, (agents.bedrock, False, "bedrock")])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_each_sdk_is_answered_and_recorded(agent, stream, dialect, pointed, recorded, standin, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)  # of a gateway that checks no signature
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    agent("", [Prompt(1)], stream=stream)  # which looks at the answer
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
    written = recorded.path.read_text("utf-8")
    assert SECRET not in written
    assert not {"authorization", "x-api-key", "x-goog-api-key"} & request["headers"].keys()
    assert KEY_ID not in written


def test_stream_is_recorded_with_times_of_its_chunks(pointed, recorded):
    agents.anthropic("", [Prompt(1)], stream=True)
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
