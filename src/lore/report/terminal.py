"""`lore check` for a person: what is wrong, where, what it cost, what to do; then one line of sums."""

from __future__ import annotations

from rich.console import Console

from lore.model.blame import whose
from lore.model.results import Checked, Finding, Summary
from lore.report.console import line

_MARKS = {"error": ("✗", "bold red"), "warning": ("!", "bold yellow"), "note": ("·", "dim")}
_PROBLEM = "LORE2"  # codes of what is wrong with a recording, and not with a prompt


class Terminal:
    """The report for a terminal."""

    def write(self, result: Checked, out: Console, *, verbose: bool) -> None:
        shown = [one for one in result.findings if verbose or one.severity != "note"]
        for one in shown:
            _finding(one, out)
        if shown:
            out.print()
        hidden = [] if verbose else [one for one in result.findings if one.severity == "note"]
        _summary(result.summary, out, sum(one.code.startswith(_PROBLEM) for one in hidden))
        if hidden:
            out.print(line((f"{len(hidden)} expected or harmless: show them with -v", "dim")))


def write_finding(one: Finding, out: Console) -> None:
    """Write one finding, where they come one by one."""
    _finding(one, out)


def _finding(one: Finding, out: Console) -> None:
    mark, style = _MARKS[one.severity]
    out.print(line((f"{mark} {one.code} {one.name}", style), "  ", (_place(one), "bold")))
    out.print(line(f"    {one.message}"))
    if one.lost_tokens:
        size = "" if one.lost_bytes is None else f", {one.lost_bytes:,} bytes"
        out.print(line(f"    lost {one.lost_tokens:,} tokens ({one.tokens}){size}"))
    if blamed := whose(one.code, one.kind):
        out.print(line(f"    whose: {blamed}"))
    if one.severity != "note":
        out.print(line("    fix: ", (one.fix, "green")))


def _place(one: Finding) -> str:
    place = one.path if one.line is None else f"{one.path}:{one.line}"
    if one.turn is not None:
        place += f"  turn {one.turn}" + ("" if one.chain in (None, "main") else f" of {one.chain}")
    return place if one.json_path is None else f"{place}  {one.json_path}"


def _summary(sums: Summary, out: Console, hidden: int) -> None:
    out.print(
        line(
            f"{counted(sums.files, 'file')}, {counted(sums.chains, 'chain')}, {counted(sums.turns, 'turn')}, "
            f"{counted(sums.pairs, 'pair')} compared, {counted(sums.compactions, 'compaction')}"
            + (f"; {counted(sums.copied, 'turn')} copied from other files" if sums.copied else "")
            + (f"; {counted(sums.skipped, 'file')} passed over" if sums.skipped else "")
        )
    )
    style = "bold red" if sums.waste else "bold yellow" if sums.unattributable else "bold green"
    out.print(
        line(
            (f"{counted(sums.busts, 'bust')}: {sums.waste} waste, {sums.unattributable} unattributable, ", style),
            (f"{sums.expected} expected", style),
            f"; {sums.lost_tokens:,} tokens lost beyond what was expected",
        )
    )
    if sums.problems:
        rest = f", {hidden:,} of them shown with -v only" if hidden else ""
        out.print(line(f"{counted(sums.problems, 'problem')} in the recordings{rest}"))


def counted(number: int, word: str) -> str:
    """Return `1 file`, `2 files`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
