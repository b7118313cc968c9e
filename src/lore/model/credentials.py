"""Kinds of credentials, as rows: how each begins, what follows and how much of it at least.

Source: facts of gitleaks' `config/gitleaks.toml` (commit 009e025a, MIT; NOTICE beside this file) and the formats that
providers publish, read 2026-11-24. A row is (kind, beginnings, alphabet of what follows, least length of it); lengths
are shorter than issued ones, since recordings hold cut pieces. Some kinds have no beginning of their own: they are
found by the name that they stand behind, or by `SHAPES`.
"""

from __future__ import annotations

from typing import NamedTuple

ALPHABETS = {
    "alnum": r"[A-Za-z0-9]*",
    "lower": r"[a-z0-9]*",
    "upper": r"[A-Z0-9]*",
    "hex": r"[A-Fa-f0-9]*",
    "word": r"[A-Za-z0-9_-]*",
    "dotted": r"[A-Za-z0-9_.=-]*",
    "base64": r"[A-Za-z0-9+/_-]*={0,2}",
    "quoted": r"[A-Za-z0-9%+/_=-]*",  # as URLs and cookies quote it
}


class Kind(NamedTuple):
    """A credential that is known by its beginning. `digit`: what follows holds one, or 16 letters in a row."""

    name: str
    beginnings: tuple[str, ...]
    alphabet: str
    least: int
    digit: bool = False


KINDS = (
    Kind("openai, anthropic, openrouter, deepseek, langfuse", ("sk-",), "word", 16, digit=True),
    Kind("elevenlabs", ("sk_",), "hex", 40),
    Kind("stripe", tuple(f"{kind}_{mode}_" for kind in ("sk", "rk", "pk") for mode in ("live", "test")), "alnum", 16),
    Kind("stripe webhook", ("whsec_",), "base64", 24),
    Kind("groq", ("gsk_",), "alnum", 30),
    Kind("xai", ("xai-",), "alnum", 40),
    Kind("replicate", ("r8_",), "alnum", 30),
    Kind("perplexity", ("pplx-",), "alnum", 30),
    Kind("fireworks", ("fw_",), "alnum", 20, digit=True),
    Kind("together", ("tgp_v1_",), "word", 30),
    Kind("cerebras", ("csk-",), "lower", 30),
    Kind("nvidia", ("nvapi-",), "word", 40),
    Kind("hugging face", ("hf_", "api_org_"), "alnum", 30),
    Kind("langsmith", ("lsv2_pt_", "lsv2_sk_", "ls__"), "word", 30),
    Kind("pinecone", ("pcsk_",), "word", 40),
    Kind("tavily", ("tvly-",), "word", 24),
    Kind("jina", ("jina_",), "word", 40),
    Kind("runpod", ("rpa_",), "alnum", 30),
    Kind("github", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), "alnum", 20),
    Kind("github, fine-grained", ("github_pat_",), "word", 20),
    Kind("gitlab", ("glpat-", "gldt-", "glft-", "glrt-", "glptt-", "gloas-", "glsoat-", "glimt-"), "dotted", 16),
    Kind("gitlab CI", ("glcbt-", "glagent-", "glffct-", "GR1348941"), "word", 16),
    Kind("bitbucket", ("ATBB",), "alnum", 28),
    Kind("atlassian", ("ATATT3", "ATCTT3"), "dotted", 40),
    Kind("aws access key", ("AKIA", "ASIA", "ABIA", "ACCA"), "upper", 16),
    Kind("aws session token", ("FwoGZXIvYXdz", "IQoJb3JpZ2lu"), "base64", 40),
    Kind("google", ("AIza",), "word", 30),
    Kind("google oauth", ("ya29.",), "word", 20),
    Kind("google oauth client", ("GOCSPX-",), "word", 20),
    Kind("slack", ("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xoxe.xoxp-", "xoxe.xoxb-"), "word", 10),
    Kind("slack, of a browser", ("xoxc-", "xoxd-"), "quoted", 10),
    Kind("slack app", ("xapp-",), "word", 20),
    Kind("npm", ("npm_",), "alnum", 30),
    Kind("pypi", ("pypi-",), "word", 30),
    Kind("rubygems", ("rubygems_",), "hex", 40),
    Kind("clojars", ("CLOJARS_",), "alnum", 50),
    Kind("nuget", ("oy2",), "lower", 43),
    Kind("docker", ("dckr_pat_", "dckr_oat_"), "word", 20),
    Kind("sendgrid", ("SG.",), "dotted", 60),
    Kind("sendinblue", ("xkeysib-",), "word", 60),
    Kind("twilio", ("SK",), "hex", 32),
    Kind("databricks", ("dapi",), "hex", 32),
    Kind("digitalocean", ("dop_v1_", "doo_v1_", "dor_v1_"), "hex", 40),
    Kind("vault", ("hvs.", "hvb.", "hvr."), "word", 24),
    Kind("shopify", ("shpat_", "shpca_", "shppa_", "shpss_"), "hex", 32),
    Kind("linear", ("lin_api_", "lin_oauth_"), "alnum", 30),
    Kind("notion", ("ntn_", "secret_"), "alnum", 40),
    Kind("airtable", ("pat",), "dotted", 80),
    Kind("figma", ("figd_", "figo_"), "word", 36),
    Kind("age", ("AGE-SECRET-KEY-1",), "upper", 50),
    Kind("grafana", ("glsa_", "glc_"), "base64", 32),
    Kind("grafana key", ("eyJrIjoi",), "base64", 60),
    Kind("newrelic", ("NRAK-", "NRII-", "NRJS-"), "word", 19),
    Kind("postman", ("PMAK-",), "word", 50),
    Kind("sentry", ("sntrys_", "sntryu_"), "base64", 40),
    Kind("planetscale", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), "dotted", 30),
    Kind("supabase", ("sbp_", "sb_secret_"), "word", 30),
    Kind("pulumi", ("pul-",), "hex", 40),
    Kind("fly", ("fo1_", "fm1a_", "fm1r_", "fm2_"), "base64", 40),
    Kind("heroku", ("HRKU-",), "word", 36),
    Kind("doppler", ("dp.pt.", "dp.st.", "dp.ct."), "dotted", 40),
    Kind("dynatrace", ("dt0c01.",), "dotted", 80),
    Kind("tailscale", ("tskey-",), "word", 20, digit=True),
    Kind("1password", ("ops_eyJ",), "base64", 40),
    Kind("openshift", ("sha256~",), "word", 40),
    Kind("alibaba", ("LTAI",), "alnum", 16),
    Kind("artifactory", ("AKCp", "cmVmd"), "alnum", 50),
    Kind("square", ("sq0atp-", "sq0csp-"), "word", 22),
    Kind("facebook", ("EAAM", "EAAC", "EAAA"), "alnum", 50),
    Kind("easypost", ("EZAK", "EZTK"), "alnum", 50),
    Kind("shippo", ("shippo_live_", "shippo_test_"), "hex", 40),
    Kind("duffel", ("duffel_live_", "duffel_test_"), "word", 40),
    Kind("posthog", ("phx_",), "alnum", 40),
    Kind("prefect", ("pnu_",), "alnum", 36),
    Kind("readme", ("rdme_",), "lower", 60),
    Kind("sourcegraph", ("sgp_",), "word", 40),
    Kind("adobe", ("p8e-",), "word", 32),
    Kind("infracost", ("ico-",), "alnum", 32),
    Kind("cloudflare origin", ("v1.0-",), "word", 100),
    Kind("octopus", ("API-",), "upper", 26),
)

# What has no beginning of its own: a sign, how far before it the pattern begins, the pattern. Each takes at most one
# unbounded run that the sign cannot begin anew, or is bounded: looking for them is linear in the text.
_PEM = r"-----BEGIN[A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----"
SHAPES = (
    ("-----BEGIN", 0, _PEM + r"""(?:[^"\\]|\\[^"])*?(?:-----END[A-Z0-9 ]{0,40}KEY(?:\ BLOCK)?-----|(?=\\?")|\Z)"""),
    ("eyJ", 0, r"eyJ[\w-]{10,}+(?P<no>(?!\.(?:eyJ[\w-]{10}|[\w-]*\.[\w-]{8})))?(?:\.[\w-]*){0,4}"),
    ("Q~", 4, r"[\w~.]{3}[0-9]Q~[\w~.-]{31,34}"),  # a client secret of Entra ID
    (".atlasv1.", 14, r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}"),  # Terraform
    ("1//0", 0, r"1//0[\w-]{40,}"),  # a refresh token of Google
    (":AA", 0, r"(?<=[0-9]{8}):AA[\w-]{32,}"),  # a bot's token of Telegram
    *(  # a bot's token of Discord: its number, in base64, comes first
        (sign, 0, sign + r"[\w-]{20,27}\.[\w-]{6}\.[\w-]{27,40}")
        for sign in ("MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT")
    ),
    ("key-", 0, r"(?<![_-])key-[0-9a-f]{32}(?![\w-])"),  # Mailgun
    ("/services/T", 0, r"(?<=hooks\.slack\.com)/services/T[\w+/]{20,}"),
    ("/workflows/T", 0, r"(?<=hooks\.slack\.com)/workflows/T[\w+/]{20,}"),
    # Discord
    ("/webhooks/", 0, r"(?:(?<=/api)|(?<=/api/v[0-9])|(?<=/api/v[0-9]{2}))/webhooks/[0-9]{10,20}/[\w-]{20,}"),
    ("/IncomingWebhook/", 0, r"/IncomingWebhook/[\w/-]{30,}"),  # Teams
)

# What stands behind a name.
_OPEN = r"""(?:\\*["'`])?"""
_SEP = (
    r"""\\*["'`]?\]?[ \t]{0,3}(?:(?::=|=>|[:=])[ \t]{0,3}"""
    r"""|,[ \t]{0,3}(?:\\*"value\\*"[ \t]{0,3}:[ \t]{0,3})?(?=\\*["']))""" + _OPEN  # of pairs, as HAR and tables have
)
_SCHEME = r"(?:(?:Bearer|Basic|Token|Bot)[ ]{1,3})?"
_VALUE = _SCHEME + r"""(?P<value>[^\s"'`\\,;&<>(){}\[\]|=:]{8,}={0,2})"""
_CHOSEN = r"""(?P<value>(?<=")[^"\\\s]{6,128}(?=\\*")|(?<=')[^'\\\s]{6,128}(?=')|[^\s"'`\\,;&<>(){}\[\]|=]{6,128})"""
_LITERAL = (  # a text of a program or of JSON, in quotes: it may be a word
    r"""\\*["'`]?\]?[ \t]{0,3}(?::=|=>|[:=])[ \t]{0,3}\\*(?P<quote>["'])(?P<value>[^"'\\\s]{6,128})(?=\\*(?P=quote))"""
)
_GAP = r"(?:[ \t\r\n]|\\{1,4}(?:[nrt]|u00(?:0[9AaDd]|20))){1,8}"
_KEYS = ("api", "access", "account", "auth", "deploy", "encryption", "license", "master", "secret", "service", "shared",
         "signing", "subscription")  # fmt: skip
_KEY = "(?:" + "|".join(f"(?<={word}key)|(?<={word}[-_. ]key)" for word in _KEYS) + ")"
_STORES = ("redis", "rediss", "amqp", "amqps", "postgres", "postgresql", "mysql", "mariadb", "mssql", "mongodb", "srv")
_STORE = "(?:" + "|".join(f"(?<={word})" for word in _STORES) + ")"


# A sign (lower case), and for each pattern that begins there: what its `value` must look like to be hidden.
NAMED = {
    "pass": [
        (r"pass(?:w(?:or)?d|phrase)[\w-]{0,24}" + _SEP + _CHOSEN, "chosen"),
        (r"pass(?:w(?:or)?d|phrase)" + _LITERAL, "literal"),
        (r"(?-i:PASSW(?:OR)?D|PASSPHRASE)=(?P<value>[A-Za-z][A-Za-z_-]{5,127})(?=[\\\s\"'`;&]|\Z)", "literal"),
        (r"(?<=-)pass(?:w(?:or)?d|phrase)[ ]{1,3}" + _OPEN + _CHOSEN, "chosen"),  # an option
        (r"""pass(?:w(?:or)?d|phrase)>(?P<value>[^\s<>"'\\]{6,128})(?=<)""", "chosen"),
    ],
    "machine ": [  # of netrc
        (
            r"machine[ ]{1,3}[^\s\\]{1,100}"
            + _GAP
            + r"login[ ]{1,3}[^\s\\]{1,64}"
            + _GAP
            + r"""password[ ]{1,3}(?P<value>[^\s"'\\]{3,128})""",
            "",
        ),
    ],
    "-u ": [(r"""-u[ ]{1,3}\\*["']?[\w.@-]{1,64}:(?P<value>[^\s"'\\:/]{6,128})""", "chosen")],  # of curl
    "pwd": [(r"pwd[\w-]{0,24}" + _SEP + _CHOSEN, "chosen")],
    "secret": [(r"secret[\w.-]{0,24}" + _SEP + _VALUE, "random")],
    "token": [
        (r"token(?!s|iz)[\w.-]{0,24}" + _SEP + _VALUE, "random, no id"),
        (r"(?<=-)token[ ]{1,3}" + _OPEN + _VALUE, "random, no id"),
    ],
    "key": [("key" + _KEY + r"[\w.-]{0,24}" + _SEP + _VALUE, "random")],
    "cookie": [("cookie" + _SEP + r"""(?P<value>[^"\\\r\n]{8,}+)""", "cookie")],
    "authorization": [("authorization" + _SEP + _VALUE, "random")],
    "bearer ": [(r"bearer[ ]{1,3}(?P<value>[A-Za-z0-9._~+/-]{20,}={0,2})", "")],
    "basic ": [(r"basic[ ]{1,3}(?P<value>[A-Za-z0-9+/]{8,}={0,2})", "user and password")],
    "auth": [(r"""auth\\*"[ ]?:[ ]?\\*"(?P<value>[A-Za-z0-9+/]{8,}={0,2})""", "user and password")],
    "sig": [(r"(?<=[?&;-])(?:sig|signature)=(?P<value>[\w%+/-]{20,}={0,2})", "random")],
    "://": [
        (_STORE + r"""://[^\s/:@"'\\<>]{0,100}:(?P<value>[^\s@"'\\<>]{3,1000})(?=@)""", ""),
        (r"""://[^\s/:@"'\\<>]{0,100}:(?P<value>[^\s/@"'\\<>]{3,1000})(?=@)""", ""),
        (r"://(?P<value>[\w.~%+-]{16,1000})(?=@)", "random, no id"),
    ],
}
