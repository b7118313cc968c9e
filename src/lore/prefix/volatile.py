"""Find text that changes with time or request, and name what a text is about.

Only forms and markers that clocks, agents and programs write count, which tables list; plain words prove nothing. Their
forms are those of public threads about broken caches; `pattern` compiles at first use. No pattern has a nested
repetition, so each search costs O(text). Of longer texts the first `VARYING_TEXT` characters are searched; a longer
difference is not searched.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest

from msgspec import Struct

from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.differences import Varies, VaryingKind
from lore.model.labels import MEMORY_RECALL, Holds, find_labels
from lore.model.limits import CLOCK_SIGNS, VARYING_TEXT
from lore.model.vector import common_prefix, common_suffix

# The code and the evidence for each kind of word below.
KINDS: dict[str, tuple[str, Varies]] = {
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
# Words before an example in its sentence; "Answer in JSON format, now it is 10:00:12" has a clock.
SUPPOSED = pattern(
    r"\b(?:e\.g\.|example|such as|looks? like|like (?:this|so)\b|suppose|imagine|if (?:the|it|today|now)\b)",
    re.IGNORECASE,
)
SENTENCE_END = pattern(r"\n|(?<!e\.g)[.!?]\s+(?=[A-Z]|\Z)")

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


_AROUND = 200  # characters before a difference in which a word that varies may have begun
_FEWEST_DIGITS = 4  # of a long word that is an id and not a name
_LONGEST_LINE = 2_000  # characters: in a longer line, a word somewhere says nothing about a number
_LINE = 400  # characters of a line around a word
_BLOCK, _LONGEST_LABEL = 1_024, 64  # characters that are searched for labels together; of a label
_BEFORE_SIGN, _AFTER_SIGN = 96, 160  # characters around a sign that are searched
_BEFORE_VALUE = frozenset("\"'`* \t:=#")  # what separates the name of an id from its value
_CONTEXT = 4_096  # characters before a difference, searched for its heading
_OPENING = 300  # characters at a text's beginning that show who wrote it
_LONGEST_ADDITION = 2_000  # characters that a program adds to the end of a text


# Words that vary


def split_varying_words(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (text before, kind, word) for each word that varies, then (rest, "", ""); a long text is all rest."""
    end = searched = 0
    for start in STARTS.finditer(text) if len(text) <= VARYING_TEXT else ():
        at, (is_long, first) = start.start(), start.groups()
        if at < searched:
            continue
        forms = FORMS.get("0" if first.isdigit() else first.lower(), ())
        for kind, form in (*forms, *FORMS["-"]) if is_long else forms:
            match = form.match(text, at)
            if match is None or (match.lastindex and match[1].lower() not in FOREIGN_MONTHS):
                continue
            word, searched = match.group(), match.end()
            if kind != "word" or sum(map(str.isdigit, word)) >= _FEWEST_DIGITS:
                yield text[end:at], "id" if kind == "word" else kind, word
                end = searched
            break
    yield text[end:], "", ""


def find_changed_words(previous: str, current: str) -> list[tuple[str, Varies]]:
    """Return code and kind of the varying words in which two texts differ; empty if anything else differs, too."""
    front = common_prefix(previous, current)
    back = common_suffix(previous, current, min(len(previous), len(current)) - front)
    begin, end = max(0, front - _AROUND), max(0, back - _AROUND)
    previous, current = previous[begin : len(previous) - end], current[begin : len(current) - end]
    if MAY_VARY.search(previous) is None and MAY_VARY.search(current) is None:
        return []
    kinds: dict[str, None] = {}
    pairs = zip_longest(split_varying_words(previous), split_varying_words(current), fillvalue=("", "", ""))
    for (text, kind, word), (new_text, _, new_word) in pairs:
        if text != new_text or bool(word) != bool(new_word):
            return []
        if word != new_word:
            kinds[kind] = None
    return [KINDS[kind] for kind in kinds]


def name_changed_numbers(previous: str, current: str) -> tuple[str, Varies] | None:
    """Return the kind of numbers in which alone two lines differ, by the line's other words; None: unknown."""
    if max(len(previous), len(current)) > _LONGEST_LINE or DIGITS.sub("0", previous) != DIGITS.sub("0", current):
        return None
    return next((KINDS[kind] for kind, label in LABELS if label.search(previous)), None)


# Text that is new in each request


def find_volatile_word(text: str) -> tuple[str, str] | None:
    """Return what the first clock, else request id, else token count is ("a clock"), and its words; else None."""
    lowered = text[:VARYING_TEXT].lower()
    for what, find_signs, form in _VOLATILE:
        for at in islice(find_signs(lowered), CLOCK_SIGNS):
            match = form.search(text, max(0, at - _BEFORE_SIGN), at + _AFTER_SIGN)
            before = "" if match is None else text[max(0, match.start() - _BEFORE_SIGN) : match.start()]
            is_example = match is not None and EXAMPLE.search(match.group())
            if match is not None and not is_example and not SUPPOSED.search(SENTENCE_END.split(before)[-1]):
                return what, match.group()
    return None


def _find_clocks(lowered: str) -> Iterator[int]:
    minutes = (match.start() for match in MINUTES.finditer(lowered))
    yield from (at for at in minutes if lowered[at - 1 : at].isdigit())
    yield from (match.start() for match in EPOCH.finditer(lowered))


def _find_ids(lowered: str) -> Iterator[int]:
    for sign in ID_SIGNS:
        for match in sign.finditer(lowered):
            if lowered[match.end() : match.end() + 1] in _BEFORE_VALUE:
                yield match.start()


def _find_token_counts(lowered: str) -> Iterator[int]:
    places = ((match.start(), match.end()) for match in COUNT_SIGN.finditer(lowered))
    return (start for start, end in places if DIGIT.search(lowered, max(0, start - 16), end + 48))


_VOLATILE: tuple[tuple[str, Callable[[str], Iterator[int]], re.Pattern[str]], ...] = (
    ("a clock", _find_clocks, CURRENT_TIME),
    ("a clock", _find_clocks, TIME_LINE),
    ("the id of one request", _find_ids, REQUEST_ID),
    ("a count of tokens left", _find_token_counts, TOKENS_LEFT),
)
_VOLATILE_KINDS = {"a clock": "date", "the id of one request": "id", "a count of tokens left": "count"}


def find_volatile_addition(previous: str, current: str) -> tuple[str, Varies] | None:
    """Return code and kind if one text is the other plus up to 2,000 volatile characters; else None."""
    shorter, longer = (previous, current) if len(previous) < len(current) else (current, previous)
    if len(longer) - len(shorter) > _LONGEST_ADDITION or not longer.startswith(shorter):
        return None
    added = longer[len(shorter) :].strip()
    word = find_volatile_word(added)
    if word is None:
        return None
    varying = sum(len(word) for _, _, word in split_varying_words(added))
    is_all = "\n" not in added or 2 * varying >= len(added)
    return KINDS[_VOLATILE_KINDS[word[0]]] if is_all else None


def find_volatile_in_system(text: str, labels: tuple[str, ...] = ()) -> tuple[str, str] | None:
    """Return a volatile word of a system prompt, else its first line with a label; None if it has neither.

    `labels` are those of the settings, besides lore's own.
    """
    return find_volatile_word(text) or next(iter(find_labels(text, labels).items()), None)


# What a text is about, and who wrote it


def find_topic(context: str, previous: str, current: str) -> str | None:
    """Return what a difference is about: `git`, `memory`, or None if no marker says it.

    A label of recalled memory in a text decides first, then a line of git or of a directory tree. Then headings
    do: in the first line, also after a tag, or open at the end of `context`, the text before (4,096 characters), whose
    last line may begin with a label (`Memory: tabs | `).
    """
    for text in (previous[:_CONTEXT], current[:_CONTEXT]):
        if MEMORY_RECALL in text and "recalled memory" in find_labels(text):
            return "memory"
    for text in (previous, current):
        if any(sign.search(text, 0, _CONTEXT) for sign in (GIT_LINE, GIT_WORDS, TREE_LINE)):
            return "git"
    first_lines = [line for text in (previous, current) for line in _first_lines(text)]
    own_headings = [match.group() for line in first_lines if (match := HEADING.match(line) or LABEL.match(line))]
    line_label = LABEL.match(context[-_CONTEXT:].rpartition("\n")[2])
    line_headings = [line_label.group()] if line_label else []
    for heading in (*own_headings, *line_headings, *_open_headings(context[-_CONTEXT:])):
        words = WORD_BREAK.sub(" ", heading.strip("<># :[]")).strip()
        if GIT_HEADING.search(words):
            return "git"
        if MEMORY_HEADING.search(words):
            return "memory"
    return None


def _first_lines(text: str) -> list[str]:
    """Return the first line of a text, and the second if the first is a tag (`<agentmemory>`, `## Memories`)."""
    lines = text.lstrip()[:200].split("\n", 2)
    return lines[: 2 if lines[0][:1] == "<" else 1]


def _open_headings(context: str) -> list[str]:
    """Return the headings that apply after a text: the last label and title, and tags that are still open."""
    tags: list[tuple[str, str]] = []
    title, label = "", ""
    for match in HEADING.finditer(context):
        heading, (slash, name) = match.group(), match.groups()
        if name is None:
            title, label = (heading, "") if heading.startswith("#") else (title, heading)
        elif not slash:
            tags.append((name, heading))
        else:
            while tags and tags.pop()[0] != name:
                pass
            title = label = ""
    if "\n\n" in context[context.rfind(label) :]:
        label = ""
    return [text for text in (label, title, *(text for _, text in reversed(tags))) if text]


def find_wrapper(previous: str, current: str, *, any_end: bool = False) -> tuple[str, tuple[Holds, ...]] | None:
    """Return the text before or after `current` that only `previous` has, and what its labels say that it holds.

    None if a user may have cut it, or if text was removed on both sides. A tag, a label or a reminder's opening shows
    that a program wrote it. `any_end`: the caller knows that no user cut the end, so that a short text there counts
    without such a mark if it begins with a space or a tag.
    """
    user_text = current.strip()
    if not user_text or len(current) >= len(previous) or len(previous) > VARYING_TEXT:
        return None
    old_text = previous.strip()
    if old_text.endswith(user_text):
        wrapper, is_end = old_text[: -len(user_text)], False
    elif old_text.startswith(user_text):
        wrapper, is_end = old_text[len(user_text) :], True
    else:
        return None
    is_addition = is_end and wrapper[0] in "\n\r\t <[" and len(wrapper) <= _LONGEST_ADDITION
    wrapper = wrapper.strip()
    holds = tuple(find_labels(wrapper))
    by_program = bool(holds) or is_reminder(wrapper) or TAGGED.fullmatch(wrapper) is not None
    return (wrapper, holds) if by_program or (any_end and is_addition) else None


def is_reminder(text: str) -> bool:
    """Return whether a program wrote a text: "reminder" or "system:" begins it, or `<system-reminder>` comes soon."""
    return REMINDER.search(text.lstrip()[:_OPENING]) is not None


def is_made_by_program(text: str, labels: tuple[str, ...] = ()) -> bool:
    """Return whether a user's text has a reminder, label (also of `labels`), clock or timestamp of a program."""
    is_marked = is_reminder(text) or bool(find_labels(text, labels)) or TIMESTAMPED.match(text) is not None
    return is_marked or find_volatile_word(text) is not None


# Text of one prompt that often differs in the next

_DATE_LABEL = dict(LABELS)["date"]
_MOST_OF_A_KIND = 16  # words of one prompt


class VaryingWord(Struct, frozen=True):
    """A word that often differs in the next request, session or project."""

    kind: VaryingKind  # of the word
    start: int  # in characters of the text
    text: str  # the word as the prompt has it


def find_varying_text(text: str, *, in_tool: bool = False) -> list[VaryingWord]:
    """Return words of one prompt that often differ in the next, in order, the first 16 of each kind.

    Documentation is full of dates and ids. So a date counts in a line that names it, an id with a label or as a UUID, a
    full path as the working directory or with digits in a temporary folder. Examples and quoted sentences never count,
    nor does a date in a tool's description (`in_tool`), except as the current one.
    """
    text = text[:VARYING_TEXT]
    words: list[VaryingWord] = []
    counts: Counter[VaryingKind] = Counter()
    examples = [match.span() for match in EXAMPLES.finditer(text)]
    labels, documentation = _Places(_DATE_LABEL, text), _Places(EXAMPLE, text)
    at = 0
    for before, form, word in split_varying_words(text):
        at += len(before)
        end = at + len(word)
        line_start, line_end = max(text.rfind("\n", 0, at) + 1, at - _LINE), text.find("\n", at, at + _LINE)
        line_end = line_end if line_end >= 0 else min(at + _LINE, len(text))
        kind = None
        if word and (form != "date" or labels.are_in(line_start, line_end)):
            kind = _varying_kind(form, word, text[line_start:at], text[end:line_end], in_tool=in_tool)
        if kind is not None and documentation.are_in(line_start, line_end):
            kind = None
        is_example = kind is not None and any(start <= at < stop for start, stop in examples)
        if kind is not None and not is_example and counts[kind] < _MOST_OF_A_KIND:
            counts[kind] += 1
            words.append(VaryingWord(kind, at, word))
        at = end
    repository = REPOSITORY.search(text)
    if repository is not None:
        words.append(VaryingWord("repository", repository.start(), repository.group()))
    return sorted(words, key=lambda word: word.start)


class _Places:
    """Where a pattern matches in a text: each block of it is searched once, whatever number of words is asked about."""

    def __init__(self, searched: re.Pattern[str], text: str) -> None:
        self._searched, self._text = searched, text
        self._blocks: dict[int, list[tuple[int, int]]] = {}

    def are_in(self, start: int, end: int) -> bool:
        """Return whether a match lies between two places."""
        blocks = (self._matches_in(number) for number in range(start // _BLOCK, end // _BLOCK + 1))
        return any(start <= first and last <= end for matches in blocks for first, last in matches)

    def _matches_in(self, number: int) -> list[tuple[int, int]]:
        if number not in self._blocks:
            begin, end = number * _BLOCK, (number + 1) * _BLOCK
            found = self._searched.finditer(self._text, begin, end + _LONGEST_LABEL)
            self._blocks[number] = [match.span() for match in found if match.start() < end]
        return self._blocks[number]


def _varying_kind(form: str, word: str, before: str, after: str, *, in_tool: bool) -> VaryingKind | None:
    """Return the kind of a word by what precedes and follows it in its line; None for a word that seldom varies.

    A date comes from a line with a label of dates.
    """
    digits = sum(map(str.isdigit, word))
    match form:
        case "date" if digits:
            is_quoted = any(before.count(mark) % 2 and mark in after and before[-1] != mark for mark in '"`')
            if (in_tool or is_quoted) and CURRENT.search(before) is None:
                return None
            return "clock" if TIME.search(word) else "date"
        case "place" if PATH.search(word):  # not "the workspace is long-term", "cwd: the folder of the command"
            return "directory"
        case "id" if UUID.fullmatch(word) or LABELLED.search(word):
            return "id"
        case "temporary" if digits >= 2:  # noqa: PLR2004 - `/tmp` and `/tmp/1` occur in documentation
            return "temporary-path"
        case "process" if word[:1] in "pP":
            return "process-id"
        case "count":
            return "token-count"
        case _:
            return None
