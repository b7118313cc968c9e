"""Who serves a request, and what its path says."""

from helpers.each import each
from lore.model.providers import model_in, place_in, provider_of

GEMINI = "generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:"
BEDROCK = "bedrock-runtime.us-east-1.amazonaws.com/model/"
ARN = "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.anthropic.claude-x"


@each("endpoint, model, dialect, provider", [
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
])  # fmt: skip
def test_provider_is_found_by_host_model_or_dialect(endpoint, model, dialect, provider):
    assert provider_of(endpoint, model, dialect) == provider


@each("endpoint, model", [
    (GEMINI + "generateContent", "gemini-2.5-pro"),
    (GEMINI + "streamGenerateContent", "gemini-2.5-pro"),
    ("aiplatform.googleapis.com/v1/projects/p/publishers/anthropic/models/claude-x@1:rawPredict", "claude-x@1"),
    (BEDROCK + "anthropic.claude-x-v1%3A0/converse-stream", "anthropic.claude-x-v1:0"),
    (BEDROCK + "anthropic.claude-x-v1:0/converse", "anthropic.claude-x-v1:0"),
    (BEDROCK + ARN + "/invoke-with-response-stream", "us.anthropic.claude-x"),
    ("x.openai.azure.com/openai/deployments/gpt-y/chat/completions", "gpt-y"),
    ("api.anthropic.com/v1/messages", None),
    ("api.openai.com/v1/models", None),
    ("", None),
])  # fmt: skip
def test_model_is_read_from_the_path(endpoint, model):
    assert model_in(endpoint) == model


def test_streamed_and_whole_answers_share_a_place():
    assert place_in(GEMINI + "generateContent") == place_in(GEMINI + "streamGenerateContent")
    assert place_in(BEDROCK + "a/converse") == place_in(BEDROCK + "b%3A0/converse-stream")
    assert place_in(BEDROCK + "a/converse") != place_in(BEDROCK + "a/invoke")
    assert place_in("api.anthropic.com/v1/messages") == "api.anthropic.com/v1/messages"
