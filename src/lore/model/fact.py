"""The base struct of evidence, field types that mark which texts are content, and words for figures.

A plain `str` in evidence is an error (a test looks at every struct): each text field has one of the types below, so
that `replace_texts` masks or redacts any evidence without knowing its struct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, cast, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from lore.model.deferred import pattern

Content: TypeAlias = Annotated[str, Meta(extra={"field": "content"})]  # quoted from a recording
Name: TypeAlias = Annotated[str, Meta(extra={"field": "name"})]  # of a tool, server, hook, command, chain
JsonPath: TypeAlias = Annotated[str, Meta(extra={"field": "path"})]  # of a place inside a request body
Model: TypeAlias = Annotated[str, Meta(extra={"field": "model"})]  # of a model
Own: TypeAlias = Annotated[str, Meta(extra={"field": "own"})]  # one of lore's own words: never content
Number: TypeAlias = int | float  # kept as it was given: 20 is not written as 20.0

TextKind: TypeAlias = Literal["content", "name", "path", "model", "own"]
_KINDS: tuple[TextKind, ...] = get_args(TextKind)
_NAMES = 5  # names that a sentence lists before it counts the rest
_HUMP = pattern(r"(?<=[a-z])(?=[A-Z])")
E = TypeVar("E", bound=Struct)


class EvidenceFact(Struct, frozen=True, tag_field="type", tag=lambda name: _HUMP.sub("-", name).lower()):
    """One fact that a verdict rests on. In JSON its `type` is the name of the struct, its words joined by hyphens.

    class ToolsSeen(EvidenceFact, frozen=True):
        words = "{tools:count tool} came{servers:? from {servers:names}}"
        tools: int
        servers: tuple[Name, ...] = ()
    """

    words: ClassVar[str] = ""  # the fact in words, as `fill` reads them
    fix_word: ClassVar[str] = ""  # a word that selects a more precise fix, if the fact has one, as `fill` reads it
    is_quoted: ClassVar[bool] = False  # its fields `before` and `after` are quoted after the words

    def sentence(self) -> str:
        """Return the fact in words, without masking any text.

        If it has a `quoted_change()`, `: …before… became …after…` follows.
        """
        change = self.quoted_change()
        return self.headline() if change is None else f"{self.headline()}: …{change[0]}… became …{change[1]}…"

    def headline(self) -> str:
        """Return the fact in words, without its quoted change."""
        return self.fill(self.words)

    def quoted_change(self) -> tuple[str, str] | None:
        """Return the excerpts before and after the change, or None if the fact does not quote both."""
        before, after = (getattr(self, name) if self.is_quoted else None for name in ("before", "after"))
        return None if before is None or after is None else (before, after)

    def fix_detail(self) -> str:
        """Return what selects a more precise fix: `fix_word`, else a reason, setting or kind; empty: none."""
        values = (getattr(self, name, "") for name in ("reason", "setting", "kind"))
        return self.fill(self.fix_word) or next(filter(None, values), "")

    def fill(self, words: str) -> str:
        """Return words with the fields in their places: `{name}` or `{name:form}`, a form of Python's or one of these.

        None is written as an empty text.

        - `duration`, `money`, `names`: as `format_duration`, `format_money` and `join_names` write it
        - `and`: texts, joined by this word
        - `count NOUN`: as `count_of` writes it
        - `?TEXT` or `?TEXT|ELSE`: TEXT, or ELSE if the field is None, False or empty; 0 is a value
        - `=VALUE?TEXT` or `=VALUE?TEXT|ELSE`: TEXT if the field is written as VALUE, or ELSE

        TEXT and ELSE are filled in the same way; TEXT ends at the first `|`, so only ELSE may hold a form with ELSE.
        """
        from string import Formatter  # noqa: PLC0415 - it compiles a pattern

        parts: list[str] = []
        for text, name, form, _ in Formatter().parse(words):
            parts += [text] if name is None else [text, self._fill_in(getattr(self, name), form or "")]
        return "".join(parts)

    def _fill_in(self, value: Any, form: str) -> str:
        if form[:1] in ("?", "="):
            condition, _, texts = form.partition("?")
            text, _, other = texts.partition("|")
            has_value = bool(value) or type(value) in (int, float)
            is_met = str(value) == condition[1:] if condition else has_value
            return self.fill(text if is_met else other)
        if form.startswith("count "):
            return count_of(value, form.removeprefix("count "))
        if form in _FORMS:
            return _FORMS[form](value)
        return "" if value is None else format(value, form)


def text_kind(annotation: object) -> TextKind | None:
    """Return which kind of text a field's annotation holds; None if it holds no text (figures, `Literal`).

    Looks through unions, tuples and lists. Raises TypeError for a plain `str` or `bytes`, and for texts of several
    kinds.
    """
    for note in getattr(annotation, "__metadata__", ()):
        if isinstance(note, Meta) and note.extra and note.extra.get("field") in _KINDS:
            return cast("TextKind", note.extra["field"])
    if annotation is str or annotation is bytes:
        raise TypeError("a text in evidence states its kind: see lore.model.fact")
    if str(getattr(annotation, "__origin__", "")) == "typing.Literal":
        return None
    kinds: set[TextKind | None] = {text_kind(arg) for arg in get_args(annotation) if arg is not Ellipsis}
    kinds.discard(None)
    if len(kinds) > 1:
        raise TypeError(f"a field holds {' and '.join(sorted(map(str, kinds)))}: split it")
    return next(iter(kinds), None)


@cache
def text_kinds(struct: type[Struct]) -> dict[str, TextKind]:
    """Return the kind of each field of a struct that holds text, by field name; raises as `text_kind` does."""
    hints = get_type_hints(struct, include_extras=True)
    return {name: kind for name in struct.__struct_fields__ if (kind := text_kind(hints[name])) is not None}


def replace_texts(evidence: E, change: Mapping[str, Callable[[str], str]]) -> E:
    """Return a copy with `change[kind]` applied to each text, also within tuples; other kinds and empty texts stay."""
    changed: dict[str, object] = {}
    for name, kind in text_kinds(type(evidence)).items():
        value, apply = getattr(evidence, name), change.get(kind)
        if apply is not None and value:
            several = isinstance(value, tuple)
            changed[name] = tuple(map(apply, cast("tuple[str, ...]", value))) if several else apply(value)
    return msgspec.structs.replace(evidence, **changed) if changed else evidence


def format_duration(seconds: float) -> str:
    """Return a time as `0.4 s` or `7 s` (below 10 s), `90 s` (below 2 min), `2 min`, `12 min 5 s` (below 2 h), `3.0 h`.

    Above 10 s it is rounded to seconds, from 2 h to tenths of an hour.
    """
    if seconds < 10 and seconds != round(seconds):
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        minutes, remainder = divmod(whole, 60)
        return f"{minutes} min {remainder} s" if remainder else f"{minutes} min"
    return f"{seconds / 3600:.1f} h"


def format_money(dollars: float | None) -> str:
    """Return US dollars with two decimals, with four if nonzero and below $0.10, of either sign; "unknown" for None."""
    if dollars is None:
        return "unknown"
    if 0 < abs(dollars) < 0.00005:  # it would be written as 0
        return "<$0.0001" if dollars > 0 else ">-$0.0001"
    sign = "-" if dollars < 0 else ""
    return f"{sign}${abs(dollars):,.2f}" if abs(dollars) >= 0.1 or not dollars else f"{sign}${abs(dollars):,.4f}"


def format_share(share: float) -> str:
    """Return a share in percent, rounded down to a tenth: a share below a limit never looks as large as the limit."""
    return f"{int(round(share * 1000, 6)) / 10:.1f} %"


def join_names(names: Iterable[str], most: int = _NAMES, *, more: int = 0) -> str:
    """Return `a, b and 3 more`: the first `most` names, and how many follow; `more` counts others not in `names`."""
    every = list(names)
    more += max(0, len(every) - most)
    return ", ".join(every[:most]) + (f" and {more:,} more" if more else "")


def count_of(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 message`, `2,500 messages`; `plural` is an irregular one."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def list_changes(*kinds: tuple[str, Iterable[str]], more: int = 0) -> str:
    """Return `added a, b; removed c`: five names a group at most, empty groups left out.

    `more` counts further names: if only one group is listed they belong to it, otherwise they are appended at the end.
    """
    nonempty = [(word, names) for word, every in kinds if (names := list(every))]
    of_all = more if len(nonempty) > 1 else 0
    groups = [f"{word} {join_names(names, more=more - of_all)}" for word, names in nonempty]
    return "; ".join([*groups, *([f"and {of_all:,} more"] if of_all else [])])


_FORMS: dict[str, Callable[[Any], str]] = {
    "duration": format_duration, "money": format_money, "names": join_names, "and": " and ".join,
}  # fmt: skip
