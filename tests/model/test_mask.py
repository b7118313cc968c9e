"""Masking: each kind of credential in each spelling; lengths and JSON stay, other text is not changed.

Samples are made of fixed texts or a fixed seed; none was ever issued. Innocent values are of real programs.
"""

import ast
import base64
import json
import random
from collections.abc import Iterator
from itertools import product
from re._constants import MAXREPEAT
from re._parser import SubPattern, parse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.credentials import SAMPLES
from helpers.each import each
from helpers.sources import trees
from lore.model import mask as masking
from lore.model.credentials import ALPHABETS, BLOCKS, KINDS, NAMED, SHAPES
from lore.model.mask import INVISIBLE, cut_masked, mask

SECRETS = {name: sample.text for name, sample in SAMPLES.items()}


def _shown(secret: str, text: str) -> bool:
    """Return whether a text holds six successive characters of a secret, except its first four."""
    hidden = secret[4:] if len(secret) >= 16 else secret
    return any(hidden[at : at + 6] in text for at in range(len(hidden) - 5))


@each(SAMPLES)
def test_every_kind_is_masked(sample):
    hidden = mask(f"before {sample.text} after")
    assert "*" * 6 in hidden
    assert not _shown(sample.secret, hidden)
    assert len(hidden) == len(f"before {sample.text} after")
    assert hidden.startswith("before ")


@each(SAMPLES)
def test_masked_json_is_json(sample):
    value = {"a": f'quoted "{sample.text}" and \\ more\n', "b": f"{sample.text}\\"}
    for spelled in (json.dumps(value), json.dumps(json.dumps(value))):
        hidden = mask(spelled)
        assert not _shown(sample.secret, hidden)
        json.loads(hidden)
        assert len(hidden) == len(spelled)


@each(SAMPLES)
def test_credential_spelled_by_escapes_is_masked(sample):
    """Credentials with `\\u0041` or `\\/` in a recording were not masked."""
    spelled = "".join(f"\\u{ord(char):04x}" if place % 2 else char for place, char in enumerate(sample.text))
    spelled = spelled.replace("/", "\\/").replace("\n", "\\n").replace('"', "\\u0022")
    hidden = mask(f'["{spelled}"]')
    assert not _shown(sample.secret, json.loads(hidden)[0])
    assert mask(spelled.replace("\\", "\\\\")) != spelled.replace("\\", "\\\\")  # escaped twice


@each(SAMPLES)
def test_credential_in_base64_is_masked(sample):
    """A path may precede it: a slash is a character of base64 as well."""
    for path, before in (("", ""), ("", "x "), ("", "xy "), ("/home/ann/", "")):
        encoded = base64.b64encode(f"{before}{sample.text}".encode()).decode()
        hidden = mask(f"see {path}{encoded} there").split()[1].removeprefix(path)
        assert not _shown(sample.secret, base64.b64decode(hidden.replace("*", "A")).decode("latin-1")), before


@each(SAMPLES)
def test_masking_leaves_the_quote_after_a_credential(sample):
    text = json.dumps([sample.text + '"', sample.text + "\\", sample.text + "\n", sample.text + "\x1b"])
    assert len(json.loads(mask(text))) == 4


@each([
    "risk-based sk-learn and task-runner-configuration-file",
    "https://example.org:8080/path@x",
    "AKIAlower",
    "the bearer of news",
    "ghp_short",
    "eyJ.eyJ",
    "-----BEGIN PUBLIC KEY-----",
    "password: str | None = None, password=self.password, password=os.environ['PGPASSWORD'], secret=secrets.token",
    '{"input_tokens": 4096, "max_tokens": 128000, "token_count": 50256, "next_page_token": "page_two_of_three"}',
    "token=3f2b8c1e-9a4d-4e6f-8b7a-0c1d2e3f4a5b sha256:" + "0a1b2c3d" * 8,
    "toolu_01A09q90qw90lq917835lq9 call_9cRt3XbTTb8aQmQnPzGz5bZ1 chatcmpl-9abcDEF0123456789 req_011CSHoEeqs5C35K2",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5",
    "class='sk-estimator-doc-link-label' sk-top-container-wrapper",
    '"PWD": "~/code/project", --password-store=basic --use-mock-keychain, cookie: chocolate with walnuts',
    'next_token = self.cloudhsmv2_backend.list_tags, "PasswordLastUsed": "2016-09-08T21:47:36Z"',
    'password: "$DB_PASSWORD", "password": "{{ password }}", password="settings.password", PASSWORD=NO_PASSWORD',
    "the machine next to it has a login page and a password field, password='FORCE_CHANGE_PASSWORD'",
    "https://git.example.org/a/b.git git+ssh://git@host/x, mail user.name@example.org",
])  # fmt: skip
def test_other_text_stays(text):
    assert mask(text) == text


def test_masked_text_is_masked_to_itself():
    for secret in [*SECRETS.values(), *map(json.dumps, SECRETS.values())]:
        assert mask(mask(secret)) == mask(secret)


_KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\\nProc-Type: 4,ENCRYPTED\\nDEK-Info: AES-128-CBC,00\\n\\n"
    "c2VjcmV0\\nc2VjcmV0\\n-----END RSA PRIVATE KEY-----"
)


@pytest.mark.parametrize("spelled", [_KEY, _KEY.replace("\\n", "\n")])
def test_encrypted_key_is_masked_whole(spelled):
    hidden = mask(f'{{"a":"{spelled}","b":1}}' if "\n" not in spelled else spelled)
    assert "c2Vj" not in hidden
    assert len(hidden) == len(spelled) + (0 if "\n" in spelled else len('{"a":"","b":1}'))


def test_json_with_a_torn_key_stays_json():
    text = json.dumps({"a": 'say "-----BEGIN PRIVATE KEY-----\nabc\\" and more', "b": [1]})
    assert json.loads(mask(text))["b"] == [1]


def test_lowercase_bearer_is_masked():
    assert "abcdefghijklmnopqrstuvwxyz" not in mask("authorization: bearer abcdefghijklmnopqrstuvwxyz")


PARTS = [*SECRETS.values(), "://", "_live_", "sk-", "eyJ", "bearer ", " ", "x", "\n", '"', "@", "\\u0041", "password="]


@given(st.lists(st.sampled_from(PARTS)))
def test_masking_keeps_length_and_json_of_any_text(parts):
    text = json.dumps("".join(parts))
    hidden = mask(text)
    assert len(hidden) == len(text)
    assert isinstance(json.loads(hidden), str)


PATTERNS = [
    *(row[2] for row in (*BLOCKS, *SHAPES)),
    *(text for rows in NAMED.values() for text, _ in rows),
    *ALPHABETS.values(),
]


@each(PATTERNS)
def test_no_pattern_has_nested_repeats(text):
    """Nested repeats take exponential time."""

    def depth(parsed: Any) -> int:
        deepest = 0
        for op, arguments in parsed:
            inner = [part for part in _flat(arguments) if isinstance(part, SubPattern)]
            below = max(map(depth, inner), default=0)
            repeats = "REPEAT" in str(op) and arguments[1] == MAXREPEAT
            deepest = max(deepest, below + repeats)
        return deepest

    assert depth(parse(text)) <= 1


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _flat(part)
    else:
        yield value


LONG = 20_000
HOSTILE = {
    **{
        f"{sign!r} again and again": sign * LONG
        for sign in ("eyJ", "eyJ-", "://a:", "password=", "token-", "cookie:", "sk-", "\\")
    },
    "names in a value": "token=" + "token" * LONG,
    "a value without an end": 'password="' + "a1" * LONG,
    "runs without a dot": "eyJ" + "a" * LONG + " eyJ." * LONG,
    "keys without an end": "-----BEGIN PRIVATE KEY-----\n" * (LONG // 10),
    "parts of base64": ("QUtJQUFB" * 4 + "/") * (LONG // 10),
    "base64 of base64": base64.b64encode(b"QUtJQQ" * LONG).decode(),
}


class _Counting:
    """A pattern that counts the characters of its matches."""

    gone = 0

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def match(self, text: str, at: int, *end: int) -> Any:
        found = self._wrapped.match(text, at, *end)
        _Counting.gone += 1 if found is None else found.end() - at
        return found


@pytest.fixture
def work(monkeypatch):
    """Count the characters that patterns of kinds and names match."""
    for name in ("_BLOCKS", "_SHAPES"):
        counted = [(marker, offset, _Counting(shape)) for marker, offset, shape in getattr(masking, name)]
        monkeypatch.setattr(masking, name, counted)
    named = [(marker, [(_Counting(form), check) for form, check in rows]) for marker, rows in masking._NAMED]
    monkeypatch.setattr(masking, "_NAMED", named)
    monkeypatch.setattr(masking, "_BODIES", {name: _Counting(body) for name, body in masking._BODIES.items()})
    _Counting.gone = 0
    return _Counting


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_searched_in_linear_time(text, work):
    """A run that was tried is not tried again from its middle."""
    assert len(mask(text)) == len(text)
    assert work.gone <= 5 * len(text)


def test_ordinary_text_tries_few_patterns(work):
    """Each of a hundred kinds was searched for in the whole text, also inside words."""
    text = json.dumps(
        {
            "path": "/home/ann/src/patterns/tests/test_task-risk_SKIP.py",
            "digest": "0a1b2c3d" * 8,
            "said": "Do it so. " * 9,
        }
    )
    assert mask(text * 500) == text * 500
    assert work.gone <= len(text * 500) // 20


@pytest.mark.parametrize("colour", ["\x1b[31m", "\x1b[m", "\x1b[1;32m", "\x1b"])
@each([SECRETS["github"], SECRETS["anthropic"]])
def test_credential_after_a_terminal_colour_is_masked(secret, colour):
    """The `m` that ends a colour, or the digits of an escape, were read as part of the word."""
    for spelled in (colour + secret, json.dumps(colour + secret), repr(colour + secret)):
        assert secret[-10:] not in mask(spelled)


# `sk-` needs a digit or a long run of letters, so that names stay.
def test_key_of_letters_is_masked_unlike_name():
    assert mask("sk-abcdefghijklmnopqrstuvwxyz") == "sk-a" + "*" * 25
    assert mask("sk-fading-circle-container") == "sk-fading-circle-container"


@each(SAMPLES)
def test_credential_at_start_of_line_is_masked(sample):
    """`\\nkey-…` was not masked: the `n` of the escape was read as a letter before it."""
    for space in "\n\t\r\x1f\xa0":
        for spelled in (json.dumps(space + sample.text), json.dumps(json.dumps(space + sample.text))):
            assert not _shown(sample.secret, mask(spelled))


@each(SAMPLES)
def test_credential_is_masked_before_it_is_cut(sample):
    """A credential that is cut first has no known form."""
    for before in range(60):
        assert not _shown(sample.secret, mask(cut_masked("x" * before + " " + sample.text + " and more", 60)))


# Modules that cut text in messages without masking it, with the reason.
CUT_AS_IT_IS = {
    "compaction/commands.py": "a time that lore writes",
    "compaction/executor.py": "a digest",
    "files.py": "a name of a file that lore makes",
    "formats/unrecognised.py": "a list",
    "cache/rule_file.py": "a hint that names known rules alone",
    "judge/requests/lint.py": "masked a line before",
    "judge/requests/request_laws.py": "a part of masked text",
    "prefix/blocks.py": "looked through, not shown",
    "prefix/fields.py": "masked a line before",
    "prompt/breakpoints.py": "a digest",
    "prompt/dialects/template.py": "what a developer typed as a time",
    "recording/titles.py": "masked, then cut to less",
    "report/forms/terminal.py": "a list of turn numbers",
    "store/jsonl_log.py": "a name of a file that lore makes",
}


def test_messages_mask_before_they_cut():
    """Messages cut text with `mask(text)[:60]` or `cut_masked`."""
    cut = {
        name: [ast.unparse(one) for one in _cuts(tree) if not _is_call(one.value, "mask", "visible")]
        for name, tree in trees().items() if name not in CUT_AS_IT_IS
    }  # fmt: skip
    assert {name: some for name, some in cut.items() if some} == {}


def _cuts(tree: ast.AST) -> Iterator[ast.Subscript]:
    """Yield cuts in messages: `f"{name[:60]!r}"`, `printable(name[:60])`."""
    for node in ast.walk(tree):
        inside = ast.walk(node) if isinstance(node, ast.JoinedStr) or _is_call(node, "printable", "visible") else ()
        for part in inside:
            match part:
                case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="hexdigest"))):
                    pass
                case ast.Subscript(slice=ast.Slice(lower=None, upper=ast.Constant(value=int(most)))) if most >= 16:
                    yield part
                case ast.Subscript(slice=ast.Slice(lower=None, upper=ast.Name(id=name))) if name.isupper():
                    yield part


def _is_call(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


_RANDOM = random.Random(20261126)
_LETTERS = {
    "lower": "abcdefghijklmnopqrstuvwxyz0123456789",
    "upper": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "hex": "0123456789abcdef",
}
_ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _made(length: int, alphabet: str = _ALNUM) -> str:
    return "".join(_RANDOM.choices(alphabet, k=length - 1)) + "7"


@each([(kind, begin) for kind in KINDS for begin in kind.beginnings])
def test_each_beginning_with_the_least_length_is_masked(case):
    kind, beginning = case
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


@each([*FORMS.values()])
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


@each(product(VALUES, SPELLED.values()))
def test_value_after_a_name_is_masked(case):
    name, spelled = case
    value = VALUES[name]
    text = spelled.format(name, value)
    if "|" in spelled[:2] and name == "PARTED_TOKEN":
        text = f"| {name} | `aB3kZ9mPw2LtR8vNc5Yh` |"  # in a table a value of several parts may be a name
    for whole in (text, json.dumps({"said": text}), json.dumps(json.dumps({"said": text}))):
        hidden = mask(whole)
        assert not _shown(value, hidden)
        assert len(hidden) == len(whole)


@each("text, secret", [
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
])  # fmt: skip
def test_password_in_options_and_commands_is_masked(text, secret):
    assert not _shown(secret, mask(text))
    assert not _shown(secret, json.loads(mask(json.dumps({"a": text})))["a"])


@each([
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
])  # fmt: skip
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


@each(_SEEN_AS)
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
