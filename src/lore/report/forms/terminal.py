"""The terminal report of `lore check`: findings with their place, change, cost and fix, then sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias

from msgspec.structs import replace

from lore.judge.messages import message_of
from lore.model.codes import UNEXPLAINED, Code
from lore.model.evidence import NothingRead
from lore.model.fact import format_money
from lore.model.results import CheckResult, CostlyCause, Finding, Summary, UnrecordedParts
from lore.model.results.lint import LintResult, LintSummary
from lore.report.console import Console, columns_of, line, whole, width_of
from lore.report.plain import counted, place_of, turn_of
from lore.report.sentences.findings import (
    describe_interruption,
    describe_missing,
    format_extra_cost,
    format_fix,
    format_loss,
)

_MARKS = {"error": ("✗", "bold red"), "warning": ("!", "bold yellow"), "note": ("·", "dim")}
_PROBLEM = "LORE2"  # codes of what is wrong with a recording, and not with a prompt
_ORDER = ("error", "warning", "note")
_NAMED_TURNS = 6  # of a group; the rest is counted
WORST = 3  # turns that a group of unexplained falls names


def shown(findings: Iterable[Finding], *, verbose: bool) -> list[Finding]:
    """Return the findings that a report shows: all, or those but notes, with unexplained falls once a file."""
    return list(findings) if verbose else once_a_file(finding for finding in findings if finding.severity != "note")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, then by re-billed tokens; equal ones keep their order."""
    return sorted(findings, key=lambda finding: (_ORDER.index(finding.severity), -(finding.lost_tokens or 0)))


def once_a_file(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with the unexplained falls of a file and code merged into one, at the place of the first.

    Tokens and dollars are sums. A noisy cache falls again and again for one reason that the recording does not show.
    """
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        is_fall = finding.code in UNEXPLAINED and finding.turn is not None
        key = (finding.path, finding.code, finding.severity) if is_fall else number
        groups.setdefault(key, []).append(finding)
    return [found[0] if len(found) == 1 else _merge_falls(found) for found in groups.values()]


def _merge_falls(found: Sequence[Finding]) -> Finding:
    """Return one finding, without turn and line, about several unexplained falls of a file."""
    return replace(
        found[0], message=_describe_falls(found), lost_tokens=_sum_tokens(found), lost_dollars=_sum_dollars(found),
        line=None, chain=None, turn=None, lost_bytes=None, times=len(found),
    )  # fmt: skip


def _sum_tokens(found: Iterable[Finding]) -> int:
    return sum(finding.lost_tokens or 0 for finding in found)


def _sum_dollars(found: Iterable[Finding]) -> float | None:
    known = [finding.lost_dollars for finding in found if finding.lost_dollars is not None]
    return sum(known) if known else None


def _describe_falls(found: Sequence[Finding]) -> str:
    continued = " though the conversation continued" if found[0].code == Code.SERVER_SIDE_MISS else ""
    never = sum(isinstance(finding.evidence, NothingRead) for finding in found)  # their tokens are unknown
    fell = len(found) - never
    parts = [f"the billed read fell in {counted(fell, 'turn')}{continued}"] if fell else []
    parts += [f"nothing was read in {counted(never, 'turn')} that continued prompts never read"] if never else []
    parts += [f"{'most' if fell else 'first'} in {_list_worst(found)}"]
    for word, wanted in (("ruled out in each", True), ("not recorded", None)):
        named = [{reason.reason.partition(":")[0] for reason in finding.ruled_out if reason.out is wanted}
                 for finding in found]  # fmt: skip
        order = [reason.reason.partition(":")[0] for reason in found[0].ruled_out]
        common = [reason for reason in dict.fromkeys(order) if all(reason in names for names in named)]
        parts += [f"{word}: {', '.join(common)}"] if common else []
    return "; ".join([*parts, "each turn: -v"])


def _list_worst(found: Sequence[Finding]) -> str:
    worst = sorted(found, key=lambda finding: -(finding.lost_tokens or 0))[:WORST]
    return ", ".join([
        turn_of(finding.turn or 0, finding.chain) + ("" if finding.line is None else f" (line {finding.line})")
        + (f": {finding.lost_tokens:,} tokens" if finding.lost_tokens else "")
        for finding in worst
    ])  # fmt: skip


def group_findings(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return findings of one cause at one place of a file together, at the place of the first."""
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        place = (finding.path, finding.code, finding.severity, finding.chain, finding.json_path, type(finding.evidence))
        groups.setdefault(number if finding.turn is None else place, []).append(finding)
    return list(groups.values())


Reported: TypeAlias = CheckResult | LintResult


def command_of(result: Reported) -> str:
    """Return the name of the command that made a result."""
    return "lore check" if isinstance(result, CheckResult) else "lore lint"


class FindingsWriter:
    """Writes the findings of each file when the file is judged.

    Without `verbose`, findings of one cause and place are one block, and the reasons why a fall has no explanation are
    written once: they are alike in every file.
    """

    def __init__(self, out: Console, *, verbose: bool) -> None:
        self._out, self._verbose = out, verbose
        self._explained = set[str]()
        self.received = 0  # findings
        self.written = 0  # blocks

    def write(self, findings: Sequence[Finding]) -> None:
        """Write the findings of the next file or files."""
        self.received += len(findings)
        visible_ones = shown(findings, verbose=self._verbose)
        for group in [[finding] for finding in visible_ones] if self._verbose else group_findings(visible_ones):
            write_findings(group, self._out, again=not self._verbose and group[0].code in self._explained)
            self._explained |= {group[0].code} & {*UNEXPLAINED}
            self.written += 1


class Terminal:
    """The report for a terminal: findings, sums, the costliest causes and fixes, what to run next."""

    mixes = True

    def __init__(self, begun: FindingsWriter | None = None, *, quiet: bool = False) -> None:
        self._begun = begun  # has written the first findings
        self._quiet = quiet  # findings only

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        assert isinstance(result, CheckResult)  # `lore lint` has one of its own
        findings = self._begun or FindingsWriter(out, verbose=verbose)
        findings.write(result.findings[findings.received :])
        if self._quiet:
            return
        if findings.written:
            out.print()
        hidden = [] if verbose else [finding for finding in result.findings if finding.severity == "note"]
        if hidden:
            out.print(line((f"{counted(len(hidden), 'note')} hidden (use -v)", "dim")))
        if result.interrupted:
            out.print(line((describe_interruption(result.interrupted), "bold yellow")))
        _summary(result.summary, out, sum(finding.code.startswith(_PROBLEM) for finding in hidden))
        if verbose and result.summary.recorded_dollars:
            out.print(line(f"cost as recorded: {format_money(result.summary.recorded_dollars)}"))
        for sentence in unseen_lines(result):
            out.print(line(sentence))
        _top(top_shown(result.top, verbose=verbose), out)
        for command, why in _next(result):
            room, text = columns_of(out), line(f"next: {command} ({why})")
            if room is None or width_of(text.plain) <= room:
                out.print(text)
            else:  # a command is copied from one line
                whole(out, line(f"next: {command}"))
                out.print(line(f"    ({why})"))


def _next(result: CheckResult) -> Iterator[tuple[str, str]]:
    """Yield commands about the costliest cause and file, waste first, each with what it shows."""
    lost = [finding for finding in result.findings if finding.lost_tokens and finding.severity != "note"]
    if not lost:
        return
    code = result.top[0].code if result.summary.waste_tokens and result.top else worst_first(lost)[0].code
    yield f"lore explain {code}", "what it means, what to do"
    costly = [finding for finding in lost if finding.kind == "waste"] or lost
    tokens = Counter[str]()
    for finding in costly:
        tokens[finding.path] += finding.lost_tokens or 0
    costliest = max(tokens, key=lambda path: tokens[path])
    from lore.report.commands import in_shell  # noqa: PLC0415 - only where something can be saved

    path = in_shell(costliest)
    if not path or costliest == "<stdin>":
        return
    if result.summary.waste_tokens:
        yield f"lore simulate {path} --what-if", "what each fix would save"
    elif code in UNEXPLAINED:
        yield f"lore simulate {path} --by reliability", "when and where the cache was not read"


def write_findings(group: Sequence[Finding], out: Console, *, again: bool = False) -> None:
    """Write findings of one cause and place: where, what changed, what it cost, the fix.

    With `again`, only where and what it cost.
    """
    first = group[0]
    mark, style = _MARKS[first.severity]
    out.print(line((mark, style), " ", (describe_place(group), "bold"), "  ", (f"{first.code} {first.name}", style)))
    if again:
        out.print(line("    as above; the reasons of each turn: -v"))
    else:
        _write_message(group, out)
    tokens = _sum_tokens(group)
    if tokens:
        merged = replace(first, lost_tokens=tokens, lost_dollars=_sum_dollars(group))
        out.print(line(f"    {format_loss(merged)}"))
    if first.severity != "note" and not again:
        heading, fix = format_fix(first)
        out.print(line(f"    {heading}: ", (fix, "green")))


def _write_message(group: Sequence[Finding], out: Console) -> None:
    """Write what changed, as a diff if the evidence quotes the change; of several turns the costliest one's."""
    finding = max(group, key=lambda finding: finding.lost_tokens or 0)
    change = None if finding.evidence is None else finding.evidence.quoted_change()
    if change is None:
        out.print(line(f"    {finding.message}"))
    else:
        out.print(line(f"    {message_of(finding, quote=False)}"))
        for sign, text, style in (("-", change[0], "red"), ("+", change[1], "green")):
            out.print(line(f"      {sign} ", (f"…{text}…", style)))
    others = len({other.message for other in group}) - 1
    if others:
        out.print(line((f"    shown: turn {finding.turn}; each turn: -v", "dim")))


def describe_place(group: Sequence[Finding]) -> str:
    """Return where findings are: file, line of the first, turns, chain, path in the prompt."""
    first = group[0]
    place = place_of(first.path, first.line)
    if first.turn is None and first.times > 1:
        place += f"  {counted(first.times, 'turn')}"
    elif first.turn is not None and len(group) == 1:
        place += f"  {turn_of(first.turn, first.chain)}"
    elif first.turn is not None:
        turns = list(dict.fromkeys(finding.turn for finding in group))
        named = ", ".join(map(str, turns[:_NAMED_TURNS])) + (
            f" and {len(turns) - _NAMED_TURNS} more" if len(turns) > _NAMED_TURNS else ""
        )
        place += f"  turns {named}" + ("" if first.chain in (None, "main") else f" of {first.chain}")
    return place if first.json_path is None else f"{place}  {first.json_path}"


def _summary(sums: Summary, out: Console, hidden: int) -> None:
    styles = ["bold red" if sums.waste_tokens or sums.waste else "bold green"] + ["yellow"] * bool(sums.unexplained)
    for sentence, style in zip_longest(sums_lines(sums, hidden), styles, fillvalue=""):
        out.print(line((sentence, style)))


def sums_lines(sums: Summary | LintSummary, hidden: int = 0) -> Iterator[str]:
    """Yield the sums in words: what was re-billed, cache breaks, what was read, what is left out.

    hidden: problems that only -v shows
    """
    if isinstance(sums, LintSummary):
        yield from _lint_sums(sums)
        return
    yield f"re-billed as waste: {sums.waste_tokens:,} tokens{_dollars(sums.waste_dollars)}"
    if sums.unexplained:
        tokens = f"{sums.unexplained_tokens:,}" if sums.unexplained_tokens else "an unknown number of"
        yield (
            f"re-billed, no cause found for sure: {tokens} tokens{_dollars(sums.unexplained_dollars)} in "
            f"{counted(sums.unexplained, 'cache break')}"
            + (f"; ruled out: {', '.join(most_common(sums.ruled_out))}" if sums.ruled_out else "")
        )
    yield (
        f"{counted(sums.breaks, 'cache break')}: {sums.waste} waste, {sums.unattributable} unexplained, "
        f"{sums.expected} expected"
    )
    yield (
        f"{counted(sums.files, 'file')}, {counted(sums.chains, 'chain')}, {counted(sums.turns, 'turn')}, "
        f"{counted(sums.pairs, 'pair')} compared, {counted(sums.compactions, 'compaction')}"
        + (f"; {counted(sums.copied, 'turn')} copied from other files" if sums.copied else "")
        + (f"; {counted(sums.skipped, 'file')} skipped" if sums.skipped else "")
    )
    left_out = {"known": sums.known, "ignored": sums.ignored, "exempted": sums.exempted}
    yield from _left_out(left_out, sums.problems, hidden)


def _lint_sums(sums: LintSummary) -> Iterator[str]:
    requests = counted(sums.requests, "request")
    if sums.shown != sums.requests:
        requests += f" of {counted(sums.shown, 'conversation')}, the latest of each is predicted"
    yield f"{counted(sums.files, 'file')}, {requests}" + (
        f"; {counted(sums.skipped, 'file')} skipped" if sums.skipped else ""
    )
    unknown = "".join(
        f", {count} {word}" for count, word in ((sums.refused, "refused"), (sums.unknown, "unknown")) if count
    )
    yield (
        f"a cache would keep {sums.cached} of {sums.shown}{unknown}; {counted(sums.errors, 'error')}, "
        f"{counted(sums.warnings, 'warning')}, {counted(sums.notes, 'note')}"
    )
    yield from _left_out({"ignored": sums.ignored, "exempted": sums.exempted}, sums.problems)


def _left_out(counts: Mapping[str, int], problems: int, hidden: int = 0) -> Iterator[str]:
    named = [f"{count:,} {word}" for word, count in counts.items() if count]
    if named:
        yield f"left out of these: {', '.join(named)}"
    if problems:
        rest = f", {hidden:,} of them hidden (use -v)" if hidden else ""
        yield f"{counted(problems, 'problem')} in the recordings{rest}"


def unseen_lines(result: Reported) -> Iterator[str]:
    """Yield what logs do not record of their prompts, once for all formats that omit the same parts."""
    alike: dict[str, list[str]] = {}
    for unseen in result.unseen:
        size = "" if unseen.tokens is None else f", about {unseen.tokens:,} tokens of each prompt ({_spread(unseen)})"
        sealed = f"; {unseen.sealed}" if unseen.sealed else ""
        alike.setdefault(f"{unseen.what}{size}{sealed}", []).append(unseen.format)
    for what, formats in alike.items():
        yield describe_missing(formats, what)


def _spread(unseen: UnrecordedParts) -> str:
    """Return "estimated", with the range if sessions differ by more than a tenth from the median."""
    least, most, median = unseen.least, unseen.most, unseen.tokens or 0
    if least is None or most is None or (least >= 0.9 * median and most <= 1.1 * median):
        return "estimated"
    return f"estimated; {least:,} to {most:,} by session"


def _dollars(amount: float | None) -> str:
    return f" ({format_money(amount)})" if amount else ""


_RULED_OUT = 5  # reasons that are named


def most_common(ruled_out: Mapping[str, int]) -> list[str]:
    """Return the reasons that most unexplained cache breaks rule out."""
    return sorted(ruled_out, key=lambda reason: (-ruled_out[reason], reason))[:_RULED_OUT]


def top_shown(causes: list[CostlyCause], *, verbose: bool) -> list[CostlyCause]:
    """Return the costliest causes to show: all, or without expected ones."""
    return [cause for cause in causes if verbose or cause.kind != "expected"]


def describe_cost(cause: CostlyCause) -> str:
    """Return what a cause cost in how many cache breaks."""
    cost = f" ({format_extra_cost(cause)})" if cause.lost_dollars is not None else ""
    return f"{cause.lost_tokens:,} tokens re-billed{cost} in {counted(cause.breaks, 'cache break')}, {cause.kind}"


def _top(causes: list[CostlyCause], out: Console) -> None:
    if causes:
        out.print(line("costliest causes:"))
    for number, cause in enumerate(causes, 1):
        out.print(line(f"  {number}. ", (f"{cause.code} {cause.name}", "bold"), f": {describe_cost(cause)}"))
        out.print(line("     fix: ", (cause.fix, "green")))
