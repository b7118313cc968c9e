"""Words that agents and clocks put into text: what varies with time or request, and what a text is about.

In: text. Out: the kinds of the words in which two texts differ; what is surely made anew for each request, even where
it did not change yet; a topic. Rules: patterns are without nested repetition, so cost is O(text), and text longer than
`VARYING_TEXT` is not searched; markers of a topic are those that agents write (git's own output, trees, tags and
headings of memory and of reminders), and nothing is guessed from plain words.

Source of the forms: public threads about broken caches (the catalogue of causes).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, takewhile, zip_longest
from typing import NamedTuple

from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.differences import Varies, VaryingKind
from lore.model.labels import MEMORY_RECALL, Holds, labelled
from lore.model.limits import CLOCK_SIGNS, VARYING_TEXT
from lore.model.vector import common_prefix, common_suffix

_NAMES: dict[str, tuple[Code, Varies]] = {
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
_VARIES = pattern(
    "(?:(?<![^\\W_])|(?=[</$])|(?<=[^\x00-\x7f])(?=\\d))(?:" + "|".join(f"({form})" for _, form in _FORMS) + ")"
)
_MAY = pattern(r"\d|/|\\|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
                  rf"|(?i:cwd|pwd|director|workspace|nonce|token|uuid| id\b|key)|{_JOUR}")  # fmt: skip
_MOST_OPENING = 300  # characters at a text's beginning that say that no user wrote it
_LONG_WORD = 1_024  # characters behind a difference in which a word that varies is still seen to have begun
_AROUND = 200  # characters around a difference in which a word that varies may have begun
_KINDS = tuple(kind for kind, _ in _FORMS)
_DIGITS_OF_AN_ID = 4  # a long word with so many digits is no name


def varying_words(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each word that is known to vary: the text before it, its kind, the word; at last the rest, without a word.

    Text longer than `VARYING_TEXT` has no such words.
    """
    end = 0
    for match in _VARIES.finditer(text) if len(text) <= VARYING_TEXT else ():
        kind = _KINDS[(match.lastindex or 1) - 1]
        word = match.group()
        if kind == "word":
            if sum(map(str.isdigit, word)) < _DIGITS_OF_AN_ID:
                continue
            kind = "id"
        yield text[end : match.start()], kind, word
        end = match.end()
    yield text[end:], "", ""


def varied(left: str, right: str) -> list[tuple[Code, Varies]]:
    """Name the words in which two texts differ, each kind once; nothing where they differ in more than that.

    What is equal is cut off both texts, but for what a word at the difference may reach into.
    """
    front = common_prefix(left, right)
    back = common_suffix(left, right, min(len(left), len(right)) - front)
    begin, end = max(0, front - _AROUND), max(0, back - _AROUND)
    left, right = left[begin : len(left) - end], right[begin : len(right) - end]
    if _MAY.search(left) is None and _MAY.search(right) is None:
        return []
    if _VARIES.search(min(left, right, key=len)) is None:  # both have as many words: a placeholder has none
        return []
    place = front - begin
    begun = takewhile(lambda match: match.start() <= place, _VARIES.finditer(left[: place + _LONG_WORD]))
    if not any(match.end() >= place for match in begun):
        return []
    kinds: dict[str, None] = {}
    for (old_text, kind, old), (new_text, _, new) in zip_longest(
        varying_words(left), varying_words(right), fillvalue=("", "", "")
    ):
        if old_text != new_text or bool(old) != bool(new):
            return []
        if old != new:
            kinds[kind] = None
    return [_NAMES[kind] for kind in kinds]


# What a line is about in which numbers alone changed, in the words that stand beside them.
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
_DIGITS = pattern(r"\d+(?:[.,:]\d+)*")
_LONG_LINE = 2_000  # characters: of a longer one, a word somewhere in it says nothing of a number


def numbered(left: str, right: str) -> tuple[Code, Varies] | None:
    """Name what two lines are about in which numbers alone differ, by the words beside; None where none says it."""
    if max(len(left), len(right)) > _LONG_LINE or _DIGITS.sub("0", left) != _DIGITS.sub("0", right):
        return None
    return next((_NAMES[kind] for kind, label in LABELS if label.search(left)), None)


_BEFORE, _AFTER = 96, 160  # characters around a sign that belong to what it is a sign of

# Signs begin with a letter that stands for itself, so that they are found at the speed of a search for it.
_MINUTES, _EPOCH = pattern(r":[0-9][0-9]"), pattern(r"1[5-9][0-9]{8}")
_NOW = pattern(
    r"\b(?:(?:current|present|local|server|request|system)[ _-](?:date and |date/|date & |date[_-]?)?(?:time|utc)"
    r"|time now|time of day|time is|right now|now is|(?:now|utc)[_-](?:utc|now)|timestamp|generated at|as of now"
    r"|clock)\b[^\n]{0,40}?(?<!\d)"
    r"(?:\d{1,2}:\d{2}(?::\d{2})?|1[5-9]\d{8}(?:\d{3})?\b)",
    re.IGNORECASE,
)
# A date with a time of day that fills a line, alone or behind what it is the time of.
_ISO = pattern(
    r"^[ \t>*#(\[-]{0,8}(?:<[\w-]{1,40}>|(?:now|utc|today|date|time|datetime|date and time)[ \t]*[:=]?[ \t]*)?"
    r"\d{4}-\d{2}-\d{2}[t ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:[ ]?(?:z|utc|gmt)|[+-]\d{2}:?\d{2})?"
    r"(?:</[\w-]{1,40}>)?[)\].,;]{0,2}[ \t\r]*$",
    re.IGNORECASE | re.MULTILINE,
)
_TAGGED = pattern(r"<([A-Za-z][\w:.-]{0,60})\b[^>\n]{0,200}>.*</\1>", re.DOTALL)
_STAMPED = pattern(r"[\s(\[]{0,4}\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2})?")
EXAMPLE = pattern(r"\b(?:e\.g\.|for example|example|such as|format|like)", re.IGNORECASE)
_ID_SIGNS = (pattern(r"id"), pattern(r"token"), pattern(r"nonce"))
_DIGIT = pattern(r"\d")
_VALUE_FOLLOWS = frozenset("\"'`* \t:=#")
_REQUEST_ID = pattern(
    r"\b(?:(?:request|trace|correlation|prompt|message|invocation|turn|span)[ _-]?(?:id|uuid|token)|nonce)"
    r"[\"'`*]{0,3}[ \t]{0,4}[:=#][ \t]{0,4}[\"'`*]{0,3}(?=[A-Za-z_-]{0,32}\d)[\w-]{6,}",
    re.IGNORECASE,
)
_LEFT = pattern(
    rf"<total_tokens>[^<\d]{{0,40}}\d[^<]{{0,100}}</total_tokens>|[Tt]oken usage: ?{NUMBER} ?/ ?{NUMBER}"
    rf"|\b{NUMBER} tokens (?:left|remaining)\b|\b(?i:remaining tokens|tokens remaining|tokens left)[ \t]*[:=][ \t]*\d"
)


class VolatileWord(NamedTuple):
    """What varies, and the words themselves."""

    what: str
    text: str


def surely_varies(text: str) -> VolatileWord | None:
    """Find text that is made anew for each request, whether or not it changed yet; None where there is none."""
    low = text[:VARYING_TEXT].lower()
    for what, signs, form in _SURE:
        for at in islice(signs(low), CLOCK_SIGNS):
            match = form.search(text, max(0, at - _BEFORE), at + _AFTER)
            if match is not None and not (form is _NOW and EXAMPLE.search(match.group())):
                return VolatileWord(what, match.group())
    return None


def _clocks(low: str) -> Iterator[int]:
    """Find hours and minutes, and seconds since 1970."""
    yield from (found.start() for found in _MINUTES.finditer(low) if low[found.start() - 1 : found.start()].isdigit())
    yield from (found.start() for found in _EPOCH.finditer(low))


def _ids(low: str) -> Iterator[int]:
    """Find what is named an id, and has a value behind it."""
    for name in _ID_SIGNS:
        for found in name.finditer(low):
            if low[found.end() : found.end() + 1] in _VALUE_FOLLOWS:
                yield found.start()


def _tokens(low: str) -> Iterator[int]:
    places = ((found.start(), found.end()) for found in _ID_SIGNS[1].finditer(low))
    return (start for start, end in places if _DIGIT.search(low, max(0, start - 16), end + 48))


_SURE: tuple[tuple[str, Callable[[str], Iterator[int]], re.Pattern[str]], ...] = (
    ("a clock", _clocks, _NOW),
    ("a clock", _clocks, _ISO),
    ("the id of one request", _ids, _REQUEST_ID),
    ("a count of tokens left", _tokens, _LEFT),
)

_LOOK_BACK = 4_096  # characters before a difference, searched for its heading

_GIT_LINE = pattern(
    r"(?m)^(?:[ \t]*[MADRCU?!]{1,2}[ \t]+[\w./-]+[\w/.][ \t]*$|##? ?[\w./-]{1,80}\.\.\.|On branch |Your branch is "
    r"|(?:Current |Main |Git )?[Bb]ranch(?: \([^)\n]{0,80}\))?: |(?:Git )?[Ss]tatus: "
    r"|[ \t]*(?:modified|new file|deleted|renamed):"
    r"|[0-9a-f]{7,40} \S|commit [0-9a-f]{7,40}|Recent commits|(?:HEAD|Last commit|Commit)\b[^\n]{0,20}[:=]"
    r"|(?:\d+ )?(?:un)?(?:staged|tracked|committed) (?:changes|files)|nothing to commit)"
)
_GIT_WORDS = pattern(r"(?i)\b(?:git ?status|working (?:tree|copy))\b")
_TREE_LINE = pattern(r"(?m)^[ \t│|]*(?:├──|└──|\|--|`--|\+--)|(?:├|└)─")
_GIT_HEAD = pattern(
    r"(?i)git ?status|git[ -](?:state|info|branch|log|diff)|recent commits|current branch"
    r"|directory (?:structure|tree|listing)"
    r"|(?:file|project|folder|repo(?:sitory)?|workspace|source) (?:structure|tree|listing|map|layout)"
)
_MEMORY_HEAD = pattern(
    r"(?i)\bmemor(?:y|ies)\b|\bknowledge(?: base)?\b|\bretriev(?:ed|al)\b|\brecall(?:ed)?\b|\bremembered\b|\brag\b"
    r"|\b(?:relevant|additional|provided|reference|background|project|user|search|session|loaded|working)[ _-]"
    r"(?:context|documents?|snippets?|notes|results|passages|facts|preferences)\b|^<?/?(?:context|documents?|facts|notes)\b"
    r"|\bclaude\.?md\b|\bagents\.md\b|\b(?:context|documents|passages) *$"
)
_HEADING = pattern(r"(?m)^(?:#{1,6} [^\n]{1,120}|<(/?)([A-Za-z][\w:.-]{0,60})[^>\n]{0,120}>|\[[^\]\n]{1,60}\][ \t]*$"
                      r"|[A-Za-z][\w -]{0,60}:[ \t]*(?=\n|$)|(?:gitStatus|git_status):[^\n]{0,200}"
                      r"|[^\n]{1,100}:[ \t]*$)")  # fmt: skip
_LABEL = pattern(r"[A-Za-z][\w -]{0,60}: ")
_JOINED = pattern(r"[_-]+|(?<=[a-z])(?=[A-Z])")  # however a name is put together: gitStatus, memory-bank
_REMINDER = pattern(
    r"(?i)<(?:system[-_ ]?(?:reminder|warning|notice|note|message)|reminder|notice|ide_\w{1,40}|environment_details"
    r"|environment_context|total_tokens|user-prompt-submit-hook|hook|todo\w{0,20}|attached?_?\w{0,20})\b"
    r"|^\W{0,4}(?:system[ -])?reminder\b|^\W{0,4}\[?system\b[\]:]"
)


def topic(before: str, left: str, right: str) -> str | None:
    """Name what a difference is about: `git`, `memory`, or nothing that is known.

    It stands under the text `before`; its own first line may be a heading, too. What a program recalled says so,
    whatever lines it has.
    """
    for text in (left[:_LOOK_BACK], right[:_LOOK_BACK]):
        if MEMORY_RECALL in text and any(label.holds == "recalled memory" for label in labelled(text)):
            return "memory"
    for text in (left, right):
        if any(sign.search(text, 0, _LOOK_BACK) for sign in (_GIT_LINE, _GIT_WORDS, _TREE_LINE)):
            return "git"
    firsts = [text.lstrip()[:200].partition("\n")[0] for text in (left, right)]
    own = [line for line in firsts if _HEADING.match(line) or _LABEL.match(line)]
    for heading in (*own, *_headings(before[-_LOOK_BACK:])):
        words = _JOINED.sub(" ", heading.strip("<># :[]")).strip()
        if _GIT_HEAD.search(words):
            return "git"
        if _MEMORY_HEAD.search(words):
            return "memory"
    return None


def _headings(before: str) -> list[str]:
    """Return the headings that the end of a text stands under: the last label and heading, and open tags."""
    tags: list[tuple[str, str]] = []
    title, label = "", ""
    for match in _HEADING.finditer(before):
        heading, (closing, name) = match.group(), match.groups()
        if name is None:
            title, label = (heading, "") if heading.startswith("#") else (title, heading)
        elif not closing:
            tags.append((name, heading))
        else:
            while tags and tags.pop()[0] != name:
                pass
            title = label = ""
    if "\n\n" in before[before.rfind(label) :]:
        label = ""
    return [text for text in (label, title, *(text for _, text in reversed(tags))) if text]


class Wrapped(NamedTuple):
    """What a program put around a user's text: the text itself, and what it holds, as far as its labels say."""

    text: str
    holds: tuple[Holds, ...] = ()


def wrapping(left: str, right: str) -> Wrapped | None:
    """Return what a program put before or behind a text that stands alone on the right; None where there is no such.

    It is known by a tag around it, or by labels: a user's own words that are gone show neither.
    """
    own = right.strip()
    if not own or len(right) >= len(left) or len(left) > VARYING_TEXT:
        return None
    whole = left.strip()
    if whole.endswith(own):
        rest = whole[: -len(own)].strip()
    elif whole.startswith(own):
        rest = whole[len(own) :].strip()
    else:
        return None
    holds: tuple[Holds, ...] = tuple([label.holds for label in labelled(rest)])
    return Wrapped(rest, holds) if holds or is_reminder(rest) or _TAGGED.fullmatch(rest) else None


def is_reminder(text: str) -> bool:
    """Tell whether a text says that no user wrote it: a reminder, the state of an environment, a hook's output."""
    return _REMINDER.search(text.lstrip()[:_MOST_OPENING]) is not None


def made_by_program(text: str, more: tuple[str, ...] = ()) -> bool:
    """Tell whether a text in the user's role shows that no user wrote it: a reminder, a label, a clock.

    A time that it opens with is one, too, as programs stamp what they say. `more` are labels of the settings.
    """
    return (
        is_reminder(text)
        or bool(labelled(text, more))
        or _STAMPED.match(text) is not None
        or surely_varies(text) is not None
    )


def volatile_before_history(text: str, more: tuple[str, ...] = ()) -> VolatileWord | None:
    """Find what a system prompt holds that belongs behind the history: what surely varies, else what a tail says."""
    found = surely_varies(text)
    if found is None and (label := next(iter(labelled(text, more)), None)) is not None:
        found = VolatileWord(label.holds, label.line)
    return found


_DATED = dict(LABELS)["date"]

# Text of one prompt that is often another one in the next request, session or project.
_REPOSITORY = pattern(
    r"(?m)\bgit ?[Ss]tatus\b[^\n]{0,40}:|^(?:On branch |Your branch is |## [\w./-]{1,80}\.\.\.)"
    r"|^(?:Current|Main) branch(?: \([^)\n]{0,80}\))?: |^Recent commits:|^nothing to commit\b"
)
_UUID = pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TIME = pattern(r"\d:\d")
_LABELLED = pattern(r"[:=#][ \t\"'`*]{0,8}(?=\D{0,64}\d\D{0,64}\d)")
MOST = 16  # findings of one prompt: the first places that vary are named
_LINE = 400  # characters of a line around a word that are looked at


class VaryingWord(NamedTuple):
    """What is found, where it begins in the text (in characters), and the words."""

    kind: VaryingKind
    start: int
    text: str


def varying(text: str) -> list[VaryingWord]:
    """Return the first `MOST` words of each kind that often vary, in the order of their places, before they changed.

    A word alone says nothing (documentation is full of dates and ids): a date stands in a line that says what it is the
    date of, an id has a label or is a UUID, a path is the working directory or a temporary one with digits; a line that
    gives an example is none. Cost O(text), and text behind `VARYING_TEXT` characters is not looked through.
    """
    text = text[:VARYING_TEXT]
    found: list[VaryingWord] = []
    counts: Counter[VaryingKind] = Counter()
    at = 0
    for before, form, word in varying_words(text):
        at += len(before)
        kind = _kind(form, word, _line(text, at))
        if kind is not None and counts[kind] < MOST:
            counts[kind] += 1
            found.append(VaryingWord(kind, at, word))
        at += len(word)
    repository = _REPOSITORY.search(text)
    if repository is not None:
        found.append(VaryingWord("repository", repository.start(), repository.group()))
    return sorted(found, key=lambda word: word.start)


def _kind(form: str, word: str, line: str) -> VaryingKind | None:
    if not word or EXAMPLE.search(line):
        return None
    digits = sum(map(str.isdigit, word))
    match form:
        case "date" if digits and _DATED.search(line):
            return "clock" if _TIME.search(word) else "date"
        case "place":
            return "directory"
        case "id" if _UUID.fullmatch(word) or _LABELLED.search(word):
            return "id"
        case "temporary" if digits >= 2:  # noqa: PLR2004 - `/tmp` and `/tmp/1` stand in documentation
            return "temporary-path"
        case "process" if word[:1] in "pP":
            return "process-id"
        case "count":
            return "token-count"
        case _:
            return None


def _line(text: str, at: int) -> str:
    start = max(text.rfind("\n", 0, at) + 1, at - _LINE)
    end = text.find("\n", at, at + _LINE)
    return text[start : end if end >= 0 else at + _LINE]
