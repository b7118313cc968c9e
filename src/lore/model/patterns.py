"""Patterns of paths and names, matched without a search that grows exponentially.

Patterns come from settings, which may be a stranger's: a translation to a backtracking regular expression (`*a*a*a*z`
as `[^/]*a[^/]*a…`) takes exponential time on some names. Here the text after a star is tried from left to right in an
atomic group, as `fnmatch` does since Python 3.11: the first place that fits leaves most room for the rest.

- `PathPattern`: `*`, `?` and `[…]` within one part of a path, `**` across parts.
- `PathIndex`: many path patterns. A path is compared only with the patterns that begin in one of its folders.
- `matches_name`: `*` alone is special; the texts between stars are searched from left to right.
- `matches_shell`: `fnmatch` on one name. A pattern is compiled once.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from lore.model.deferred import pattern

_MAGIC = pattern(r"[*?\[]")
_ACROSS = pattern(r"(\*\*/?)")
_WITHIN = pattern(r"\*|\?|\[!?\][^\]/]*\]|\[!?[^\]/]+\]|.", re.DOTALL)
_ACROSS_FORMS = {"**": ".*?", "**/": "(?:.*?/)??"}  # any text; any number of folders


class PathPattern:
    """A pattern of paths whose parts are joined by `/`; it matches a path, and every path below that.

    `**/` is any number of folders, `**` any text, `*` any text and `?` any character within a part, `[a-c]` one
    of these characters and `[!a-c]` another. `.` matches every path that does not begin with `../`. A pattern also
    matches the path that it spells: cassettes of pytest have brackets in their names.
    """

    def __init__(self, pattern: str) -> None:
        self.text = text = pattern.removeprefix("./").rstrip("/")
        self._names_all = text in ("", ".")
        magic = _MAGIC.search(text)
        self.is_literal = magic is None and not self._names_all  # it matches `text`, and paths below it
        self._form = None if magic is None else _compile_path(text)
        literal = text if magic is None else text[: magic.start()]
        # The folders that the pattern begins with, up to its first special character, with a `/` at the end.
        self.folder = literal[: literal.rfind("/") + 1]

    def matches(self, path: str) -> bool:
        """Return whether the pattern matches this path, or a folder above it."""
        if self._names_all:
            return not path.startswith("../")
        if path.startswith(self.text) and path[len(self.text) :][:1] in ("", "/"):
            return True
        return self._form is not None and self._form.match(path) is not None


def _compile_path(text: str) -> re.Pattern[str]:
    """Compile a path pattern. Each piece that follows a `**` is an atomic group, except the last one."""
    parts = _ACROSS.split(text)  # pieces, and the `**` between them
    pieces = [_translate_piece(parts[0])]
    for across, piece in zip(parts[1::2], parts[2::2], strict=True):
        pieces.append(_ACROSS_FORMS[across] + _translate_piece(piece))
    return re.compile("".join([f"(?>{piece})" for piece in pieces[:-1]]) + pieces[-1] + r"(?:/|\Z)", re.DOTALL)


def _translate_piece(piece: str) -> str:
    """Translate the part of a pattern between two `**`: each text between two stars is an atomic group."""
    chunks = [""]
    for sign in _WITHIN.findall(piece):
        if sign == "*":
            chunks.append("[^/]*?")
        elif sign == "?":
            chunks[-1] += "[^/]"
        elif len(sign) > 1:
            chunks[-1] += "(?!/)" + fnmatch.translate(sign)[len("(?s:") : -len(r")\Z")]
        else:
            chunks[-1] += re.escape(sign)
    return "".join([f"(?>{chunk})" for chunk in chunks[:-1]]) + chunks[-1]


class PathIndex:
    """Path patterns, of which those that match a path are found without trying all of them."""

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
        """Return the indexes of the patterns that match a path, ascending."""
        ends = [place for place, character in enumerate(path) if character == "/"]
        numbers = [number for end in (*ends, len(path)) for number in self._literals.get(path[:end], ())]
        for folder in ("", *(path[: end + 1] for end in ends)):
            numbers += [number for number, pattern in self._by_folder.get(folder, ()) if pattern.matches(path)]
        return sorted(numbers)


def matches_name(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern; `*` stands for any text, nothing else is special."""
    first, *others = pattern.split("*")
    if not others:
        return name == pattern
    *inner, last = others
    end = len(name) - len(last)
    place = len(first)
    if not name.startswith(first) or not name.endswith(last) or place > end:
        return False
    for text in inner:
        at = name.find(text, place, end)
        if at < 0:
            return False
        place = at + len(text)
    return True


def matches_shell(pattern: str, name: str) -> bool:
    """Return whether a name matches a shell pattern (`*`, `?`, `[…]`); upper and lower case differ."""
    if "?" not in pattern and "[" not in pattern:
        return matches_name(pattern, name)
    return fnmatch.fnmatchcase(name, pattern)
