"""Who serves a request."""

from __future__ import annotations

import pytest

from lore.model.providers import provider_of


@pytest.mark.parametrize(
    ("endpoint", "model", "dialect", "provider"),
    [
        ("api.anthropic.com/v1/messages", "claude-x", "anthropic", "anthropic"),
        ("us-east5-aiplatform.googleapis.com/v1", "claude-x", "anthropic", "vertex"),
        ("bedrock-runtime.us-east-1.amazonaws.com", None, "bedrock", "bedrock"),
        ("api.deepseek.com/anthropic/v1/messages", "deepseek-chat", "anthropic", "deepseek"),
        ("api.moonshot.ai/v1", "kimi-k3", "openai-chat", "moonshot"),
        ("localhost:8000/v1/messages", "claude-x", "anthropic", ""),
        ("notapi.anthropic.com.evil.example/v1", "claude-x", "anthropic", ""),
        ("", "claude-x", "anthropic", "anthropic"),
        ("", None, "bedrock", "bedrock"),
        ("", None, "anthropic", ""),
    ],
)
def test_the_host_says_who_serves_then_the_model_then_the_shape(endpoint, model, dialect, provider):
    assert provider_of(endpoint, model, dialect) == provider
