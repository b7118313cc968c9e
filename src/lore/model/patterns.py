"""Patterns of paths and names, matched in time linear in the name.

Patterns come from settings, which may be a stranger's: a translation to one backtracking regular expression
(`*a*a*a*z` as `[^/]*a[^/]*a…`) takes exponential time on some names.

- `PathPattern`: `*`, `?` and `[…]` within one part of a path, `**` across parts. A bit-parallel automaton: bit `i` of
  a number says that the first `i` tokens matched, and each character of a path moves all bits at once.
- `PathIndex`: many path patterns. A path is compared only with the patterns that begin in one of its folders.
- `matches_name`: `*` alone is special; the texts between stars are searched from left to right.
- `matches_shell`: `fnmatch` on one name. A pattern is compiled once; since Python 3.11 the expressions of `fnmatch`
  are atomic between stars, so they do not backtrack over them.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from functools import cache
from itertools import chain

from lore.model.deferred import pattern

_TOKENS = pattern(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)
_MAGIC = pattern(r"[*?\[]")
_FOLDERS, _ANYTHING, _NAME, _CHARACTER = "**/", "**", "*", "?"


class PathPattern:
    """A pattern of paths whose parts are joined by `/`; it also names every path below one that it names.

    `**/` is any number of folders, `**` any text, `*` any text and `?` any character within a part, `[a-c]` one
    of these characters and `[!a-c]` another. `.` names every path that does not begin with `../`. A pattern also
    names the path that it spells: cassettes of pytest have brackets in their names.
    """

    def __init__(self, pattern: str) -> None:
        self.text = text = pattern.removeprefix("./").rstrip("/")
        self._names_all = text in ("", ".")
        magic = _MAGIC.search(text)
        self.is_literal = magic is None and not self._names_all  # it names `text`, and paths below it
        self._literal = text if magic is None else text[: magic.start()]
        self._characters: dict[str, int] = {}  # character -> tokens that are this character
        self._sets: list[tuple[int, bool, list[tuple[str, str]]]] = []  # tokens that are a set: negated?, ranges
        self._questions = 0  # tokens that are any character of a name
        self._names = self._anything = 0  # tokens that repeat: over a name, over anything
        self._empty = self._folders = 0  # tokens that may be empty; those of them that begin `**/`, of three tokens
        self._end = 0  # the bit that is set when all tokens matched
        self._is_valid = True
        if magic is not None:
            self._compile(_merged(_TOKENS.findall(text[magic.start() :])))

    @property
    def folder(self) -> str:
        """The folders that the pattern begins with, up to its first special character, with a `/` at the end."""
        return self._literal[: self._literal.rfind("/") + 1]

    def _compile(self, tokens: list[str]) -> None:
        bit = 1
        for token in tokens:
            if token == _FOLDERS:  # an entry that may skip all three, a repeated character, the `/`
                self._empty |= bit | bit << 1
                self._folders |= bit
                self._anything |= bit << 1
                self._characters["/"] = self._characters.get("/", 0) | bit << 2
                bit <<= 3
                continue
            if token == _ANYTHING:
                self._empty |= bit
                self._anything |= bit
            elif token == _NAME:
                self._empty |= bit
                self._names |= bit
            elif token == _CHARACTER:
                self._questions |= bit
            elif len(token) > 1:
                self._add_set(bit, token)
            else:
                self._characters[token] = self._characters.get(token, 0) | bit
            bit <<= 1
        self._end = bit

    def _add_set(self, bit: int, token: str) -> None:
        is_negated = token[1] == "!"
        ranges = _ranges(token[1 + is_negated : -1])
        self._sets.append((bit, is_negated, ranges))
        if not ranges or any(first > last for first, last in ranges):  # then the pattern is only the name it spells
            self._is_valid = False

    def matches(self, path: str) -> bool:
        """Return whether the pattern names this path, or one that it lies below."""
        if self._names_all:
            return not path.startswith("../")
        if path.startswith(self.text) and path[len(self.text) :][:1] in ("", "/"):
            return True
        if self.is_literal or not self._is_valid or not path.startswith(self._literal):
            return False
        matched = self._with_empty(1)
        for position in range(len(self._literal), len(path)):
            if path[position] == "/" and matched & self._end:
                return True
            matched = self._step(matched, path[position])
            if not matched:
                return False
        return bool(matched & self._end)

    def _step(self, matched: int, character: str) -> int:
        taken, repeated = self._characters.get(character, 0), self._anything
        if character != "/":
            taken |= self._questions
            repeated |= self._names
            for bit, is_negated, ranges in self._sets:
                if matched & bit and any(first <= character <= last for first, last in ranges) is not is_negated:
                    taken |= bit
        return self._with_empty((matched & taken) << 1 | matched & repeated)

    def _with_empty(self, matched: int) -> int:
        """Add the tokens that match the empty text; `_merged` keeps the rounds to three."""
        while True:
            more = matched | (matched & self._empty) << 1 | (matched & self._folders) << 3
            if more == matched:
                return matched
            matched = more


def _ranges(members: str) -> list[tuple[str, str]]:
    """Return the first and last characters of the ranges in a set such as `a-cx`."""
    ranges: list[tuple[str, str]] = []
    place = 0
    while place < len(members):
        end = place + 2 if members[place + 1 : place + 2] == "-" and place + 2 < len(members) else place
        ranges.append((members[place], members[end]))
        place = end + 1
    return ranges


def _merged(tokens: list[str]) -> list[str]:
    """Merge adjacent tokens that match any text; split `[]`, which is no set of characters."""
    merged: list[str] = []
    for token in chain.from_iterable(part if part == "[]" else (part,) for part in tokens):
        previous = merged[-1] if merged else ""
        if token in (_FOLDERS, _ANYTHING, _NAME) and previous in (_FOLDERS, _ANYTHING):
            if token == previous or previous == _ANYTHING:
                continue
            if token == _ANYTHING:
                merged.pop()
        elif token == previous == _NAME:
            continue
        merged.append(token)
    return merged


class PathIndex:
    """Path patterns in their order, found by the folders of a path."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._literals: dict[str, list[int]] = {}
        self._by_folder: dict[str, list[tuple[int, PathPattern]]] = {}
        for number, text in enumerate(patterns):
            compiled = PathPattern(text)
            if compiled.is_literal:
                self._literals.setdefault(compiled.text, []).append(number)
            else:
                self._by_folder.setdefault(compiled.folder, []).append((number, compiled))

    def numbers(self, path: str) -> list[int]:
        """Return the numbers of the patterns that name a path, ascending."""
        ends = [place for place, character in enumerate(path) if character == "/"]
        found = [number for end in (*ends, len(path)) for number in self._literals.get(path[:end], ())]
        for folder in ("", *(path[: end + 1] for end in ends)):
            found += [number for number, pattern in self._by_folder.get(folder, ()) if pattern.matches(path)]
        return sorted(found)


def matches_name(pattern: str, name: str) -> bool:
    """Return whether a name is the one that a pattern asks for; `*` stands for any text, nothing else is special."""
    first, *others = pattern.split("*")
    if not others:
        return name == pattern
    *inner, last = others
    end = len(name) - len(last)
    place = len(first)
    if not name.startswith(first) or not name.endswith(last) or place > end:
        return False
    for text in inner:
        found = name.find(text, place, end)
        if found < 0:
            return False
        place = found + len(text)
    return True


def matches_shell(pattern: str, name: str) -> bool:
    """Return whether a name fits a shell pattern (`*`, `?`, `[…]`), in this case of letters."""
    if "?" not in pattern and "[" not in pattern:
        return matches_name(pattern, name)
    return _shell(pattern).match(name) is not None


@cache  # patterns come from rows of lore and from settings, both of limited size
def _shell(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
