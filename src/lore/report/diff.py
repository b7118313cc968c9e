"""The terminal report of `lore diff-prefix`: the unchanged prefix, tokens not read again, their cause, cost and fix."""

from __future__ import annotations

from msgspec.structs import replace

from lore.judge.findings import leading_of
from lore.judge.prices import sum_known
from lore.model.codes import UNEXPLAINED, Code, kind_in_words
from lore.model.fact import count_of, format_share
from lore.model.results import CauseResult, DiffResult, PromptLengths
from lore.model.vector import common_prefix
from lore.report.console import Console, line
from lore.report.plain import place_of, turn_of
from lore.report.sentences import format_fix, format_loss, format_usage, in_dollars, split_message

_INDENT = 13  # columns before the text of a row
_SPELLING = (Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED, Code.CONTENT_SHAPE_CHANGED)
_KINDS = {"waste": "bold red", "unattributable": "bold yellow", "expected": "cyan"}
_CONTINUES = ("identical", "extension")
_SURE = {"exact": "exact", "rule": "by its rules", "ceiling": "at best"}


class DiffWriter:
    """Writes comparisons as they come: two turns, or the pairs of a session that differ or lost cached tokens.

    With `every`, all pairs of a session are written. Without `verbose`, the grounds of a cause and a fix are written
    once, and problems of a session are only counted.
    """

    def __init__(self, out: Console, *, every: bool = False, verbose: bool = False) -> None:
        self._out, self._every, self._verbose = out, every, verbose
        self._written = set[str]()  # codes, fixes, and facts of a session that earlier comparisons have
        self._facts = ""  # of the right side of the previous pair
        self._leading = list[CauseResult]()  # of each pair that lost tokens
        self._pairs = self._shown_pairs = self._problems = 0

    def write(self, diff: DiffResult) -> None:
        """Write the next comparison if it is to be shown."""
        leading = leading_of(diff.causes)
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
            self._leading += [leading] if leading is not None and leading.lost_tokens else []
        self._write_heading(diff)
        first, last = self._write_prompt, self._write_usage
        if _is_outside_recorded_bytes(diff):
            first, last = last, first
        first(diff)
        self._write_causes(diff)
        last(diff)
        self._write_end(diff)
        if not self._verbose:
            self._written |= {text for cause in diff.causes for text in (cause.code, cause.fix)}

    def finish(self) -> None:
        """Write the sum of all losses, how many pairs of a session are not shown, and how many problems."""
        hidden, problems = self._pairs - self._shown_pairs, 0 if self._verbose else self._problems
        if self._shown_pairs and (hidden or problems or len(self._leading) > 1):
            self._out.print()
        if len(self._leading) > 1:
            tokens = sum(cause.lost_tokens or 0 for cause in self._leading)
            dollars = in_dollars(sum_known(cause.lost_dollars for cause in self._leading))
            about = "about " if any(cause.tokens != "recorded" for cause in self._leading) else ""
            text = f"re-billed: {about}{tokens:,} tokens{dollars} in {count_of(len(self._leading), 'turn')}"
            self._out.print(line((text, "bold")))
        if hidden:
            pairs = f"{hidden:,} of {count_of(self._pairs, 'pair')} without a difference or loss"
            self._out.hint(pairs, "--all shows every pair")
        if problems:
            self._out.hint(f"{count_of(problems, 'problem')} in the recording", "-v shows them")

    def _write_row(self, label: str, text: str, style: str = "") -> None:
        self._out.print(line(f"  {label:<{_INDENT - 2}}", (text, style)), indent=_INDENT)

    def _write_heading(self, diff: DiffResult) -> None:
        """Write the names of both sides; of a session the name of its recording once, and of each pair the turns."""
        side = diff.right
        partial = "partial: its beginning is not recorded" if side.partial is True else ""
        facts = ", ".join(filter(None, (side.dialect, side.model, side.fidelity, partial)))
        (left_path, _, left_name), (path, _, name) = (side.name.rpartition("#") for side in (diff.left, diff.right))
        (_, _, left_number), (chain, _, number) = left_name.rpartition(":"), name.rpartition(":")
        if left_path != path or not (left_number.isdecimal() and number.isdecimal()):
            names = (place_of(diff.left.name, None), "bold"), " → ", (place_of(diff.right.name, None), "bold")
        else:
            turns = f"turn {left_number} → {turn_of(int(number), chain or None)}"
            names = *(() if path in self._written else ((place_of(path, None), "bold"), "  ")), (turns, "bold")
        self._out.print(line(*names, (f"  {facts}" if facts and facts != self._facts else "", "dim")))
        if diff.turn is not None:
            self._written.add(path)
            self._facts = facts

    def _write_prompt(self, diff: DiffResult) -> None:
        """Write how much of the previous prompt is unchanged, and the first difference."""
        if diff.prompt is not None:
            self._write_row("prefix", _describe_prefix(diff, diff.prompt))
        if diff.divergence is not None:
            place = f"from its byte {diff.divergence.offset:,} (byte {diff.divergence.prompt_offset:,} of the prompt)"
            self._write_row("differs", f"{diff.divergence.path}, {place}")
            sides = diff.divergence.left, diff.divergence.right
            shared_bytes = common_prefix(*map(str.encode, sides))
            shared = len(sides[0].encode()[:shared_bytes].decode("utf-8", "ignore"))
            for sign, text, style in zip("-+", sides, ("red", "green"), strict=True):
                parts = ("…" + text[:shared], "dim"), (text[shared:], style), ("…" if text else "(ends here)", "dim")
                self._out.print(line(f"{'':{_INDENT}}{sign} ", *parts))

    def _write_causes(self, diff: DiffResult) -> None:
        """Write each cause with its cost and its fix; a cause that an earlier pair has is written in short."""
        for cause in diff.causes:
            message, evidence = cause.message, cause.evidence
            if cause.code in self._written and evidence is not None:
                message = evidence.sentence() + (" (-v: what is ruled out)" if cause.code in UNEXPLAINED else "")
            if diff.divergence is not None and evidence is not None and evidence.quoted_change() is not None:
                message = message.replace(evidence.sentence(), evidence.headline())  # the change is written above
            first, *grounds = split_message(message)
            name = (f"{cause.code} {cause.name}", _KINDS[cause.kind])
            reason = f" ({kind_in_words(cause.kind, cause.code)}): {first}"
            self._out.print(line(f"  {'cause':<{_INDENT - 2}}", name, reason), indent=_INDENT)
            for ground in grounds:
                if diff.verdict is None or not ground.startswith("also seen: the provider reports"):  # a row has it
                    self._write_row("", ground)
            if cause.lost_tokens:
                size = f"; {count_of(cause.lost_bytes or 0, 'byte')} of the previous prompt follow the change"
                is_shown = cause.tokens != "recorded" and cause.lost_bytes
                self._write_row("", format_loss(cause) + (size if is_shown else ""), "bold")
            if cause.fix not in self._written and (cause.is_break or cause.kind != "expected"):
                self._write_row("", ": ".join(format_fix(cause)), "green")

    def _write_usage(self, diff: DiffResult) -> None:
        """Write the usage and the provider's verdict, and how they contradict the bytes."""
        table, billed = diff.columns, diff.billed
        if billed is None and diff.verdict is None:
            if diff.prompt is not None:
                self._write_row("usage", "not recorded: only request bytes were compared")
            return
        if billed is not None:
            unread = format_usage(replace(billed, read_tokens=None))  # the columns have the rest
            counts = format_usage(billed) if table is None else ", ".join(filter(None, (table.billed, unread)))
            self._write_row("usage", counts)
        if diff.verdict is not None:
            self._write_row("provider", f"reports {diff.verdict.reason if table is None else table.verdict}")
        if table is not None and table.dispute and not _is_outside_recorded_bytes(diff):
            self._write_row("conflict", table.dispute, "bold yellow")

    def _write_end(self, diff: DiffResult) -> None:
        """Write predictions, the common bytes of the files, sides without a prompt, and problems."""
        for cache in diff.caches:
            prediction = f"{format_usage(cache) or 'unknown'} by {cache.cache} ({_SURE[cache.confidence]})"
            self._write_row("predicted", prediction)
        if diff.file is not None:
            left_bytes, right_bytes, common = diff.file.left_bytes, diff.file.right_bytes, diff.file.common_prefix_bytes
            files = f"{count_of(common, 'byte')} in common at the start, of {left_bytes:,} and {right_bytes:,}"
            is_identical = left_bytes == right_bytes == common
            self._write_row("files", f"identical ({common:,} bytes)" if is_identical else files)
        if diff.prompt is None:
            names = [side.name for side in (diff.left, diff.right) if side.dialect is None]
            extent = "only bytes were compared" if diff.file is not None else "nothing was compared"
            self._write_row("prompt", f"none in {' and '.join(names)}: {extent}")
        for problem in diff.problems if self._verbose or diff.turn is None else ():
            place = place_of(problem.file or "", problem.line)
            self._out.print(line((f"  {problem.code}  {place}  {problem.message}", "yellow")))


def _is_outside_recorded_bytes(diff: DiffResult) -> bool:
    """Return whether a prompt that is rebuilt from a log continues the previous one, and less of it was read."""
    is_rebuilt = bool(diff.right.lacks) or diff.right.fidelity == "reconstructed"
    has_loss = any(cause.is_break and (cause.lost_tokens or cause.code in UNEXPLAINED) for cause in diff.causes)
    return is_rebuilt and has_loss and diff.relation in _CONTINUES


def _describe_prefix(diff: DiffResult, lengths: PromptLengths) -> str:
    """Return how much of the previous prompt is unchanged."""
    if not lengths.left_bytes:  # as of requests of two chains of a log
        return "the bytes of these two requests were not compared"
    if _is_outside_recorded_bytes(diff):
        return f"unchanged as far as it is recorded ({lengths.left_bytes:,} bytes)"
    stable = lengths.left_bytes - lengths.left_tail_bytes
    ratio = "" if diff.reuse_ratio is None else f" ({format_share(diff.reuse_ratio)})"
    is_compacted = diff.relation == "unrelated" and any(cause.code == Code.COMPACTION for cause in diff.causes)
    relation = "compacted" if is_compacted else diff.relation
    text = f"{relation}: {lengths.common_prefix_bytes:,} of {stable:,} bytes unchanged{ratio}"
    if lengths.common_prefix_tokens is not None:
        text += f", {lengths.common_prefix_tokens:,} of {lengths.left_tokens:,} tokens ({lengths.tokenizer})"
    if any(cause.code in _SPELLING for cause in diff.causes):
        text += f"; {lengths.canonical_common_prefix_bytes:,} bytes in canonical form"
    return text
