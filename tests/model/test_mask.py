"""Masking: each family of credentials, lengths kept, JSON stays JSON, nothing innocent touched."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.model.mask import _PATTERN, mask

SECRETS = {
    "openai": "sk-proj-" + "A1b2" * 8,
    "anthropic": "sk-ant-api03-" + "x9_-" * 20,
    "openrouter": "sk-or-v1-" + "0af1" * 16,
    "github": "ghp_" + "a1B2" * 9,
    "github fine": "github_pat_" + "11AAAA_" * 8,
    "gitlab": "glpat-" + "xY12" * 5,
    "aws": "AKIA" + "ABCD2345EFGH6789",
    "aws session": "ASIA" + "ABCD2345EFGH6789",
    "google": "AIza" + "Sy_-" * 9,
    "google oauth": "ya29." + "a0Af" * 8,
    "slack": "xoxb-" + "123456789012-abcdef",
    "hugging face": "hf_" + "AbCd" * 9,
    "npm": "npm_" + "AbCd" * 9,
    "pypi": "pypi-" + "AgEI" * 12,
    "stripe": "sk_live_" + "AbCd1234" * 3,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27",
    "bearer": "Bearer " + "abc.DEF-123_456~789+/x",
    "password": "postgres://user:hunter22@db.example.org",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow" + "IBAAKCAQ" * 30 + "\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_every_family_of_credentials_is_masked(secret):
    hidden = mask(f"before {secret} after")
    assert "*" * 8 in hidden
    assert secret[-40:-30] not in hidden if "KEY" in secret else secret[-10:] not in hidden or "@" in secret
    assert len(hidden) == len(f"before {secret} after")
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_masked_json_is_json(secret):
    value = {"a": f'quoted "{secret}" and \\ more\n', "b": f"{secret}\\"}
    assert set(json.loads(mask(json.dumps(value)))) == {"a", "b"}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_credential_at_the_end_of_a_json_string_leaves_its_quote(secret):
    text = json.dumps([secret + '"', secret + "\\", secret + "\n", secret + "\x1b"])
    assert len(json.loads(mask(text))) == 4


@pytest.mark.parametrize(
    "text",
    [
        "risk-based sk-learn and task-runner-configuration-file",
        "https://example.org:8080/path@x",
        "AKIAlower",
        "the bearer of news",
        "ghp_short",
        "eyJ.eyJ",
        "-----BEGIN PUBLIC KEY-----",
    ],
)
def test_what_is_no_credential_stays(text):
    assert mask(text) == text


def test_masking_twice_is_masking_once():
    for secret in SECRETS.values():
        assert mask(mask(secret)) == mask(secret)


_KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\\nProc-Type: 4,ENCRYPTED\\nDEK-Info: AES-128-CBC,00\\n\\n"
    "c2VjcmV0\\nc2VjcmV0\\n-----END RSA PRIVATE KEY-----"
)


@pytest.mark.parametrize("spelled", [_KEY, _KEY.replace("\\n", "\n")])
def test_an_encrypted_key_is_masked_with_its_headers(spelled):
    """Only its first line was."""
    hidden = mask(f'{{"a":"{spelled}","b":1}}' if "\n" not in spelled else spelled)
    assert "c2Vj" not in hidden
    assert len(hidden) == len(spelled) + (0 if "\n" in spelled else len('{"a":"","b":1}'))


def test_masked_json_with_a_torn_key_is_json():
    text = json.dumps({"a": 'say "-----BEGIN PRIVATE KEY-----\nabc\\" and more', "b": [1]})
    assert json.loads(mask(text))["b"] == [1]


def test_a_bearer_is_masked_however_it_is_spelled():
    assert "abcdefghijklmnopqrstuvwxyz" not in mask("authorization: bearer abcdefghijklmnopqrstuvwxyz")


PARTS = [*SECRETS.values(), "://", "_live_", "sk-", "eyJ", "earer ", " ", "x", "\n", '"', "@"]


@given(st.lists(st.sampled_from(PARTS)))
def test_looking_for_signs_finds_what_the_pattern_finds_everywhere(parts):
    text = "".join(parts)
    assert mask(text) == _PATTERN.sub(lambda found: found.group()[:4] + "*" * (len(found.group()) - 4), text)


@pytest.mark.parametrize("colour", ["\x1b[31m", "\x1b[m", "\x1b[1;32m", "\x1b"])
@pytest.mark.parametrize("secret", [SECRETS["github"], SECRETS["anthropic"]])
def test_a_credential_behind_a_terminal_colour_is_masked(secret, colour):
    """The `m` that ends a colour, or the digits of an escape, passed for the beginning of the word."""
    for spelled in (colour + secret, json.dumps(colour + secret), repr(colour + secret)):
        assert secret[-10:] not in mask(spelled)
