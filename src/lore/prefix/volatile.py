"""Find text that changes with time or request, and name what a text is about.

Only forms and markers that clocks, agents and programs write count (`volatile_patterns.py`); plain words prove nothing.
Of longer texts the first `VARYING_TEXT` characters are searched; a longer difference is not searched. Cost: O(text).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest

from msgspec import Struct

from lore.model.codes import Code
from lore.model.differences import Varies, VaryingKind
from lore.model.labels import MEMORY_RECALL, Holds, find_labels
from lore.model.limits import CLOCK_SIGNS, VARYING_TEXT
from lore.model.vector import common_prefix, common_suffix
from lore.prefix import volatile_patterns as p

_AROUND = 200  # characters before a difference in which a word that varies may have begun
_FEWEST_DIGITS = 4  # of a long word that is an id and not a name
_LONGEST_LINE = 2_000  # characters: in a longer line, a word somewhere says nothing about a number
_LINE = 400  # characters of a line around a word
_BEFORE_SIGN, _AFTER_SIGN = 96, 160  # characters around a sign that are searched
_BEFORE_VALUE = frozenset("\"'`* \t:=#")  # what separates the name of an id from its value
_CONTEXT = 4_096  # characters before a difference, searched for its heading
_OPENING = 300  # characters at a text's beginning that show who wrote it
_LONGEST_ADDITION = 2_000  # characters that a program adds to the end of a text


# Words that vary


def split_varying_words(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (text before, kind, word) for each word that varies, then (rest, "", ""); a long text is all rest."""
    end = searched = 0
    for start in p.STARTS.finditer(text) if len(text) <= VARYING_TEXT else ():
        at, (is_long, first) = start.start(), start.groups()
        if at < searched:
            continue
        forms = p.FORMS.get("0" if first.isdigit() else first.lower(), ())
        for kind, form in (*forms, *p.FORMS["-"]) if is_long else forms:
            match = form.match(text, at)
            if match is None or (match.lastindex and match[1].lower() not in p.FOREIGN_MONTHS):
                continue
            word, searched = match.group(), match.end()
            if kind != "word" or sum(map(str.isdigit, word)) >= _FEWEST_DIGITS:
                yield text[end:at], "id" if kind == "word" else kind, word
                end = searched
            break
    yield text[end:], "", ""


def find_changed_words(previous: str, current: str) -> list[tuple[Code, Varies]]:
    """Return code and kind of the varying words in which two texts differ; empty if anything else differs, too."""
    front = common_prefix(previous, current)
    back = common_suffix(previous, current, min(len(previous), len(current)) - front)
    begin, end = max(0, front - _AROUND), max(0, back - _AROUND)
    previous, current = previous[begin : len(previous) - end], current[begin : len(current) - end]
    if p.MAY_VARY.search(previous) is None and p.MAY_VARY.search(current) is None:
        return []
    kinds: dict[str, None] = {}
    pairs = zip_longest(split_varying_words(previous), split_varying_words(current), fillvalue=("", "", ""))
    for (text, kind, word), (new_text, _, new_word) in pairs:
        if text != new_text or bool(word) != bool(new_word):
            return []
        if word != new_word:
            kinds[kind] = None
    return [p.KINDS[kind] for kind in kinds]


def name_changed_numbers(previous: str, current: str) -> tuple[Code, Varies] | None:
    """Return the kind of numbers in which alone two lines differ, by the line's other words; None: unknown."""
    if max(len(previous), len(current)) > _LONGEST_LINE or p.DIGITS.sub("0", previous) != p.DIGITS.sub("0", current):
        return None
    return next((p.KINDS[kind] for kind, label in p.LABELS if label.search(previous)), None)


# Text that is new in each request


def find_volatile_word(text: str) -> tuple[str, str] | None:
    """Return what the first clock, else request id, else token count is ("a clock"), and its words; else None."""
    lowered = text[:VARYING_TEXT].lower()
    for what, find_signs, form in _VOLATILE:
        for at in islice(find_signs(lowered), CLOCK_SIGNS):
            match = form.search(text, max(0, at - _BEFORE_SIGN), at + _AFTER_SIGN)
            if match is not None and not (form is p.CURRENT_TIME and p.EXAMPLE.search(match.group())):
                return what, match.group()
    return None


def _find_clocks(lowered: str) -> Iterator[int]:
    minutes = (match.start() for match in p.MINUTES.finditer(lowered))
    yield from (at for at in minutes if lowered[at - 1 : at].isdigit())
    yield from (match.start() for match in p.EPOCH.finditer(lowered))


def _find_ids(lowered: str) -> Iterator[int]:
    for sign in p.ID_SIGNS:
        for match in sign.finditer(lowered):
            if lowered[match.end() : match.end() + 1] in _BEFORE_VALUE:
                yield match.start()


def _find_token_counts(lowered: str) -> Iterator[int]:
    places = ((match.start(), match.end()) for match in p.COUNT_SIGN.finditer(lowered))
    return (start for start, end in places if p.DIGIT.search(lowered, max(0, start - 16), end + 48))


_VOLATILE: tuple[tuple[str, Callable[[str], Iterator[int]], re.Pattern[str]], ...] = (
    ("a clock", _find_clocks, p.CURRENT_TIME),
    ("a clock", _find_clocks, p.TIME_LINE),
    ("the id of one request", _find_ids, p.REQUEST_ID),
    ("a count of tokens left", _find_token_counts, p.TOKENS_LEFT),
)
_VOLATILE_KINDS = {"a clock": "date", "the id of one request": "id", "a count of tokens left": "count"}


def find_volatile_addition(previous: str, current: str) -> tuple[Code, Varies] | None:
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
    return p.KINDS[_VOLATILE_KINDS[word[0]]] if is_all else None


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
        if any(sign.search(text, 0, _CONTEXT) for sign in (p.GIT_LINE, p.GIT_WORDS, p.TREE_LINE)):
            return "git"
    first_lines = [line for text in (previous, current) for line in _first_lines(text)]
    own_headings = [line for line in first_lines if p.HEADING.match(line) or p.LABEL.match(line)]
    line_label = p.LABEL.match(context[-_CONTEXT:].rpartition("\n")[2])
    line_headings = [line_label.group()] if line_label else []
    for heading in (*own_headings, *line_headings, *_open_headings(context[-_CONTEXT:])):
        words = p.WORD_BREAK.sub(" ", heading.strip("<># :[]")).strip()
        if p.GIT_HEADING.search(words):
            return "git"
        if p.MEMORY_HEADING.search(words):
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
    for match in p.HEADING.finditer(context):
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
    by_program = bool(holds) or is_reminder(wrapper) or p.TAGGED.fullmatch(wrapper) is not None
    return (wrapper, holds) if by_program or (any_end and is_addition) else None


def is_reminder(text: str) -> bool:
    """Return whether a program wrote a text: "reminder" or "system:" begins it, or `<system-reminder>` comes soon."""
    return p.REMINDER.search(text.lstrip()[:_OPENING]) is not None


def is_made_by_program(text: str, labels: tuple[str, ...] = ()) -> bool:
    """Return whether a user's text has a reminder, label (also of `labels`), clock or timestamp of a program."""
    is_marked = is_reminder(text) or bool(find_labels(text, labels)) or p.TIMESTAMPED.match(text) is not None
    return is_marked or find_volatile_word(text) is not None


# Text of one prompt that often differs in the next

_DATE_LABEL = dict(p.LABELS)["date"]
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
    examples = [match.span() for match in p.EXAMPLES.finditer(text)]
    at = 0
    for before, form, word in split_varying_words(text):
        at += len(before)
        end = at + len(word)
        line_start, line_end = max(text.rfind("\n", 0, at) + 1, at - _LINE), text.find("\n", at, at + _LINE)
        rest = text[end : line_end if line_end >= 0 else at + _LINE]
        kind = _varying_kind(form, word, text[line_start:at], rest, in_tool=in_tool)
        is_example = kind is not None and any(start <= at < stop for start, stop in examples)
        if kind is not None and not is_example and counts[kind] < _MOST_OF_A_KIND:
            counts[kind] += 1
            words.append(VaryingWord(kind, at, word))
        at = end
    repository = p.REPOSITORY.search(text)
    if repository is not None:
        words.append(VaryingWord("repository", repository.start(), repository.group()))
    return sorted(words, key=lambda word: word.start)


def _varying_kind(form: str, word: str, before: str, after: str, *, in_tool: bool) -> VaryingKind | None:
    """Return the kind of a word by its line; None if it is part of documentation."""
    if not word or p.EXAMPLE.search(before + word + after):
        return None
    digits = sum(map(str.isdigit, word))
    match form:
        case "date" if digits and _DATE_LABEL.search(before + word + after):
            is_quoted = any(before.count(mark) % 2 and mark in after and before[-1] != mark for mark in '"`')
            if (in_tool or is_quoted) and p.CURRENT.search(before) is None:
                return None
            return "clock" if p.TIME.search(word) else "date"
        case "place" if p.PATH.search(word):  # not "the workspace is long-term", "cwd: the folder of the command"
            return "directory"
        case "id" if p.UUID.fullmatch(word) or p.LABELLED.search(word):
            return "id"
        case "temporary" if digits >= 2:  # noqa: PLR2004 - `/tmp` and `/tmp/1` occur in documentation
            return "temporary-path"
        case "process" if word[:1] in "pP":
            return "process-id"
        case "count":
            return "token-count"
        case _:
            return None
