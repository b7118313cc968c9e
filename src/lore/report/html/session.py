"""A session as a page shows it: what it cost, its timeline, its breaks with what stood before and after, its turns.

In: a `PageSession`. Out: values that the template writes. Sentences stand here and in the templates, made of
figures and names alone; what a cause says in words is made in `report.sentences`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lore.model.fact import format_duration, format_money
from lore.model.results import CauseResult
from lore.model.results.overview import Spending, SpendingCause
from lore.model.results.page import PageSession, PageSide, PageTurn, PartName
from lore.report.commands import in_shell
from lore.report.html import blocks
from lore.report.html.lanes import LaneDrawing, counts_of, lane_of, style_of
from lore.report.overview import cost_of, tokens_of
from lore.report.plain import counted, when
from lore.report.sentences.findings import format_loss, format_usage
from lore.report.sentences.spending import short_of

NEAR = 0.01  # of a prompt: a prediction as near to its bill has no bar of its own
SMALL = 2_000  # tokens: a break that lost less has no bars of its prompt
SHOWN = 150  # breaks that are told one by one: those that lost most
_ACTORS = {
    "author": "whoever writes the agent", "user": "whoever runs the agent", "provider": "the provider alone",
    "nobody": "nobody: it is as it should be, or nothing shows who could",
}  # fmt: skip
_PARTS: dict[PartName, str] = {
    "unrecorded": "not in this log (tools, system prompt)", "tools": "tools", "system": "system prompt",
    "kept": "messages as before", "messages": "messages",
}  # fmt: skip
MONEY = (
    ("reading", "read", "reading context"), ("context", "written", "writing new context"),
    ("output", "output", "output"),
    ("tools", "tools", "tools of the provider"), ("paid_again", "again", "re-billed"),
    ("unexplained", "unexplained", "re-billed, unexplained"), ("expected", "expected", "re-billed as expected"),
)  # fmt: skip


class TurnRow(NamedTuple):
    """A turn in the table of its chain; `style` is of the leading cause's kind, `key` is there where a mark leads.

    `marks` are the kinds of marks that it has beside that of its cause, parted by spaces.
    """

    key: str
    cells: tuple[str, ...]
    style: str
    what: tuple[blocks.Cell, ...]
    marks: str


class BreakView(NamedTuple):
    """A cache break: facts as pairs of label and text, the two sides, what each witness says, the prompt as bars."""

    place: str
    style: str
    title: str
    paid: str
    message: str
    facts: tuple[tuple[str, str], ...]
    sides: tuple[tuple[str, str, str, str], ...]
    where: str
    columns: tuple[tuple[str, str], ...]
    strips: tuple[blocks.Strip, ...]


class LaneView(NamedTuple):
    """A chain's drawing and its table; `prompt` is its last prompt as bars."""

    lane: LaneDrawing
    caption: str
    rows: tuple[TurnRow, ...]
    prompt: tuple[blocks.Strip, ...]


class SessionView(NamedTuple):
    """All that a session's page shows."""

    name: str
    about: str
    lead: str
    money: blocks.PageBlock
    causes: blocks.PageBlock
    context: blocks.PageBlock
    lanes: list[LaneView]
    breaks: list[BreakView]
    left_out: str
    notes: list[str]


def view_of(session: PageSession, trials: Sequence[tuple[int, str]] = (), *, key: str = "") -> SessionView:
    """Return what a session's page shows; `trials` are where a policy would have compacted its first chain.

    `key` tells its places apart from those of other sessions in the same page.
    """
    breaks = [
        (lane, place, turn)
        for lane, chain in enumerate(session.chains)
        for place, turn in enumerate(chain.turns)
        if turn.after is not None and turn.played.cause is not None
    ]
    breaks.sort(key=lambda found: _weight(found[2]), reverse=True)
    several = len(session.chains) > 1
    return SessionView(
        session.title or name_of(session.path), " · ".join(_about(session)),
        lead_of(session.spending), money_block(session.spending),
        causes_block(session.causes, session.unexplained), context_block(session),
        [_lane(session, number, trials if number == 0 else (), key) for number in range(len(session.chains))],
        [_break(turn, f"b{key}{lane}-{place}", several=several) for lane, place, turn in breaks[:SHOWN]],
        f"{counted(len(breaks) - SHOWN, 'break')} that lost less stand in the tables alone"
        if len(breaks) > SHOWN else "",
        list(_notes(session)),
    )  # fmt: skip


def name_of(path: str) -> str:
    """Return the name of a recording: the last part of its path."""
    return os.path.basename(path.rstrip("/")) or path


def _about(session: PageSession) -> Iterator[str]:
    yield session.path
    if session.format:
        yield session.format
    if session.project:
        yield f"project {session.project}"
    models = list(dict.fromkeys(turn.played.model for turn in session.turns if turn.played.model))
    if models:
        yield ", ".join(models[:3]) + (f" and {len(models) - 3:,} more" if len(models) > 3 else "")
    times = [turn.played.at for turn in session.turns if turn.played.at is not None]
    if times:
        yield f"{when(min(times))} to {when(max(times))} UTC"


def lead_of(spending: Spending) -> str:
    """Say first what it cost and how much of that was re-billed."""
    what = counted(spending.requests, "request")
    if spending.subagent_requests:
        what += f", {spending.subagent_requests:,} of them of subagents"
    parts = [f"{cost_of(spending)} for {what}."]
    lost = [
        f"{words}: {_of(dollars, spending.dollars, tokens)}"
        for words, dollars, tokens in (
            ("re-billed", spending.paid_again, spending.paid_again_tokens),
            ("re-billed without a sure cause", spending.unexplained, spending.unexplained_tokens),
            ("re-billed as expected", spending.expected, spending.expected_tokens))
        if tokens
    ]  # fmt: skip
    if lost:
        parts.append(f"P{'; '.join(lost)[1:]}.")
    elif spending.requests > spending.unbilled:
        parts.append("Nothing was re-billed.")
    if spending.unbilled:
        parts.append(f"{counted(spending.unbilled, 'request')} without a bill.")
    if spending.unpriced:
        parts.append(f"{counted(spending.unpriced, 'request')} without a known price.")
    if spending.recorded_dollars:
        parts.append(f"Cost as recorded: {format_money(spending.recorded_dollars)}.")
    return " ".join(parts)


def _of(dollars: float | None, whole: float | None, tokens: int) -> str:
    if dollars is None:
        return f"{tokens_of(tokens)} tokens"
    share = f" ({dollars / whole:.0%})" if whole else ""
    return f"{format_money(dollars)}{share}"


def money_block(spending: Spending, title: str = "Where the money went") -> blocks.PageBlock:
    """Show the parts of a bill as one bar and as a table; nothing where no bill has a price."""
    whole = spending.dollars
    if not whole:
        return blocks.PageBlock()
    parts = [(style, getattr(spending, name) or 0.0, words) for name, style, words in MONEY]
    known = [(style, dollars, words) for style, dollars, words in parts if dollars > 0]
    shown = [(style, dollars, f"{words}: {format_money(dollars)}") for style, dollars, words in known]
    rows: list[tuple[blocks.Cell, ...]] = [
        (blocks.Swatch(words, style), format_money(dollars), f"{dollars / whole:.0%}")
        for style, dollars, words in known
    ]
    table = blocks.PageTable(("part", "cost", "share"), rows, frozenset((1, 2)))
    return blocks.PageBlock(title, strips=(blocks.strip("", shown, whole),), table=table)


def causes_block(causes: Sequence[SpendingCause], unexplained: Sequence[SpendingCause]) -> blocks.PageBlock:
    """Show what was re-billed, by cause, and what to do about each."""
    every = [*causes, *unexplained]
    if not every:
        return blocks.PageBlock()
    rows: list[tuple[blocks.Cell, ...]] = [
        (blocks.amount_of(cause.dollars), blocks.count(cause.tokens), blocks.count(cause.turns),
         cause.says + (" (not sure)" if cause.kind == "unattributable" else ""), cause.fix, cause.code)
        for cause in every
    ]  # fmt: skip
    heads = ("cost", "tokens", "turns", "what happened", "what to do", "code")
    return blocks.PageBlock("What was re-billed, and why", table=blocks.PageTable(heads, rows, frozenset((0, 1, 2))))


def context_block(session: PageSession) -> blocks.PageBlock:
    """Show what compacting sooner would have saved, and a command that says where; nothing where it would not pay."""
    found, spending = session.earlier, session.spending
    if found is None:
        return blocks.PageBlock()
    saved = _of(found.saved, spending.dollars, 0)
    window, times = tokens_of(found.window), counted(found.compactions, "compaction")
    path = in_shell(session.path)
    where = f" Where: lore compact {path} --dry-run --window {found.window}" if path else ""
    grown = f"Prompts grew to {tokens_of(spending.largest_prompt_tokens)} tokens; each request reads all that stands."
    tried = f"Compacted before {window}, the session would have cost about {saved} less, with {times}."
    return blocks.PageBlock("What the size of its context cost", lines=(grown, tried + where))


def _notes(session: PageSession) -> Iterator[str]:
    if session.message:
        yield f"could not be read on: {session.message}"
    if session.lacks:
        yield f"such logs do not hold: {session.lacks}"
    for problem in session.problems[:5]:
        place = "" if problem.line is None else f"line {problem.line:,}: "
        yield f"{problem.code} {place}{problem.message}"
    if len(session.problems) > 5:  # noqa: PLR2004 - a few show what is wrong
        yield f"and {counted(len(session.problems) - 5, 'problem')} more like these"


# the chains


def _lane(session: PageSession, number: int, trials: Sequence[tuple[int, str]], key: str) -> LaneView:
    chain = session.chains[number]
    lane = lane_of(chain, f"{key}{number}", trials)
    last = chain.turns[-1] if chain.turns else None
    prompt = () if last is None or last.after is not None else prompt_strips(last)
    span = " to ".join(filter(None, dict.fromkeys((lane.begin, lane.end))))
    parts = [
        counted(lane.turns, "turn"),
        f"{span} UTC" if span else "",
        f"prompts of up to {tokens_of(lane.most)} tokens",
    ]
    if not lane.billed:
        parts.append("no bill is recorded: what is drawn is predicted")
    if lane.grouped > 1:
        parts.append(f"a column is {lane.grouped:,} turns, of which the one that read least is drawn")
    days = [when(turn.played.at, "%m-%d ") for turn in chain.turns]
    rows = [
        _row(turn, lane.key, place, "" if place and day == days[place - 1] else day)
        for place, (turn, day) in enumerate(zip(chain.turns, days, strict=True))
    ]
    return LaneView(lane, ", ".join(filter(None, parts)), tuple(rows), prompt)


def _row(turn: PageTurn, lane: str, place: int, day: str) -> TurnRow:
    played = turn.played
    billed, cost = played.billed, played.cost
    counts = (None,) * 4 if billed is None else (
        billed.read_tokens, billed.write_tokens, billed.uncached_tokens, billed.output_tokens)  # fmt: skip
    paid, read = "" if cost is None or cost.billed is None else format_money(cost.billed), played.predicted.read_tokens
    cells = (str(played.turn), day + when(played.at, "%H:%M"),
        *("" if each is None else blocks.count(each) for each in counts),
        "" if read is None else "=" if read == counts[0] else blocks.count(read), paid)  # fmt: skip
    cause = played.cause
    what: list[blocks.Cell] = []
    if cause is not None:
        lost = f" {played.lost_tokens:,} tokens" if played.lost_tokens else ""
        text = f"{short_of(cause.code, cause.name)}{lost}"
        what.append(text if turn.after is None else blocks.PageLink(text, f"#b{lane}-{place}"))
    marks = {
        "compaction": "compaction" if turn.compacted else "",
        "pause": "" if turn.pause is None else f"pause {format_duration(turn.pause)}",
        "model": "" if turn.model_before is None else f"model {played.model}",
    }
    what += filter(None, marks.values())
    key = f"r{lane}-{place}" if what else ""
    return TurnRow(
        key, cells, "" if cause is None else style_of(cause), tuple(what), " ".join(filter(marks.get, marks)),
    )  # fmt: skip


# the breaks


def _weight(turn: PageTurn) -> tuple[float, int]:
    cause = turn.played.cause
    return (cause.lost_dollars or 0.0) if cause is not None else 0.0, turn.played.lost_tokens or 0


def _break(turn: PageTurn, place: str, *, several: bool) -> BreakView:
    played, cause, before, after = turn.played, turn.played.cause, turn.before, turn.after
    assert cause is not None, "a break has a cause"
    assert before is not None, "and something before it"
    assert after is not None, "and itself"
    name = f"turn {played.turn}" + (f" of {played.chain}" if several else "")
    three = turn.columns
    columns = () if three is None else (
        ("bytes", three.bytes), ("bill", three.billed), ("provider", three.verdict),
        *((("they disagree", three.dispute),) if three.dispute else ()),
    )  # fmt: skip
    return BreakView(
        place, style_of(cause), f"{name}: {short_of(cause.code, cause.name)}", format_loss(cause), cause.message,
        tuple(_facts(turn, cause)), (_side("before", before, turn), _side("after", after, turn)),
        turn.path, columns, prompt_strips(turn) if (played.lost_tokens or 0) >= SMALL else (),
    )  # fmt: skip


def _facts(turn: PageTurn, cause: CauseResult) -> Iterator[tuple[str, str]]:
    sure = "" if cause.strength is None else f", evidence {cause.strength}"
    yield "cause", f"{cause.code} {cause.name} ({cause.kind}{sure})"
    yield "who can act", _ACTORS.get(cause.actor, cause.actor)
    if cause.kind != "expected":
        yield "what to do", cause.fix
    for other in turn.played.causes:
        if other is not cause:
            yield "also", f"{other.code} {other.name}: {other.message}"


def _side(name: str, side: PageSide, turn: PageTurn) -> tuple[str, str, str, str]:
    """Return a side: its heading, its bill, the part of its text that both share, the rest."""
    head = " · ".join(filter(None, (f"turn {side.turn}", when(side.at, "%Y-%m-%d %H:%M:%S"), side.model)))
    bill = "no bill" if side.billed is None else format_usage(side.billed) or "no counts"
    return f"{name}: {head}", bill, side.text[: turn.shared], side.text[turn.shared :]


def prompt_strips(turn: PageTurn) -> tuple[blocks.Strip, ...]:
    """Return a prompt as bars on one scale: its parts, coloured by what was read; what was billed and predicted."""
    counts, predicted, billed = counts_of(turn), turn.played.predicted, turn.played.billed
    whole = float(max(sum(part.tokens for part in turn.parts), 0 if counts is None else counts.whole))
    found: list[blocks.Strip] = []
    if not whole:
        return ()
    if turn.parts:
        read = whole if counts is None else counts.read
        found.append(_made_of(turn, whole, read))
    if billed is not None and counts is not None:
        found.append(_counted("billed", counts.read, counts.written, counts.uncached, whole))
    if predicted.read_tokens is not None:
        rest = (predicted.write_tokens or 0, predicted.uncached_tokens or 0)
        made = _counted("predicted", predicted.read_tokens, *rest, whole)
        if billed is not None and counts is not None and abs(predicted.read_tokens - counts.read) <= NEAR * whole:
            found[-1] = found[-1]._replace(words=f"{found[-1].words}; predicted: {made.words}")
        else:
            found.append(made)
    return tuple(found)


def _made_of(turn: PageTurn, whole: float, read: float) -> blocks.Strip:
    """Return the parts of a prompt, each in the colour of what was read up to where reading ended."""
    parts: list[blocks.StripPart] = []
    done = 0.0
    for part in turn.parts:
        text = f"{_PARTS[part.name]}: about {tokens_of(part.tokens)} tokens"
        ends = (done, min(max(done, read), done + part.tokens), done + part.tokens)
        for style, begin, end in (("read", *ends[:2]), ("lost", *ends[1:])):
            places = [round(place / whole * blocks.WIDTH) for place in (begin, end)]
            if places[1] > places[0]:
                parts.append(blocks.StripPart(style, places[0], places[1] - places[0], text))
        done = ends[2]
    words = " | ".join(f"{_PARTS[part.name]} {tokens_of(part.tokens)}" for part in turn.parts)
    return blocks.Strip("made of", parts, words)


def _counted(label: str, read: int, written: int, uncached: int, whole: float) -> blocks.Strip:
    sizes = (("read", read, "read"), ("written", written, "written"), ("uncached", uncached, "uncached"))
    parts = [(style, float(size), f"{words}: {size:,} tokens") for style, size, words in sizes if size]
    return blocks.strip(
        label, parts, whole, ", ".join(f"{size:,} {words}" for _, size, words in sizes if size or words == "read")
    )
