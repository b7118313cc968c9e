"""Requests that lore writes have cache breakpoints only where the API accepts them for the model."""

import json

import pytest

import lore
from lore.commands.assemble import assemble
from lore.recording.corpus import Name
from lore.recording.opening import Options

TOOL = {
    "anthropic": {"name": "read", "input_schema": {}},
    "bedrock": {"toolSpec": {"name": "read", "inputSchema": {"json": {}}}},
    "openai-chat": {"type": "function", "function": {"name": "read", "parameters": {}}},
}
EVERYWHERE = ["tools", "system", "system", "messages"]
WITHOUT_TOOLS = ["system", "system", "messages"]


def session_with(dialect, model, **rules):
    session = lore.Session(
        model, dialect=dialect, system="Be brief.", tools=[TOOL[dialect]], rules=lore.Rules(**rules),
    )  # fmt: skip
    session.apply(lore.events.knowledge("add", "release-1", title="Release", content="1.0 is out."))
    session.user("What is new?")
    return session


@pytest.mark.parametrize(("dialect", "model", "sections"), [
    ("anthropic", "claude-opus-5", EVERYWHERE),
    ("anthropic", "deepseek-chat", []),
    ("bedrock", "us.anthropic.claude-opus-5-v1:0", EVERYWHERE),
    ("bedrock", "amazon.nova-pro-v1:0", WITHOUT_TOOLS),
    ("bedrock", "anthropic.claude-3-haiku-20240307-v1:0", []),
    ("bedrock", "meta.llama3-70b-instruct-v1:0", []),
    ("openai-chat", "gpt-6-sol", WITHOUT_TOOLS),
])  # fmt: skip
def test_breakpoints_are_in_accepted_sections(dialect, model, sections):
    prompt, _ = session_with(dialect, model).begin_turn()
    assert [prompt.segment_at(at).section for at in prompt.breakpoints] == sections


@pytest.mark.parametrize(
    ("model", "lifetimes"),
    [("anthropic.claude-3-7-sonnet-20250219-v1:0", {None}), ("us.anthropic.claude-opus-5-v1:0", {"1h"})],
)
def test_hour_lifetime_is_requested_where_accepted(model, lifetimes):
    prompt, _ = session_with("bedrock", model, head_ttl="1h", ttl="1h").begin_turn()
    assert {json.loads(value).get("ttl") for value in prompt.breakpoint_values} == lifetimes


@pytest.mark.parametrize("has_turn", [True, False])
def test_assembled_nova_request_has_no_point_in_tools(tmp_path, has_turn):
    session = session_with("bedrock", "amazon.nova-pro-v1:0")
    if has_turn:
        session.begin_turn()
    log = tmp_path / "agent.jsonl"
    log.write_bytes(session.log())
    body = json.loads(assemble(Name(str(log)), Options()).body)
    assert "cachePoint" not in json.dumps(body["toolConfig"])
    assert "cachePoint" in json.dumps(body["system"])
