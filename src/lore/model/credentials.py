"""The forms of credentials: rows of data for `mask`.

`KINDS` are recognised by their beginning, `BLOCKS` and `SHAPES` by a pattern, `NAMED` by the name before them
(`api_key=…`). Minimums are shorter than issued keys: recordings may hold parts. Sources: facts of gitleaks'
`config/gitleaks.toml` (commit 009e025a, MIT; see NOTICE in this folder) and the formats that providers publish, read
2026-11-24 and 26.
"""

from __future__ import annotations

from typing import NamedTuple

ALPHABETS = {  # patterns of the characters after the beginning
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
    """A kind of credential that is recognised by its beginning. Not a Struct: the status line imports no msgspec."""

    alphabet: str  # the characters that may follow the beginning: a key of `ALPHABETS`
    least: int  # the minimum of characters after the beginning
    needs_digit: bool  # they need a digit or 16 letters in a row, because other text has the same beginning
    beginnings: tuple[str, ...]  # what such a credential begins with


# One kind in each line: its alphabet, its least length, `digit` if it needs one, its beginnings, its issuers.
_KINDS = """
alnum 16: sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_ sk_org_live_ sk_org_test_ sm_aat_ sm_pat_ sm_sat_
    LTAI  # Stripe, Settlemint, Alibaba
alnum 20: ghp_ gho_ ghu_ ghs_ ghr_ unkey_  # GitHub, Unkey
alnum 20 digit: fw_  # Fireworks
alnum 22 digit: ak- as-  # Modal
alnum 24: esecret_  # Anyscale
alnum 24 digit: vcp_ vci_ vca_ vcr_ vck_  # Vercel
alnum 26 digit: rnd_  # Render
alnum 28: ATBB aio_  # Bitbucket, Adafruit
alnum 30: gsk_ r8_ pplx- hf_ api_org_ rpa_ npm_ lin_api_ lin_oauth_ lin_wh_
    # Groq, Replicate, Perplexity, Hugging Face, RunPod, npm, Linear
alnum 32: polar_oat_ polar_pat_ AKID ico-  # Polar, Tencent, Infracost
alnum 36: nfp_ nfc_ nfo_ nfb_ nfu_ pnu_  # Netlify, Prefect
alnum 40: sess- xai- llx- ntn_ secret_ napi_ cfk_ cfut_ cfat_ bkua_ bkaj_ phx_
    # OpenAI, xAI, LlamaCloud, Notion, Neon, Cloudflare, Buildkite, PostHog
alnum 42: ion_  # Ionic
alnum 50: CLOJARS_ AKCp cmVmd EZAK EZTK  # Clojars, Artifactory, EasyPost
alnum 60: ATTA mlsn.  # Trello, MailerSend
base64 24: whsec_  # Stripe
base64 27: K001 K002 K003 K004 K005  # Backblaze
base64 32: glsa_ glc_  # Grafana
base64 40: FwoGZXIvYXdz IQoJb3JpZ2lu fo1_ fm1a_ fm1r_ fm2_ ops_eyJ  # AWS session, Fly, 1Password
base64 60: eyJrIjoi essu_  # Grafana, Elastic
base64 80: ABSK bedrock-api-key-  # Bedrock
dotted 16: glpat- gldt- glft- glrt- glptt- gloas- glsoat- glimt- glwt- glrtr-  # GitLab
dotted 30: pscale_tkn_ pscale_pw_ pscale_oauth_  # PlanetScale
dotted 40: ATATT3 ATCTT3 snyk_uat. snyk_sat. tfp_ dp.pt. dp.st. dp.ct.  # Atlassian, Snyk, Typeform, Doppler
dotted 60: SG. sk.eyJ t1.9eu v1.local. v1.public. v2.local. v2.public. v3.local. v3.public. v4.local. v4.public.
    # SendGrid, Mapbox, Yandex, PASETO
dotted 67 digit: pat. sat.  # Harness
dotted 78 digit: pat  # Airtable
dotted 80: dt0c01.  # Dynatrace
hex 32: fc- SK dapi shpat_ shpca_ shppa_ shpss_ shptka_  # Firecrawl, Twilio, Databricks, Shopify
hex 40: sk_ e2b_ rubygems_ dop_v1_ doo_v1_ dor_v1_ pul- squ_ sqp_ sqa_ shippo_live_ shippo_test_
    # ElevenLabs, E2B, RubyGems, DigitalOcean, Pulumi, Sonar, Shippo
lower 30: csk-  # Cerebras
lower 43: oy2  # NuGet
lower 60: rdme_  # ReadMe
padded 40: sntrys_ sntryu_  # Sentry
quoted 10: xoxc- xoxd-  # Slack, of a browser
upper 16: AKIA ASIA ABIA ACCA DO00  # AWS, DigitalOcean
upper 26: API-  # Octopus
upper 50: AGE-SECRET-KEY-1 AGE-SECRET-KEY-PQ-1  # age
word 10: xoxa- xoxb- xoxe- xoxp- xoxr- xoxs- xoxe.xoxp- xoxe.xoxb-  # Slack
word 16: glcbt- glagent- glffct- GR1348941  # GitLab
word 16 digit: sk- AVNS_  # OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse, Aiven
word 19: NRAK- NRII- NRJS-  # New Relic
word 20: github_pat_ ya29. GOCSPX- xapp- xwfp- dckr_pat_ dckr_oat_  # GitHub, Google OAuth, Slack, Docker
word 20 digit: tskey-  # Tailscale
word 22: sq0atp- sq0csp-  # Square
word 24: tvly- hvs. hvb. hvr.  # Tavily, Vault
word 30: tgp_v1_ lsv2_pt_ lsv2_sk_ ls__ AIza AQ.Ab pypi- sbp_ sb_secret_
    # Together, LangSmith, Google, PyPI, Supabase
word 32: FLWSECK- FLWSECK_TEST- p8e-  # Flutterwave, Adobe
word 32 digit: re_  # Resend
word 35: AQVN  # Yandex
word 36: figd_ figo_ HRKU-  # Figma, Heroku
word 40: wandb_v1_ nvapi- pcsk_ jina_ tk-us- CFPAT- sha256~ duffel_live_ duffel_test_ sgp_
    # Weights and Biases, NVIDIA, Pinecone, Jina, Scalingo, Contentful, OpenShift, Duffel, Sourcegraph
word 50: 4/0A PMAK- EAAM EAAC EAAA EAAG EAAB  # Google, Postman, Facebook
word 60: xkeysib- xsmtpsib- CCIPAT_ CCIPRJ_ fio-u-  # Sendinblue, CircleCI, Frame.io
word 80: mfa.  # Discord
word 100: IGQV IGAA v1.0-  # Instagram, Cloudflare
word 120: sl.  # Dropbox
"""


KINDS: list[Kind] = []
for _line in _KINDS.strip().replace("\n    ", " ").split("\n"):
    _form, _, _beginnings = _line.partition("#")[0].partition(":")
    _alphabet, _least, *_digit = _form.split()
    KINDS.append(Kind(_alphabet, int(_least), bool(_digit), tuple(_beginnings.split())))

# Forms without a fixed beginning: a marker (a text in each), the number of characters from the form's beginning to its
# marker, and a pattern. A match with group `no` is not a credential. So that the search is linear in
# the text, a pattern is bounded, or has one unbounded run that cannot hold its marker. Line ends may be escapes.
_UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_SLACK = r"(?:(?<=hooks\.slack\.com)|(?<=hooks\.slack-gov\.com))"
_LINES = r"""(?:[^"\\]|\\[^"])*?(?:-----END[A-Z0-9 ]{0,40}KEY(?:\ BLOCK)?-----|----\ END\ SSH2|(?=\\?")|\Z)"""
BLOCKS = (  # forms that also have other characters than tokens, so the whole text is searched
    ("-----BEGIN", 0, r"-----BEGIN[A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----" + _LINES),
    ("---- BEGIN SSH2", 0, r"----\ BEGIN\ SSH2[A-Z0-9 ]{0,40}PRIVATE\ KEY" + _LINES),
    ("Private-Lines:", 0, r"Private-Lines:[ ]?[0-9]{1,3}(?:[A-Za-z0-9+/=\s]|\\[^\"])*+"),  # PuTTY
    ("access_token$", 0, r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32}"),  # Braintree
)
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

# A letter, then the letters that follow it: 97 % of the letter pairs in Python's standard library and in lore's guide,
# counted 2026-11-26. Of random letters half the pairs are not listed; one name in 300 has three in ten unlisted.
PAIRS = (
    "aabcdfgiklmnprstuvwxy babceijloprsuy cacdefhiklmoprstuvy dabcdefgilnorstu eabcdefgiklmnopqrstuvwxy "
    "facdefgilorstu gaeghilnorsu haeilortu iabcdefglmnoprstvxz jeu kaeils lacdefilmnopstuy mabdeilmopstuy "
    "nacdefgiklnopstuvy oabcdefgiklmnoprstuvwx pacdehiloprstuy qu rabcdefgiklmnoprstuvwy sacdefghiklmnoprstuwy "
    "tacdefhilmnoprstuwy uabcdefgilmnoprst vaeio waehinors xaceiptxy yceimnpsty zeiz"
)

# The text after a name: its end, the separator, the value.
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
_NETRC = (
    rf"machine[ ]{{1,3}}[^\s\\]{{1,100}}{_GAP}login[ ]{{1,3}}[^\s\\]{{1,64}}{_GAP}password[ ]{{1,3}}"
    r"""(?P<value>[^\s"'\\]{3,128})"""
)
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


# By marker (lower case): patterns that begin at it, each with the check of `mask._CHECKS` that its `value` must pass;
# without a check every match is masked.
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
    "machine ": [(_NETRC, "")],
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
    # of SQL
    "identified by ": [(r"""identified[ ]by[ ]{1,3}\\*["'](?P<value>[^\s"'\\]{4,128})(?=\\*["'])""", "literal")],
    "pwd": [(r"pwd[\w-]{0,24}" + _SEP + _CHOSEN, "chosen"), (r"(?<=[?&;])pwd=" + _WORD, "literal")],
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
        (r"(?<=[?&;])key=(?P<value>[\w%+/-]{20,}={0,2})", "random"),
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
    ":/": [  # two slashes; a path keeps one of them
        (_STORE + r""":/{1,2}[^\s/:@"'\\<>]{0,100}:(?P<value>[^\s@"'\\<>]{3,1000})(?=@)""", ""),
        (r""":/{1,2}[^\s/:@"'\\<>]{0,100}:(?P<value>[^\s/@"'\\<>]{3,1000})(?=@)""", ""),
        (r"://(?P<value>[\w.~%+-]{16,1000})(?=@)", "random, no id"),
    ],
}
