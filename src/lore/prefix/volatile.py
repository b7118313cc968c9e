"""Text that is known to vary: dates and times, token counts, ids, counters, temporary paths.

In: text. Out: what is left when such words are taken out (the skeleton), and the words with their kinds. Rules:
one pattern, no nested repetition, so cost is O(text); text longer than `LONGEST` is not looked through, since a
clock is a word and not a book. Source of the forms: public threads about broken caches (the catalogue of causes).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lore.model.codes import Code
from lore.model.differences import Varies

LONGEST = 65_536  # characters; a difference that is larger is no clock
MASK = "\x00"

NAMES: dict[str, tuple[str, Varies]] = {
    "date": (Code.DATE_IN_PREFIX, "date"),
    "place": (Code.DATE_IN_PREFIX, "directory"),
    "count": (Code.TOKEN_REMINDER_IN_PREFIX, "token-count"),
    "id": (Code.ID_IN_PREFIX, "id"),
    "temporary": (Code.ID_IN_PREFIX, "temporary-path"),
    "process": (Code.ID_IN_PREFIX, "process-id"),
    "counter": (Code.ID_IN_PREFIX, "counter"),
}

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
# Months and days as other languages write them: taken for a date beside a number, days also alone.
_MOIS = (
    r"(?i:janvier|f[ée]vrier|mars|avril|mai|juin|juillet|ao[ûu]t|septembre|octobre|novembre|d[ée]cembre"
    r"|januar|februar|m[äa]rz|juni|juli|oktober|dezember|januari|februari|maart|mei|augustus|augusti|december"
    r"|enero|febrero|marzo|abril|mayo|junio|julio|agosto|sep?tiembre|octubre|noviembre|diciembre"
    r"|janeiro|fevereiro|mar[çc]o|maio|junho|julho|setembro|outubro|novembro|dezembro"
    r"|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre"
    r"|января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря)"
)
_JOUR = (
    r"(?i:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag"
    r"|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|mi[ée]rcoles|jueves|viernes|s[áa]bado|domingo"
    r"|luned[ìi]|marted[ìi]|mercoled[ìi]|gioved[ìi]|venerd[ìi]|sabato|domenica|[月火水木金土日]曜日?|星期[一二三四五六日天])"
)
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?[AaPp]\.?[Mm]\b\.?)?"
_ZONE = r"(?:Z|[+-]\d{2}:?\d{2})?"
NUMBER = r"\d[\d,_.]{0,24}+[kKmM]?"
_DAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)(?:day)?"

# The order counts: a longer form stands before those that are parts of it.
_FORMS: tuple[tuple[str, str], ...] = (
    ("count", (rf"<total_tokens>[^<]{{0,200}}</total_tokens>|[Tt]oken usage: ?{NUMBER} ?/ ?{NUMBER}"
              rf"(?:; ?{NUMBER} remaining)?|\b{NUMBER} ?(?:tokens? |% |percent )(?:of )?(?:context |the context )?"
              rf"(?:window )?(?:left|remaining|remain|available)\b"
              rf"|\b(?i:(?:remaining|available|used|context|budget)[ _-](?:tokens|window|left)"
              rf"|tokens[ _-](?:left|remaining|used|available)|token[ _-](?:budget|count)|context[ _-]usage)\b"
              rf"[\"']?[ \t]{{0,4}}[:=]?[ \t]{{0,4}}{NUMBER}%?(?: ?/ ?{NUMBER})?"
              rf"|\$\d[\d.,]*/\$\d[\d.,]*; \$\d[\d.,]* remaining")),
    ("id", (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")),
    ("temporary", (r"(?:/private)?(?:/tmp|/var/tmp|/var/folders|/dev/shm|/run/user/\d{1,9})/[\w./+@-]+"
                  r"|[A-Za-z]:\\(?:[^\\\s\"<>|]{1,64}\\){0,8}Temp\\[\w.\\+@-]+")),
    ("process", (r"\b(?i:pid|process id|ppid)[\"']?[ \t]{0,4}[=:#]?[ \t]{0,4}\d+"
                r"|\b(?:localhost|127\.0\.0\.1|\[::1\]):\d{2,5}\b")),
    ("place", (r"(?i:\b(?:(?:current |primary |your )?(?:working director(?:y|ies)|workspace(?: root| folder)?)|cwd|pwd"
              r"|(?:project|repo(?:sitory)?|workspace)[ _]?(?:root|path|director(?:y|ies)|folder)))"
              r"[\"'`*]{0,3}[ \t]{0,4}(?:[:=]|is|>)[ \t]{0,4}[\"'`*]{0,3}[~/\\\w][^\s\"'`<>*]{0,512}"
              r"|<cwd>[^<]{0,512}</cwd>")),
    ("counter", (r"\b(?i:turn|step|iteration|request|attempt|round|message|counter|sequence|seq|call|tick|invocation)"
                r"(?i:[ _-](?:no\.?|number|count|index|id))?"
                r"[\"']?[ \t]{0,4}[:=#]{0,2}[ \t]{0,4}\d+(?:(?: of | ?/ ?)\d+)?\b")),
    ("date", (rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T _]{_CLOCK} ?{_ZONE})?(?![\w-])"
             r"|\b20\d{6}(?:[T_-]?\d{4,6}Z?)?\b|\b\d{4}-W\d{2}(?:-\d)?\b"
             r"|\b\d{4}[/.]\d{1,2}[/.]\d{1,2}\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b"
             r"|\b\d{1,2}[.-]\d{1,2}[.-]\d{4}\b"
             r"|\d{2,4} ?[年년] ?\d{1,2} ?[月월] ?\d{1,2} ?[日일号]"
             r"|\d{1,2} ?[月월] ?\d{1,2} ?[日일号]|\d{1,2} ?[时時시] ?\d{1,2} ?[分분]"
             rf"|\b\d{{1,2}}[-/ ]{_MONTH}[-/ ]\d{{2,4}}(?::{_CLOCK})?"
             rf"|\b\d{{1,2}}(?:\.|er|º)? ?(?:de |d'|di )?{_MOIS}(?: (?:de )?\d{{4}}\b)?|\b{_JOUR}\b"
             r"|\b\d{1,2} ?(?:[AaPp]\.?[Mm]\b\.?|o'clock\b)|\b\d{1,2} ?[hH.]\d{2} ?(?:Uhr\b|(?<=[hH]\d{2})\b)"
             rf"|\b{_CLOCK}(?: ?(?:UTC|GMT|CE?S?T|[ECMP][SD]T)\b)?(?:[+-]\d{{2}}:?\d{{2}})?"
             rf"|\b{_DAY}\b"
             rf"|\b(?:\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?)?{_MONTH}\b\.?"
             r"(?: \d{1,2}(?:st|nd|rd|th)?\b)?(?:,? \d{4}\b)?"
             r"|\b1[5-9]\d{8}(?:\d{3})?(?:\.\d{1,9})?\b"
             r"|\b\d{1,6} ?(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?) ago\b"
             r"|\b(?i:uptime|elapsed)[ \t]{0,4}[:=]?[ \t]{0,4}\d[\w.:, ]{0,24}")),
    ("id", (r"\b(?:req|msg|run|sess|session|trace|resp|thread|call|toolu|conv|evt|span|job|task|user|org)[_-]"
           r"(?=[A-Za-z_-]{0,32}\d)[0-9A-Za-z_-]{4,128}\b"
           r"|\b(?i:(?:request|session|trace|run|correlation|message|conversation|thread|span|build|instance|invocation"
           r"|prompt|turn|job|task)[ _-]?(?:id|uuid|token|key)|nonce|uuid|cch|request|fingerprint|salt|etag)"
           r"[\"'`*]{0,3}[ \t]{0,4}[:=#][ \t]{0,4}[\"'`*]{0,3}[\w./+=-]{3,256}"
           r"|\b[0-9a-f]{12,}\b")),
    ("word", (r"[0-9A-Za-z_-]{16,}")),
)  # fmt: skip
# Words begin where no other word goes on: most characters are passed over after one look.
_VARIES = re.compile(
    "(?:(?<![^\\W_])|(?=[</$])|(?<=[^\x00-\x7f])(?=\\d))(?:" + "|".join(f"({pattern})" for _, pattern in _FORMS) + ")"
)
_MAY = re.compile(r"\d|/|\\|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
                  rf"|(?i:cwd|pwd|director|workspace|nonce|token|uuid| id\b|key)|{_JOUR}")  # fmt: skip
_AROUND = 200  # characters around a difference in which a word that varies may have begun
_KINDS = tuple(kind for kind, _ in _FORMS)
_DIGITS_OF_AN_ID = 4  # a long word with so many digits is no name


class Word(NamedTuple):
    """A word that is known to vary, and its kind."""

    kind: str
    text: str


class Skeleton(NamedTuple):
    """Text with a mask for each word that varies, and these words in order."""

    text: str
    words: tuple[Word, ...]


def skeleton(text: str) -> Skeleton:
    """Take out the words that are known to vary; of text longer than `LONGEST` nothing is taken out."""
    if len(text) > LONGEST:
        return Skeleton(text, ())
    kept: list[str] = []
    words: list[Word] = []
    end = 0
    for match in _VARIES.finditer(text):
        kind = _KINDS[(match.lastindex or 1) - 1]
        word = match.group()
        if kind == "word":
            if sum(map(str.isdigit, word)) < _DIGITS_OF_AN_ID:
                continue
            kind = "id"
        kept.append(text[end : match.start()])
        words.append(Word(kind, word))
        end = match.end()
    kept.append(text[end:])
    return Skeleton(MASK.join(kept), tuple(words))


def _window(left: str, right: str) -> tuple[str, str]:
    """Cut what is equal off both texts, but for what a word at the difference may reach into."""
    room = min(len(left), len(right))
    front = equal_front(left, right)
    back = equal_back(left, right, room - front)
    begin, end = max(0, front - _AROUND), max(0, back - _AROUND)
    return left[begin : len(left) - end], right[begin : len(right) - end]


def equal_front(left: str, right: str) -> int:
    """Count the leading characters that are equal, at the speed of slices."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def equal_back(left: str, right: str, room: int) -> int:
    """Count the characters at the end that are equal, at most `room`, at the speed of slices."""
    low, high, mine, theirs = 0, room, len(left), len(right)
    while low < high:
        middle = (low + high + 1) // 2
        if left[mine - middle : mine - low] == right[theirs - middle : theirs - low]:
            low = middle
        else:
            high = middle - 1
    return low


def varied(left: str, right: str) -> tuple[str, ...] | None:
    """Name the kinds of the words in which two texts differ; None where they differ in more than that."""
    left, right = _window(left, right)
    if _MAY.search(left) is None and _MAY.search(right) is None:
        return None
    mine, theirs = skeleton(left), skeleton(right)
    if mine.text != theirs.text or len(mine.words) != len(theirs.words):
        return None
    kinds = [one.kind for one, other in zip(mine.words, theirs.words, strict=True) if one.text != other.text]
    return tuple(dict.fromkeys(kinds)) or None


# What a line is about in which numbers alone changed, in the words that stand beside them.
_LABELS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("count", re.compile(r"(?i)\b(?:tokens?|context (?:window|usage|left|used))\b[^\n:=]{0,24}[:=]")),
    ("process", re.compile(r"(?i)\b(?:pid|process|port)\b[^\n:=]{0,24}[:=]")),
    ("date", re.compile(
        r"(?i)\b(?:date|time|datetime|today|now|week|clock|uptime|elapsed|updated|refreshed|timestamp|epoch|datum|uhrzeit"
        r"|heute|jetzt|stand|fecha|hora|hoy|ahora|aujourd'hui|heure|oggi|ora|hoje|agora|сегодня|время)\b"
        r"|[日时時]付?[期间間刻]?[：:]|今[日天]|现在|現在|当前|오늘|현재")),
    ("counter", re.compile(
        r"(?i)\b(?:turns?|steps?|iterations?|attempts?|rounds?|messages|calls|requests|invocations?)\b[^\n:=]{0,24}[:=]")),
)  # fmt: skip
_DIGITS = re.compile(r"\d+(?:[.,:]\d+)*")
_LONG_LINE = 2_000  # characters: of a longer one, a word somewhere in it says nothing of a number


def numbered(left: str, right: str) -> str | None:
    """Name the kind of two lines in which numbers alone differ, by the words beside them; None where none says it."""
    if max(len(left), len(right)) > _LONG_LINE or _DIGITS.sub("0", left) != _DIGITS.sub("0", right):
        return None
    return next((kind for kind, label in _LABELS if label.search(left)), None)
