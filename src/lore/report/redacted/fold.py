"""A folded session without content: what `lore fold --redact` leaves of a timeline.

Rules: those of `redacted.py`. Each item keeps its kind, its status, its counts and its place; what it says, and ids and
names in it, become lengths and hashes, so that equal ones can still be told to be equal. Words that lore knows itself
(roles, triggers, sources) and times stay.
"""

from __future__ import annotations

from msgspec import Raw
from msgspec.json import encode as encode_item
from msgspec.structs import replace

from lore.model.canonical import encode, text_of
from lore.model.inserts import insert_texts
from lore.model.items import (
    AssistantMessage,
    Block,
    CompactDivider,
    ImageBlock,
    Item,
    OpaqueItem,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
    is_absent,
)
from lore.model.results.store import ChainResult, FoldResult, InjectedResult, SessionResult, TurnResult
from lore.model.turn import seconds
from lore.report.redacted.findings import digest, redacted_chain, redacted_model, redacted_problem, short_hash

_TRIGGERS = frozenset(("overflow", "manual", "cadence", "gap", "auto"))
_SOURCES = frozenset(("user", "context_injection", "tick"))
_STOPS = frozenset(("end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn", "stop", "length",
                    "tool_calls", "content_filter", "interrupted"))  # fmt: skip


def redacted_fold(result: FoldResult, items: list[Item]) -> tuple[FoldResult, list[Item]]:
    """Return a folded session, and the items that it shows, without content."""
    shown = [redacted_item(item) for item in items]
    session = result.session
    chains = [ChainResult(_chain(chain.id), chain.kind, chain.turns, chain.items) for chain in session.chains]
    model = None if session.model is None else redacted_model(session.model)
    made = FoldResult(
        schema=result.schema, session=SessionResult(_id(session.id), session.format, session.fidelity, model, chains),
        timeline=[Raw(encode_item(item)) for item in shown], item_turns=result.item_turns,
        injected=list(map(_injected, result.injected)), pruned=list(map(_id, result.pruned)),
        turns=list(map(_turn, result.turns)), usage=result.usage,
        problems=list(map(redacted_problem, result.problems)),
    )  # fmt: skip
    return made, shown


def redacted_item(item: Item) -> Item:
    """Return an item without content: made anew, so that what an item may get some day is left out until it is here.

    What a recorded request or a provider says of it besides is its digest.
    """
    match item:
        case UserMessage(source=source):
            return UserMessage(
                _id(item.uuid), _raw(item.text), _blocks(item.blocks), _word(source, _SOURCES), _raw_block(item.form)
            )
        case AssistantMessage(stop_reason=stop):
            return AssistantMessage(
                _id(item.uuid), _raw(item.text), _blocks(item.blocks), None if stop is None else _word(stop, _STOPS),
                _known(item.response_id), _raw_block(item.form),
            )  # fmt: skip
        case ToolCall():
            return ToolCall(
                _id(item.uuid), _id(item.call_id), digest(item.name), _raw(item.input), item.status,
                _raw(item.output), _raw(item.error), _raw(item.detail), _known(item.response_id),
                _raw_block(item.raw), _raw_block(item.result),
            )  # fmt: skip
        case CompactDivider(trigger=trigger):
            return CompactDivider(
                _id(item.uuid), _word(trigger, _TRIGGERS), item.pre_tokens, item.post_tokens, _raw(item.summary),
                item.pruned, item.duration_ms,
            )  # fmt: skip
        case OpaqueItem(record=record):
            return OpaqueItem(_id(item.uuid), _raw(record))


def _word(word: str, known: frozenset[str]) -> str:
    return word if word in known else digest(word)


def _blocks(blocks: tuple[Block, ...] | None) -> tuple[Block, ...] | None:
    return None if blocks is None else tuple(map(_block, blocks))


def _block(block: Block) -> Block:
    match block:
        case TextBlock(text=text, raw=raw):
            return TextBlock(_raw(text), _raw_block(raw))
        case ThinkingBlock(text=text, signature=signature):
            return ThinkingBlock(_raw(text), None if signature is None else digest(signature))
        case ImageBlock(media_type=media, data=data):
            return ImageBlock(digest(media), _raw(data))
        case RawBlock(json=raw):
            return RawBlock(_raw(raw))


def _raw_block(block: RawBlock | None) -> RawBlock | None:
    return None if block is None else RawBlock(_raw(block.json))


def _raw(raw: Raw) -> Raw:
    """Return what stands for a JSON value: for a string the digest of its text, else that of its JSON."""
    if is_absent(raw):
        return raw
    value = bytes(raw)
    return Raw(encode(digest(text_of(value) if value[:1] == b'"' else value.decode("utf-8", "replace"))))


def _injected(injected: InjectedResult) -> InjectedResult:
    texts = insert_texts(injected.content) or ()
    content = [{"role": spoken.role, "text": digest(text_of(spoken.text))} for spoken in texts]
    return replace(injected, content=Raw(encode(content)))


def _turn(turn: TurnResult) -> TurnResult:
    return replace(turn, chain=_chain(turn.chain), started_at=_time(turn.started_at), ended_at=_time(turn.ended_at))


def _time(time: str | None) -> str | None:
    return time if time is None or seconds(time) is not None else digest(time)


def _id(name: str) -> str:
    return short_hash(name) if name else name


def _known(name: str | None) -> str | None:
    return None if name is None else _id(name)


def _chain(name: str) -> str:
    return redacted_chain(name) or name
