"""Kinds of credentials, as rows: how each begins, what follows and how much of it at least.

Source: facts of gitleaks' `config/gitleaks.toml` (commit 009e025a, MIT; NOTICE beside this file) and the formats that
providers publish, read 2026-11-24 and 26. A row is (kind, beginnings, alphabet of what follows, least length of it);
lengths are shorter than issued ones, since recordings hold cut pieces. Some kinds have no beginning of their own: they
are found by the name that they stand behind, or by `SHAPES`.
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
    "padded": r"[A-Za-z0-9+/_=-]*",  # of several parts in base64
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
    Kind("openai session", ("sess-",), "alnum", 40),
    Kind("elevenlabs", ("sk_",), "hex", 40),
    Kind(
        "stripe",
        tuple(f"{kind}_{mode}_" for kind in ("sk", "rk", "pk", "sk_org") for mode in ("live", "test")),
        "alnum",
        16,
    ),
    Kind("stripe webhook", ("whsec_",), "base64", 24),
    Kind("groq", ("gsk_",), "alnum", 30),
    Kind("xai", ("xai-",), "alnum", 40),
    Kind("replicate", ("r8_",), "alnum", 30),
    Kind("perplexity", ("pplx-",), "alnum", 30),
    Kind("fireworks", ("fw_",), "alnum", 20, digit=True),
    Kind("bedrock", ("ABSK", "bedrock-api-key-"), "base64", 80),
    Kind("llamacloud", ("llx-",), "alnum", 40),
    Kind("firecrawl", ("fc-",), "hex", 32),
    Kind("e2b", ("e2b_",), "hex", 40),
    Kind("weights and biases", ("wandb_v1_",), "word", 40),
    Kind("modal", ("ak-", "as-"), "alnum", 22, digit=True),
    Kind("anyscale", ("esecret_",), "alnum", 24),
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
    Kind(
        "gitlab",
        ("glpat-", "gldt-", "glft-", "glrt-", "glptt-", "gloas-", "glsoat-", "glimt-", "glwt-", "glrtr-"),
        "dotted",
        16,
    ),
    Kind("gitlab CI", ("glcbt-", "glagent-", "glffct-", "GR1348941"), "word", 16),
    Kind("bitbucket", ("ATBB",), "alnum", 28),
    Kind("atlassian", ("ATATT3", "ATCTT3"), "dotted", 40),
    Kind("trello", ("ATTA",), "alnum", 60),
    Kind("aws access key", ("AKIA", "ASIA", "ABIA", "ACCA"), "upper", 16),
    Kind("aws session token", ("FwoGZXIvYXdz", "IQoJb3JpZ2lu"), "base64", 40),
    Kind("google", ("AIza",), "word", 30),
    Kind("google oauth", ("ya29.",), "word", 20),
    Kind("google oauth client", ("GOCSPX-",), "word", 20),
    Kind("google, bound to a service", ("AQ.Ab",), "word", 30),
    Kind("google sign-in", ("4/0A",), "word", 50),
    Kind("slack", ("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xoxe.xoxp-", "xoxe.xoxb-"), "word", 10),
    Kind("slack, of a browser", ("xoxc-", "xoxd-"), "quoted", 10),
    Kind("slack app", ("xapp-", "xwfp-"), "word", 20),
    Kind("npm", ("npm_",), "alnum", 30),
    Kind("pypi", ("pypi-",), "word", 30),
    Kind("rubygems", ("rubygems_",), "hex", 40),
    Kind("clojars", ("CLOJARS_",), "alnum", 50),
    Kind("nuget", ("oy2",), "lower", 43),
    Kind("docker", ("dckr_pat_", "dckr_oat_"), "word", 20),
    Kind("sendgrid", ("SG.",), "dotted", 60),
    Kind("sendinblue", ("xkeysib-", "xsmtpsib-"), "word", 60),
    Kind("mailersend", ("mlsn.",), "alnum", 60),
    Kind("discord, of an account", ("mfa.",), "word", 80),
    Kind("twilio", ("SK",), "hex", 32),
    Kind("databricks", ("dapi",), "hex", 32),
    Kind("digitalocean", ("dop_v1_", "doo_v1_", "dor_v1_"), "hex", 40),
    Kind("digitalocean spaces", ("DO00",), "upper", 16),
    Kind("vault", ("hvs.", "hvb.", "hvr."), "word", 24),
    Kind("shopify", ("shpat_", "shpca_", "shppa_", "shpss_", "shptka_"), "hex", 32),
    Kind("linear", ("lin_api_", "lin_oauth_", "lin_wh_"), "alnum", 30),
    Kind("notion", ("ntn_", "secret_"), "alnum", 40),
    Kind("airtable", ("pat",), "dotted", 78, digit=True),
    Kind("harness", ("pat.", "sat."), "dotted", 67, digit=True),
    Kind("figma", ("figd_", "figo_"), "word", 36),
    Kind("age", ("AGE-SECRET-KEY-1", "AGE-SECRET-KEY-PQ-1"), "upper", 50),
    Kind("grafana", ("glsa_", "glc_"), "base64", 32),
    Kind("grafana key", ("eyJrIjoi",), "base64", 60),
    Kind("newrelic", ("NRAK-", "NRII-", "NRJS-"), "word", 19),
    Kind("postman", ("PMAK-",), "word", 50),
    Kind("sentry", ("sntrys_", "sntryu_"), "padded", 40),
    Kind("planetscale", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), "dotted", 30),
    Kind("supabase", ("sbp_", "sb_secret_"), "word", 30),
    Kind("pulumi", ("pul-",), "hex", 40),
    Kind("fly", ("fo1_", "fm1a_", "fm1r_", "fm2_"), "base64", 40),
    Kind("heroku", ("HRKU-",), "word", 36),
    Kind("netlify", tuple(f"nf{kind}_" for kind in "pcobu"), "alnum", 36),
    Kind("vercel", tuple(f"vc{kind}_" for kind in "piark"), "alnum", 24, digit=True),
    Kind("render", ("rnd_",), "alnum", 26, digit=True),
    Kind("neon", ("napi_",), "alnum", 40),
    Kind("aiven", ("AVNS_",), "word", 16, digit=True),
    Kind("cloudflare", ("cfk_", "cfut_", "cfat_"), "alnum", 40),
    Kind("backblaze", tuple(f"K00{number}" for number in range(1, 6)), "base64", 27),
    Kind("buildkite", ("bkua_", "bkaj_"), "alnum", 40),
    Kind("circleci", ("CCIPAT_", "CCIPRJ_"), "word", 60),
    Kind("sonar", ("squ_", "sqp_", "sqa_"), "hex", 40),
    Kind("snyk", ("snyk_uat.", "snyk_sat."), "dotted", 40),
    Kind("scalingo", ("tk-us-",), "word", 40),
    Kind("typeform", ("tfp_",), "dotted", 40),
    Kind("contentful", ("CFPAT-",), "word", 40),
    Kind("dropbox", ("sl.",), "word", 120),
    Kind("mapbox", ("sk.eyJ",), "dotted", 60),
    Kind("resend", ("re_",), "word", 32, digit=True),
    Kind("unkey", ("unkey_",), "alnum", 20),
    Kind("polar", ("polar_oat_", "polar_pat_"), "alnum", 32),
    Kind("frame.io", ("fio-u-",), "word", 60),
    Kind("flutterwave", ("FLWSECK-", "FLWSECK_TEST-"), "word", 32),
    Kind("settlemint", ("sm_aat_", "sm_pat_", "sm_sat_"), "alnum", 16),
    Kind("adafruit", ("aio_",), "alnum", 28),
    Kind("ionic", ("ion_",), "alnum", 42),
    Kind("elastic", ("essu_",), "base64", 60),
    Kind("tencent", ("AKID",), "alnum", 32),
    Kind("yandex", ("t1.9eu",), "dotted", 60),
    Kind("yandex key", ("AQVN",), "word", 35),
    Kind("paseto", tuple(f"v{version}.{use}." for version in "1234" for use in ("local", "public")), "dotted", 60),
    Kind("doppler", ("dp.pt.", "dp.st.", "dp.ct."), "dotted", 40),
    Kind("dynatrace", ("dt0c01.",), "dotted", 80),
    Kind("tailscale", ("tskey-",), "word", 20, digit=True),
    Kind("1password", ("ops_eyJ",), "base64", 40),
    Kind("openshift", ("sha256~",), "word", 40),
    Kind("alibaba", ("LTAI",), "alnum", 16),
    Kind("artifactory", ("AKCp", "cmVmd"), "alnum", 50),
    Kind("square", ("sq0atp-", "sq0csp-"), "word", 22),
    Kind("facebook", ("EAAM", "EAAC", "EAAA", "EAAG", "EAAB"), "word", 50),
    Kind("instagram", ("IGQV", "IGAA"), "word", 100),
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

# What holds other characters than tokens do: a sign, the pattern. Ends of lines may be spelled by escapes.
_BLOCK_END = r"""(?:-----END[A-Z0-9 ]{0,40}KEY(?:\ BLOCK)?-----|----\ END\ SSH2|(?=\\?")|\Z)"""
BLOCKS = (
    ("-----BEGIN", r"-----BEGIN[A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----" + r"""(?:[^"\\]|\\[^"])*?""" + _BLOCK_END),
    ("---- BEGIN SSH2", r"----\ BEGIN\ SSH2[A-Z0-9 ]{0,40}PRIVATE\ KEY" + r"""(?:[^"\\]|\\[^"])*?""" + _BLOCK_END),
    ("Private-Lines:", r"Private-Lines:[ ]?[0-9]{1,3}(?:[A-Za-z0-9+/=\s]|\\[^\"])*+"),  # PuTTY
    ("access_token$", r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32}"),  # Braintree
)

# What has no beginning of its own: a sign, how far before it the pattern begins, the pattern. Each takes at most one
# unbounded run that the sign cannot begin anew, or is bounded: looking for them is linear in the text.
_UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_SLACK = r"(?:(?<=hooks\.slack\.com)|(?<=hooks\.slack-gov\.com))"
SHAPES = (
    ("eyJ", 0, r"eyJ[\w-]{10,}+(?P<no>(?!\.(?:eyJ[\w-]{10}|[\w-]*\.[\w-]{8})))?(?:\.[\w-]*){0,4}"),
    ("Q~", 4, r"[\w~.]{3}[0-9]Q~[\w~.-]{31,34}"),  # a client secret of Entra ID
    (".atlasv1.", 14, r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}"),  # Terraform
    ("1//0", 0, r"1//0[\w-]{40,}"),  # a refresh token of Google
    (":AA", 0, r"(?<=[0-9]{8}):AA[\w-]{32,}"),  # a bot's token of Telegram
    *(  # a bot's token of Discord: its number, in base64, comes first
        (sign, 0, sign + r"[\w-]{20,27}\.[\w-]{6}\.[\w-]{27,40}")
        for sign in ("MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT")
    ),
    ("key-", 0, r"(?<![a-z0-9][_-])key-[0-9a-f]{32}(?![A-Za-z0-9-])"),  # Mailgun
    *((f"/{kind}/T", 0, rf"{_SLACK}/{kind}/T[\w+/]{{20,}}") for kind in ("services", "workflows", "triggers")),
    # Discord
    ("/webhooks/", 0, r"(?:(?<=/api)|(?<=/api/v[0-9])|(?<=/api/v[0-9]{2}))/webhooks/[0-9]{10,20}/[\w-]{20,}"),
    ("/IncomingWebhook/", 0, r"/IncomingWebhook/[\w/-]{30,}"),  # Teams
    ("A3-", 0, r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),  # 1Password
    ("pa-", 0, r"pa-(?=[a-z0-9_-]{0,20}[A-Z])(?=[A-Za-z_-]{0,30}[0-9])[\w-]{43}(?![A-Za-z0-9-])"),  # Voyage
    *((f"pat-{place}1-", 0, rf"pat-{place}1-{_UUID}") for place in ("na", "eu", "ap")),  # HubSpot
    ("BSA", 0, r"(?<![+/])BSA(?=[\w-]{0,20}[0-9])[\w-]{27,28}(?![\w-])"),  # Brave
    ("cio", 0, r"(?<![+/])cio(?=[A-Za-z]{0,20}[0-9])[A-Za-z0-9]{32}(?![\w-])"),  # crates.io
    ("sdk-", 0, rf"sdk-{_UUID}"),  # LaunchDarkly
    *((f"access-{use}-", 0, rf"access-{use}-{_UUID}") for use in ("production", "development", "sandbox")),  # Plaid
    ("-us", 32, r"[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9-])"),  # Mailchimp
    (":APA91b", 0, r":APA91b[\w-]{100,}"),  # Firebase
    ("oauth:", 0, r"oauth:[a-z0-9]{30}(?![A-Za-z0-9])"),  # Twitch
    ("_mmk", 36, r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),  # MaxMind
    ("JQQJ99", 52, r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}"),  # Azure: OpenAI, DevOps and others
)

# A letter, and those that follow it in words: the pairs that make up 97 % of those in Python's standard library and in
# lore's guide, counted 2026-11-26. Of random letters half are others; in one of three hundred names three in ten are.
PAIRS = (
    "aabcdfgiklmnprstuvwxy babceijloprsuy cacdefhiklmoprstuvy dabcdefgilnorstu eabcdefgiklmnopqrstuvwxy "
    "facdefgilorstu gaeghilnorsu haeilortu iabcdefglmnoprstvxz jeu kaeils lacdefilmnopstuy mabdeilmopstuy "
    "nacdefgiklnopstuvy oabcdefgiklmnoprstuvwx pacdehiloprstuy qu rabcdefgiklmnoprstuvwy sacdefghiklmnoprstuwy "
    "tacdefhilmnoprstuwy uabcdefgilmnoprst vaeio waehinors xaceiptxy yceimnpsty zeiz"
)

# What stands behind a name: how the name ends, what parts it from its value, how the value begins.
_OPEN = r"""(?:\\*["'`])?"""
_CLOSED = r"""\\*["'`]?\]?\*{0,2}"""
_SEP = (
    _CLOSED + r"""(?:[ \t]{0,3}(?:(?:\|\||\?\?|:[ ]?&?str(?:ing)?[ ]=)[ \t]{0,3}(?=\\*["'`])"""  # a default, a type
    r"""|(?::=|=>|:-|[:=：]|\\{1,4}uff1a)\*{0,2}[ \t]{0,3}"""
    r"""|,[ \t]{0,3}(?:\\*"value\\*"[ \t]{0,3}:[ \t]{0,3}|default=)?(?=\\*["'])"""  # of pairs, as HAR and tables have
    r"""|[ ]value=(?=\\*["']))"""  # of XML
    r"""|(?<![-"'])>(?=[^\s<>]{6,512}</)|(?:[\r\n ]|\\{1,4}(?:[nr]|x0[ad])){1,40}value:[ ])"""
    + _OPEN  # of XML, of YAML
)
_APART = _CLOSED + r"(?:[ ]is:?|[ ]to|[ ]\||\*\*)?[ ]{1,3}" + _OPEN  # of options, tables and sentences
_SCHEME = r"(?:(?:Bearer|Basic|Token|Bot)[ ]{1,3})?"
_VALUE = _SCHEME + (
    r"""(?P<value>(?<=")[^"\\\s]{8,256}(?=\\*")|(?<=')[^'\\\s]{8,256}(?=')|[^\s"'`\\,;&<>(){}\[\]|=:]{8,}={0,2})"""
)
_CHOSEN = r"""(?P<value>(?<=")[^"\\\s]{6,128}(?=\\*")|(?<=')[^'\\\s]{6,128}(?=')|[^\s"'`\\,;&<>(){}\[\]|=]{6,128})"""
_LITERAL = (  # a text of a program or of JSON, in quotes: it may be a word
    r"""\\*["'`]?\]?[ \t]{0,3}(?::=|=>|:-|\|\||\?\?|[:=])[ \t]{0,3}\\*(?P<quote>["'])"""
    r"""(?P<value>[^"'\\\s]{6,128})(?=\\*(?P=quote))"""
)
_WORD = r"(?P<value>[A-Za-z][A-Za-z_-]{5,127})"
_ARGUMENT = r"""\\*["']?(?P<value>[^\s"'\\-][^\s"'\\]{5,127})"""
_ENDS = r"""(?=\\{0,4}["'`]|\\{1,4}[nr]|[\r\n]|\Z)"""  # a line, or the text
_GAP = r"(?:[ \t\r\n]|\\{1,4}(?:[nrt]|u00(?:0[9AaDd]|20))){1,8}"
_KEYS = ("access", "account", "admin", "api", "app", "application", "auth", "cipher", "client", "consumer", "crypto",
         "deploy", "encryption", "function", "functions", "hmac", "jwt", "license", "master", "openai",
         "secret", "service", "shared", "signing", "storage", "stripe", "subscription", "webhook")  # fmt: skip
_KEY = "(?:" + "|".join(f"(?<={word}key)|(?<={word}[-_. ]key)" for word in _KEYS) + ")"
_STORES = ("redis", "rediss", "amqp", "amqps", "postgres", "postgresql", "mysql", "mariadb", "mssql", "mongodb", "srv")
_STORE = "(?:" + "|".join(f"(?<={word})" for word in _STORES) + ")"
_CHOSEN_NAME = "pass(?:w(?:or)?d|phrase)"
_OWNERS = ("admin", "db", "email", "ftp", "mail", "mysql", "redis", "root", "smtp", "user")
_OWNED = "(?:" + "|".join(f"(?<={owner}[-_])" for owner in _OWNERS) + "|(?<=--))pass(?![a-z])"
_SHORT = """(?:(?<=[a-z0-9]_)|(?<=[?&"']))pass(?![a-z])"""  # `smtp_pass`, `?pass=`, `"pass":`


# A sign (lower case), and for each pattern that begins there: what its `value` must look like to be hidden.
NAMED = {
    "pass": [
        (_CHOSEN_NAME + r"[\w-]{0,24}" + _SEP + _CHOSEN, "chosen"),
        (_SHORT + _SEP + _CHOSEN, "chosen"),
        (_CHOSEN_NAME + _LITERAL, "literal"),
        (_OWNED + _LITERAL, "literal"),
        (rf"(?-i:PASSW(?:OR)?D|PASSPHRASE|(?<=_)PASS)={_WORD}(?=[\\\s\"'`;&]|\Z)", "literal"),  # of a shell
        (rf"(?<=[?&;]){_CHOSEN_NAME}={_WORD}", "literal"),  # of URLs, of forms, of connections
        (rf"{_CHOSEN_NAME}={_WORD}(?=&)", "literal"),
        (rf"{_CHOSEN_NAME}(?:=|:[ ]){_WORD}[ ]{{0,3}}{_ENDS}", "word"),  # a line of settings
        (rf"{_CHOSEN_NAME}(?:=|:[ ])(?P<value>[^\s\"'`\\]{{6,128}})[ ]{{0,3}}{_ENDS}", "with signs"),
        (rf"{_CHOSEN_NAME}{_SEP}{_WORD}(?<=[a-z])(?![\w.(\[/-])", "words"),
        (rf"(?:(?<=-){_CHOSEN_NAME}|{_OWNED})(?:[ ]{{1,3}}|=){_OPEN}{_CHOSEN}", "chosen"),  # an option
        (rf"(?<=-){_CHOSEN_NAME}[ ]{{1,3}}\\*[\"']?{_WORD}(?=[ ]{{1,3}}-|[ ]{{0,3}}\\*[\"'\r\n]|\Z)", "word"),
        (r"pass(?:in|out)?[ ]{1,3}pass:" + _CHOSEN, "chosen"),  # of OpenSSL
        (_CHOSEN_NAME + r"""[\w-]{0,24}>(?P<value>[^\s<>"'\\]{6,128})(?=</)""", "literal"),  # of XML
        (r"(?<=require)pass[ ]{1,3}" + _CHOSEN, "chosen"),  # of Redis
        (rf"(?:{_CHOSEN_NAME}[\w-]{{0,24}}|{_SHORT}){_CLOSED}[ ]\|[ ]{_OPEN}{_CHOSEN}", "chosen"),  # of a table
        (rf"{_CHOSEN_NAME}{_CLOSED}[ ](?:is|to)[ ]`(?P<value>[^`\s\\]{{6,128}})(?=`)", "chosen"),
        (_CHOSEN_NAME + _APART + _VALUE, "surely random"),
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
    "--user ": [(r"""--user[ ]{1,3}\\*["']?[\w.@-]{1,64}:(?P<value>[^\s"'\\:/]{6,128})""", "chosen")],
    **{
        program: [(rf"{program}[^\n\\|;&]{{0,200}}?[ ](?-i:{option}){gap}{_ARGUMENT}", "chosen")]
        for program, option, gap in (
            ("docker login", "-p", "[ ]{1,3}"),
            ("mysql", "-p", ""),
            ("sshpass", "-p", "[ ]{0,3}"),
        )
    },
    "identified by ": [
        (r"""identified[ ]by[ ]{1,3}\\*["'](?P<value>[^\s"'\\]{4,128})(?=\\*["'])""", "literal")
    ],  # of SQL
    "pwd": [
        (r"pwd[\w-]{0,24}" + _SEP + _CHOSEN, "chosen"),
        (r"(?<=[?&;])pwd=" + _WORD, "literal"),
    ],
    "secret": [
        (r"secret[\w.-]{0,24}" + _SEP + _VALUE, "random"),
        (r"secret[\w.-]{0,24}" + _APART + _VALUE, "surely random"),
    ],
    "token": [
        (r"token(?!s|iz)[\w.-]{0,24}" + _SEP + _VALUE, "random, no id"),
        (r"(?-i:(?<=_)TOKEN|(?<=_auth)Token)" + _SEP + "(?P<value>" + _UUID + ")", ""),
        (r"(?<=-)token[ ]{1,3}" + _OPEN + _VALUE, "random, no id"),
        (r"token" + _APART + _VALUE, "surely random"),
    ],
    "key": [
        ("key" + _KEY + r"[\w.-]{0,24}" + _SEP + r"(?:base64:)?" + _VALUE, "random"),
        ("key" + _KEY + r"[\w.-]{0,24}" + _APART + _VALUE, "surely random"),
        (rf"(?:(?<=private)|(?<=private[-_ ]))key(?:{_SEP}|{_APART})" + _VALUE, "surely random"),
    ],
    "mnemonic": [(r"mnemonic" + _SEP + r"(?P<value>(?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})", "")],
    "cookie": [("cookie" + _SEP + r"""(?P<value>[^"\\\r\n]{8,}+)""", "cookie")],
    "authorization": [
        ("authorization" + _SEP + r"(?:[a-z][\w-]{1,20}[ ]{1,3}(?:[a-z]{2,5}[ ]{1,3})?)?" + _VALUE, "random"),
        ("authorization" + _SEP + r"aws4[\w-]{1,20}[^\r\n\\\"]{1,600}?signature=(?P<value>[0-9a-f]{64})", ""),
    ],
    "bearer ": [(r"bearer[ ]{1,3}(?P<value>[A-Za-z0-9._~+/-]{20,}={0,2})", "")],
    "basic ": [(r"basic[ ]{1,3}(?P<value>[A-Za-z0-9+/]{8,}={0,2})", "user and password")],
    "auth": [
        (r"(?<=_)auth" + _SEP + _VALUE, "random"),
        (r"""auth\\*["']?[ ]?[:=][ ]?\\*["']?(?P<value>[A-Za-z0-9+/]{8,}={0,2})""", "user and password"),
    ],
    "sig": [(r"(?<=[?&;-])(?:sig|signature)=(?P<value>[\w%+/-]{20,}={0,2})", "random")],
    ":/": [  # two slashes, of which a path keeps one
        (_STORE + r""":/{1,2}[^\s/:@"'\\<>]{0,100}:(?P<value>[^\s@"'\\<>]{3,1000})(?=@)""", ""),
        (r""":/{1,2}[^\s/:@"'\\<>]{0,100}:(?P<value>[^\s/@"'\\<>]{3,1000})(?=@)""", ""),
        (r"://(?P<value>[\w.~%+-]{16,1000})(?=@)", "random, no id"),
    ],
}
