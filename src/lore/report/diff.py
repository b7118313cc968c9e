"""`lore diff-prefix` for a person: a bar of reused against lost, where it broke, why, what to do."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from lore.model.codes import Code
from lore.model.fact import format_money
from lore.model.results import CachePrediction, CauseResult, DiffResult, DivergenceResult, PromptLengths
from lore.model.vector import common_prefix
from lore.report.console import Console, hang, line
from lore.report.plain import file_line, no_prompt_line, visible
from lore.report.sentences.findings import format_fix, format_loss

BAR = 40
_LABEL = 12  # columns
_SPELLING = (Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED, Code.CONTENT_SHAPE_CHANGED)
_KINDS = {"waste": "bold red", "unattributable": "bold yellow", "expected": "cyan"}


def write(diff: DiffResult, out: Console, argued: AbstractSet[str] = frozenset()) -> None:
    """Write one comparison; causes whose codes were `argued` for before have no grounds and no fix."""
    side = diff.right
    partial = "partial: its beginning is not recorded" if side.partial is True else None
    described = ", ".join(part for part in (side.dialect, side.model, side.fidelity, partial) if part)
    out.print(line((diff.left.name, "bold"), " → ", (diff.right.name, "bold"), (described and f"  {described}", "dim")))
    fell = _loss(diff, out)
    if fell:
        _causes(diff, out, argued)
    if diff.prompt is not None:
        respelled = any(cause.code in _SPELLING for cause in diff.causes)
        _lengths(diff.prompt, diff.reuse_ratio, diff.relation, out, respelled=respelled)
    if diff.divergence is not None:
        _divergence(diff.divergence, out)
    if not fell:
        _causes(diff, out, argued)
    _witnesses(diff, out)
    for cache in diff.caches:
        hang(out, line(f"  cache     {_foreseen(cache)}"), _LABEL)
    if diff.file is not None:
        file = diff.file
        out.print(line(file_line(file.left_bytes, file.right_bytes, file.common_prefix_bytes)))
    if diff.prompt is None:
        names = [side.name for side in (diff.left, diff.right) if side.dialect is None]
        out.print(line(no_prompt_line(names, compared=diff.file is not None)))
    for problem in diff.problems:
        place = f"{problem.file}:{problem.line}" if problem.line is not None else problem.file or ""
        out.print(line((f"  {problem.code}  {place}  {problem.message}", "yellow")))


def _loss(diff: DiffResult, out: Console) -> bool:
    """Say first what was lost by the bill; tell whether that is the news, since the bytes go on."""
    lost = max((cause.lost_tokens or 0 for cause in diff.causes if cause.is_break), default=0)
    read = None if diff.billed is None else diff.billed.read_tokens
    if not lost or read is None:
        return False
    paid = max((cause.lost_dollars or 0.0 for cause in diff.causes if cause.is_break), default=0.0)
    full = int(BAR * read / (read + lost))
    text = line("  bill      ")
    text.append("█" * full, "green")
    text.append("░" * (BAR - full), "red")
    money = f", {format_money(paid)} more than reading them" if paid else ""
    text.append(f"  {lost:,} tokens that could have been read were not{money}; {read:,} were", "bold")
    hang(out, text, _LABEL)
    return diff.relation in ("identical", "extension")


def _causes(diff: DiffResult, out: Console, argued: AbstractSet[str]) -> None:
    for cause in diff.causes:
        _cause(cause, out, again=cause.code in argued)


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


def _witnesses(diff: DiffResult, out: Console) -> None:
    """Write what bytes, bill and verdict say, one under the other, and how they contradict."""
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


def _foreseen(prediction: CachePrediction) -> str:
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
