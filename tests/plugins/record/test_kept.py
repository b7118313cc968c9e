"""Recorded parts of a call: no credential, every byte of a body."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from helpers.each import each
from lore_plugins.record.forwarding import account_digest, recorded_headers, recorded_url
from lore_plugins.record.journal import last_character_end

SECRETS = [
    (b"authorization", b"Bearer sk-SECRET"), (b"x-api-key", b"sk-ant-SECRET"), (b"x-goog-api-key", b"AIzaSECRET"),
    (b"api-key", b"SECRET"), (b"cookie", b"a=SECRET"), (b"set-cookie", b"a=SECRET"),
    (b"proxy-authorization", b"SECRET"),
    (b"x-amz-security-token", b"SECRET"), (b"cf-aig-authorization", b"SECRET"), (b"x-anything", b"SECRET"),
    (b"x-stainless-api-key", b"SECRET"), (b"x-ratelimit-token", b"SECRET"), (b"helicone-auth", b"SECRET"),
    (b"x-goog-iam-authorization-token", b"SECRET"), (b"x-amzn-bedrock-secret", b"SECRET"),
    (b"chatgpt-account-id", b"SECRET"),
]  # fmt: skip


def test_unlisted_header_is_not_recorded():
    for kept in (recorded_headers(SECRETS, request=True), recorded_headers(SECRETS, request=False)):
        assert "SECRET" not in str(kept)


def test_listed_headers_are_recorded():
    pairs = [
        (b"Anthropic-Beta", b"a"), (b"anthropic-beta", b"b"), (b"X-Stainless-Lang", b"python"),
        (b"x-claude-code-session-id", b"s1"), (b"content-encoding", b"gzip"), (b"user-agent", b"\xff"),
    ]  # fmt: skip
    assert recorded_headers(pairs, request=True) == {
        "anthropic-beta": "a, b", "x-stainless-lang": "python", "x-claude-code-session-id": "s1",
        "content-encoding": "gzip", "user-agent": "\ufffd",
    }  # fmt: skip
    answer = [(b"Request-Id", b"req_1"), (b"anthropic-ratelimit-tokens-remaining", b"7"), (b"date", b"now")]
    assert recorded_headers(answer, request=False).keys() == {"request-id", "date"} | {
        "anthropic-ratelimit-tokens-remaining"
    }


@each("query, kept", [
    (b"", ""),
    (b"key=AIzaSECRET", "?key=REDACTED"),
    (b"alt=sse&key=AIzaSECRET&x=SECRET", "?alt=sse&key=REDACTED&x=REDACTED"),
    (b"beta=true", "?beta=true"),
    (b"KEY=SECRET&&flag", "?KEY=REDACTED&flag"),
    (b"alt=sse;key=SECRET", "?alt=REDACTED"),
    (b"%6bey=SECRET", "?%6bey=REDACTED"),
])  # fmt: skip
def test_url_is_recorded_without_its_key(query, kept):
    assert recorded_url("https://h", b"/v1beta/models/m:generateContent", query) == (
        "https://h/v1beta/models/m:generateContent" + kept
    )


def test_key_in_an_unusual_place_is_masked():
    key = "sk-ant-REALLY-SECRET-0123456789"
    assert "SECRET" not in recorded_url("https://h", f"/v1/{key}/messages".encode(), b"")
    assert "SECRET" not in recorded_url("https://h", b"/v1", f"{key}".encode())
    assert "SECRET" not in str(recorded_headers([(b"user-agent", f"agent {key}".encode())], request=True))


def test_account_is_a_digest_of_the_key():
    digest = hashlib.sha256(b"AIzaSyD-0123456789").hexdigest()[:12]
    assert account_digest([(b"x-goog-api-key", b"AIzaSyD-0123456789")], b"") == digest
    assert account_digest([], b"alt=sse&key=AIzaSyD-0123456789") == digest
    assert account_digest([(b"Authorization", b"Bearer AIzaSyD-0123456789")], b"") == digest
    assert account_digest([], b"") == ""


@given(st.text(), st.integers(1, 9))
def test_text_is_cut_between_characters(text, size):
    data, pieces = text.encode("utf-8", "surrogatepass").replace(b"\xed", b"x"), []
    data = data.decode("utf-8", "replace").encode()
    held = b""
    for at in range(0, len(data), size):
        held += data[at : at + size]
        end = last_character_end(held)
        assert len(held) - end <= 3
        pieces.append(held[:end].decode())
        held = held[end:]
    assert "".join(pieces).encode() + held == data
