"""The baseline: known findings, so that only new ones fail.

An entry counts the findings of one fingerprint. Notes about anything but unexpected cache breaks, which fail no run,
and findings about budgets have no entry.
Entries are sorted and use lasting names, so that the difference between two baselines is a list of changes. A baseline
holds no text of a prompt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Struct

from lore.errors import LoreError, Where
from lore.judge.findings import finding as make_finding
from lore.judge.findings import fingerprint, lasting_chain, lasting_path
from lore.judge.policy import EVERYTHING, Ruling
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.evidence import Unneeded
from lore.model.mask import cut_masked, mask
from lore.model.results import Finding

VERSION = 1
# Known findings count against no budget, so a run whose findings are all known exceeds none.
WITHOUT_ENTRY = (Code.BREAKS_ABOVE_BUDGET, Code.LOST_TOKENS_ABOVE_BUDGET, Code.BASELINE_STALE)
_HINT = "repair it, or delete it and write a new one with --update-baseline"
_OTHER = "name a file that `lore check --update-baseline` wrote"
_MERGE = pattern(rb"^(?:<{7}|={7}|>{7})", re.MULTILINE)


class BaselineEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Findings of one fingerprint: what and where, and how many."""

    fingerprint: str
    code: str
    path: str
    chain: str | None = None
    json_path: str | None = None
    message: str = ""
    count: int = 1
    content: str | None = None  # see `content_key`; None: its recording has no content that identifies it


class Baseline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The entries as they are stored; a version of 0 was not stated."""

    lore_baseline: int = 0
    findings: tuple[BaselineEntry, ...] = ()


class BaselineRecorder:
    """Collect the findings of a run for a baseline, except those that `--select` and `--ignore` exclude."""

    def __init__(self, option_ruling: Ruling = EVERYTHING) -> None:
        self._wants = option_ruling.wants
        self._first: dict[str, tuple[str, Finding]] = {}
        self._contents: dict[str, str | None] = {}
        self._counts: Counter[str] = Counter()

    def add(self, finding: Finding, key: str, recording: str = "") -> None:
        """Count a finding; `key` is its file's path, the same on every machine; `recording` as in `content_key`."""
        if not self._wants(finding.code, finding.name):
            return
        self._first.setdefault(finding.fingerprint, (key, finding))
        self._contents[finding.fingerprint] = content_key(finding, recording)
        self._counts[finding.fingerprint] += 1

    def entries(self) -> Iterator[BaselineEntry]:
        """Yield an entry for each fingerprint that was counted."""
        for name, count in self._counts.items():
            key, first = self._first[name]
            # An entry must not depend on which of two findings with one fingerprint came first.
            message = f"{first.name} in {first.section}" if first.section and first.json_path else first.name
            chain, place = lasting_chain(first.chain), lasting_path(first.json_path)
            yield BaselineEntry(
                fingerprint=name, code=first.code, path=mask(key), chain=chain and mask(chain),
                json_path=place and mask(place), message=message, count=count, content=self._contents[name],
            )  # fmt: skip


def content_key(finding: Finding, recording: str) -> str | None:
    """Return a key by which a finding is recognised in a recording that was renamed or moved; None if it has none.

    `recording` identifies the recording by its content; empty: nothing does.
    """
    return fingerprint(finding.code, recording, finding.chain, finding.json_path) if recording else None


def can_have_entry(finding: Finding) -> bool:
    """Return whether a finding can be in a baseline: it can fail a run, by itself or as a break in a budget."""
    is_counted = finding.severity != "note" or (finding.is_break and finding.kind != "expected")
    return is_counted and finding.code not in WITHOUT_ENTRY


class KnownFindings:
    """The findings of a baseline, each used up once; `is_gone` returns whether the file of an entry does not exist."""

    def __init__(self, baseline: Baseline, is_gone: Callable[[BaselineEntry], bool] = lambda _: False) -> None:
        ranked = sorted(baseline.findings, key=lambda entry: entry.count)
        self._entries = {entry.fingerprint: entry for entry in ranked}  # the one that counts most
        self._remaining = Counter({name: entry.count for name, entry in self._entries.items()})
        self._paths = {entry.path for entry in ranked}  # a recording with entries of its own was not moved
        self._moved: dict[str, list[str]] = {}  # fingerprints of entries whose recording may have moved, by content
        for name, entry in self._entries.items():
            if entry.content is not None and is_gone(entry):
                self._moved.setdefault(entry.content, []).append(name)

    def take(self, finding: Finding, key: str, recording: str = "") -> bool:
        """Return whether a finding is known, and use it up; `key` and `recording` as in `BaselineRecorder.add`."""
        moved = () if mask(key) in self._paths else self._moved.get(content_key(finding, recording) or "", ())
        name = next((name for name in (finding.fingerprint, *moved) if self._remaining[name] > 0), None)
        if name is None:
            return False
        self._remaining[name] -= 1
        return True

    def unused(self) -> Iterator[tuple[BaselineEntry, int]]:
        """Yield the entries with findings that were not used up, and their number."""
        for name, entry in self._entries.items():
            if self._remaining[name] > 0:
                yield entry, self._remaining[name]


def renew_entries(
    old: Baseline, entries: Iterable[BaselineEntry], covers: Callable[[BaselineEntry], bool]
) -> tuple[list[BaselineEntry], int]:
    """Return new entries and the old ones that this run does not cover, and the number of findings of the latter."""
    by_name = {entry.fingerprint: entry for entry in entries}
    unseen = 0
    for entry in old.findings:
        new = by_name.get(entry.fingerprint)
        if not covers(entry) and (new is None or new.count < entry.count):
            unseen += entry.count - (0 if new is None else new.count)
            by_name[entry.fingerprint] = entry if new is None else msgspec.structs.replace(new, count=entry.count)
    return list(by_name.values()), unseen


def find_removed(old: Baseline, entries: Iterable[BaselineEntry]) -> Iterator[BaselineEntry]:
    """Yield the old entries whose finding is in none of the new ones, also not in a recording that was renamed."""
    names, new = {entry.fingerprint for entry in old.findings}, {entry.fingerprint: entry for entry in entries}
    moved = {entry.content for name, entry in new.items() if name not in names} - {None}
    for entry in sorted(old.findings, key=_order):
        if entry.fingerprint not in new and entry.content not in moved:
            yield entry


def find_stale(
    known_findings: KnownFindings, place: Place, covers: Callable[[BaselineEntry], bool]
) -> Iterator[Finding]:
    """Find entries that nothing matches any more; `covers` returns whether this run could have matched one."""
    for entry, unmatched in sorted(known_findings.unused(), key=lambda pair: _order(pair[0])):
        if covers(entry):
            where = " ".join(filter(None, (entry.path, entry.json_path)))
            unneeded = Unneeded("baseline", entry.code, where, entries=entry.count, left=entry.count - unmatched)
            yield make_finding(Code.BASELINE_STALE, place, unneeded, json_path=f"findings[{entry.fingerprint}]")


def encode(entries: Iterable[BaselineEntry]) -> bytes:
    """Return a baseline as JSON, indented by two spaces so that each member has a line; entries are sorted."""
    baseline = Baseline(lore_baseline=VERSION, findings=tuple(sorted(entries, key=_order)))
    try:
        spelled = msgspec.json.encode(baseline)
    except UnicodeEncodeError:  # half of a surrogate pair in a path inside a body
        plain = [msgspec.structs.replace(entry, **_plain(entry)) for entry in baseline.findings]
        spelled = msgspec.json.encode(msgspec.structs.replace(baseline, findings=tuple(plain)))
    return msgspec.json.format(spelled, indent=2) + b"\n"


def _plain(entry: BaselineEntry) -> dict[str, str | None]:
    texts = {name: getattr(entry, name) for name in ("path", "chain", "json_path", "message")}
    return {name: text and text.encode("utf-8", "backslashreplace").decode("utf-8") for name, text in texts.items()}


def _order(entry: BaselineEntry) -> tuple[str, str, str, str, str]:
    return entry.path, entry.code, entry.json_path or "", entry.chain or "", entry.fingerprint


def decode(data: bytes, name: str) -> Baseline:
    """Parse a baseline; raises LoreError if it is damaged."""
    where = Where(name)
    if not data.strip():
        raise LoreError(f"{name} is empty", hint="write it with --update-baseline", where=where)
    hint = _HINT if b"lore_baseline" in data else _OTHER
    marks = _MERGE.search(data)
    if marks is not None and hint == _HINT:
        where = Where(name, data.count(b"\n", 0, marks.start()) + 1)
        raise LoreError(f"{name} holds the marks of a merge", hint=_HINT, where=where)
    try:
        baseline = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=Baseline)  # of editors on Windows
    except (ValueError, RecursionError) as error:  # what msgspec says of a wrong value does not quote it whole
        reason = cut_masked(str(error), 200)
        raise LoreError(f"{name} is no baseline: {reason}", hint=hint, where=where) from None
    if not baseline.lore_baseline:
        raise LoreError(f"{name} is no baseline: it states no version", hint=_OTHER, where=where)
    if baseline.lore_baseline != VERSION:
        hint = "it was written by another lore: use that one, or delete it and write a new one with --update-baseline"
        raise LoreError(f"{name} is a baseline of version {baseline.lore_baseline}", hint=hint, where=where)
    bad = next((entry for entry in baseline.findings if entry.count < 1 or not entry.fingerprint), None)
    if bad is not None:
        raise LoreError(f"{name} is no baseline: an entry of {bad.code} counts {bad.count}", hint=_HINT, where=where)
    return baseline
