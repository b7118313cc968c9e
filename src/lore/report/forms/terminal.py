"""The terminal report of `lore check`: findings with their place, change, cost and fix, then sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from lore.judge.findings import weight_of
from lore.judge.messages import message_of
from lore.judge.prices import sum_known
from lore.model.codes import UNEXPLAINED
from lore.model.deferred import pattern
from lore.model.evidence import OverBudget, ProviderSaid, ReadPlateau
from lore.model.fact import count_of, format_money
from lore.model.results import CheckResult, CostlyCause, Finding, Summary
from lore.report import sentences
from lore.report.console import Console, line
from lore.report.plain import place_of, turn_of

if TYPE_CHECKING:
    from lore.model.results.lint import LintResult, LintSummary

Reported: TypeAlias = "CheckResult | LintResult"

_MARKS = {"error": ("✗", "bold red"), "warning": ("!", "bold yellow"), "note": ("·", "dim")}
_PROBLEM = "LORE2"  # codes about recordings, not about prompts
_ORDER = ("error", "warning", "note")
_ALIKE = 2  # blocks of one cause that are shown
_NUMBERS = pattern(r"\[\d+\]")  # of items in a JSON path
_HISTORY = ("messages[", "input[", "contents[")  # how paths of messages begin
_NAMED_TURNS = 6  # of a group; the rest is counted


def command_of(result: Reported) -> str:
    """Return the name of the command that made a result."""
    return "lore check" if isinstance(result, CheckResult) else "lore lint"


def select_findings(findings: Iterable[Finding], *, verbose: bool) -> list[Finding]:
    """Return the findings to show: all if `verbose`, else all but notes."""
    return [finding for finding in findings if verbose or finding.severity != "note"]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, then by the cost of re-billed tokens; equal ones keep their order."""
    return sorted(findings, key=_badness)


def _badness(finding: Finding) -> tuple[int, float, int]:
    return _ORDER.index(finding.severity), -(finding.lost_dollars or 0.0), -(finding.lost_tokens or 0)


def group_findings(findings: Iterable[Finding], *, verbose: bool = False) -> list[list[Finding]]:
    """Group findings of one cause, evidence and provider's verdict at one place of a file; not if `verbose`.

    Messages are one place, whatever their numbers: what an agent does to an old message it does to the next one.
    Breaks of a file without a known cause are one group: a cache drops repeatedly for one reason, not in the recording.
    """
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        all_evidence = (finding.evidence, *(other.evidence for other in finding.also))
        verdict = next((fact.reason or fact.other for fact in all_evidence if isinstance(fact, ProviderSaid)), "")
        place: object = (finding.path, finding.code, finding.severity, type(finding.evidence), verdict)
        if finding.code not in UNEXPLAINED:
            # a clock in the system prompt differs in every conversation of a file
            path = finding.json_path or ""
            place = (place, _NUMBERS.sub("[]", path) if path.startswith(_HISTORY) else path)
        groups.setdefault(number if verbose or finding.turn is None else place, []).append(finding)
    return list(groups.values())


def _with_sums(group: Sequence[Finding]) -> Finding:
    """Return the first finding of a group (of missed reuse budgets the lowest one) with the cost of the whole group."""
    first = min(group, key=lambda finding: finding.evidence.value if isinstance(finding.evidence, OverBudget) else 0)
    tokens = [finding.lost_tokens for finding in group if finding.lost_tokens is not None]
    dollars = sum_known(finding.lost_dollars for finding in group)
    source = "estimated" if any(finding.tokens == "estimated" for finding in group) else first.tokens
    return replace(first, lost_tokens=sum(tokens) if tokens else None, lost_dollars=dollars, tokens=source)


def describe_loss(group: Sequence[Finding]) -> str:
    """Return what a group of findings cost; empty if none of them lost tokens."""
    sums = _with_sums(group)
    return sentences.format_loss(sums, is_part=is_priced_in_part(group)) if sums.lost_tokens else ""


def is_priced_in_part(group: Sequence[Finding]) -> bool:
    """Return whether the cost of a group leaves out that of some re-billed tokens."""
    return any(finding.lost_tokens and finding.lost_dollars is None for finding in group)


def merge_findings(findings: Iterable[Finding], *, verbose: bool) -> list[tuple[Finding, str]]:
    """Return findings worst first, each with its turns; if not `verbose`, those of one cause and place as one.

    If the turns of a group have different messages, it is said which turn's message is shown.
    """
    merged = list[tuple[Finding, str]]()
    for group in group_findings(select_findings(findings, verbose=verbose), verbose=verbose):
        sums = _with_sums(group)
        shown_turn = _turn_of_message(sums, group)
        merged.append((sums, describe_turns(group) + (f" (shown: {shown_turn})" if shown_turn else "")))
    return sorted(merged, key=lambda pair: _badness(pair[0]))


def _turn_of_message(sums: Finding, group: Sequence[Finding]) -> str:
    """Return the turn of a group's message; empty if all turns have the same message."""
    is_shared = len({finding.message for finding in group}) == 1
    return "" if is_shared or sums.turn is None else f"turn {sums.turn}"


def write_blocks(findings: Iterable[Finding], out: Console, *, verbose: bool) -> int:
    """Write findings, and return the number of blocks; without `verbose`, one for those of one cause and place."""
    groups = group_findings(select_findings(findings, verbose=verbose), verbose=verbose)
    write_groups(groups, out, verbose=verbose)
    return len(groups)


def write_groups(groups: Sequence[list[Finding]], out: Console, *, verbose: bool) -> None:
    """Write groups of findings, each a block.

    Without `verbose`, errors come first, then the costliest; of a cause the first two blocks of warnings are written,
    and what is ruled out for an unexplained fall once.
    """
    written = Counter[str]()
    hidden_groups: dict[str, list[Finding]] = {}
    for group in groups if verbose else sorted(groups, key=lambda group: _badness(_with_sums(group))):
        name = sentences.name_cause(group[0])
        if not verbose and written[name] >= _ALIKE and group[0].severity == "warning":
            hidden_groups.setdefault(name, []).extend(group)
            continue
        if not verbose and written[name] and group[0].code in UNEXPLAINED:
            short = [replace(finding, ruled_out=()) for finding in group]
            group = [replace(finding, message=message_of(finding)) for finding in short]
        write_findings(group, out)
        written[name] += 1
    for name, hidden in hidden_groups.items():
        loss, files = describe_loss(hidden), count_of(len({finding.path for finding in hidden}), "file")
        out.hint(f"! {name}, {len(hidden):,} more in {files}{loss and f': {loss}'}", "-v: each")


def write_findings(group: Sequence[Finding], out: Console) -> None:
    """Write findings of one cause and place: place, change (as a diff if the evidence quotes it), cost, fix."""
    sums = _with_sums(group)
    mark, style = _MARKS[sums.severity]
    turns, path = describe_turns(group), _describe_paths(group)
    where = " ".join(filter(None, (turns and f"in {turns}", path and f"at {path}")))
    out.print(line((f"{mark} {sentences.name_cause(sums)}", style), f" {where}" if where else ""))
    out.print(line("    ", (place_of(sums.path, sums.line), "bold")))
    turn, change = _turn_of_message(sums, group), None if sums.evidence is None else sums.evidence.quoted_change()
    turn = turn and f"{turn}: "
    if change is None:
        first, *grounds = sentences.split_message(sums.message)
        out.print(f"    {turn}{first.removeprefix(f'{sums.path} ')}")
        for ground in grounds:
            out.print(f"      {ground}")
    else:
        out.print(f"    {turn}{message_of(sums, quote=False)}")
        for sign, text, style in (("-", change[0], "red"), ("+", change[1], "green")):
            out.print(line(f"      {sign} ", (f"…{text}…", style)))
    loss = describe_loss(group)
    if loss and len(group) > 1:
        out.hint(f"    {loss} in {count_of(len(group), 'turn')}", "-v: each turn")
    elif loss:
        out.print(f"    {loss}")
    is_advice = isinstance(sums.requests, int)  # of `lore lint`
    if sums.severity != "note" or is_advice:
        heading, fix = sentences.format_fix(sums)
        out.print(line(f"    {heading}: ", (fix, "green")))


def describe_turns(group: Sequence[Finding]) -> str:
    """Return the turns of findings of one cause and place, and their chain; empty if they have none."""
    first, chains = group[0], len({finding.chain for finding in group})
    if first.turn is None:
        return count_of(first.times, "turn") if first.times > 1 else ""
    if len(group) == 1:
        request_count = first.evidence.requests if isinstance(first.evidence, ReadPlateau) else 1
        prefix = "" if request_count == 1 else f"{count_of(request_count, 'turn')}, the first of them "
        return prefix + turn_of(first.turn, first.chain)
    if chains > 1:
        return f"{count_of(len(group), 'turn')} of {count_of(chains, 'chain')}"
    turns = list(dict.fromkeys(finding.turn for finding in group))
    suffix = f" and {len(turns) - _NAMED_TURNS} more" if len(turns) > _NAMED_TURNS else ""
    chain = "" if first.chain in (None, "main") else f" of {first.chain}"
    return f"turns {', '.join(map(str, turns[:_NAMED_TURNS]))}{suffix}{chain}"


def _describe_paths(group: Sequence[Finding]) -> str:
    """Return the JSON path of the first finding, and the number of other paths; empty if it has none."""
    more = len({finding.json_path for finding in group}) - 1
    return (group[0].json_path or "") + (f" and {count_of(more, 'more place')}" if more else "")


class Terminal:
    """The report for a terminal: findings, sums, the costliest causes with fixes, commands to run next."""

    can_share_stdout = True

    def __init__(
        self, counted: int | None = None, *, quiet: bool = False, more_commands: Sequence[tuple[str, str]] = ()
    ) -> None:  # fmt: skip
        self._counted = counted  # requests whose usage has the tokens that were read from a cache; None: unknown
        self._quiet = quiet  # findings only
        self._more_commands = more_commands  # more commands to run next, each with its purpose

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        assert isinstance(result, CheckResult)  # `lore lint` has one of its own
        block_count = write_blocks(result.findings, out, verbose=verbose)
        if self._quiet:
            return
        if block_count:
            out.print()
        hidden = [] if verbose else [finding for finding in result.findings if finding.severity == "note"]
        if hidden:
            out.hint(f"{count_of(len(hidden), 'note')} hidden", "-v shows them")
        if result.interrupted:
            out.print(line((sentences.describe_interruption(result.interrupted), "bold yellow")))
        sums = result.summary
        hides_problems = not out.is_page and any(finding.code.startswith(_PROBLEM) for finding in hidden)
        for sentence in _count_lines(sums, hides_problems=hides_problems):
            out.print(sentence)
        if verbose and sums.recorded_dollars:
            out.print(f"cost as recorded: {format_money(sums.recorded_dollars)}")
        for sentence in unseen_lines(result):
            out.print(sentence)
        for styled in sentences.describe_rebilled(sums, self._counted):
            out.print(line(styled))
        if result.top:
            out.print("costliest causes:")
        printed_codes = {finding.code for finding in result.findings if finding.severity != "note"}  # with their fixes
        for number, cause in enumerate(result.top, 1):
            out.print(line(f"  {number}. ", (f"{cause.code} {cause.name}", "bold"), f": {describe_cost(cause)}"))
            if cause.code not in printed_codes:
                out.print(line("     fix: ", (cause.fix, "green")))
        if out.is_page:
            return
        if uncertain := list(_uncertain_costs(result.findings)):
            out.print(f"with no certain cause: {', '.join(uncertain)}")
        for command, purpose in (*_next_commands(result), *self._more_commands):
            out.print_whole(line(f"next: {command} ({purpose})"))  # a command is copied from one line


def _uncertain_costs(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the codes of cache breaks without a certain cause, with cost and number of breaks, the costliest first."""
    leading: dict[object, Finding] = {}
    for finding in findings:
        if finding.is_break:
            turn = finding.path, finding.chain, finding.turn
            leading[turn] = max(leading.get(turn, finding), finding, key=weight_of)
    groups: dict[str, list[Finding]] = {}
    for lead in leading.values():
        if lead.kind == "unattributable":
            groups.setdefault(f"{lead.code} {lead.name}", []).append(lead)
    sums = [
        (sum_known(loss.lost_dollars for loss in group) or 0.0, sum(loss.lost_tokens or 0 for loss in group), name)
        for name, group in groups.items()
    ]
    for dollars, tokens, name in sorted(sums, key=itemgetter(0, 1), reverse=True):
        at_least = "at least " if is_priced_in_part(groups[name]) else ""
        cost = (
            f"{at_least}{format_money(dollars)}" if dollars else count_of(tokens, "token") if tokens else "unknown loss"
        )
        yield f"{name} ({cost} in {count_of(len(groups[name]), 'cache break')})"


def _next_commands(result: CheckResult) -> Iterator[tuple[str, str]]:
    """Yield commands about the costliest cause and file, waste first, each with its purpose."""
    rebilled = [finding for finding in select_findings(result.findings, verbose=False) if finding.lost_tokens]
    if not rebilled:
        return
    waste = [cause.code for cause in result.top if cause.kind == "waste"]
    code = waste[0] if result.summary.waste_tokens and waste else worst_first(rebilled)[0].code
    yield f"lore explain {code}", "its meaning and its fix"
    tokens = Counter[str]()
    for finding in [finding for finding in rebilled if finding.kind == "waste"] or rebilled:
        tokens[finding.path] += finding.lost_tokens or 0
    costliest = max(tokens, key=lambda path: tokens[path])
    from lore.report.commands import typed_path  # noqa: PLC0415 - only if something can be saved

    path = typed_path(costliest)
    if not path or costliest == "<stdin>":
        return
    if result.summary.waste_tokens:
        yield f"lore simulate {path} --what-if", "the saving of each fix"
    elif code in UNEXPLAINED:
        yield f"lore simulate {path} --by reliability", "when and where the cache was not read"


def describe_cost(cause: CostlyCause) -> str:
    """Return the cost of a cause and the number of its cache breaks."""
    about = "about " if cause.estimated_tokens else ""
    cost = sentences.in_dollars(cause.lost_dollars, is_part=cause.unpriced_tokens)
    loss = (
        f"{about}{cause.lost_tokens:,} tokens re-billed{cost}" if cause.lost_tokens else "no re-billed tokens recorded"
    )
    return f"{loss} in {count_of(cause.breaks, 'cache break')}, {cause.kind}"


def sums_lines(sums: Summary | LintSummary) -> list[str]:
    """Return the sums in words: re-billed tokens, cache breaks, files and turns, findings that are left out."""
    if isinstance(sums, Summary):
        return [*(sentence for sentence, _ in sentences.describe_rebilled(sums)), *_count_lines(sums)]
    latest = f" of {count_of(sums.shown, 'conversation')}, the latest of each is predicted"
    others = {"refused": sums.refused, "unknown": sums.unknown}
    return [
        f"{count_of(sums.files, 'file')}, {count_of(sums.requests, 'request')}"
        + (latest if sums.shown != sums.requests else "")
        + (f"; {count_of(sums.skipped, 'file')} skipped (not recordings)" if sums.skipped else ""),
        f"a cache would keep {sums.cached:,} of {sums.shown:,}"
        + "".join(f", {count:,} {word}" for word, count in others.items() if count)
        + f"; {count_of(sums.errors, 'error')}, {count_of(sums.warnings, 'warning')}, {count_of(sums.notes, 'note')}",
        *_describe_left_out({"ignored": sums.ignored, "exempted": sums.exempted}, sums.problems),
    ]


def _count_lines(sums: Summary, *, hides_problems: bool = False) -> Iterator[str]:
    """Yield the counts of cache breaks, files and turns, and of findings left out."""
    yield (
        f"{count_of(sums.breaks, 'cache break')}: {sums.waste:,} waste, {sums.expected:,} expected, "
        f"{sums.unattributable:,} with no certain cause"
    )
    not_counted = f"; not counted: {count_of(sums.copied, 'turn')} inherited or copied from other sessions"
    yield (
        f"{count_of(sums.files, 'file')}, {count_of(sums.chains, 'chain')}, {count_of(sums.turns, 'turn')}, "
        f"{count_of(sums.pairs, 'pair')} compared, {count_of(sums.compactions, 'compaction')}"
        + (not_counted if sums.copied else "")
        + (f"; {count_of(sums.skipped, 'file')} skipped (not recordings)" if sums.skipped else "")
    )
    left_out = {f"in the baseline{known_cost(sums)}": sums.known, "ignored": sums.ignored, "exempted": sums.exempted}
    yield from _describe_left_out(left_out, sums.problems, hides_problems=hides_problems)


def known_cost(sums: Summary) -> str:
    """Return what the findings of the baseline cost, to follow their number; empty if no tokens are known."""
    dollars = f", {format_money(sums.known_dollars)}" if sums.known_dollars else ""
    return f" ({sums.known_tokens:,} tokens re-billed{dollars})" if sums.known_tokens else ""


def _describe_left_out(counts: Mapping[str, int], problems: int, *, hides_problems: bool = False) -> Iterator[str]:
    phrases = [f"{count_of(count, 'finding')} {word}" for word, count in counts.items() if count]
    if phrases:
        yield f"not counted: {', '.join(phrases)}"
    if problems:
        hint = " (--select LORE2 -v shows them)" if hides_problems else ""
        yield f"{count_of(problems, 'problem')} in the recordings{hint}"


def unseen_lines(result: Reported) -> Iterator[str]:
    """Yield the parts of prompts that logs do not record, once for all formats that omit the same ones."""
    formats_by_text: dict[str, list[str]] = {}
    for unseen in result.unseen:
        size = "" if unseen.tokens is None else f", about {unseen.tokens:,} tokens of each prompt (estimated)"
        sealed = f"; {unseen.sealed}" if unseen.sealed else ""
        formats_by_text.setdefault(f"{unseen.what}{size}{sealed}", []).append(unseen.format)
    for what, formats in formats_by_text.items():
        yield sentences.describe_missing(formats, what)
