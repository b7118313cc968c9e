"""The terminal report of `lore diff-prefix`: the shared prefix, the first difference, its cause, cost and fix."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from lore.model.codes import UNEXPLAINED, Code
from lore.model.fact import format_money
from lore.model.results import CachePrediction, CauseResult, DiffResult, DivergenceResult, PromptLengths
from lore.model.vector import common_prefix
from lore.report.console import Console, hang, line
from lore.report.plain import counted, file_line, no_prompt_line, turn_of, visible
from lore.report.sentences.findings import format_fix, format_loss

BAR = 40
_LABEL = 12  # columns
_SPELLING = (Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED, Code.CONTENT_SHAPE_CHANGED)
_KINDS = {"waste": "bold red", "unattributable": "bold yellow", "expected": "cyan"}
_CONTINUES = ("identical", "extension")


class DiffWriter:
    """Writes comparisons as they come: of two turns one, of a session the pairs that differ or read too little.

    With `every`, all pairs of a session are written. The reasons why a fall has no explanation are written once, or
    with `verbose` at each pair.
    """

    def __init__(self, out: Console, *, every: bool = False, verbose: bool = False) -> None:
        self._out, self._every, self._verbose = out, every, verbose
        self._explained = set[str]()
        self._pairs = self._shown_pairs = 0

    def write(self, diff: DiffResult) -> None:
        """Write the next comparison if it is to be shown."""
        if diff.turn is not None:  # a pair of a session
            self._pairs += 1
            if not self._every and not is_notable(diff):
                return
            if self._shown_pairs:
                self._out.print()
            self._shown_pairs += 1
        write(diff, self._out, self._explained)
        if not self._verbose:
            self._explained |= {cause.code for cause in diff.causes} & {*UNEXPLAINED}

    def finish(self) -> None:
        """Write how many pairs of a session continued without a loss and were not shown."""
        hidden = self._pairs - self._shown_pairs
        if not hidden:
            return
        if self._shown_pairs:
            self._out.print()
        pairs = f"{hidden:,} of {counted(self._pairs, 'pair')}"
        self._out.print(line((f"{pairs} only extend the previous prompt (--all shows them)", "dim")))


def is_notable(diff: DiffResult) -> bool:
    """Check if a pair differs before its end, lost tokens, has a cause other than an expected one, or a problem."""
    continues = diff.relation in _CONTINUES
    return (
        not continues or bool(diff.problems) or any(cause.is_break or cause.kind != "expected" for cause in diff.causes)
    )


def write(diff: DiffResult, out: Console, explained: AbstractSet[str] = frozenset()) -> None:
    """Write one comparison; causes whose codes were `explained` before are written without reasons and fix."""
    side = diff.right
    partial = "partial: its beginning is not recorded" if side.partial is True else None
    described = ", ".join(part for part in (side.dialect, side.model, side.fidelity, partial) if part)
    out.print(line(*_heading(diff), (described and f"  {described}", "dim")))
    fell = _loss(diff, out)
    if fell:
        _causes(diff, out, explained)
    if diff.prompt is not None and fell and (side.lacks or side.fidelity == "reconstructed"):
        hang(out, line(f"  reused    {_describe_rebuilt(diff.prompt, side.lacks or '')}"), _LABEL)
    elif diff.prompt is not None:
        respelled = any(cause.code in _SPELLING for cause in diff.causes)
        _lengths(diff.prompt, diff.reuse_ratio, diff.relation, out, respelled=respelled)
    if diff.divergence is not None:
        _divergence(diff.divergence, out)
    if not fell:
        _causes(diff, out, explained)
    _evidence(diff, out)
    for cache in diff.caches:
        hang(out, line(f"  cache     {_describe_prediction(cache)}"), _LABEL)
    if diff.file is not None:
        file = diff.file
        out.print(line(file_line(file.left_bytes, file.right_bytes, file.common_prefix_bytes)))
    if diff.prompt is None:
        names = [side.name for side in (diff.left, diff.right) if side.dialect is None]
        out.print(line(no_prompt_line(names, compared=diff.file is not None)))
    for problem in diff.problems:
        place = f"{problem.file}:{problem.line}" if problem.line is not None else problem.file or ""
        out.print(line((f"  {problem.code}  {place}  {problem.message}", "yellow")))


def _heading(diff: DiffResult) -> tuple[str | tuple[str, str], ...]:
    """Return the names of both sides; of a session its name once, with the turns."""
    left, right = diff.left.name, diff.right.name
    path = right.rpartition("#")[0]
    if diff.turn is None or not left.startswith(f"{path}#"):
        return (left, "bold"), " → ", (right, "bold")
    before = left[len(path) + 1 :].rpartition(":")[2]
    return (path, "bold"), "  ", (f"turn {before} → {turn_of(diff.turn, diff.chain)}", "bold")


def _describe_rebuilt(lengths: PromptLengths, missing: str) -> str:
    """Return that a prompt rebuilt from a log cannot show a change which usage shows."""
    unrecorded = f"; not recorded, and perhaps changed: {missing}" if missing else ""
    return (
        f"the log cannot show the change: it holds {lengths.left_bytes:,} bytes of the previous prompt, all of them "
        f"unchanged{unrecorded}"
    )


def _loss(diff: DiffResult, out: Console) -> bool:
    """Write what usage shows as lost; return True if the recorded bytes nevertheless continue the previous prompt."""
    lost = max((cause.lost_tokens or 0 for cause in diff.causes if cause.is_break), default=0)
    read = None if diff.billed is None else diff.billed.read_tokens
    if not lost or read is None:
        return False
    paid = max((cause.lost_dollars or 0.0 for cause in diff.causes if cause.is_break), default=0.0)
    full = int(BAR * read / (read + lost))
    text = line("  usage     ")
    text.append("█" * full, "green")
    text.append("░" * (BAR - full), "red")
    money = f" ({format_money(paid)})" if paid else ""
    text.append(f"  {lost:,} tokens re-billed{money}; {read:,} read from the cache", "bold")
    hang(out, text, _LABEL)
    return diff.relation in _CONTINUES


def _causes(diff: DiffResult, out: Console, explained: AbstractSet[str]) -> None:
    for cause in diff.causes:
        _cause(cause, out, again=cause.code in explained)


def _lengths(
    lengths: PromptLengths, ratio: float | None, relation: str | None, out: Console, *, respelled: bool
) -> None:
    stable = lengths.left_bytes - lengths.left_tail_bytes
    share = 0.0 if ratio is None else ratio
    full = min(BAR, int(BAR * share)) if share < 1 else BAR
    shown = "—" if ratio is None else f"{int(share * 1000) / 10:.1f} %"
    text = line("  reused    ")
    text.append("█" * full, "green")
    text.append("░" * (BAR - full), "red")
    text.append(f"  {shown}", "bold")
    out.print(text)
    common = f"{lengths.common_prefix_bytes:,} of {stable:,} bytes"
    if lengths.common_prefix_tokens is not None:
        common += (
            f", {lengths.common_prefix_tokens:,} of {lengths.left_tokens:,} tokens (counted with {lengths.tokenizer})"
        )
    out.print(line(f"            {common}"))
    if respelled:
        out.print(line(f"            {lengths.canonical_common_prefix_bytes:,} bytes once both are in canonical form"))
    out.print(line(f"  relation  {relation}"))


def _divergence(where: DivergenceResult, out: Console) -> None:
    out.print(
        line(
            "  differs   at ",
            (where.path, "bold"),
            f", byte {where.offset:,} of it, byte {where.prompt_offset:,} of the prompt",
        )
    )
    left, right = where.left.encode(), where.right.encode()
    shared = len(left[: common_prefix(left, right)].decode("utf-8", "ignore"))
    for sign, text, style in (("-", where.left, "red"), ("+", where.right, "green")):
        shown = line(f"    {sign} ")
        shown.append("…" + visible(text[:shared]), "dim")
        shown.append(visible(text[shared:]), style)
        shown.append("…" if text else "(ends here)", "dim")
        out.print(shown)


def _evidence(diff: DiffResult, out: Console) -> None:
    """Write what bytes, usage and the provider's verdict show, and how they contradict each other."""
    three, billed = diff.columns, diff.billed
    if billed is None and diff.verdict is None:
        if diff.prompt is not None:
            out.print(line("  billed    not recorded: judged from request bytes only"))
        return
    if three is not None:
        hang(out, line(f"  bytes     {three.bytes}"), _LABEL)
    if billed is not None:
        counts = (("written", billed.write_tokens), ("uncached", billed.uncached_tokens))
        known = [_count(count, name) for name, count in counts if count is not None]  # many providers bill no writes
        read = _count(billed.read_tokens, "read") if three is None else three.billed
        recorded = " (recorded)" if known or billed.read_tokens is not None else ""
        hang(out, line(f"  billed    {', '.join([read, *known])}{recorded}"), _LABEL)
    verdict = "none recorded" if diff.verdict is None else f"the provider says {diff.verdict.reason}"
    hang(out, line(f"  verdict   {verdict if three is None else three.verdict}"), _LABEL)
    if three is not None and three.dispute:
        out.print(line("  disagree  ", (three.dispute, "bold yellow")))


def _describe_prediction(prediction: CachePrediction) -> str:
    rest = ", ".join((_count(prediction.write_tokens, "written"), _count(prediction.uncached_tokens, "uncached")))
    read = _count(prediction.read_tokens, "tokens")
    return f"{prediction.cache} would read {read}, {rest} ({_SURE[prediction.confidence]})"


_SURE = {"exact": "exact", "rule": "by its rules", "ceiling": "at best"}


def _count(count: int | None, name: str) -> str:
    return f"{'unknown' if count is None else f'{count:,}'} {name}"


def _cause(cause: CauseResult, out: Console, *, again: bool) -> None:
    style = _KINDS[cause.kind]
    message = "as above; the reasons of each turn: -v" if again else cause.message
    text = line("  cause     ", (f"{cause.code} {cause.name}", style), f" ({cause.kind}): {message}")
    hang(out, text, _LABEL)
    if cause.lost_tokens is not None and (cause.lost_bytes or cause.lost_tokens):
        size = f"{cause.lost_bytes:,} bytes, " if cause.lost_bytes else ""
        out.print(line(f"            {size}{format_loss(cause)}"))
    if again:
        return
    if cause.kind != "expected":
        heading, fix = format_fix(cause)
        out.print(line(f"            {heading}: ", (fix, "green")))
