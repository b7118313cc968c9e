"""`lore fold` on a terminal: a line for each item, request, injected text (`+`) and compaction, then sums.

A request's line is at its place in time: its response and later messages are below it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from lore.model import items
from lore.model.canonical import text_of
from lore.model.codes import Problem
from lore.model.fact import count_of, format_duration
from lore.model.inserts import insert_texts
from lore.model.jsonslice import array, raw_members, sliced_members
from lore.model.mask import mask
from lore.model.results.store import FoldResult, InjectedResult, KnowledgeResult, TurnResult
from lore.model.times import parse_timestamp
from lore.report.console import Console, line
from lore.report.plain import place_of
from lore.report.sentences import format_usage

SHOWN = 100  # characters of a text if the width of the terminal is unknown
_WHO = 11  # columns of the role
_CALL = 40  # characters of a call's input, and the least of any text
Row: TypeAlias = items.Item | TurnResult | InjectedResult


def write(result: FoldResult, timeline: list[items.Item], out: Console, *, title: str = "") -> None:
    """Write a timeline and its sums."""
    if title:
        out.print(line((title, "bold")))
    for row in rows(result, timeline):
        write_row(row, out)
    session, usage = result.session, result.usage
    sums = (
        count_of(len(timeline), "item"), f"{count_of(len(result.pruned), 'item')} pruned",
        count_of(usage.turns, "turn"), count_of(len(session.chains), "chain"),
    )  # fmt: skip
    name = f"session {session.id} " if session.id else "session "
    out.print(f"{name}({session.format}, {session.fidelity}): {', '.join(sums)}")
    if prompt := format_usage(usage):
        partial = " (partial)" if usage.partial_output is True else ""
        output = "unknown" if usage.output_tokens is None else f"{usage.output_tokens:,}"
        out.print(f"usage: {prompt}, {output} output{partial} tokens (recorded)")
    write_problems(result.problems, out)


def rows(result: FoldResult, timeline: list[items.Item]) -> Iterator[Row]:
    """Yield the items of a timeline, with requests and injected texts at their places. Costs O(all of these).

    Requests are omitted if a compaction left none of their items.
    """
    chains = sorted(result.session.chains, key=lambda chain: chain.kind != "main")
    name = chains[0].id if chains else ""
    turns, injected = deque(turn for turn in result.turns if turn.chain == name), deque(result.injected)
    pairs = list(zip(timeline, result.item_turns, strict=True))
    last_compaction = max((turn for item, turn in pairs if isinstance(item, items.CompactDivider)), default=0)
    for place, (item, number) in enumerate(pairs):
        while not isinstance(item, items.CompactDivider) and turns and turns[0].turn <= number:
            turn = turns.popleft()
            if turn.turn == number or turn.turn > last_compaction:
                yield turn
        while injected and injected[0].insert_at <= place:
            yield injected.popleft()
        yield item
    yield from injected
    yield from (turn for turn in turns if pairs and turn.turn > last_compaction)


def write_row(row: Row, out: Console) -> None:
    """Write a row as one line; the quoted text of each block is at most as wide as the terminal."""
    out.print(line(*_format_row(row, max(_CALL, (out.room or SHOWN + _WHO) - _WHO))), indent=_WHO)


def _format_row(row: Row, size: int) -> tuple[str | tuple[str, str], ...]:
    """Return the parts of a row with their styles; quoted texts have at most `size` characters."""
    match row:
        case TurnResult(turn=number):
            return ((f"{f'turn {number}':<10} {_describe_request(row)}", "dim"),)
        case InjectedResult(content=content, number=number, before_turn=turn):
            what = f"delta {number}" if row.kind == "delta" else row.kind
            words = " ".join(short(text_of(part.text)) for part in insert_texts(content) or ())
            derived = "" if row.saved else ", derived: not in the log"
            return (f"{f'+ {what}':<10}", "bold green"), f" (turn {turn}{derived}) {words}"
        case items.UserMessage(text=text, blocks=blocks, source=source):
            role = "user" if source == "user" else f"user ({source})"
            return (f"{role:<10}", "bold cyan"), " ", _quote(bytes(text), blocks, size)
        case items.AssistantMessage(text=text, blocks=blocks):
            return (f"{'assistant':<10}", "bold magenta"), " ", _quote(bytes(text), blocks, size)
        case items.ToolCall(name=name, status=status, output=output):
            result = "" if items.is_absent(output) else f" → {short(text_of(bytes(output)), size)}"
            call = f" {name} {short(bytes(row.input).decode('utf-8', 'replace'), _CALL)} {status}{result}"
            return (f"{'tool':<10}", "bold blue"), call
        case items.CompactDivider(pruned=pruned, summary=summary):
            words = "" if items.is_absent(summary) else f": {short(text_of(bytes(summary)), size)}"
            what = f"──── compaction ({_describe_compaction(row)}), {count_of(pruned, 'item')} pruned ────{words}"
            return ((what, "yellow"),)
        case items.OpaqueItem(record=record):
            members = raw_members(bytes(record)) or {}
            attached = raw_members(members.get("attachment", b"")) or {}
            kinds = [short(text_of(holder["type"]), 60) for holder in (members, attached) if holder.get("type")]
            return ((f"{'other':<10} {' '.join(kinds)} {len(bytes(record)):,} bytes", "dim"),)


def _describe_request(turn: TurnResult) -> str:
    """Return when a request was sent, how long it took, and its usage."""
    parts = [] if turn.started_at is None else [short(turn.started_at, 40)]
    begin, end = parse_timestamp(turn.started_at), parse_timestamp(turn.ended_at)
    if begin is not None and end is not None and end > begin:  # equal: the log has one time for both
        parts.append(f"answered after {format_duration(end - begin)}")
    if turn.state != "completed":
        parts.append("not ended" if turn.state == "open" else turn.state)
    prompt = format_usage(turn)
    if turn.output_tokens is not None:
        parts.append(f"{prompt or 'no usage of its prompt recorded'}, {turn.output_tokens:,} output tokens")
    elif turn.state == "completed":
        parts.append(prompt or "no usage recorded")
    return ", ".join(parts)


def write_problems(problems: Iterable[Problem], out: Console) -> None:
    """Write a line for each problem; one that a file has several times is written once, with its count."""
    groups: dict[tuple[str, str | None, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.code, problem.file, problem.message), []).append(problem)
    for (code, file, message), group in groups.items():
        suffix = f" ({len(group):,} times)" if len(group) > 1 else ""
        out.print(line((f"{code} {place_of(str(file), group[0].line)} {message}{suffix}", "yellow")))


def _describe_compaction(divider: items.CompactDivider) -> str:
    """Return the trigger, the tokens before and after, and the duration of a compaction, as far as recorded."""
    parts, old_size, new_size = [short(divider.trigger, 40)], divider.pre_tokens, divider.post_tokens
    if old_size is not None and new_size is not None:
        parts.append(f"{old_size:,} → {new_size:,} tokens")
    elif old_size is not None:
        parts.append(f"{old_size:,} tokens before")
    elif new_size is not None:
        parts.append(f"{new_size:,} tokens after")
    if divider.duration_ms is not None:
        parts.append(format_duration(divider.duration_ms / 1000))
    return ", ".join(parts)


def _quote(text: bytes, blocks: tuple[items.Block, ...] | None, size: int) -> str:
    if blocks is not None:
        return " ".join(_quote_block(block, size) for block in blocks) or "(empty)"
    return "(empty)" if text == b"null" else short(text_of(text), size)


def _quote_block(block: items.Block, size: int) -> str:
    match block:
        case items.TextBlock(text=text):
            return short(text_of(bytes(text)), size)
        case items.ThinkingBlock(text=text):
            words = short(text_of(bytes(text)), 60)
            return f"[thinking: {words}]" if words else "[thinking]"
        case items.ImageBlock(media_type=media, data=data):
            return f"[image {media}, {len(bytes(data)):,} bytes]"
        case items.RawBlock(json=raw):
            return _quote_raw_block(bytes(raw))


# Types of blocks that only the provider can read.
_SEALED = ("reasoning", "redacted_thinking", "compaction", "compaction_summary", "context_compaction")


def _quote_raw_block(raw: bytes) -> str:
    """Return the beginning of a block in a provider's shape; of one that is encrypted its type and summary."""
    members = raw_members(raw) or {}
    kind = text_of(members.get("type", b"null"))
    if kind not in _SEALED:
        return f"[{short(raw.decode('utf-8', 'replace'), 60)}]"
    parts = [sliced_members(part) for key in ("summary", "content") for part in array(members.get(key, b""))]
    words = " ".join(text_of(part["text"]) for part in parts if part.get("text", b"")[:1] == b'"')
    encrypted = "encrypted " if members.keys() & {"encrypted_content", "data"} else ""
    return f"[{kind}: {short(words, 60)}]" if words.strip() else f"[{encrypted}{kind}]"


def short(text: str, size: int = SHOWN) -> str:
    """Return the beginning of a text, on one line, masked."""
    text = " ".join(mask(text[: size * 2 + 4096])[: size * 2].split())  # masked first: half of a secret is one, too
    return text if len(text) <= size else text[: size - 1] + "…"


_STYLES = {"pinned": "green", "delta": "cyan", "waiting": "yellow"}


def write_knowledge(result: KnowledgeResult, out: Console) -> None:
    """Write the entries and how many there are."""
    width = max((len(fact.id) for fact in result.knowledge), default=0)
    for fact in result.knowledge:
        state, place = fact.state or "-", fact.category or "General"
        words = short(": ".join(filter(None, (fact.title, fact.content))))
        state_cell = (f"{state:<7}", _STYLES.get(state, ""))
        out.print(line(state_cell, f"  {fact.id:<{width}}  ", (place, "bold"), f"  {words}"))
    out.print(line(f"session {result.session}: {count_of(len(result.knowledge), 'entry', 'entries')} known"))
    write_problems(result.problems, out)
