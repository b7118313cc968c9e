"""The patterns of text that clocks, agents and programs write into prompts, as tables; `volatile.py` applies them.

Patterns have no nested repetition, so each search costs O(text). Their forms are those of public threads about broken
caches. Comments show examples. `pattern` compiles at first use.
"""

from __future__ import annotations

import re

from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.differences import Varies

# The code and the evidence for each kind of word below.
KINDS: dict[str, tuple[Code, Varies]] = {
    "date": (Code.DATE_IN_PREFIX, "date"),
    "place": (Code.DATE_IN_PREFIX, "directory"),
    "count": (Code.TOKEN_REMINDER_IN_PREFIX, "token-count"),
    "id": (Code.ID_IN_PREFIX, "id"),
    "temporary": (Code.ID_IN_PREFIX, "temporary-path"),
    "process": (Code.ID_IN_PREFIX, "process-id"),
    "counter": (Code.ID_IN_PREFIX, "counter"),
}

_NUMBER = r"\d[\d,_.]{0,24}+[kKmM]?"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?[AaPp]\.?[Mm]\b\.?)?"
_ZONE = r"(?:Z|[+-]\d{2}:?\d{2})?"
_DAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
# In other languages a month counts only with a number, a day also alone.
_FOREIGN_MONTH = (
    r"(?i:janvier|f[ée]vrier|mars|avril|mai|juin|juillet|ao[ûu]t|septembre|octobre|novembre|d[ée]cembre"
    r"|januar|februar|m[äa]rz|juni|juli|oktober|dezember|januari|februari|maart|mei|augustus|augusti|december"
    r"|enero|febrero|marzo|abril|mayo|junio|julio|agosto|sep?tiembre|octubre|noviembre|diciembre"
    r"|janeiro|fevereiro|mar[çc]o|maio|junho|julho|setembro|outubro|novembro|dezembro"
    r"|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre"
    r"|января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря)"
)
_FOREIGN_DAY = (
    r"(?i:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag"
    r"|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|mi[ée]rcoles|jueves|viernes|s[áa]bado|domingo"
    r"|luned[ìi]|marted[ìi]|mercoled[ìi]|gioved[ìi]|venerd[ìi]|sabato|domenica|[月火水木金土日]曜日?|星期[一二三四五六日天])"
)

# Words that vary, by kind. The order counts: a longer form comes before its parts.
_FORMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("count", (
        r"<total_tokens>[^<]{0,200}</total_tokens>",
        rf"[Tt]oken usage: ?{_NUMBER} ?/ ?{_NUMBER}(?:; ?{_NUMBER} remaining)?",
        (rf"\b{_NUMBER} ?(?:tokens? |% |percent )(?:of )?(?:context |the context )?(?:window )?"  # 12% of context left
         r"(?:left|remaining|remain|available)\b"),
        (r"\b(?i:(?:remaining|available|used|context|budget)[ _:-](?:tokens|window|left|context)"  # budget:tokens>12
         r"|tokens[ _-](?:left|remaining|used|available)|token[ _-](?:budget|count)"
         r"|context[ _-](?:usage|used|remaining))\b"
         rf"[\"'>]?[ \t]{{0,4}}[:=]?[ \t]{{0,4}}{_NUMBER}%?(?: ?/ ?{_NUMBER})?"),
        r"\$\d[\d.,]*/\$\d[\d.,]*; \$\d[\d.,]* remaining",  # $1.20/$5.00; $3.80 remaining
    )),
    ("id", (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",)),  # a UUID
    ("temporary", (
        r"(?:/private)?(?:/tmp|/var/tmp|/var/folders|/dev/shm|/run/user/\d{1,9})/[\w./+@-]+",
        r"[A-Za-z]:\\(?:[^\\\s\"<>|]{1,64}\\){0,8}Temp\\[\w.\\+@-]+",
    )),
    ("process", (
        r"\b(?i:pid|process id|ppid)[\"']?[ \t]{0,4}[=:#]?[ \t]{0,4}\d+",
        r"\b(?:localhost|127\.0\.0\.1|\[::1\]):\d{2,5}\b",
    )),
    ("place", (
        (r"(?i:\b(?:(?:current |primary |your )?(?:working director(?:y|ies)|workspace(?: root| folder)?)|cwd|pwd"
         r"|(?:project|repo(?:sitory)?|workspace)[ _]?(?:root|path|director(?:y|ies)|folder)))"
         r"[\"'`*]{0,3}[ \t]{0,4}(?:[:=]|is|>)[ \t]{0,4}[\"'`*]{0,3}[~/\\\w][^\s\"'`<>*]{0,512}"),
        r"<cwd>[^<]{0,512}</cwd>",
    )),
    ("counter", (
        (r"\b(?i:turn|step|iteration|request|attempt|round|message|counter|sequence|seq|call|tick|invocation)"
         r"(?i:[ _-](?:no\.?|number|count|index|id))?"
         r"[\"']?[ \t]{0,4}[:=#]{0,2}[ \t]{0,4}\d+(?:(?: of | ?/ ?)\d+)?\b(?!-[0-9a-fA-F]{4}-)"),  # step 3 of 10
    )),
    ("date", (
        rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T _]{_CLOCK} ?{_ZONE})?(?![\w-])",
        r"\b20\d{6}(?:[T_-]?\d{4,6}Z?)?\b",  # 20261127T1206
        r"\b\d{4}-W\d{2}(?:-\d)?\b",
        r"\b\d{4}[/.]\d{1,2}[/.]\d{1,2}\b",
        r"\b\d{1,2}/\d{1,2}/\d{2,4}\b",
        r"\b\d{1,2}[.-]\d{1,2}[.-]\d{4}\b",
        r"(?:\d{2,4} ?[年년] ?)?\d{1,2} ?[月월] ?\d{1,2} ?[日일号]",
        r"\d{1,2} ?[时時시] ?\d{1,2} ?[分분]",
        rf"\b\d{{1,2}}[-/ ]{_MONTH}[-/ ]\d{{2,4}}(?::{_CLOCK})?",
        rf"\b\d{{1,2}}(?:\.|er|º)? ?(?:de |d'|di )?{_FOREIGN_MONTH}(?: (?:de )?\d{{4}}\b)?",
        rf"\b{_FOREIGN_DAY}\b",
        r"\b\d{1,2} ?(?:[AaPp]\.?[Mm]\b\.?|o'clock\b)",
        r"\b\d{1,2} ?[hH.]\d{2} ?(?:Uhr\b|(?<=[hH]\d{2})\b)",
        rf"\b{_CLOCK}(?: ?(?:UTC|GMT|CE?S?T|[ECMP][SD]T)\b)?(?:[+-]\d{{2}}:?\d{{2}})?",
        rf"\b{_DAY}\b",
        rf"\b(?:\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?)?{_MONTH}\b\.?(?: \d{{1,2}}(?:st|nd|rd|th)?\b)?(?:,? \d{{4}}\b)?",
        r"\b1[5-9]\d{8}(?:\d{3})?(?:\.\d{1,9})?\b",  # seconds or milliseconds since 1970
        r"\b\d{1,6} ?(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?) ago\b",
        r"\b(?i:uptime|elapsed)[ \t]{0,4}[:=]?[ \t]{0,4}\d[\w.:, ]{0,24}",
    )),
    ("id", (
        (r"\b(?:req|msg|run|sess|session|trace|resp|thread|call|toolu|conv|evt|span|job|task|user|org)[_-]"
         r"(?=[A-Za-z_-]{0,32}\d)[0-9A-Za-z_-]{4,128}\b"),  # toolu_01A09q90
        (r"\b(?i:(?:request|session|trace|run|correlation|message|conversation|thread|span|build|instance|invocation"
         r"|prompt|turn|job|task)[ _-]?(?:id|uuid|token|key)|nonce|uuid|cch|request|fingerprint|salt|etag)"
         r"[\"'`*]{0,3}[ \t]{0,4}[:=#][ \t]{0,4}[\"'`*]{0,3}[\w./+=-]{3,256}"),  # session id: ab12
        r"\b[0-9a-f]{12,}\b",
    )),
    ("word", (r"[0-9A-Za-z_-]{16,}",)),  # an id if it has enough digits
)  # fmt: skip
WORD_KINDS = tuple(kind for kind, _ in _FORMS)  # by the number of the group in WORDS
# A word begins only after a character that ends another one: most characters are skipped after one test.
_START = "(?:(?<![^\\W_])|(?=[</$])|(?<=[^\x00-\x7f])(?=\\d))"
WORDS = pattern(_START + "(?:" + "|".join(f"({'|'.join(forms)})" for _, forms in _FORMS) + ")")
# Text without a match holds no word that varies: a quick test.
MAY_VARY = pattern(
    r"\d|/|\\|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    rf"|(?i:cwd|pwd|director|workspace|nonce|token|uuid| id\b|key)|{_FOREIGN_DAY}"
)

# The kind of numbers in a line, by its other words.
LABELS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("count", pattern(r"(?i)\b(?:tokens?|context (?:window|usage|left|used))\b[^\n:=]{0,24}[:=]")),
    ("process", pattern(r"(?i)\b(?:pid|process|port)\b[^\n:=]{0,24}[:=]")),
    ("date", pattern(
        r"(?i)\b(?:date|time|datetime|today|now|week|clock|uptime|elapsed|updated|refreshed|timestamp|epoch|datum|uhrzeit"
        r"|heute|jetzt|stand|fecha|hora|hoy|ahora|aujourd'hui|heure|oggi|ora|hoje|agora|сегодня|время)\b"
        r"|[日时時]付?[期间間刻]?[：:]|今[日天]|现在|現在|当前|오늘|현재")),
    ("counter", pattern(
        r"(?i)\b(?:turns?|steps?|iterations?|attempts?|rounds?|messages|calls|requests|invocations?)\b[^\n:=]{0,24}[:=]")),
)  # fmt: skip
DIGITS = pattern(r"\d+(?:[.,:]\d+)*")
EXAMPLES = pattern(r"(?is)<examples?>.{0,8000}?</examples?>")
EXAMPLE = pattern(r"\b(?:e\.g\.|for example|example|such as|format|like)", re.IGNORECASE)

# Text that is new in each request, whether or not it changed yet. The signs begin with a letter that stands for itself,
# so that they are found at the speed of a search for it; the patterns are searched around them.
MINUTES, EPOCH = pattern(r":[0-9][0-9]"), pattern(r"1[5-9][0-9]{8}")
ID_SIGNS = (pattern(r"id"), pattern(r"token"), pattern(r"nonce"))
COUNT_SIGN = pattern(r"token|<(?:context|budget)")
DIGIT = pattern(r"\d")
CURRENT_TIME = pattern(
    r"\b(?:(?:current|present|local|server|request|system)[ _-](?:date and |date/|date & |date[_-]?)?(?:time|utc)"
    r"|time now|time of day|time is|right now|now is|(?:now|utc)[_-](?:utc|now)|timestamp|generated at|as of now"
    r"|clock)\b[^\n]{0,40}?(?<!\d)"
    r"(?:\d{1,2}:\d{2}(?::\d{2})?|1[5-9]\d{8}(?:\d{3})?\b)",
    re.IGNORECASE,
)
# A date with a time of day that fills a line, alone or after a label.
TIME_LINE = pattern(
    r"^[ \t>*#(\[-]{0,8}(?:<[\w-]{1,40}>|(?:now|utc|today|date|time|datetime|date and time)[ \t]*[:=]?[ \t]*)?"
    r"\d{4}-\d{2}-\d{2}[t ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:[ ]?(?:z|utc|gmt)|[+-]\d{2}:?\d{2})?"
    r"(?:</[\w-]{1,40}>)?[)\].,;]{0,2}[ \t\r]*$",
    re.IGNORECASE | re.MULTILINE,
)
REQUEST_ID = pattern(
    r"\b(?:(?:request|trace|correlation|prompt|message|invocation|turn|span)[ _-]?(?:id|uuid|token)|nonce)"
    r"[\"'`*]{0,3}[ \t]{0,4}[:=#][ \t]{0,4}[\"'`*]{0,3}(?=[A-Za-z_-]{0,32}\d)[\w-]{6,}",
    re.IGNORECASE,
)
TOKENS_LEFT = pattern(
    rf"<total_tokens>[^<\d]{{0,40}}\d[^<]{{0,100}}</total_tokens>|[Tt]oken usage: ?{_NUMBER} ?/ ?{_NUMBER}"
    rf"|\b{_NUMBER} tokens (?:left|remaining)\b"
    r"|\b(?i:remaining tokens|tokens remaining|tokens left)[ \t]*[:=][ \t]*\d"
    r"|<(?i:context|tokens?|budget)[_:-](?i:left|remaining|used|usage|tokens|window)>[ \t]*\d"
)
TIMESTAMPED = pattern(r"[\s(\[]{0,4}\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2})?")  # how programs begin a text

# Topics of a difference: the lines that git and directory trees print, and headings.
GIT_LINE = pattern(
    r"(?m)^(?:[ \t]*[MADRCU?!]{1,2}[ \t]+[\w./-]+[\w/.][ \t]*$|##? ?[\w./-]{1,80}\.\.\.|On branch |Your branch is "
    r"|(?:Current |Main |Git )?[Bb]ranch(?: \([^)\n]{0,80}\))?: |(?:Git )?[Ss]tatus: "
    r"|[ \t]*(?:modified|new file|deleted|renamed):"
    r"|[0-9a-f]{7,40} \S|commit [0-9a-f]{7,40}|Recent commits|(?:HEAD|Last commit|Commit)\b[^\n]{0,20}[:=]"
    r"|(?:\d+ )?(?:un)?(?:staged|tracked|committed) (?:changes|files)|nothing to commit)"
)
GIT_WORDS = pattern(r"(?i)\b(?:git ?status|working (?:tree|copy))\b")
TREE_LINE = pattern(r"(?m)^[ \t│|]*(?:├──|└──|\|--|`--|\+--)|(?:├|└)─")
GIT_HEADING = pattern(
    r"(?i)git ?status|git[ -](?:state|info|branch|log|diff)|recent commits|current branch"
    r"|directory (?:structure|tree|listing)"
    r"|(?:file|project|folder|repo(?:sitory)?|workspace|source) (?:structure|tree|listing|map|layout)"
)
MEMORY_HEADING = pattern(
    r"(?i)\bmemor(?:y|ies)\b|\bknowledge(?: base)?\b|\bretriev(?:ed|al)\b|\brecall(?:ed)?\b|\bremembered\b|\brag\b"
    r"|\b(?:relevant|additional|provided|reference|background|project|user|search|session|loaded|working)[ _-]"
    r"(?:context|documents?|snippets?|notes|results|passages|facts|preferences)\b|^<?/?(?:context|documents?|facts|notes)\b"
    r"|\bclaude\.?md\b|\bagents\.md\b|\b(?:context|documents|passages) *$"
)
HEADING = pattern(r"(?m)^(?:#{1,6} [^\n]{1,120}|<(/?)([A-Za-z][\w:.-]{0,60})[^>\n]{0,120}>|\[[^\]\n]{1,60}\][ \t]*$"
                  r"|[A-Za-z][\w -]{0,60}:[ \t]*(?=\n|$)|(?:gitStatus|git_status):[^\n]{0,200}"
                  r"|[^\n]{1,100}:[ \t]*$)")  # fmt: skip
LABEL = pattern(r"[A-Za-z][\w -]{0,60}: ")
WORD_BREAK = pattern(r"[_-]+|(?<=[a-z])(?=[A-Z])")  # inside a name: gitStatus, memory-bank
REMINDER = pattern(
    r"(?i)<(?:system[-_ ]?(?:reminder|warning|notice|note|message)|reminder|notice|ide_\w{1,40}|environment_details"
    r"|environment_context|total_tokens|user-prompt-submit-hook|hook|todo\w{0,20}|attached?_?\w{0,20})\b"
    r"|^\W{0,4}(?:system[ -])?reminder\b|^\W{0,4}\[?system\b[\]:]"
)
TAGGED = pattern(r"<([A-Za-z][\w:.-]{0,60})\b[^>\n]{0,200}>.*</\1>", re.DOTALL)

# Text of one prompt that often differs in the next request, session or project (`lint`).
REPOSITORY = pattern(
    r"(?m)\bgit ?[Ss]tatus\b[^\n]{0,40}:|^(?:On branch |Your branch is |## [\w./-]{1,80}\.\.\.)"
    r"|^(?:Current|Main) branch(?: \([^)\n]{0,80}\))?: |^Recent commits:|^nothing to commit\b"
)
UUID = pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
TIME = pattern(r"\d:\d")
LABELLED = pattern(r"[:=#][ \t\"'`*]{0,8}(?=\D{0,64}\d\D{0,64}\d)")
CURRENT = pattern(r"(?i)\b(?:today'?s?|current|now|present)\b[^\n:=]{0,24}(?:[:=]|\bis\b)[ \t*]{0,4}$")
