"""Rows of credentials: each kind with a made body, and names in the spellings of programs, settings and texts.

Samples are made of fixed texts or a fixed seed; none was ever issued. `innocent` values are of real programs.
"""

from __future__ import annotations

import base64
import json
import random

import pytest

from lore.model.credentials import KINDS
from lore.model.mask import INVISIBLE, mask

_RANDOM = random.Random(20261126)
_LETTERS = {
    "lower": "abcdefghijklmnopqrstuvwxyz0123456789",
    "upper": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "hex": "0123456789abcdef",
}
_ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _made(length: int, alphabet: str = _ALNUM) -> str:
    return "".join(_RANDOM.choices(alphabet, k=length - 1)) + "7"


def _shown(secret: str, text: str) -> bool:
    """Return whether a text holds six successive characters of a secret, except its first four."""
    hidden = secret[4:] if len(secret) >= 16 else secret
    return any(hidden[at : at + 6] in text for at in range(len(hidden) - 5))


@pytest.mark.parametrize(("kind", "beginning"), [(kind, begin) for kind in KINDS for begin in kind.beginnings])
def test_each_beginning_with_the_least_length_is_masked(kind, beginning):
    body = _made(kind.least, _LETTERS.get(kind.alphabet, _ALNUM))
    assert mask(f"use {beginning}{body}.")[8:].rstrip(".").endswith("*" * (len(body) + len(beginning) - 4))


_UUID = "3f2b8c1e-9a4d-4e6f-8b7a-0c1d2e3f4a5b"
FORMS = {  # forms of more than a beginning, with issued lengths
    "airtable": f"pat{_made(14)}.{_made(64, _LETTERS['hex'])}",
    "sentry, in two parts": f"sntrys_eyJpYXQiOjE2ODczMzY1NDMuNjk4NTksIm9yZyI6ImEifQ==_{_made(43)}",
    "1password": "A3-7XKQ2M-R3NTQ8ZB4WP-5HVGT-2XKQJ-9MZPR",
    "voyage": f"pa-A7{_made(41)}",
    "brave": f"BSA7{_made(27)}",
    "crates.io": f"cio7{_made(31)}",
    "hubspot": f"pat-na1-{_UUID}",
    "launchdarkly": f"sdk-{_UUID}",
    "plaid": f"access-production-{_UUID}",
    "mailchimp": f"{_made(32, _LETTERS['hex'])}-us12",
    "braintree": f"access_token$production${_made(16, _LETTERS['lower'])}${_made(32, _LETTERS['hex'])}",
    "twitch": f"oauth:{_made(30, _LETTERS['lower'])}",
    "maxmind": f"{_made(6)}_{_made(29)}_mmk",
    "azure openai": f"{_made(52)}JQQJ99BAACYeBjFXJ3w3AAABACOG{_made(4)}",
    "slack, of a trigger": f"https://hooks.slack.com/triggers/T01234567/{_made(32)}",
    "ssh2": "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n" + _made(64) + "\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
    "putty": f"Private-Lines: 2\n{_made(64)}\n{_made(64)}\n",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_each_form_is_masked(text):
    secret = text[-34:].strip("-\n") if "BEGIN" not in text else text[50:90]
    for spelled in (f"a {text} b", f"密钥{text}在", json.dumps(f"\n{text}\n"), json.dumps(json.dumps(f"\n{text}\n"))):
        assert not _shown(secret, mask(spelled))


SPELLED = {
    "json": '{{"{}": "{}"}}',
    "settings": "{}={}\n",
    "shell": "export {}='{}'; run",
    "yaml": "a:\n  {}: {}\n",
    "toml": '{} = "{}"\n',
    "keyword": 'connect({}="{}")',
    "rust": 'let {}: &str = "{}";',
    "typescript": 'const {}: string = "{}";',
    "default of Python": 'os.environ.get("{}", "{}")',
    "default of Django": 'config("{}", default="{}")',
    "default of a shell": "${{{}:-{}}}",
    "default of JavaScript": "process.env.{} || '{}'",
    "other default of JavaScript": 'process.env.{} ?? "{}"',
    "backticks": "const {} = `{}`;",
    "kubernetes": 'env:\n  - name: {}\n    value: "{}"\n',
    "xml": "<{0}>{1}</{0}>",
    "xml attribute": '<add key="{}" value="{}"/>',
    "markdown": "**{}**: `{}`",
    "markdown, bold colon": "**{}:** {}",
    "table": "| {} | {} |",
    "full-width colon": "{}：{}",
    "query": "https://a.example/b?c=1&{}={}&d=2",
}
VALUES = {
    "DB_PASSWORD": "kd83hf02m4xw",
    "SMTP_PASS": "kd83hf02m4xw",
    "client_secret": "Xq7-aB_3kZ9mPw2LtR8vNc5YhJ6dFg4S",
    "PARTED_TOKEN": "aB-cD_e3F-gHi_J4k-Lm_Nop-q5R_sTu",
    "LETTERS_TOKEN": "qWxZvKpRtYbNmLkJhGfDsQzX",
    "stripe_key": "kJ8s7dH3kLq9XzP2mV5bN4cT",
    "DATADOG_APP_KEY": "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
}


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
@pytest.mark.parametrize(("name", "value"), VALUES.items(), ids=VALUES)
def test_value_after_a_name_is_masked(name, value, spelled):
    text = spelled.format(name, value)
    if "|" in spelled[:2] and name == "PARTED_TOKEN":
        text = f"| {name} | `aB3kZ9mPw2LtR8vNc5Yh` |"  # in a table a value of several parts may be a name
    for whole in (text, json.dumps({"said": text}), json.dumps(json.dumps({"said": text}))):
        hidden = mask(whole)
        assert not _shown(value, hidden)
        assert len(hidden) == len(whole)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("https://a.example/b?user=ann&password=sunflower", "sunflower"),
        ("password=sunflower&user=ann", "sunflower"),
        ("Server=h;User Id=sa;Password=sunflower;Encrypt=yes", "sunflower"),
        ("db_password=sunflower\n", "sunflower"),
        ("  password: sun-flower\n", "sun-flower"),
        ("password = sun-flower-field", "sun-flower-field"),
        ("tool --password sunflower --user ann", "sunflower"),
        ("<password>sunflower</password>", "sunflower"),
        ("password=p@ss,w0rd1\n", "p@ss,w0rd1"),
        ('PASSWORD="$ecur3P@ss"', "$ecur3P@ss"),
        ("password: qxvkzwpj\n", "qxvkzwpj"),
        ("export PGPASSWORD=qxvkzwpj.txt", "qxvkzwpj"),
        ("mysql -u root -pkd83hf02 db", "kd83hf02"),
        ("sshpass -p 'kd83hf02' ssh a", "kd83hf02"),
        ("docker login -u ann -p kd83hf02 r.example", "kd83hf02"),
        ("openssl rsa -passin pass:kd83hf02", "kd83hf02"),
        ("curl --user ann:kd83hf02 a", "kd83hf02"),
        ("CREATE USER a IDENTIFIED BY 'sunflower'", "sunflower"),
        ('"pass": "kd83hf02"', "kd83hf02"),
        ("smtp_pass = 'sunflower'", "sunflower"),
        ("set `DB_PASSWORD` to `kd83hf02`", "kd83hf02"),
        ("SECRET_KEY = 'k#8&(s7d)H3=k%Lq9^Xz@P2'", "k#8&(s7d)H3=k%Lq9^Xz@P2"),
        ("the api key is kJ8s7dH3kLq9XzP2mV5bN4cT", "kJ8s7dH3kLq9XzP2mV5bN4cT"),
        ("tool --api-key kJ8s7dH3kLq9XzP2mV5bN4cT", "kJ8s7dH3kLq9XzP2mV5bN4cT"),
        ("PRIVATE_KEY=0x" + "0a1b2c3d" * 8, "0a1b2c3d" * 8),
        ("Authorization: ApiKey kJ8s7dH3kLq9XzP2mV5b", "kJ8s7dH3kLq9XzP2mV5b"),
        ("SNYK_TOKEN=" + _UUID, _UUID),
        ("//registry.example/:_authToken=" + _UUID, _UUID),
        ("_auth=" + base64.b64encode(b"ann:kd83hf02").decode(), "ZDgzaGYwMg"),
        ("mnemonic: " + "ribbon velvet anchor " * 4, "velvet anchor ribbon velvet"),
    ],
)
def test_password_in_options_and_commands_is_masked(text, secret):
    assert not _shown(secret, mask(text))
    assert not _shown(secret, json.loads(mask(json.dumps({"a": text})))["a"])


@pytest.mark.parametrize(
    "text",
    [
        "password: string\npassword: SecretStr\npassword: Incomplete\npassword: required\n",
        "connect(\n    password=password\n)\npasswd = base64.b64decode(x)\npassword = self.backend2.get_data\n",
        "two-pass approach: Quick-pass budget: **Always-pass tests**, a high-pass filter",
        '{"pass": "success", "first_pass": "analysis", "render-pass": "shadows", "bypass": "everything"}',
        "--password-stdin public.ecr.aws/ --password-store=gnome-libsecret, use --password options for it",
        "X25519PrivateKey | X448PrivateKey, private_key: x25519.X25519PrivateKey, private_key = Ed25519Key.of(x)",
        'scheme://<username>:<password>@host, flags.PWD = *envFlags.PWD, TOKEN = "[a-zA-Z_][a-zA-Z0-9_-]*"',
        '"token_uri": "https://oauth2.example.com/v1/token", "encryptionKey": "arn:aws:kms:us-west-2:1:key/a1b2c3d4"',
        "SECRET_FILE=/run/secrets/db2_password1, TOKEN_ENDPOINT = '/v1/oauth2/token', secret:MyTestSecret-a1b2c3",
        "ClientToken: " + _UUID + ", --lock-token " + _UUID,
        "sha256 of the key: " + "0a1b2c3d" * 8 + ", token gpt-4o-mini-2024-07-18",
    ],
)
def test_names_paths_types_and_digests_stay(text):
    assert mask(text) == text


_SEEN_AS = [
    "\u200b",
    "\u200d",
    "\u2060",
    "\ufeff",
    "\xad",
    "\u202e",
    "\u061c",
    "\u180e",
    "\u115f",
    "\ufe0f",
    "\U000e0041",
]


@pytest.mark.parametrize("unseen", _SEEN_AS, ids=ascii)
def test_credential_with_invisible_characters_is_masked(unseen):
    """A zero-width space inside a key left both halves unmasked."""
    token = "sk-ant-api03-" + _made(60)
    for at in (2, 5, 30):
        text = f"{token[:at]}{unseen}{token[at:]}"
        for spelled in (text, json.dumps(text), json.dumps([text], ensure_ascii=False), json.dumps(json.dumps(text))):
            hidden = mask(f"a {spelled} b")
            assert len(hidden) == len(spelled) + 4
            for form in (unseen, json.dumps(unseen)[1:-1], json.dumps(json.dumps(unseen))[2:-2]):
                hidden = hidden.replace(form, "")
            assert not _shown(token, hidden)


def test_emoji_and_joined_letters_stay():
    text = "❤️ and 👩‍👩‍👧 and می‌خواهم, soft\xadhyphen, \ufeffbegin"
    assert mask(text) == text
    assert mask(json.dumps(text)) == json.dumps(text)
    assert "\u200b" not in INVISIBLE  # the ranges are spelled, for a character class
