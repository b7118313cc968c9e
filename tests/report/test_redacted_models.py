"""Which names of models `--redact` leaves: those of the rules and their like, none that a user made up."""

from __future__ import annotations

import re
from importlib import resources

from helpers.each import each
from lore.report.redacted import digest, redacted_model

_NAMES = re.compile(r'"((?:claude|gpt|o\d|gemini|deepseek|grok|kimi|qwen)-[\w.-]+)"')
RULED = sorted({
    name for file in (resources.files("lore.cache") / "data").iterdir() if file.name.endswith(".toml")
    for name in _NAMES.findall(file.read_text(encoding="utf-8"))
} - {"claude-code"})  # fmt: skip


def test_models_of_packaged_rules_are_shown():
    assert len(RULED) > 40
    assert {name: redacted_model(name) for name in RULED} == dict(zip(RULED, RULED, strict=True))


@each(
    [
        "us.anthropic.claude-sonnet-4-6-v1:0",
        "claude-sonnet-4-6@20260217",
        "anthropic/claude-opus-5",
        "claude-opus-5[1m]",
        "gpt-4o-2024-08-06",
        "qwen3-coder-30b-a3b",
        "meta-llama/llama-3.3-70b-instruct",
        "sonnet",
    ]
)
def test_public_model_name_is_shown(name):
    assert redacted_model(name) == name


@each(["ft:gpt-4o:acme:merger:9aBcDeF", "claude-acme-internal", "zEiSiG-4", "m-secret", "acme/claude-opus-5",
     "gpt-5\u202e", "/home/ann/models/llama.gguf", "sk-ant-api03-canary0123456789abcdef", "gpt-" * 40])  # fmt: skip
def test_model_name_with_unknown_word_is_hidden(name):
    """`diff-prefix --redact` showed a fine-tuned model's organisation: whatever looked like a name was left."""
    assert redacted_model(name) == digest(name)
