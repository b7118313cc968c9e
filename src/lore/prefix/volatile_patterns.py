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
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
# In other languages a month counts only with a number, a day also alone.
_FOREIGN_MONTHS = (
    "janvier février fevrier mars avril mai juin juillet août aout septembre octobre novembre décembre decembre"
    " januar februar märz marz juni juli oktober dezember januari februari maart mei augustus augusti december"
    " enero febrero marzo abril mayo junio julio agosto septiembre setiembre octubre noviembre diciembre"
    " janeiro fevereiro março marco maio junho julho setembro outubro novembro dezembro"
    " gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre"
    " января февраля марта апреля мая июня июля августа сентября октября ноября декабря"
)
FOREIGN_MONTHS = frozenset(_FOREIGN_MONTHS.split())
_FOREIGN_DAYS = (
    "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag lundi mardi mercredi jeudi vendredi samedi"
    " dimanche lunes martes miércoles miercoles jueves viernes sábado sabado domingo lunedì lunedi martedì martedi"
    " mercoledì mercoledi giovedì giovedi venerdì venerdi sabato domenica"
    " 月曜日 火曜日 水曜日 木曜日 金曜日 土曜日 日曜日 月曜 火曜 水曜 木曜 金曜 土曜 日曜"
    " 星期一 星期二 星期三 星期四 星期五 星期六 星期日 星期天"
)

# What words that vary begin with.
_MONTHS = (
    "jan january feb february mar march apr april may jun june jul july aug august sep sept september oct october nov"
    " november dec december"
)
_DAYS = "mon monday tue tues tuesday wed wednesday thu thur thurs thursday fri friday sat saturday sun sunday"
_FOLDERS = [
    f"{owner}{place}" for owner in ("project", "repo", "repository", "workspace")
    for place in ("", "root", "path", "directory", "directories", "folder")
]  # fmt: skip
_OWNERS = (
    "request session trace run correlation message conversation thread span build instance invocation prompt turn job"
    " task"
)
_IDS = [f"{owner}{name}" for owner in _OWNERS.split() for name in ("id", "uuid", "token", "key")]
_VALUE = r"[\"'`*]{0,3}[ \t]{0,4}[:=#][ \t]{0,4}[\"'`*]{0,3}[\w./+=-]{3,256}"

# Words that vary: the kind, the words that one of this kind begins with, and its forms. `0` stands for any digit, `-`
# for any long word; the group of a form is one of `FOREIGN_MONTHS`. Of two forms that begin with the same word, the
# longer one comes first. Only forms whose words a text holds are compiled and tried: one pattern of all forms took a
# sixth of the time of `lore check` for a small file.
_FORMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("count", "< $", (
        r"<total_tokens>[^<]{0,200}</total_tokens>",
        r"\$\d[\d.,]*/\$\d[\d.,]*; \$\d[\d.,]* remaining",  # $1.20/$5.00; $3.80 remaining
    )),
    ("count", "token", (rf"[Tt]oken usage: ?{_NUMBER} ?/ ?{_NUMBER}(?:; ?{_NUMBER} remaining)?",)),
    ("count", "0", (
        (rf"\b{_NUMBER} ?(?:tokens? |% |percent )(?:of )?(?:context |the context )?(?:window )?"  # 12% of context left
         r"(?:left|remaining|remain|available)\b"),
    )),
    ("count", "remaining available used context budget tokens token", (
        (r"\b(?i:(?:remaining|available|used|context|budget)[ _:-](?:tokens|window|left|context)"  # budget:tokens>12
         r"|tokens[ _-](?:left|remaining|used|available)|token[ _-](?:budget|count)"
         r"|context[ _-](?:usage|used|remaining))\b"
         rf"[\"'>]?[ \t]{{0,4}}[:=]?[ \t]{{0,4}}{_NUMBER}%?(?: ?/ ?{_NUMBER})?"),
    )),
    ("id", "0 -", (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",)),  # a UUID
    ("temporary", "/", (r"(?:/private)?(?:/tmp|/var/tmp|/var/folders|/dev/shm|/run/user/\d{1,9})/[\w./+@-]+",)),
    ("temporary", " ".join("abcdefghijklmnopqrstuvwxyz"), (
        r"[A-Za-z]:\\(?:[^\\\s\"<>|]{1,64}\\){0,8}Temp\\[\w.\\+@-]+",
    )),
    ("process", "pid ppid process", (r"\b(?i:pid|process id|ppid)[\"']?[ \t]{0,4}[=:#]?[ \t]{0,4}\d+",)),
    ("process", "0 localhost", (r"\b(?:localhost|127\.0\.0\.1):\d{2,5}\b",)),
    ("place", "<", (r"<cwd>[^<]{0,512}</cwd>",)),
    ("place", " ".join(["current primary your working cwd pwd", *_FOLDERS]), (
        (r"(?i:\b(?:(?:current |primary |your )?(?:working director(?:y|ies)|workspace(?: root| folder)?)|cwd|pwd"
         r"|(?:project|repo(?:sitory)?|workspace)[ _]?(?:root|path|director(?:y|ies)|folder)))"
         r"[\"'`*]{0,3}[ \t]{0,4}(?:[:=]|is|>)[ \t]{0,4}[\"'`*]{0,3}[~/\\\w][^\s\"'`<>*]{0,512}"),
    )),
    ("counter", "turn step iteration request attempt round message counter sequence seq call tick invocation", (
        (r"\b[^\W\d_]+(?i:[ _-](?:no\.?|number|count|index|id))?"
         r"[\"']?[ \t]{0,4}[:=#]{0,2}[ \t]{0,4}\d+(?:(?: of | ?/ ?)\d+)?\b(?!-[0-9a-fA-F]{4}-)"),  # step 3 of 10
    )),
    ("date", "0", (
        rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T _]{_CLOCK} ?{_ZONE})?(?![\w-])",
        r"\b20\d{6}(?:[T_-]?\d{4,6}Z?)?\b",  # 20261127T1206
        r"\b\d{4}-W\d{2}(?:-\d)?\b",
        r"\b\d{4}[/.]\d{1,2}[/.]\d{1,2}\b",
        r"\b\d{1,2}/\d{1,2}/\d{2,4}\b",
        r"\b\d{1,2}[.-]\d{1,2}[.-]\d{4}\b",
        r"(?:\d{2,4} ?[年년] ?)?\d{1,2} ?[月월] ?\d{1,2} ?[日일号]",
        r"\d{1,2} ?[時时시] ?\d{1,2} ?[分분]",
        rf"\b\d{{1,2}}[-/ ]{_MONTH}[-/ ]\d{{2,4}}(?::{_CLOCK})?",
        r"\b\d{1,2} ?(?:[AaPp]\.?[Mm]\b\.?|o'clock\b)",
        r"\b\d{1,2} ?[hH.]\d{2} ?(?:Uhr\b|(?<=[hH]\d{2})\b)",
        rf"\b{_CLOCK}(?: ?(?:UTC|GMT|CE?S?T|[ECMP][SD]T)\b)?(?:[+-]\d{{2}}:?\d{{2}})?",
        r"\b1[5-9]\d{8}(?:\d{3})?(?:\.\d{1,9})?\b",  # seconds or milliseconds since 1970
        r"\b\d{1,6} ?(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?) (?:ago|old)\b",
    )),
    ("date", "0", (r"\b\d{1,2}(?:\.|er|º)? ?(?:de |d'|di )?([^\W\d_]+)(?: (?:de )?\d{4}\b)?",)),  # 3 de mayo
    ("date", f"0 {_MONTHS}", (
        rf"\b(?:\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?)?{_MONTH}\b\.?(?: \d{{1,2}}(?:st|nd|rd|th)?\b)?(?:,? \d{{4}}\b)?",
    )),
    ("date", _DAYS, (r"\b[A-Z][a-z]+\b",)),
    ("date", _FOREIGN_DAYS, (r"\b[^\W\d_]+\b",)),
    ("date", "uptime elapsed age", (r"\b[^\W\d_]+[\"'>]?[ \t]{0,4}[:=]?[ \t]{0,4}\d[\w.:, ]{0,24}",)),
    ("id", "req msg run sess session trace resp thread call toolu conv evt span job task user org", (
        r"\b[a-z]+[_-](?=[A-Za-z_-]{0,32}\d)[0-9A-Za-z_-]{4,128}\b",  # toolu_01A09q90
    )),
    ("id", _OWNERS, (rf"\b[^\W\d_]+[ _-](?i:id|uuid|token|key){_VALUE}",)),  # session id: ab12
    ("id", " ".join(["nonce uuid cch request fingerprint salt etag", *_IDS]), (rf"\b[^\W\d_]+{_VALUE}",)),
    ("id", "0 -", (r"\b[0-9a-f]{12,}\b",)),
    ("word", "0 -", (r"[0-9A-Za-z_-]{16,}",)),  # an id if it has enough digits
)  # fmt: skip
FORMS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # kinds and forms by the word that they begin with
for _kind, _starts, _forms in _FORMS:
    _form = pattern("|".join(_forms))
    for _word in _starts.split():
        FORMS.setdefault(_word, []).append((_kind, _form))
# Where a word may begin: after a character that ends another one. Groups: whether it is long, its first word or sign.
STARTS = pattern(r"(?:(?<![^\W_])|(?=[</$])|(?<=[^\x00-\x7f])(?=\d))(?=([0-9A-Za-z_-]{12})?)([^\W\d_]+|[\d</$_-])")
# Text without a match holds no word that varies: a quick test.
MAY_VARY = pattern(
    r"\d|/|\\|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    rf"|(?i:cwd|pwd|director|workspace|nonce|token|uuid| id\b|key)|(?i:{_FOREIGN_DAYS.replace(' ', '|')})"
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
    r"|^(?:(?:project|workspace|repo(?:sitory)?) )?(?:files|file list)$"  # anomalyco/opencode#5224
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
PATH = pattern(r"[\s:=>\"'`*](?:~|[/\\]|[A-Za-z]:[/\\])")  # a full path, as the value of a label
LABELLED = pattern(r"[:=#][ \t\"'`*]{0,8}(?=\D{0,64}\d\D{0,64}\d)")
CURRENT = pattern(r"(?i)\b(?:today'?s?|current|now|present)\b[^\n:=]{0,24}(?:[:=]|\bis\b)[ \t*]{0,4}$")
