"""Mask text that looks like a credential: in reports, messages and logs, never in assembled prompts.

Rules: the masked text has the length of the original, so offsets hold; the first four characters of a long credential
stay, so that a person can tell which it was; inside JSON text no escape is ever cut, so masked JSON is JSON. What is
spelled by escapes (`\\u0041`, `\\/`) or in base64 is masked as well. The whole text is masked, then cut: half a
credential has no form that is known. What is looked for: `credentials.py`.

Cost: O(text). A sign of a kind is looked for in the whole text first, and its pattern tried only where the sign stands;
how kinds begin is looked for at once, where words begin. Text without any costs a few passes that are C.
"""

from __future__ import annotations

import math
import re
from binascii import a2b_base64
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import AnyStr

from lore.model.credentials import ALPHABETS, BLOCKS, KINDS, NAMED, PAIRS, SHAPES
from lore.model.deferred import pattern

# What shows nothing, as the inside of a character class: everything of category Cf, line and paragraph separators,
# fillers, variation selectors, and the rest of Unicode's default ignorable characters. Apart, what is beyond U+FFFF:
# a search for both takes four times as long.
INVISIBLE = (
    "\\xad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f"
    "\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb"
)
TAGS = "\\U000e0000-\\U000e0fff"  # and more variation selectors
INVISIBLE_BEYOND = "\\U000110bd\\U000110cd\\U00013430-\\U0001343f\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a" + TAGS
_SHOWN = 4
_LONG = 16  # of a shorter credential nothing is shown
_BEGIN = pattern(  # a word's begin, also behind an escape and behind a terminal's colour
    r"(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\[m)|(?<=\[[0-9]m)|(?<=[0-9;][0-9]m)"
)
_BODIES = {name: pattern(text, re.ASCII) for name, text in ALPHABETS.items()}
_BEGINNINGS = {beginning: kind for kind in KINDS for beginning in kind.beginnings}
_BLOCKS = [(sign, 0, pattern(text, re.ASCII)) for sign, text in BLOCKS]
_SHAPES = [(sign, behind, pattern(text, re.ASCII)) for sign, behind, text in SHAPES]
_SHORT = {sign: shape for sign, behind, shape in _SHAPES if sign[0].isalnum() and not behind}  # begin words, too
_FAMILIES = {  # by what others begin with
    first: [other for other in (*_BEGINNINGS, *_SHORT) if other.startswith(first)] for first in (*_BEGINNINGS, *_SHORT)
}
_TRIED = 100  # characters of a shape that are looked at before the whole text is looked through
_ESCAPED = (  # of an escape or a colour, what stands between its sign and a word
    r"(?:(?<=\\)(?:[nrtbf]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})|(?<=%)[0-9A-Fa-f]{2}|(?<=[\[;])[0-9]{0,3}m)"
)
_NAMED = [
    (sign.encode(), [(pattern(text, re.ASCII | re.IGNORECASE), looks) for text, looks in rows])
    for sign, rows in NAMED.items()
]
_UNSEEN = r"[{0}](?<=[!-~].)[{0}]*(?=[!-~])"  # in the middle of a word
_INVISIBLE = pattern(_UNSEEN.format(INVISIBLE), re.DOTALL)
_TAG = "\U000e0000".encode()[:2]
_ESCAPES = (  # of what is visible, or is not; begins with a literal, which is quick to find
    r"\\(?<!\\\\)\\*+(?:u00([2-7][0-9A-Fa-f])|/|(?i:u(?:00ad|034f|061c|1160|115f|180[b-f]|200[b-f]|202[89a-e]|206.|3164"
    r"|fe0.|feff|ffa0|fff[0-9ab]|db40\\+ud[c-f]..)))"
)
_ESCAPE = pattern(_ESCAPES)
_SPELLED = pattern(f"{_ESCAPES}|{_UNSEEN.format(INVISIBLE + TAGS)}", re.DOTALL)
_AROUND = (
    8_192  # characters before and behind an escape in which what it is part of is looked for: a key's block has less
)
_TOKEN = bytes(98 if code < 128 and (chr(code).isalnum() or chr(code) in "+/-_.~=:") else 32 for code in range(256))
_RUN = b"b" * 15  # characters of a token, the least that holds a credential of a known kind
_LEAST_BASE64 = 24  # characters
_BASE64 = pattern(rf"[A-Za-z0-9+/_-]{{{_LEAST_BASE64},}}")
_NO_SLASH = pattern(rf"[A-Za-z0-9+_-]{{{_LEAST_BASE64},}}")
_ASCII = pattern(  # base64 of bytes below 128, which leaves half of the alphabet to three of four characters
    rb".{0,3}?(?:[A-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]){5}"
)
_STANDARD = bytes.maketrans(b"-_", b"+/")
_MEASURED = 256  # characters of a value that are looked at to say whether it is random
_ENTROPY = 3.0  # bits a character: words have fewer, as has what is made up of a few characters
_PIECE = pattern(r"[A-Za-z0-9+/]{10,}")
_PART = pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")  # of a name: a word, an acronym, a number
_DENSE = 16  # letters and digits, the least of which their parts say that they are random
_RUNS = pattern(rf"[A-Za-z0-9]{{{_DENSE},}}")
_RUNS_OF_DIGITS = pattern(r"[0-9.,:_+/-]*")
_SHORT_PARTS = 2.75  # characters a part, the most of random letters and digits; names and paths have more
_SHORTER_PARTS = 1.8  # the same where signs part them
_WORDS = 3.3  # characters a part, the least of a path
_PAIRS = frozenset(f"{row[0]}{letter}" for row in PAIRS.split() for letter in row[1:])
_RARE = 0.3  # of the pairs of letters, which is more than in words
_LEAST_PAIRS = 5
_LEAST_LETTERS = 8
_SHORT_LETTERS = 2.2  # characters a part of random letters
_UUID = pattern(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_REFERENCE = (  # to a variable, an option, a place; what stands there before a template is filled in; one character
    r"\$[\w.:?!{}()\[\]-]*|<.*|\{+[^{}]*\}+|\*+[A-Za-z_][\w.]*|%[\w()%]*|(?:~|\.{1,2})?/.*|--?[A-Za-z][\w-]*|\.\.\..*|(.)\1+"
)
_ADDRESS = pattern(r"[\[(^]|(?:arn|urn):|[a-z][a-z0-9+.-]{1,12}://")
_PLACE = pattern(rf"{_ADDRESS.pattern}|[~.]{{0,2}}/|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z", re.ASCII)
_CODE = pattern(  # no password: a name, a number, a place, a time
    r"[A-Za-z_][A-Za-z_.-]*|[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)+|[0-9.,+-]+"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.+-]+Z?|" + _REFERENCE,
    re.DOTALL,
)
_NO_LITERAL = pattern(_REFERENCE + r"|[A-Z][A-Z_]*|[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)+", re.DOTALL)
_WITH_SIGNS = pattern(r"(?![A-Za-z_][\w.]*[(\[,;)=&|{])(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[^(]*[,;&(){}|=\[\]<>]")
_PLAIN_WORD = pattern(  # that is no type and no state of a password
    r"(?!.*(?:pass|pwd))(?!(?:string|text|number|boolean|bytes|required|optional|missing|invalid|incorrect|unset|unknown"
    r"|hidden|redacted|encrypted|undefined|options?|field|prompt)\Z)[a-z]+(?:-[a-z]+)*"
)
_NO_WORD = pattern(r"[0-9]|[A-Za-z]{16}")
_COOKIE = pattern(r"=[^;\s]{8}")

Span = tuple[int, int]
_Rows = list[tuple[re.Pattern[str], str]]


def mask(text: str) -> str:
    """Replace what looks like a credential by stars, but for its first four characters."""
    if len(text) < 8:
        return text
    spans = _spans(text)
    unseen = not text.isascii() and _hides(text)
    if unseen or "\\u" in text or "\\/" in text:
        spans += _spelled(text, _SPELLED if unseen else _ESCAPE)
    return _starred(text, spans) if spans else text


def _hides(text: str) -> bool:
    return _INVISIBLE.search(text) is not None or _TAG in text.encode("utf-8", "surrogatepass")


mask_credentials = mask  # the public name: `lore.model.mask` is this module


def cut_masked(text: str, most: int) -> str:
    """Return a text of at most `most` characters; of a longer one its beginning, masked before it was cut."""
    return text if len(text) <= most else mask(text[: most + _AROUND])[:most]


def _starred(text: str, spans: list[Span]) -> str:
    pieces: list[str] = []
    end = 0
    for start, stop in sorted(spans):
        shown = start + _SHOWN if stop - start >= _LONG and "\\" not in text[start : start + _SHOWN] else start
        shown = max(end, shown)
        if stop > shown:
            pieces += (text[end:shown], "*" * (stop - shown))
            end = stop
    return "".join([*pieces, text[end:]])


def _spans(text: str, *, decode: bool = True) -> list[Span]:
    """Return where credentials stand, in any order; they may overlap."""
    raw = text.encode("latin-1", "replace")  # a byte a character
    low = raw.lower()
    spans = [span for sign, rows in _NAMED if sign in low for span in _named(text, low, sign, rows)]
    for sign, _, block in _BLOCKS:
        if sign in text:
            spans += _matches(text, sign, 0, block)
    shape = raw.translate(_TOKEN)
    if _RUN in shape:
        runs = list(_runs(shape))
        spans += _kinds(text, "\n" + "\n".join([text[max(0, start - 1) : end] for start, end in runs]))
        if decode:
            spans += _encoded(text, raw, runs)
    return spans


def _runs(shape: bytes) -> Iterator[Span]:
    """Yield where characters of tokens go on for long enough: in most text, a tenth of it."""
    end = 0
    while (start := shape.find(_RUN, end)) >= 0:
        end = shape.find(b" ", start)
        if end < 0:
            end = len(shape)
        yield start, end


def _kinds(text: str, runs: str) -> Iterator[Span]:
    """Yield what is known by its form; `runs` are the text's, each with the character before it."""
    begun = _begun(runs)
    for beginning in begun & _BEGINNINGS.keys():
        kind, done = _BEGINNINGS[beginning], 0
        for at in _places(text, beginning):
            if at >= done and _begins(text, at):
                found = _BODIES[kind.alphabet].match(text, at + len(beginning))
                assert found is not None  # it may be empty
                done = found.end()
                if done - found.start() >= kind.least and (not kind.digit or _NO_WORD.search(found[0])):
                    yield at, done
    for sign, behind, shape in _SHAPES:
        if sign in begun or (sign not in _SHORT and sign in runs):
            yield from _matches(text, sign, behind, shape)


def _begun(runs: str) -> set[str]:
    """Return how words begin that have as much behind it as the kind asks for, as far as that is cheap to tell."""
    begun: set[str] = set()
    for word in _words().finditer(runs):
        for beginning in _FAMILIES[word[1]]:
            at = word.start(1)
            if beginning not in begun and runs.startswith(beginning, at) and _follows(runs, at, beginning):
                begun.add(beginning)
    return begun


def _follows(runs: str, at: int, beginning: str) -> bool:
    kind = _BEGINNINGS.get(beginning)
    if kind is None:
        return _SHORT[beginning].match(runs, at, at + _TRIED) is not None
    least = at + len(beginning) + kind.least
    body = _BODIES[kind.alphabet].match(runs, at + len(beginning), least)
    return body is not None and body.end() == least


@cache
def _words() -> re.Pattern[str]:
    """Return what finds how kinds begin where words do; grouped by first characters, which are looked at first."""
    heads = (
        f"{head}(?:{'|'.join(re.escape(beginning[1:]) for beginning in some)})"
        for head, some in groupby(sorted(_FAMILIES), itemgetter(0))
    )
    return re.compile(f"[^A-Za-z0-9]{_ESCAPED}?(?=({'|'.join(heads)}))")


def _matches(text: str, sign: str, behind: int, shape: re.Pattern[str]) -> Iterator[Span]:
    done = 0
    for at in _places(text, sign):
        found = shape.match(text, at - behind) if at - behind >= done and _begins(text, at - behind) else None
        if found is not None:
            done = found.end()  # also where it is none: what was tried whole is not tried from its middle
            if found.groupdict().get("no") is None:
                yield found.span()


def _places(text: AnyStr, sign: AnyStr) -> Iterator[int]:
    at = text.find(sign)
    while at >= 0:
        yield at
        at = text.find(sign, at + 1)


def _begins(text: str, at: int) -> bool:
    return not text[at].isalnum() or _BEGIN.match(text, at) is not None


def _named(text: str, low: bytes, sign: bytes, rows: _Rows) -> Iterator[Span]:
    done = [0] * len(rows)
    for at in _places(low, sign):
        for row, (behind_name, looks) in enumerate(rows):
            found = behind_name.match(text, at) if at >= done[row] else None
            if found is not None:
                done[row] = found.end()
                if not looks or _LOOKS[looks](found["value"]):
                    yield found.span("value")


def _random(value: str) -> bool:
    value = value[:_MEASURED]
    shares = [count / len(value) for count in Counter(value).values()]
    told = _dense(value) or (_mixed(value) and not _names_place(value))
    return told and -sum(share * math.log2(share) for share in shares) >= _ENTROPY


def _mixed(value: str) -> bool:
    """Tell whether letters and digits stand together for ten characters."""
    return any(re.search("[0-9]", piece) and re.search("[A-Za-z]", piece) for piece in _PIECE.findall(value))


def _names_place(value: str) -> bool:
    """Tell whether a value is a name in a program, a path or an address, made of words."""
    return _PLACE.match(value) is not None or ("/" in value and _part_length(value) >= _WORDS)


def _dense(value: str) -> bool:
    """Tell whether letters and digits change as often as in random text, or letters have too few vowels for words."""
    if _ADDRESS.match(value) is not None:
        return False
    runs = [run for run in _RUNS.findall(value) if not run.isdigit()]
    short = any(_part_length(run) <= _SHORT_PARTS or _rare(run) for run in runs)
    signs = len(value) > _DENSE and _part_length(value) <= _SHORTER_PARTS and _RUNS_OF_DIGITS.fullmatch(value) is None
    return short or signs


def _unlike_words(value: str) -> bool:
    """Tell whether letters up to a dot follow each other, or change between small and capital, as in no name."""
    parts = [part for part in value.split(".") if part.isalpha() and len(part) >= _LEAST_LETTERS]
    return any(_part_length(part) <= _SHORT_LETTERS or _rare(part) for part in parts)


def _rare(value: str) -> bool:
    """Tell whether many pairs of letters are such as few words have."""
    parts = [part.lower() for part in _PART.findall(value)]
    pairs = [part[at : at + 2] for part in parts if part.isalpha() for at in range(len(part) - 1)]
    return len(pairs) >= _LEAST_PAIRS and sum(pair not in _PAIRS for pair in pairs) >= _RARE * len(pairs)


def _part_length(value: str) -> float:
    """Return the mean length of the words, acronyms and numbers that a value is made of."""
    parts = _PART.findall(value)
    return sum(map(len, parts)) / max(1, len(parts))


def _names_user(value: str) -> bool:
    decoded = _decoded(value.rstrip("=").encode())
    return decoded.isascii() and b":" in decoded and decoded.decode().isprintable()


_LOOKS: dict[str, Callable[[str], bool]] = {
    "random": _random,
    "random, no id": lambda value: _UUID.fullmatch(value) is None and _random(value),
    "surely random": lambda value: (
        _UUID.fullmatch(value) is None and _dense(value) and (_mixed(value) or _unlike_words(value))
    ),
    "chosen": lambda value: _CODE.fullmatch(value) is None or _unlike_words(value),
    "literal": lambda value: _NO_LITERAL.fullmatch(value) is None,
    "word": lambda value: _PLAIN_WORD.fullmatch(value) is not None or _unlike_words(value),
    "with signs": lambda value: _WITH_SIGNS.match(value) is not None and _CODE.fullmatch(value) is None,
    "words": lambda value: "-" in value and _PLAIN_WORD.fullmatch(value) is not None,
    "cookie": lambda value: _COOKIE.search(value) is not None,
    "user and password": _names_user,
}


def _encoded(text: str, raw: bytes, runs: list[Span]) -> Iterator[Span]:
    """Yield the characters of base64 whose text is a credential; up to three characters before it may be none of it.

    A slash is one of its characters, and parts it from a path: what is between two is looked at by itself as well.
    """
    long = (run for run in runs if run[1] - run[0] >= _LEAST_BASE64)
    for whole in (found.span() for run in long for found in _BASE64.finditer(text, *run)):
        parts = (found.span() for found in _NO_SLASH.finditer(text, *whole)) if b"/" in raw[slice(*whole)] else ()
        for at, end in (whole, *parts):
            for begin in range(at, at + 4) if _ASCII.match(raw, at, end) is not None else ():
                if _decoded(raw[begin : begin + 20]).isascii():
                    for start, stop in _spans(_decoded(raw[begin:end]).decode("latin-1"), decode=False):
                        yield begin + start * 4 // 3, min(end, begin - (-stop * 4 // 3))


def _decoded(base64: bytes) -> bytes:
    """Decode base64 of either alphabet without its padding; a last character that is left over is dropped."""
    whole = base64[: len(base64) - (len(base64) % 4 == 1)].translate(_STANDARD)
    return a2b_base64(whole + b"=" * (-len(whole) % 4))


def _spelled(text: str, escape: re.Pattern[str]) -> Iterator[Span]:
    """Yield where credentials stand that escapes or invisible characters are part of, or of the names before them."""
    near = list[re.Match[str]]()
    for found in escape.finditer(text):
        if near and found.start() - near[-1].end() > 2 * _AROUND:
            yield from _unescaped(text, near)
            near = []
        near.append(found)
    yield from _unescaped(text, near) if near else ()


def _unescaped(text: str, escapes: list[re.Match[str]]) -> Iterator[Span]:
    """Yield where credentials stand around escapes, once visible characters are read and invisible ones left out."""
    begin, end = max(0, escapes[0].start() - _AROUND), escapes[-1].end() + _AROUND
    pieces: list[str] = []
    ours, theirs = [0], [begin]  # where an escape ended in what is looked through, and in the text
    for found in escapes:
        char = chr(int(found[1], 16)) if found[1] else "/" * found[0].endswith("/")
        pieces += (text[theirs[-1] : found.start()], char)
        ours.append(ours[-1] + found.start() - theirs[-1] + len(char))
        theirs.append(found.end())

    def place(at: int) -> int:
        near = bisect_right(ours, at) - 1
        return theirs[near] + at - ours[near]

    for start, stop in _spans("".join([*pieces, text[theirs[-1] : end]])):
        if begin == 0 or start >= _AROUND // 2:  # else it may be the end of a longer word
            yield place(start), place(stop)
