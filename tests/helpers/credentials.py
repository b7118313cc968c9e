"""A generated sample of each kind of credential that is masked: from a fixed seed, none was ever issued.

In: nothing. Out: `SAMPLES`, kind -> (text, what of it must not be shown). The kinds are those of issue lists of leaks
and of gitleaks' rules; the lengths are those that providers issue.
"""

import base64
import random
from typing import NamedTuple

_RANDOM = random.Random(20261124)
_LOWER, _UPPER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
_ALNUM, _HEX = _LOWER + _UPPER + _DIGITS, _DIGITS + "abcdef"


def _random_word(length: int, alphabet: str = _ALNUM) -> str:
    """Make a word of an alphabet, with a digit and a letter in its first ten characters."""
    word = "".join(_RANDOM.choices(alphabet, k=length))
    return word[:3] + ("7" if "7" in alphabet else word[3]) + next(c for c in alphabet if c.isalpha()) + word[5:length]


class Sample(NamedTuple):
    """A text with a credential, and the part of it that may not be shown."""

    text: str
    secret: str


def _of(beginning: str, length: int, alphabet: str = _ALNUM, ending: str = "") -> Sample:
    word = _random_word(length, alphabet)
    return Sample(beginning + word + ending, word)


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _basic() -> Sample:
    word = _b64("user:" + _random_word(20))
    return Sample(f"Authorization: Basic {word}", word.rstrip("="))


def _block(kind: str) -> Sample:
    lines = [_random_word(64) for _ in range(4)]
    return Sample(f"-----BEGIN {kind}-----\n" + "\n".join(lines) + f"\n-----END {kind}-----", lines[1])


def _web_token(parts: int) -> Sample:
    words = [_random_word(40) for _ in range(parts - 1)]
    middle = ("eyJ" + words[0], *words[1:]) if parts == 3 else words
    return Sample("eyJhbGciOiJSU0EtT0FFUCJ9." + ".".join(middle), words[-1])


SAMPLES = {
    "openai": _of("sk-proj-", 74),
    "anthropic": _of("sk-ant-api03-", 93),
    "openrouter": _of("sk-or-v1-", 64, _HEX),
    "deepseek": _of("sk-", 32, _HEX),
    "groq": _of("gsk_", 52),
    "xai": _of("xai-", 80),
    "replicate": _of("r8_", 37),
    "perplexity": _of("pplx-", 48),
    "fireworks": _of("fw_", 24),
    "together": _of("tgp_v1_", 43),
    "nvidia": _of("nvapi-", 64),
    "hugging face": _of("hf_", 34),
    "langsmith": _of("lsv2_pt_", 32, _HEX, "_" + "0a1b2c3d4e"),
    "cohere": _of("COHERE_API_KEY=", 40),
    "mistral": _of('"mistral_api_key": "', 32, ending='"'),
    "azure openai": _of("api-key: ", 32, _HEX),
    "aws access key": _of("AKIA", 16, _UPPER + "234567"),
    "aws temporary key": _of("ASIA", 16, _UPPER + "234567"),
    "aws secret": _of("aws_secret_access_key = ", 40, _ALNUM + "/+"),
    "aws secret in JSON": _of('"SecretAccessKey": "', 40, _ALNUM + "/+", '"'),
    "aws session token": _of("aws_session_token=", 200, _ALNUM + "/+"),
    "google": _of("AIzaSy", 33),
    "google oauth": _of("ya29.a0Af", 60),
    "google client secret": _of("GOCSPX-", 28),
    "azure account key": _of("AccountName=a;AccountKey=", 86, _ALNUM + "/+", "=="),
    "key of a URL": _of("https://maps.example.com/v1/place?lang=en&key=", 32),
    "azure signed URL": _of("https://a.blob.core.windows.net/c/f?sv=2022-11-02&sp=r&sig=", 43, _ALNUM, "%3D"),
    "azure client secret": _of("abc8Q~", 34),
    "github": _of("ghp_", 36),
    "github oauth": _of("gho_", 36),
    "github app": _of("ghs_", 36),
    "github fine-grained": _of("github_pat_", 82),
    "gitlab": _of("glpat-", 20),
    "gitlab CI": _of("glcbt-64_", 20),
    "gitlab runner": _of("glrt-", 20),
    "atlassian": _of("ATATT3xFfGF0", 174, _ALNUM, "=2DB5C2F1"),
    "slack": _of("xoxb-123456789012-1234567890123-", 24),
    "slack browser": _of("xoxc-123456789012-123456789012-1234567890123-", 64, _HEX),
    "slack browser cookie": _of("xoxd-" + _random_word(30) + "%2B", 90),
    "slack app": _of("xapp-1-A0123456789-1234567890123-", 64, _HEX),
    "slack webhook": _of("https://hooks.slack.com/services/T01234567/B01234567/", 24),
    "discord": _of("MTA5", 22, ending=".GhIjKl." + _random_word(38)),
    "discord webhook": _of("https://discord.com/api/webhooks/1234567890123456789/", 68),
    "discord webhook of a version": _of("https://discordapp.com/api/v10/webhooks/1234567890123456789/", 68),
    "telegram": _of("1234567890:AA", 33),
    "twilio": _of("SK", 32, _HEX),
    "twilio auth token": _of("TWILIO_AUTH_TOKEN=", 32, _HEX),
    "sendgrid": _of("SG.", 22, ending="." + _random_word(43)),
    "stripe": _of("sk_live_", 24),
    "stripe restricted": _of("rk_test_", 24),
    "stripe webhook": _of("whsec_", 32),
    "databricks": _of("dapi", 32, _HEX),
    "digitalocean": _of("dop_v1_", 64, _HEX),
    "vault": _of("hvs.", 95),
    "shopify": _of("shpat_", 32, _HEX),
    "linear": _of("lin_api_", 40),
    "notion": _of("ntn_12345678901", 35),
    "notion, older": _of("secret_", 43),
    "age": _of("AGE-SECRET-KEY-1", 58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    "grafana": _of("glsa_", 32, _ALNUM, "_0a1b2c3d"),
    "grafana cloud": _of("glc_", 80),
    "docker": _of("dckr_pat_", 27),
    "npm": _of("npm_", 36),
    "pypi": _of("pypi-AgEIcHlwaS5vcmc", 90),
    "newrelic": _of("NRAK-", 27, _UPPER + _DIGITS),
    "postman": _of("PMAK-", 24, _HEX, "-" + _random_word(34, _HEX)),
    "terraform": _of("aB3dE5gH7jK9mN.atlasv1.", 66),
    "heroku": _of("HRKU-AA", 58),
    "rubygems": _of("rubygems_", 48, _HEX),
    "planetscale": _of("pscale_tkn_", 43),
    "private key": _block("RSA PRIVATE KEY"),
    "PGP block": _block("PGP PRIVATE KEY BLOCK"),
    "web token": _web_token(3),
    "web token of five parts": _web_token(5),
    "bearer": _of("Authorization: Bearer ", 40),
    "bearer in capitals": _of("AUTHORIZATION: BEARER ", 40),
    "basic": _basic(),
    "x-api-key": _of("x-api-key: ", 40),
    "cookie": _of("Cookie: theme=dark; session=", 40),
    "set-cookie": _of("Set-Cookie: sid=", 40, ending="; Path=/; HttpOnly"),
    "postgres URL": _of("postgres://user:", 16, ending="@db.example.org/app"),
    "redis URL": _of("redis://:", 8, ending="/" + _random_word(8) + "@cache.example.org:6379/0"),
    "amqp URL": _of("amqps://user:", 8, ending="/" + _random_word(8) + "@mq.example.org/v"),
    "token in URL": _of("https://", 32, _HEX, "@o1.ingest.example.io/2"),
    "mailgun": _of("key-", 32, _HEX),
    "token of an option": _of("tool --token ", 40),
    "password of an option": _of("tool --password ", 14),
    "user and password of curl": _of("curl -u admin:", 16),
    "password in XML": _of("<password>", 14, ending="</password>"),
    "password": _of("password=", 12),
    "password in JSON": _of('{"db_password": "', 12, _ALNUM + "!#", '"}'),
    "client secret": _of("client_secret=", 40),
    "word as password": _of('password="', 14, _LOWER, '"'),
    "word as password in JSON": _of('{"DB_PASSWORD": "', 14, _LOWER + "-", '"}'),
    "word as password of a shell": _of("export PGPASSWORD=", 14, _LOWER),
    "value in YAML": _of("env:\n  - name: API_TOKEN\n    value: ", 40),
    "default of an environment": _of('os.environ.get("DB_PASSWORD", "', 14, ending='")'),
    "default of a shell": _of("${DB_PASSWORD:-", 14, ending="}"),
    "letters as token": _of("auth_token=", 32, _LOWER + _UPPER),
    "parts as token": Sample("SESSION_TOKEN=aB-cD_e3F-gHi_J4k-Lm_Nop-q5R_sTu", "aB-cD_e3F-gHi_J4k-Lm_Nop-q5R_sTu"),
    "attribute of XML": _of('<add key="ClientSecret" value="', 32, ending='"/>'),
    "password in a table": _of("| DB_PASSWORD | ", 14, ending=" |"),
    "password of a form": _of("user=ann&password=", 14, _LOWER),
    "password of mysql": _of("mysql -u root -p", 14, ending=" db"),
    "key in a sentence": _of("the api key is `", 32, ending="`"),
    "cloudflare": _of("cfut_", 48),
    "bedrock": _of("ABSK", 128),
    "netrc": _of("machine api.example.org\n  login ann\n  password ", 14, _LOWER),
}
