"""Texts made short: ids by their shortest prefixes, names by a digest, text cut between grapheme clusters.

Rule: the short form of an id, once shown, is its form for good: what is shown later gets forms that differ from it.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from lore.model.vector import common_prefix

SHORTEST_ID, LONGEST_ID = 5, 64


def token(name: str) -> str:
    """Return 8 hex digits for a name; by those of a session its deltas are known."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def shown_ids(names: Iterable[str], shown: Mapping[str, str]) -> Mapping[str, str]:
    """Return the short forms `shown` so far, by id, with those of the names that have none yet.

    A form is the shortest prefix of at least 5 characters that no other id begins with; a longer one than 64, and a
    whole id that another one was shown as, is cut with a digest behind it. The same `shown` where nothing is new, else
    a new mapping; costs O(ids).
    """
    new = sorted({name for name in names if name not in shown})
    if not new:
        return shown
    ordered = sorted((*shown, *new))
    forms = dict(shown)
    taken = set(forms.values())
    for name in new:
        at = bisect_left(ordered, name)
        beside = (*ordered[max(0, at - 1) : at], *ordered[at + 1 : at + 2])
        shared = [len(name) if name.startswith(other) else common_prefix(name, other) for other in beside]
        form = name[: max([SHORTEST_ID - 1, *shared]) + 1]
        if len(form) > LONGEST_ID:
            form = f"{cut(form, 48)}…{token(form)}"
        while form in taken:
            form = f"{cut(name, 48)}…{token(form)}"
        forms[name] = form
        taken.add(form)
    return forms


def cut(text: str, limit: int) -> str:
    """Return the longest beginning of at most `limit` code points that splits no grapheme cluster."""
    if len(text) <= limit:
        return text
    import regex  # noqa: PLC0415 - seldom needed, and slow to import

    end = 0
    for match in regex.finditer(r"\X", text[: limit + 1]):
        if match.end() > limit:
            break
        end = match.end()
    return text[:end]
