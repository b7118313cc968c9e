"""The terminal report of `lore diff-prefix`: the unchanged prefix, the first difference, its cause, cost and fix."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from lore.cache.counts import BYTES_PER_TOKEN
from lore.judge.totals import weight_of
from lore.model.codes import UNEXPLAINED, Code, kind_in_words
from lore.model.fact import format_share
from lore.model.results import CauseResult, DiffResult, DivergenceResult, PromptLengths
from lore.model.vector import common_prefix
from lore.report.console import Console, line
from lore.report.plain import counted, place_of, turn_of
from lore.report.sentences.findings import format_fix, format_loss, format_usage

_INDENT = 13  # columns before the text of a row
_SPELLING = (Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED, Code.CONTENT_SHAPE_CHANGED)
_KINDS = {"waste": "bold red", "unattributable": "bold yellow", "expected": "cyan"}
_CONTINUES = ("identical", "extension")
_SURE = {"exact": "exact", "rule": "by its rules", "ceiling": "at best"}


class DiffWriter:
    """Writes comparisons as they come: two turns, or the pairs of a session that differ or lost cached tokens.

    With `every`, all pairs of a session are written. Without `verbose`, the reasons why no cause was found are written
    once, and problems of a session are only counted.
    """

    def __init__(self, out: Console, *, every: bool = False, verbose: bool = False) -> None:
        self._out, self._every, self._verbose = out, every, verbose
        self._explained = set[str]()
        self._pairs = self._shown_pairs = self._problems = 0

    def write(self, diff: DiffResult) -> None:
        """Write the next comparison if it is to be shown."""
        if diff.turn is not None:  # a pair of a session
            self._pairs += 1
            self._problems += len(diff.problems)
            is_notable = diff.relation not in _CONTINUES or any(
                cause.is_break or cause.kind != "expected" for cause in diff.causes
            )
            if not self._every and not is_notable and not (self._verbose and diff.problems):
                return
            if self._shown_pairs:
                self._out.print()
            self._shown_pairs += 1
        write(diff, self._out, self._explained, problems=self._verbose or diff.turn is None)
        if not self._verbose:
            self._explained |= {cause.code for cause in diff.causes} & {*UNEXPLAINED}
        self._explained |= {cause.fix for cause in diff.causes if cause.kind == "expected" and cause.is_break}

    def finish(self) -> None:
        """Write how many pairs of a session are not shown, and how many problems."""
        hidden, problems = self._pairs - self._shown_pairs, 0 if self._verbose else self._problems
        if self._shown_pairs and (hidden or problems):
            self._out.print()
        if hidden:
            pairs = f"{hidden:,} of {counted(self._pairs, 'pair')} without a difference or loss"
            self._out.hint(pairs, "--all shows every pair")
        if problems:
            self._out.hint(f"{counted(problems, 'problem')} in the recording", "-v shows them")


def write(
    diff: DiffResult, out: Console, explained: AbstractSet[str] = frozenset(), *, problems: bool = True
) -> None:  # fmt: skip
    """Write one comparison.

    Causes whose codes were `explained` before have no fix and no list of what is ruled out; an expected cause has no
    fix if that is among `explained`.
    """
    side = diff.right
    partial = "partial: its beginning is not recorded" if side.partial is True else None
    facts = ", ".join(filter(None, (side.dialect, side.model, side.fidelity, partial)))
    out.print(line(*_format_heading(diff), (facts and f"  {facts}", "dim")))
    if diff.prompt is not None:
        _write_row(out, "prefix", _describe_prefix(diff, diff.prompt))
    if diff.divergence is not None:
        _write_divergence(diff.divergence, out)
    leading = max((cause for cause in diff.causes if cause.is_break), key=weight_of, default=None)
    for cause in diff.causes:
        if cause.is_break and cause is not leading:
            cause = replace(cause, lost_tokens=None)
        is_repeated, quote = cause.code in explained, diff.divergence is None
        is_advised = cause.kind == "expected" and (cause.fix in explained or not cause.is_break)
        _write_cause(cause, out, is_repeated=is_repeated, quote=quote, advise=not is_advised)
    _write_evidence(diff, out)
    for cache in diff.caches:
        _write_row(out, "predicted", f"{format_usage(cache) or 'unknown'} by {cache.cache} ({_SURE[cache.confidence]})")
    if diff.file is not None:
        left_bytes, right_bytes, common = diff.file.left_bytes, diff.file.right_bytes, diff.file.common_prefix_bytes
        files = f"{counted(common, 'byte')} in common at the start, of {left_bytes:,} and {right_bytes:,}"
        _write_row(out, "files", f"identical ({common:,} bytes)" if left_bytes == right_bytes == common else files)
    if diff.prompt is None:
        names = [side.name for side in (diff.left, diff.right) if side.dialect is None]
        extent = "only bytes were compared" if diff.file is not None else "nothing was compared"
        _write_row(out, "prompt", f"none in {' and '.join(names)}: {extent}")
    for problem in diff.problems if problems else ():
        place = place_of(problem.file or "", problem.line)
        out.print(line((f"  {problem.code}  {place}  {problem.message}", "yellow")))


def _write_row(out: Console, label: str, text: str, style: str = "") -> None:
    out.print(line(f"  {label:<{_INDENT - 2}}", (text, style)), indent=_INDENT)


def _format_heading(diff: DiffResult) -> tuple[str | tuple[str, str], ...]:
    """Return the names of both sides; of two turns of one recording its name once, with the turns."""
    (left_path, _, left_name), (path, _, right_name) = (side.name.rpartition("#") for side in (diff.left, diff.right))
    (_, _, left_number), (chain, _, right_number) = left_name.rpartition(":"), right_name.rpartition(":")
    if left_path != path or not (left_number.isdecimal() and right_number.isdecimal()):
        return (diff.left.name, "bold"), " → ", (diff.right.name, "bold")
    return (path, "bold"), "  ", (f"turn {left_number} → {turn_of(int(right_number), chain or None)}", "bold")


def _describe_prefix(diff: DiffResult, lengths: PromptLengths) -> str:
    """Return how much of the previous prompt is unchanged.

    A prompt that is rebuilt from a log is not called unchanged if less of it was read from the cache.
    """
    side = diff.right
    if not lengths.left_bytes:  # as of requests of two chains of a log
        return "the bytes of these two requests were not compared"
    breaks = [cause for cause in diff.causes if cause.is_break and (cause.lost_tokens or cause.code in UNEXPLAINED)]
    is_rebuilt = side.lacks or side.fidelity == "reconstructed"
    if breaks and is_rebuilt and diff.relation in _CONTINUES:
        preface = ""
        if breaks[0].code in UNEXPLAINED:
            preface = "no change is recorded: "
        elif breaks[0].section in ("tools", "system", "messages"):
            preface = "the change below is not in these bytes: "
        missing = f"; not recorded: {side.lacks}" if side.lacks else ""
        return f"{preface}all {lengths.left_bytes:,} recorded bytes of the previous prompt are unchanged{missing}"
    stable = lengths.left_bytes - lengths.left_tail_bytes
    ratio = "" if diff.reuse_ratio is None else f" ({format_share(diff.reuse_ratio)})"
    text = f"{diff.relation}: {lengths.common_prefix_bytes:,} of {stable:,} bytes unchanged{ratio}"
    if lengths.common_prefix_tokens is not None:
        text += f", {lengths.common_prefix_tokens:,} of {lengths.left_tokens:,} tokens ({lengths.tokenizer})"
    if any(cause.code in _SPELLING for cause in diff.causes):
        text += f"; {lengths.canonical_common_prefix_bytes:,} bytes in canonical form"
    return text


def _write_divergence(where: DivergenceResult, out: Console) -> None:
    place = f"from its byte {where.offset:,} (byte {where.prompt_offset:,} of the prompt)"
    _write_row(out, "differs", f"{where.path}, {place}")
    left_bytes, right_bytes = where.left.encode(), where.right.encode()
    shared = len(left_bytes[: common_prefix(left_bytes, right_bytes)].decode("utf-8", "ignore"))
    for sign, text, style in (("-", where.left, "red"), ("+", where.right, "green")):
        end = "…" if text else "(ends here)"
        parts = ("…" + text[:shared], "dim"), (text[shared:], style), (end, "dim")
        out.print(line(f"{'':{_INDENT}}{sign} ", *parts))


def _write_cause(cause: CauseResult, out: Console, *, is_repeated: bool, quote: bool, advise: bool) -> None:
    """Write a cause with its cost, and its fix to `advise`; without `quote` omit the change, which is shown already."""
    message, evidence = cause.message, cause.evidence
    if is_repeated and evidence is not None:
        message = f"{evidence.sentence()} (-v: what is ruled out)"
    elif not quote and evidence is not None and evidence.quoted_change() is not None:
        message = message.replace(evidence.sentence(), evidence.headline())
    name = (f"{cause.code} {cause.name}", _KINDS[cause.kind])
    reason = f" ({kind_in_words(cause.kind, cause.code)}): {message}"
    out.print(line(f"  {'cause':<{_INDENT - 2}}", name, reason), indent=_INDENT)
    if cause.lost_tokens:
        _write_row(out, "", format_loss(cause) + ("" if cause.tokens == "recorded" else _describe_bytes(cause)), "bold")
    elif cause.is_break and cause.lost_tokens is None:
        _write_row(out, "", "its loss is counted with another cause of this cache break")
    if advise and not is_repeated:
        _write_row(out, "", ": ".join(format_fix(cause)), "green")


def _describe_bytes(cause: CauseResult) -> str:
    """Return the bytes after a change, to follow an estimated loss: those it is made of, or those it is a part of."""
    if not cause.lost_bytes:
        return ""
    size = counted(cause.lost_bytes, "byte")
    if cause.lost_tokens == round(cause.lost_bytes / BYTES_PER_TOKEN):  # no vocabulary: other counts beside it differ
        return f": {size}, at {BYTES_PER_TOKEN:g} bytes a token"
    return f"; {size} of the previous prompt could not be read"


def _write_evidence(diff: DiffResult, out: Console) -> None:
    """Write the usage and the provider's verdict, and how they contradict the bytes."""
    table, billed = diff.columns, diff.billed
    if billed is None and diff.verdict is None:
        if diff.prompt is not None:
            _write_row(out, "usage", "not recorded: only request bytes were compared")
        return
    if billed is not None:
        unread = format_usage(replace(billed, read_tokens=None))  # the columns have the rest
        counts = format_usage(billed) if table is None else ", ".join(filter(None, (table.billed, unread)))
        _write_row(out, "usage", counts)
    if diff.verdict is not None:
        _write_row(out, "provider", f"reports {diff.verdict.reason if table is None else table.verdict}")
    if table is not None and table.dispute:
        _write_row(out, "conflict", table.dispute, "bold yellow")
