"""The policy: which findings count, and with which kind. Settings and the path of a recording make a `Ruling`.

- A selector is a code, the beginning of a code, or a name. Of those that match, the longest applies; if `select`
  and `ignore` match equally, the finding is ignored.
- An entry of `per_path` adds to `ignore` and `count_as_waste`; its `select` and budgets replace those above it. The
  last entry that matches applies.
- `select` is about recordings: findings about budgets, exemptions and baselines (LORE4xx) are only removed by `ignore`.
- The budgets `max_breaks` and `max_lost_tokens` hold for sums over recordings. Breaks count against them also if they
  are not selected, but not if they are ignored, exempted or in the baseline.
- The budget `min_reuse` holds for each pair of turns, whatever is ignored, but not if all its causes are exempted.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal, NamedTuple, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from lore.errors import LoreError
from lore.judge.base import RULES
from lore.judge.findings import finding, findings_of
from lore.judge.messages import in_words
from lore.judge.pairs.pair import Pair, is_remark
from lore.model.cause import Place
from lore.model.codes import CODES, SEVERITY, Code
from lore.model.evidence import OverBudget, TailReplaced
from lore.model.patterns import PathIndex, matches_name
from lore.model.results import Count, Finding

Out: TypeAlias = Literal["", "unselected", "ignored", "exempted", "known"]
MAX_TAIL_TOKENS = 2_000  # tokens of a replaced tail: a longer one is a warning (`max_tail_tokens` sets it)
OF_RUNS = "LORE4"  # codes about budgets, exemptions, baselines


class Criteria(Struct, frozen=True, kw_only=True):
    """Selectors, and budgets: `min_reuse` (0 to 1) for every pair, `max_…` for sums over recordings."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    count_as_waste: tuple[str, ...] = ()
    min_reuse: Annotated[float, Meta(ge=0, le=1)] | None = None
    max_breaks: Count | None = None
    max_lost_tokens: Count | None = None


class PerPath(Criteria, frozen=True, forbid_unknown_fields=True):
    """Criteria for the recordings that a pattern names."""

    path: str  # the pattern


class Exempt(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Findings that were looked at and are accepted, and why."""

    code: str  # a selector
    path: str  # a pattern
    reason: str
    chain: str | None = None  # a pattern; None: any, as below
    json_path: str | None = None

    def accepts(self, finding: Finding) -> bool:
        """Return whether it accepts a finding of a recording that `path` names."""
        if not _match_length(self.code, finding.code, finding.name):
            return False
        if self.chain is not None and not matches_name(self.chain, finding.chain or ""):
            return False
        return self.json_path is None or matches_name(self.json_path, finding.json_path or "")


class Policy(Criteria, frozen=True, dict=True, forbid_unknown_fields=True):  # `dict`: for cached properties
    """How findings count, and the budgets of a run."""

    per_path: tuple[PerPath, ...] = ()
    exempt: tuple[Exempt, ...] = ()
    max_tail_tokens: Count = MAX_TAIL_TOKENS

    def fault(self) -> str:
        """Return why these settings are wrong; empty if they are not."""
        for number, entry in enumerate(self.per_path, 1):
            if fault := _path_fault(entry.path):
                return f"per_path, entry {number}: {fault}"
        for number, entry in enumerate(self.exempt, 1):
            empty = next((f"{name} is empty" for name in ("code", "reason") if not getattr(entry, name).strip()), "")
            leaves = f"path {entry.path!r} leaves the folder of these settings" if ".." in entry.path.split("/") else ""
            if fault := empty or _path_fault(entry.path) or leaves:
                return f"exempt, entry {number}: {fault}"
        return ""

    def check_selectors(self, where: str = "") -> None:
        """Raise LoreError for a selector that names no code. Plug-ins must be loaded, as they bring codes."""
        for prefix, settings in (("", self), *(("per_path.", entry) for entry in self.per_path)):
            for name in ("select", "ignore", "count_as_waste"):
                for selector in getattr(settings, name):
                    _check_selector(selector, f"{where}{prefix}{name}")
        for entry in self.exempt:
            _check_selector(entry.code, f"{where}exempt.code")

    @cached_property
    def exempt_paths(self) -> PathIndex:
        """The paths of the exemptions; their numbers are those of `exempt`."""
        return PathIndex(entry.path for entry in self.exempt)

    @cached_property
    def _paths(self) -> PathIndex:
        return PathIndex(entry.path for entry in self.per_path)

    def ruling(self, path: str) -> Ruling:
        """Return the ruling for a recording; `path` is relative, with `/`."""
        entries = [(number, self.per_path[number]) for number in self._paths.numbers(path)]
        limited = [
            next((number for number, entry in reversed(entries) if getattr(entry, name) is not None), -1)
            for name in BudgetEntries._fields
        ]
        all_criteria = (self, *(entry for _, entry in entries))
        return Ruling(
            select=next((entry.select for entry in reversed(all_criteria) if entry.select), ()),
            ignore=tuple([code for entry in all_criteria for code in entry.ignore]),
            count_as_waste=tuple([code for entry in all_criteria for code in entry.count_as_waste]),
            min_reuse=next((entry.min_reuse for entry in reversed(all_criteria) if entry.min_reuse is not None), None),
            exempt=tuple([(number, self.exempt[number]) for number in self.exempt_paths.numbers(path)]),
            max_tail_tokens=self.max_tail_tokens, limited=BudgetEntries(*limited),
        )  # fmt: skip


def _path_fault(path: str) -> str:
    """Return why a pattern would match nothing on some machine; empty if it may match."""
    if not path.strip():
        return "path is empty"
    if "\\" in path:
        return f"path {path!r} has a backslash: write / between its parts, on Windows too"
    if path.startswith(("/", "~")) or path[1:2] == ":":
        return f"path {path!r} is absolute: write it relative to the folder of these settings"
    return ""


NO_POLICY = Policy()


class BudgetEntries(NamedTuple):
    """The numbers of the `per_path` entries whose budgets a recording counts against; -1: the `Policy`'s own."""

    max_breaks: int = -1
    max_lost_tokens: int = -1


class Decision(NamedTuple):
    """What the policy decided about a finding."""

    finding: Finding  # perhaps with another kind or severity
    out: Out = ""  # why it does not count; empty: it counts
    by: int = -1  # the number of the exemption that removes it; -1: none does


class Ruling(Criteria, frozen=True, kw_only=True):
    """The policy for one recording; the budgets of sums are the `Policy`'s, by the entries in `limited`."""

    exempt: tuple[tuple[int, Exempt], ...] = ()  # with their numbers in the settings
    limited: BudgetEntries = BudgetEntries()
    max_tail_tokens: int = MAX_TAIL_TOKENS

    def decide(self, finding: Finding) -> Decision:
        """Return whether a finding counts, and the finding with the kind and severity that the policy gives it."""
        if not self.wants(finding.code, finding.name):
            is_ignored = _longest_match(self.ignore, finding.code, finding.name)
            return Decision(finding, "ignored" if is_ignored else "unselected")
        for number, exempt in self.exempt:
            if exempt.accepts(finding):
                return Decision(finding, "exempted", number)
        is_counted = finding.kind == "waste" and "little-lost" not in finding.qualifiers
        if not is_counted and _longest_match(self.count_as_waste, finding.code, finding.name):
            finding = in_words(replace(finding, kind="waste", severity=SEVERITY["waste"]))
        elif isinstance(finding.evidence, TailReplaced) and finding.evidence.tokens > self.max_tail_tokens:
            # every turn pays for a long tail
            finding = in_words(replace(finding, severity="warning", actor="author"))
        return Decision(finding)

    def wants(self, code: str, name: str) -> bool:
        """Return whether findings of a code are selected."""
        ignored_length = _longest_match(self.ignore, code, name)
        if not self.select or code.startswith(OF_RUNS):
            return not ignored_length
        return _longest_match(self.select, code, name) > ignored_length

    def looks_for(self, selector: str) -> bool:
        """Return whether all codes that a selector names are selected."""
        matches = [(code, row.name) for code, row in CODES.items() if _match_length(selector, code, row.name)]
        return all(self.wants(code, name) for code, name in matches)


EVERYTHING = Ruling()


def _match_length(selector: str, code: str, name: str) -> int:
    """Return how many characters of a code a selector matches, all if it is the name; 0: it selects other codes."""
    if selector.lower() == name:
        return len(code)
    return len(selector) if code.startswith(selector.upper()) else 0


def _longest_match(selectors: Iterable[str], code: str, name: str) -> int:
    return max((_match_length(selector, code, name) for selector in selectors), default=0)


_LOOK_ALIKE = str.maketrans("OIL", "011")


def _check_selector(selector: str, where: str) -> None:
    names = [row.name for row in CODES.values()]
    if selector.lower() in names or (selector and any(code.startswith(selector.upper()) for code in CODES)):
        return
    from difflib import get_close_matches  # noqa: PLC0415 - only for an error

    # letters that look like digits: the nearest code by spelling could be any other
    digits = selector[:4].upper() + selector[4:].upper().translate(_LOOK_ALIKE)
    suggestions = [digits] if digits in CODES else get_close_matches(selector, names, 1)
    hint = f"did you mean {suggestions[0]}? " if suggestions else ""
    raise LoreError(
        f"{where}: no finding has the code or name {selector!r}",
        hint=f"{hint}`lore explain` lists codes and names; the beginning of a code stands for all that begin so",
    )


def decide_pair(pair: Pair, place: Place, ruling: Ruling) -> list[Decision]:
    """Return a decision on every finding of a pair: those of its verdict, of plug-ins' rules, and of `min_reuse`.

    A pair may reuse less than `min_reuse` if all its causes are exempted, or the others are expected or remarks.
    """
    pairs = [(cause, ruling.decide(finding)) for cause, finding in findings_of(pair, place)]
    decided = [decision for _, decision in pairs]
    decided += [ruling.decide(finding) for rule in RULES.values() for finding in rule.pair(pair, place)]
    causes = [replace(cause, override=decision.finding.kind) for cause, decision in pairs if decision.out != "exempted"]
    if pair.causes and not causes:
        return decided
    reuse, limit, current = pair.reuse, ruling.min_reuse, pair.current
    is_expected = bool(causes) and all(cause.kind == "expected" or is_remark(cause) for cause in causes)
    if limit is None or reuse is None or reuse >= limit or is_expected:
        return decided
    below = finding(
        Code.REUSE_BELOW_BUDGET, place, OverBudget("reuse", reuse, limit), line=current.line, chain=current.chain,
        turn=current.number, dialect=current.prompt.dialect, fidelity=current.prompt.fidelity,
    )  # fmt: skip
    return [*decided, ruling.decide(below)]
