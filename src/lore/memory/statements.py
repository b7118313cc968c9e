"""Which remembered sentences contradict each other: by rule, without a model.

A sentence is read as a statement: a slot (`key`), what it says of it (`value`), whether it denies it, and a condition.
Two contradict each other only where slot and condition are the same. What is recognised, without articles and adverbs:

| form | slot |
|---|---|
| X is Y · X is not Y · X's Z is Y (Z of X) · X is in Y · X is written in Y | what X is, is in, is written in |
| X = Y · X := Y · X: Y (in any language) | what X is |
| use Y for X · we use, go with, switch to Y for X · Z uses Y for X | what is used for X, by Z |
| we use, decided to use Y instead of X | X |
| I prefer Y over X · I prefer Y for X · I prefer Y · the user likes, hates Y | Y or X; for X; Y |
| always do X · never do X | X |
| call me Y · I live in Y · I work at Y | the name, the place, the employer |

`replaces`: the later one holds. It denies what the earlier said; or the slot takes one value (a port, a deadline, a
name, a favourite, a number against a number), or the sentence says that something changed (now, instead, no longer).
`conflict`: both stand, and both are marked: the slot might take two values. A list that begins with what it describes
(`service: a`) is one statement of that. What speaks of the past, is conditional, reported, hedged or asked, is no
statement; a pronoun is no subject; "also" and "both" add; a quality ("slow") and a name ("a ThinkPad") are of different
kinds, and contradict nothing. English but for the lines with a colon or `=`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Literal, NamedTuple

from lore.model.inserts import normalised

Relation = Literal["", "replaces", "conflict"]
Kind = Literal["number", "date", "switch", "quality", "class", "name", "phrase"]
LONGEST = 300  # characters of a statement


class Statement(NamedTuple):
    """What a sentence says: of `key` that it is `value`, under a `condition`. `loser` is what a preference is against.

    `is_single`: the slot takes one value; `changes`: something is other than it was; `adds`: besides what was.
    """

    key: tuple[str, ...]
    value: str
    kind: Kind = "name"
    is_denied: bool = False
    condition: str = ""
    loser: str = ""
    is_single: bool = False
    changes: bool = False
    adds: bool = False


def _words(*groups: str) -> frozenset[str]:
    return frozenset(" ".join(groups).split())


# What a thing has one of: its head noun says so.
_SINGLE = _words(
    "name nickname surname age birthday pronouns email mail phone address city country timezone zone locale currency",
    "employer boss manager editor ide shell browser font database db orm framework linter formatter port url uri",
    "hostname version deadline date budget limit timeout interval threshold width height indentation encoding username",
    "license licence",
)
# What begins a list that describes one of several things.
_RECORDS = _words(
    "service server host project repo repository env environment module package file app component container database",
    "table endpoint job cluster region machine device branch user team",
)
_TIMES = _words(
    "ms s sec secs second seconds m min mins minute minutes h hour hours d day days week weeks month months"
)
_ONE_OF = _words("favourite favorite preferred default main primary current only actual")
_QUALITIES = _words(
    "slow fast good bad great fine nice old new broken fixed working ready done open closed wrong right important",
    "stuck down up busy free late early big small long short easy hard simple complex stable unstable green",
    "red clean dirty public private empty full safe unsafe cheap expensive useful useless correct incorrect",
    "finished unfinished missing",
)
_OPPOSITES = frozenset(
    frozenset(pair.split("/"))
    for pair in _words(
        "slow/fast good/bad old/new broken/fixed broken/working open/closed wrong/right up/down late/early big/small",
        "long/short easy/hard simple/complex stable/unstable green/red clean/dirty public/private empty/full busy/free",
        "safe/unsafe cheap/expensive correct/incorrect finished/unfinished tabs/spaces light/dark single/double",
        "formal/informal verbose/concise verbose/terse long/concise british/american",
        "metric/imperial sync/async enabled/disabled on/off",
    )
)
_NO_SUBJECT = _words(
    "it this that these those there here he she they we you i who which what everything something nothing anything",
    "everyone someone all one some both",
)
# Words before a colon that name no thing: of logs, mails, commits, lists.
_NO_KEY = _words(
    "error warning warn info debug trace fatal note todo task step steps question answer example usage output input",
    "expected actual result http https ftp file line from to cc subject re fwd date sent user assistant system human",
    "feat fix chore docs refactor test tests style perf build ci revert summary title description idea problem",
    "solution done open decision decided agreed fyi ps nb update correction remember reminder",
)

_LEAD = re.compile(
    r"^(?:(?:please|ok|okay|so|well|but|and|note|remember|fyi|for the record|correction|update|actually|also|decision|"
    r"decided|agreed|from now on)\b\s*[,:\-]?\s*(?:that\s+)?)+",
    re.IGNORECASE,
)
_DECIDED = re.compile(r"^(?:we|i)(?:'ve| have)? (?:decided|chosen|chose|agreed) (?:to |on |that )", re.IGNORECASE)
_NO_STATEMENT = re.compile(
    r"^(?:if|when|whenever|unless|whether|suppose|assume|imagine|maybe|perhaps|once|should|could|would|why|how|what|who|may)"
    r"\b"
    r"|\b(?:said|says|say|told|thinks?|thought|claims?|claimed|believes?|believed|asked|wonder|wonders|wondered|guess|"
    r"might|(?-i:may)|maybe|perhaps|probably|possibly|would|could|used to|was|were|had been|will be|unless|seems?)\b",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(?:now|instead|from now on|no longer|not any ?more|any ?more|changed|switch(?:ed|ing)?|moved|actually|"
    r"correction|update)\b",
    re.IGNORECASE,
)
_ADDS = re.compile(
    r"\b(?:also|too|as well|in addition|additionally|besides|another|both|either|sometimes)\b", re.IGNORECASE
)
_ADVERBS = re.compile(
    r"\s*,?\s*\b(?:right now|from now on|now|currently|at the moment|actually|instead(?! of)|any ?more|still|also|too|"
    r"as well|really|much|strongly|generally|usually|simply|just|again)\b(?!-)",
    re.IGNORECASE,
)
_DENIALS = re.compile(r"\b(is|are|do|does)n['’]t\b", re.IGNORECASE)
_AM = re.compile(r"(?<=\bi)['’]m\b", re.IGNORECASE)

_COLON = re.compile(r"([^\W\d_][\w./\- ]{0,39}?)\s*(?::=|[:：]|=)(?!//|=)\s*(\S.*)")
_BOUND = re.compile(r"[\w.\-]+\s*(?::=|=)(?!=)")
_RULE = re.compile(
    r"(?:(?:you (?:should|must)|i want you to) )?(always|never|do not ever|don't ever) (.+)", re.IGNORECASE
)
_WHO = r"(?:i|we|users?|the user|they)"
_PREFER = re.compile(
    rf"(?:{_WHO} )?(do not |does not |no longer |never )?(?:would |'d )?(prefers?|likes?|loves?|hates?|dislikes?) (.+)",
    re.IGNORECASE,
)
_OVER = re.compile(r"(.+?) (?:over|rather than|instead of) (.+)", re.IGNORECASE)
_FOR = re.compile(r"(.+?) (?:for|as) (.+)", re.IGNORECASE)
_USE = re.compile(
    r"(?:(?:let'?s|let us|we|i|you|the user|user|we'll|i'll|we will|we shall|i will|to) )?"
    r"(not |do not |never |no longer |does not )?"
    r"(?:uses?|go with|going with|stick with|switch to|switched to|move to|moved to|picked|pick|choose|chose) (.+)",
    re.IGNORECASE,
)
_THING_USES = re.compile(r"(.{2,60}?) (does not |no longer )?uses? (.+)", re.IGNORECASE)
_CALL = re.compile(r"(?:you can )?call me (.+)", re.IGNORECASE)
_LIVE = re.compile(rf"{_WHO} (?:am |is |are )?(?:(lives?|based) in|works? (?:at|for)) (.+)", re.IGNORECASE)
_IS = re.compile(r"(.{2,60}?) (?:is|are)( not| no longer)? (.+)", re.IGNORECASE)
_PREPOSITION = re.compile(
    r"((?:\w+(?:ed|en|own|ilt|ept) )?(?:in|on|at|from|by|with|under|called|named)) (.+)", re.IGNORECASE
)
_CONDITION = re.compile(
    r"(.+?) ((?:at|in|on|for|when|while|if|during|under|until|since|after|before|with) .+)", re.IGNORECASE
)
_FIRST_CONDITION = re.compile(r"((?:at|in|on|for|during|under|with|after|before) [^,]{1,60}), (.+)", re.IGNORECASE)
_OF = re.compile(r"(.{1,40}?)(?:'s|’s) (.{1,40})")
_ARTICLE = re.compile(r"^(?:the|an?|that|this|our team's)\s+", re.IGNORECASE)
_NUMBER = re.compile(r"(?:about |around |~)?[-+]?[$€£]?\d[\d.,_]*(?:\s?(?:[%°$€£]|[a-zµ]{1,12}))?", re.IGNORECASE)
_DATE = re.compile(
    r"\d{4}-\d\d(?:-\d\d)?(?:[T ][\d:]+Z?)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d\d(?: ?[ap]m)?|\d{1,2} ?[ap]m"
    r"|(?:next |this |on )?(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow"
    r"|(?:\d{1,2}(?:st|nd|rd|th)? )?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
    r"(?: \d{1,2}(?:st|nd|rd|th)?)?(?:,? \d{4})?",
    re.IGNORECASE,
)
_COLOUR = re.compile(r"\bcolou?rs?\b")
_SWITCHES = _words("on off true false enabled disabled yes no")


_MOST_READ = 4_096  # sentences that are remembered as they were read


@lru_cache(_MOST_READ)
def statement_of(text: str) -> Statement | None:
    """Read a sentence; None where it is no statement of a form that is known. Costs O(its length); safe in threads."""
    if len(text) > LONGEST or text.rstrip().endswith("?"):
        return None
    sentence = _DENIALS.sub(lambda found: f"{found[1]} not", " ".join(text.split()).rstrip(".!;"))
    sentence = _AM.sub(" am", sentence)
    changes, adds = bool(_CHANGES.search(sentence)), bool(_ADDS.search(sentence))
    found = _bound(sentence)
    if found is None and not _NO_STATEMENT.search(sentence):
        plain = _DECIDED.sub("", _LEAD.sub("", sentence))
        found = _bound(plain) or _said(_ADVERBS.sub("", plain).strip())
    if found is None or not found.key[-1]:
        return None
    return found._replace(changes=changes or found.changes, adds=adds)


def _bound(sentence: str) -> Statement | None:
    """Read `key: value` and `key = value`; a key is up to three words, and none that begins lines of logs or mail."""
    found = _COLON.fullmatch(sentence)
    if found is None:
        return None
    names = found[1].lower().split()
    first, _, rest = sentence.partition("; ")
    if rest and _COLON.fullmatch(rest):  # a record, as `listed` joins it: another first line is another thing
        return Statement(("record", normalised(first)), normalised(rest), "phrase", is_single=True)
    is_assigned = _BOUND.match(sentence) is not None
    if len(names) > (1 if is_assigned else 3) or names[0] in _NO_KEY or names[-1] in _NO_KEY:
        return None
    return Statement(("is", _subject(found[1])), normalised(found[2]), _kind(found[2]), is_single=True)


def _said(sentence: str) -> Statement | None:
    """Read a sentence of one of the English forms."""
    condition = ""
    if first := _FIRST_CONDITION.fullmatch(sentence):
        condition, sentence = normalised(first[1]), first[2]
    if rule := _RULE.fullmatch(sentence):
        is_denied = not rule[1].lower().startswith("always")
        return Statement(("do", normalised(rule[2])), "", is_denied=is_denied, condition=condition)
    if call := _CALL.fullmatch(sentence):
        return Statement(("call", "me"), normalised(call[1]), is_single=True, condition=condition)
    for read in (_preference, _home, _use, _copula):
        found = read(sentence)
        if found is not None:
            return found._replace(condition=" ".join(filter(None, (condition, found.condition))))
    return None


def _preference(sentence: str) -> Statement | None:
    found = _PREFER.fullmatch(sentence)
    if found is None:
        return None
    verb, rest = found[2].lower(), found[3]
    denied = (found[1] is not None) != verb.startswith(("hate", "dislike"))
    if over := _OVER.fullmatch(rest):
        purpose, value = _FOR.fullmatch(over[2]), normalised(over[1])
        other = normalised(over[2] if purpose is None else purpose[1])
        return Statement(
            ("prefers of", *sorted((value, other))), value, is_denied=denied, loser=other, is_single=True,
            condition="" if purpose is None else normalised(purpose[2]),
        )  # fmt: skip
    if purpose := _FOR.fullmatch(rest):
        return Statement(("prefers for", normalised(purpose[2])), normalised(purpose[1]), is_denied=denied)
    value, condition = _conditional(rest)
    return Statement(("prefers", value), value, is_denied=denied, condition=condition)


def _home(sentence: str) -> Statement | None:
    found = _LIVE.fullmatch(sentence)
    if found is None:
        return None
    value, condition = _conditional(found[2])
    return Statement(("lives in" if found[1] else "works at", "user"), value, condition=condition)


def _use(sentence: str) -> Statement | None:
    found, who = _USE.fullmatch(sentence), "we"
    denial, rest = (None, "") if found is None else (found[1], found[2])
    if found is None and (found := _THING_USES.fullmatch(sentence)):
        who, denial, rest = _subject(found[1]), found[2], found[3]
    if found is None or not who or who in _NO_SUBJECT - {"we"}:
        return None
    loser = ""
    if over := _OVER.fullmatch(rest):
        purpose = _FOR.fullmatch(over[2])
        loser, about = (over[2], "") if purpose is None else (purpose[1], f" for {purpose[2]}")
        loser, rest = normalised(loser), over[1] + about
    if purpose := _FOR.fullmatch(rest):
        about, condition = _conditional(purpose[2])
        key = ("uses for", who, re.sub(r"^(?:the|our|my) ", "", about))
        return Statement(key, normalised(purpose[1]), is_denied=denial is not None, condition=condition)
    value, condition = _conditional(rest)
    return Statement(("uses", who, value), value, is_denied=denial is not None, condition=condition, loser=loser)


def _copula(sentence: str) -> Statement | None:
    found = _IS.fullmatch(sentence)
    if found is None or re.search(r"[,;:()]", found[1]):
        return None
    subject, denial, said = _subject(found[1]), found[2], found[3]
    if not subject or subject.split()[0] in _NO_SUBJECT or re.search(r"\b(?:because|but|so that|which)\b", said):
        return None
    slot = "is"
    if place := _PREPOSITION.fullmatch(said):
        slot, said = f"is {place[1].lower()}", place[2]
    kind, (value, condition) = _kind(said), _conditional(said)
    kind = _kind(value) if condition and kind == "phrase" else kind
    kind = "name" if kind == "quality" and _COLOUR.search(subject) else kind  # "green" of a build is a quality
    value = normalised(_ARTICLE.sub("", value))
    return Statement(
        (slot, subject), value, kind, is_denied=denial is not None, condition=condition,
        is_single=slot == "is" and _takes_one(subject), changes=denial is not None and "longer" in denial,
    )  # fmt: skip


def _conditional(said: str) -> tuple[str, str]:
    """Return a value, and the condition behind it: "vim at work" holds at work."""
    found = _CONDITION.fullmatch(said)
    return (normalised(said), "") if found is None else (normalised(found[1]), normalised(found[2]))


def _subject(text: str) -> str:
    """Return a thing's name in one spelling: "A's port" is "port of a", "the user's" is "my"."""
    text = re.sub(r"^(?:the )?user['’]s ", "my ", text.strip(), flags=re.IGNORECASE)
    if owner := _OF.fullmatch(text):
        text = f"{owner[2]} of {owner[1]}"
    parts = [normalised(_ARTICLE.sub("", part)) for part in re.split(r"\s+of\s+", text, maxsplit=3)]
    return " of ".join(filter(None, parts))


def _takes_one(subject: str) -> bool:
    names = subject.partition(" of ")[0].split()
    return bool(names) and (names[-1] in _SINGLE or bool(_ONE_OF.intersection(names)))


def _kind(value: str) -> Kind:
    plain = value.strip().strip("`\"'")
    lower = plain.lower()
    if lower in _SWITCHES:
        return "switch"
    if _DATE.fullmatch(plain):
        return "date"
    if _NUMBER.fullmatch(plain):
        return "number"
    words = lower.split()
    if words and words[-1] in _QUALITIES and len(words) <= 2:
        return "quality"
    if re.match(r"an? ", lower):
        return "class"
    return "name" if len(words) <= 3 else "phrase"


def relation(earlier: Statement | None, later: Statement | None) -> Relation:
    """Return what a later statement does to an earlier one; empty where both hold. O(1)."""
    if earlier is None or later is None or earlier.condition != later.condition:
        return ""
    if later.loser and earlier.key == ("uses", later.key[1], later.loser):  # "we use pnpm instead of npm"
        return "" if earlier.is_denied or later.is_denied else "replaces"
    if earlier.key != later.key:
        return _preferred(earlier, later)
    if earlier.value == later.value:
        return "replaces" if earlier.is_denied != later.is_denied else ""
    if earlier.is_denied or later.is_denied or earlier.adds or later.adds:
        return ""
    kinds = {earlier.kind, later.kind}
    if "quality" in kinds:
        return "replaces" if _are_opposite(earlier.value, later.value) else ""
    if len(kinds) > 1:
        return "conflict" if later.is_single and "class" not in kinds else ""
    if later.is_single or later.changes or _are_opposite(earlier.value, later.value):
        return "conflict" if kinds & {"class", "phrase"} else "replaces"
    if kinds & {"number", "date", "switch"} and later.key[0] == "is":  # a meeting may be on two days
        return "replaces" if _same_unit(earlier.value, later.value) else "conflict"
    return "" if kinds & {"class", "phrase"} else "conflict"


def _preferred(earlier: Statement, later: Statement) -> Relation:
    """Compare preferences of other forms: "tabs over spaces" replaces "spaces", "dark mode" replaces "light mode"."""
    if not (earlier.key[0].startswith("prefers") and later.key[0].startswith("prefers")):
        return ""
    if earlier.is_denied or later.is_denied:
        return ""
    if earlier.key[0] == later.key[0] == "prefers":
        return "replaces" if _are_opposite(earlier.value, later.value) else ""
    if later.loser and earlier.key[0] == "prefers" and earlier.value == later.loser:
        return "replaces"
    return "conflict" if earlier.loser and later.key[0] == "prefers" and later.value == earlier.loser else ""


def _same_unit(one: str, other: str) -> bool:
    """Tell whether two amounts are of one unit, or both of time; 3 years and 2 GB may both hold."""
    units = {word for text in (one, other) for word in re.findall(r"[^\W\d_]+", text)}
    return len(units) < 2 or units <= _TIMES


def _are_opposite(one: str, other: str) -> bool:
    """Tell whether two values differ in one word, and that by its opposite."""
    words, others = one.split(), other.split()
    pairs = [frozenset(pair) for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
    return len(words) == len(others) and len(pairs) == 1 and pairs[0] in _OPPOSITES


def conflicts_in(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the texts that are in conflict, each with those that it is in conflict with, in their order.

    What is left of them when memory is learnt by rule: what is replaced is gone. Costs O(texts, and pairs of a slot).
    """
    found: dict[str, dict[str, None]] = {}
    known = [(text, statement) for text in dict.fromkeys(texts) if (statement := statement_of(text)) is not None]
    for place, (text, statement) in enumerate(known):
        for other, later in known[place + 1 :]:
            if relation(statement, later):
                found.setdefault(text, {})[other] = None
                found.setdefault(other, {})[text] = None
    return {text: tuple(others) for text, others in found.items()}


def replaces(earlier: Statement | None, later: Statement | None) -> bool:
    """Tell whether a later statement takes the place of an earlier one: it denies it, or says it in other words."""
    return relation(earlier, later) == "replaces" or is_same(earlier, later)


def is_same(earlier: Statement | None, later: Statement | None) -> bool:
    """Tell whether two statements say the same in other words."""
    what = attrgetter("key", "value", "is_denied", "condition")
    return earlier is not None and later is not None and what(earlier) == what(later)


LISTED = 12  # lines of a message that only lists what things are


def listed(text: str) -> tuple[str, ...]:
    """Return the lines of a message that holds nothing but `key: value` or `key = value` lines; empty for another one.

    Lines of which the first names one of several things (`service: a`) are joined: they say nothing of the next one.

    One line alone may be an order ("translate: hello"): it counts where its value is a number, a date or a switch, or
    its key names what a thing has one of.
    """
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if not lines or len(lines) > LISTED or any(len(line) > LONGEST for line in lines):
        return ()
    found = [_bound(line) for line in lines]
    if any(statement is None for statement in found):
        return ()
    alone = found[0]
    sure = len(found) > 1 or (alone is not None and (alone.kind in _SURE or _takes_one(alone.key[-1])))
    if sure and len(lines) > 1 and alone is not None and _RECORDS.intersection(alone.key[-1].split()):
        return ("; ".join(lines),) if len("; ".join(lines)) <= LONGEST else ()
    return tuple(lines) if sure else ()


_SURE = ("number", "date", "switch")
