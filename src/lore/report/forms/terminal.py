"""`lore check` for a person: what is wrong, where, what it cost, what to do; then lines of sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias

from msgspec.structs import replace
from rich.cells import cell_len

from lore.model.codes import UNEXPLAINED, Code
from lore.model.evidence import NothingRead
from lore.model.fact import format_money
from lore.model.results import CheckResult, CostlyCause, Finding, Summary, UnrecordedParts
from lore.model.results.lint import LintResult, LintSummary
from lore.report.commands import in_shell
from lore.report.console import Console, columns_of, line, whole
from lore.report.plain import counted, place_of, turn_of
from lore.report.sentences.findings import describe_interruption, describe_missing, format_extra_cost, format_loss

_MARKS = {"error": ("✗", "bold red"), "warning": ("!", "bold yellow"), "note": ("·", "dim")}
_PROBLEM = "LORE2"  # codes of what is wrong with a recording, and not with a prompt
_ORDER = ("error", "warning", "note")
WORST = 3  # turns that are named of those that are one finding


def shown(findings: Iterable[Finding], *, verbose: bool) -> list[Finding]:
    """Return the findings that a report shows: all, or without notes, and what nothing explains once a file."""
    return list(findings) if verbose else once_a_file(finding for finding in findings if finding.severity != "note")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, then by what they cost; those that are alike as they were found."""
    return sorted(findings, key=lambda finding: (_ORDER.index(finding.severity), -(finding.lost_tokens or 0)))


def once_a_file(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, falls of billed reads that nothing explains as one a file and code, at the place of the first.

    A noisy cache falls again and again for one reason; each of the other codes wants a look of its own. Tokens and
    dollars are sums. For people: machine formats list each, as -v does.
    """
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        alike = finding.code in UNEXPLAINED and finding.turn is not None
        groups.setdefault((finding.path, finding.code, finding.severity) if alike else number, []).append(finding)
    return [found[0] if len(found) == 1 else _together(found) for found in groups.values()]


def _together(found: Sequence[Finding]) -> Finding:
    """Return one finding about several turns of a file; it has no turn and no line of its own."""
    tokens = sum(finding.lost_tokens or 0 for finding in found)
    paid = [finding.lost_dollars for finding in found if finding.lost_dollars is not None]
    return replace(
        found[0], message=_message(found), lost_tokens=tokens, lost_dollars=sum(paid) if paid else None, line=None,
        chain=None, turn=None, lost_bytes=None, times=len(found),
    )  # fmt: skip


def _message(found: Sequence[Finding]) -> str:
    gone_on = " though the conversation went on" if found[0].code == Code.SERVER_SIDE_MISS else ""
    never = sum(isinstance(finding.evidence, NothingRead) for finding in found)  # of these no tokens are known
    fell = len(found) - never
    parts = [f"the billed read fell in {counted(fell, 'turn')}{gone_on}"] if fell else []
    parts += [f"nothing was read in {counted(never, 'turn')} that went on from prompts never read"] if never else []
    parts += [f"{'most' if fell else 'first'} in {_worst(found)}"]
    for word, wanted in (("ruled out in each", True), ("not recorded", None)):
        named = [{reason.reason.partition(":")[0] for reason in finding.ruled_out if reason.out is wanted}
                 for finding in found]  # fmt: skip
        order = [reason.reason.partition(":")[0] for reason in found[0].ruled_out]
        common = [reason for reason in dict.fromkeys(order) if all(reason in names for names in named)]
        parts += [f"{word}: {', '.join(common)}"] if common else []
    return "; ".join([*parts, "each turn: -v"])


def _worst(found: Sequence[Finding]) -> str:
    worst = sorted(found, key=lambda finding: -(finding.lost_tokens or 0))[:WORST]
    return ", ".join([
        turn_of(finding.turn or 0, finding.chain) + ("" if finding.line is None else f" (line {finding.line})")
        + (f": {finding.lost_tokens:,} tokens" if finding.lost_tokens else "")
        for finding in worst
    ])  # fmt: skip


Reported: TypeAlias = CheckResult | LintResult


def command_of(result: Reported) -> str:
    """Name the command that a report is of."""
    return "lore check" if isinstance(result, CheckResult) else "lore lint"


class FindingsWriter:
    """Writes findings as they come, all of a file at once: `heard` so many, of which some are `written`."""

    def __init__(self, out: Console, *, verbose: bool) -> None:
        self._out, self._verbose = out, verbose
        self._argued = set[str]()
        self.heard = self.written = 0

    def write(self, findings: Sequence[Finding]) -> None:
        """Write the next findings."""
        self.heard += len(findings)
        for finding in shown(findings, verbose=self._verbose):
            write_finding(finding, self._out, again=not self._verbose and finding.code in self._argued)
            self._argued |= {finding.code} & {*UNEXPLAINED}
            self.written += 1


class Terminal:
    """The report for a terminal. Its last lines: turns, cache breaks, the costliest causes and fixes, what to run next.

    What nothing explains is argued for once: its grounds and its fix are alike in every file.
    """

    mixes = True

    def __init__(self, begun: FindingsWriter | None = None) -> None:
        self._begun = begun  # who has written the first findings

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        assert isinstance(result, CheckResult)  # `lore lint` has one of its own
        findings = self._begun or FindingsWriter(out, verbose=verbose)
        findings.write(result.findings[findings.heard :])
        if findings.written:
            out.print()
        hidden = [] if verbose else [finding for finding in result.findings if finding.severity == "note"]
        if hidden:
            out.print(line((f"{len(hidden)} expected or harmless: show them with -v", "dim")))
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
            if room is None or cell_len(text.plain) <= room:
                out.print(text)
            else:  # a command is copied from one line
                whole(out, line(f"next: {command}"))
                out.print(line(f"    ({why})"))


def _next(result: CheckResult) -> Iterator[tuple[str, str]]:
    """Yield what to run next about what cost most, and the file that did, each command with what it says.

    Waste comes before what nothing explains.
    """
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
    path = in_shell(costliest)
    if not path or costliest == "<stdin>":
        return
    if result.summary.waste_tokens:
        yield f"lore simulate {path} --what-if", "what each fix would save"
    elif code in UNEXPLAINED:
        yield f"lore simulate {path} --by reliability", "when and where the cache was not read"


def write_finding(finding: Finding, out: Console, *, again: bool = False) -> None:
    """Write a finding; where it was argued for (`again`) only where it is and what was lost."""
    mark, style = _MARKS[finding.severity]
    out.print(line((f"{mark} {finding.code} {finding.name}", style), "  ", (place_in_words(finding), "bold")))
    if not again:
        out.print(line(f"    {finding.message}"))
    if finding.lost_tokens:
        size = f", {finding.lost_bytes:,} bytes" if finding.lost_bytes else ""
        out.print(line(f"    lost {format_loss(finding)}{size}"))
    if again:
        out.print(line("    as above; each with its grounds: -v"))
        return
    if acting := who_can_act(finding):
        out.print(line(f"    {acting}"))
    if finding.severity != "note":
        out.print(line("    fix: ", (finding.fix, "green")))


def who_can_act(finding: Finding) -> str:
    """Say who can act on a finding; empty where nobody can."""
    return "" if finding.actor == "nobody" else f"can act: {finding.actor}"


def place_in_words(finding: Finding) -> str:
    """Say where a finding is: file, line, turn, chain, path in the prompt."""
    place = place_of(finding.path, finding.line)
    if finding.turn is None and finding.times > 1:
        place += f"  {counted(finding.times, 'turn')}"
    if finding.turn is not None:
        place += f"  {turn_of(finding.turn, finding.chain)}"
    return place if finding.json_path is None else f"{place}  {finding.json_path}"


def _summary(sums: Summary, out: Console, hidden: int) -> None:
    styles = ["bold red" if sums.waste_tokens or sums.waste else "bold green"] + ["yellow"] * bool(sums.unexplained)
    for sentence, style in zip_longest(sums_lines(sums, hidden), styles, fillvalue=""):
        out.print(line((sentence, style)))


def sums_lines(sums: Summary | LintSummary, hidden: int = 0) -> Iterator[str]:
    """Yield the sums in words: what was re-billed, then cache breaks, what was read, what is left out.

    `hidden` of the problems need -v.
    """
    if isinstance(sums, LintSummary):
        yield from _lint_sums(sums)
        return
    yield f"re-billed without need: {sums.waste_tokens:,} tokens{_dollars(sums.waste_dollars)}"
    if sums.unexplained:
        tokens = f"{sums.unexplained_tokens:,} tokens" if sums.unexplained_tokens else "tokens that no bill counts,"
        yield (
            f"unexplained: {tokens}{_dollars(sums.unexplained_dollars)} in "
            f"{counted(sums.unexplained, 'cache break')} that nothing in the recordings explains for sure"
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
        + (f"; {counted(sums.skipped, 'file')} passed over" if sums.skipped else "")
    )
    left_out = {"known": sums.known, "ignored": sums.ignored, "exempted": sums.exempted}
    yield from _left_out(left_out, sums.problems, hidden)


def _lint_sums(sums: LintSummary) -> Iterator[str]:
    requests = counted(sums.requests, "request")
    if sums.shown != sums.requests:
        requests += f" of {counted(sums.shown, 'conversation')}, of which the latest is foreseen"
    yield f"{counted(sums.files, 'file')}, {requests}" + (
        f"; {counted(sums.skipped, 'file')} passed over" if sums.skipped else ""
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
        rest = f", {hidden:,} of them shown with -v only" if hidden else ""
        yield f"{counted(problems, 'problem')} in the recordings{rest}"


def unseen_lines(result: Reported) -> Iterator[str]:
    """Yield what logs lack of their prompts, once for all formats that lack the same."""
    alike: dict[str, list[str]] = {}
    for unseen in result.unseen:
        size = "" if unseen.tokens is None else f", about {unseen.tokens:,} tokens of each prompt ({_spread(unseen)})"
        sealed = f"; {unseen.sealed}" if unseen.sealed else ""
        alike.setdefault(f"{unseen.what}{size}{sealed}", []).append(unseen.format)
    for what, formats in alike.items():
        yield describe_missing(formats, what)


def _spread(unseen: UnrecordedParts) -> str:
    """Say how sure a size is: sessions that differ by more than a tenth from the median are shown."""
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
    """Return the costliest causes that a person is shown: all, or without what is expected."""
    return [cause for cause in causes if verbose or cause.kind != "expected"]


def costly_in_words(cause: CostlyCause) -> str:
    """Say what a cause cost, and how often it did."""
    breaks = counted(cause.breaks, "cache break")
    return f"{cause.lost_tokens:,} tokens{format_extra_cost(cause)} in {breaks} ({cause.kind})"


def _top(causes: list[CostlyCause], out: Console) -> None:
    if causes:
        out.print(line("costliest causes:"))
    for number, cause in enumerate(causes, 1):
        out.print(line(f"  {number}. ", (f"{cause.code} {cause.name}", "bold"), f": {costly_in_words(cause)}"))
        out.print(line("     fix: ", (cause.fix, "green")))
