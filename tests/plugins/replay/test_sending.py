"""Bodies as they are sent, salts, keys, and the question before sending."""

import json
from pathlib import Path

import pytest

from helpers.each import each
from lore.commands.main import main
from lore.errors import LoreError
from lore_plugins.replay.sending import Sending, prepare_body

STABLE = Path(__file__).resolve().parents[3] / "fixtures" / "recordings" / "stable.jsonl"
TOOL = {"name": "a", "description": "does a"}
BODIES = {
    "anthropic": {"model": "m", "system": "You are.", "tools": [TOOL], "messages": [], "max_tokens": 9},
    "openai-chat": {
        "model": "m", "tools": [{"type": "function", "function": TOOL}],
        "messages": [{"role": "system", "content": "You are."}],
    },
    "openai-responses": {"model": "m", "instructions": "You are.", "tools": [{"type": "function", **TOOL}]},
    "gemini": {"systemInstruction": {"parts": [{"text": "You are."}]}, "tools": [{"functionDeclarations": [TOOL]}]},
    "bedrock": {"system": [{"text": "You are."}], "toolConfig": {"tools": [{"toolSpec": TOOL}]}, "messages": []},
}  # fmt: skip


@pytest.mark.parametrize("dialect", BODIES)
def test_salt_precedes_system_prompt_and_tools(dialect):
    body = json.dumps(BODIES[dialect]).encode()
    salted, other = (
        json.loads(prepare_body(body, Sending(dialect, salt=salt), model="m").body) for salt in ("one", "two")
    )
    plain = json.loads(prepare_body(body, Sending(dialect), model="m").body)

    assert json.dumps(salted).count("[replay one]") == 2
    assert json.dumps(salted).replace("one", "two") == json.dumps(other)
    assert "replay" not in json.dumps(plain)
    assert '"[replay one]\\ndoes a"' in json.dumps(salted)


def test_stream_and_oversized_thinking_are_left_out():
    body = b'{"model":"m","stream":true,"n":3,"thinking":{"type":"enabled","budget_tokens":2000},"temperature":0.10}'
    sent = prepare_body(body, Sending("anthropic"))

    assert sent.body == b'{"model":"m","temperature":0.10,"max_tokens":1}'
    assert sent.left_out == ("n", "thinking")
    assert b"thinking" in prepare_body(body, Sending("anthropic", max_tokens=4000)).body


@each("sending, limit", [
    (Sending("openai-chat"), b'"max_tokens":1'),
    (Sending("openai-chat", cache="openai"), b'"max_completion_tokens":1'),
    (Sending("openai-responses", cache="openai"), b'"max_output_tokens":16'),
    (Sending("openai-responses"), b'"max_output_tokens":1'),
    (Sending("gemini"), b'"generationConfig":{"maxOutputTokens":1}'),
    (Sending("bedrock"), b'"inferenceConfig":{"maxTokens":1}'),
])  # fmt: skip
def test_answer_limit_uses_each_apis_member(sending, limit):
    assert limit in prepare_body(b'{"messages":[]}', sending, model="a/b").body


def test_path_names_the_model_without_a_member():
    assert prepare_body(b"{}", Sending("gemini"), model="a/b").path == "/v1beta/models/a%2Fb:generateContent"


def test_key_is_sent_to_its_provider_only():
    pytest.importorskip("httpx")
    from lore_plugins.replay.server import key_for

    keys = {"OPENAI_API_KEY": "sk-one", "DEEPSEEK_API_KEY": "sk-two", "MINE": "sk-three"}
    assert key_for("http://127.0.0.1:1", "openai-chat", None, keys).value == ""
    assert key_for("http://gpu.example.com", "openai-chat", None, keys).value == ""  # without encryption
    assert key_for("https://api.openai.com", "anthropic", None, keys).value == "sk-one"
    assert key_for("https://api.deepseek.com", "openai-chat", None, keys).value == "sk-two"
    assert key_for("https://gpu.example.com", "openai-chat", None, keys).value == "sk-one"
    assert key_for("http://127.0.0.1:1", "openai-chat", "MINE", keys).value == "sk-three"
    for named in (None, "OTHER"):
        with pytest.raises(LoreError, match="is not set"):
            key_for("https://api.anthropic.com", "anthropic", named, keys)


def test_nothing_is_sent_elsewhere_unconfirmed(capsys, monkeypatch, tmp_path):
    pytest.importorskip("httpx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-secret-secret")
    monkeypatch.setattr("lore_plugins.replay.server.Server._send_once", lambda *_: pytest.fail("something was sent"))
    arguments = ["replay", str(STABLE), "--server", "https://api.anthropic.com"]
    assert main(arguments) == 2
    assert "--yes" in capsys.readouterr().err
    assert main([*arguments, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "4 requests, about 8,7" in said.out
    assert "$0.0" in said.out
    assert "secret" not in said.out + said.err
    assert list(tmp_path.iterdir()) == []
