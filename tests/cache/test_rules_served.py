"""Provider and platform of a request, and normal names of models."""

from __future__ import annotations

import pytest

from lore.cache.served import LONGEST, normal_name, served


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("claude-opus-4-8", "claude-opus-4-8"),
        ("anthropic.claude-opus-4-8-v1:0", "claude-opus-4-8"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-4-7-v1", "claude-opus-4-7"),
        ("claude-opus-4-8@20260401", "claude-opus-4-8"),
        ("claude-3-5-sonnet-v2@20241022", "claude-sonnet-3-5"),
        ("litellm_proxy/claude-3-5-sonnet-20241022", "claude-sonnet-3-5"),
        ("anthropic/claude-3.5-haiku", "claude-haiku-3-5"),
        ("claude-opus-5[1m]", "claude-opus-5"),
        ("claude-opus-4-6-thinking", "claude-opus-4-6"),
        ("claude-sonnet-4-20250514-thinking", "claude-sonnet-4"),
        ("openrouter/anthropic/claude-sonnet-4.5:beta", "claude-sonnet-4-5"),
        ("anthropic:claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("anthropic--claude-4.5-sonnet", "claude-sonnet-4-5"),
        ("databricks-claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("Claude-Opus-5 ", "claude-opus-5"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("openai/gpt-5.6-sol", "gpt-5.6-sol"),
        ("deepseek-v4-flash", "deepseek-v4-flash"),  # its version is no platform's
        ("qwen.qwen3-coder", "qwen3-coder"),
        ("deepseek/deepseek-v4-pro:free", "deepseek-v4-pro:free"),  # another price: not the same name
        ("", ""),
        (None, ""),
        ("x" * (LONGEST + 1), ""),
    ],
)
def test_model_names_are_normalised(spelled, name):
    assert normal_name(spelled) == name
    assert normal_name(name) == name


@pytest.mark.parametrize(
    ("endpoint", "model", "dialect", "found"),
    [
        ("api.anthropic.com/v1/messages", "claude-opus-5", "anthropic", ("anthropic", "")),
        ("", "us.anthropic.claude-opus-5-v1:0", "bedrock", ("anthropic", "bedrock")),
        (
            "bedrock-runtime.us-east-1.amazonaws.com",
            "anthropic.claude-opus-5-v1:0",
            "bedrock",
            ("anthropic", "bedrock"),
        ),
        ("us-east5-aiplatform.googleapis.com/v1", "claude-opus-5@default", "anthropic", ("anthropic", "vertex")),
        ("aiplatform.googleapis.com/v1", "gemini-3.1-pro", "gemini", ("gemini", "vertex")),
        ("x.openai.azure.com/openai/responses", "my-deployment", "openai-responses", ("openai", "azure")),
        ("openrouter.ai/api/v1", "moonshotai/kimi-k3", "openai-chat", ("moonshot", "openrouter")),
        ("", "litellm_proxy/claude-3-5-sonnet-20241022", "openai-chat", ("anthropic", "")),
        ("localhost:8000/v1", "claude-opus-5", "anthropic", ("", "")),
        ("", None, "anthropic", ("", "")),
    ],
)
def test_maker_is_provider_and_cloud_is_platform(endpoint, model, dialect, found):
    assert served(endpoint, model, dialect) == found


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "lmcache"])
@pytest.mark.parametrize("endpoint", ["/v1/chat/completions", "gpu.example.com/v1/messages", "api.openai.com/v1/x"])
def test_answering_engine_serves_any_model(engine, endpoint):
    assert served(endpoint, "gpt-4o", "openai-chat", engine) == (engine, "")
