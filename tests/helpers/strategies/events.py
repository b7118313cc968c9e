"""Events in any order, whether they make sense or not."""

from typing import Any

from hypothesis import strategies as st
from msgspec import Raw

from helpers.strategies.logs import FACTS
from helpers.strategies.spelling import clean_texts, texts, write
from lore.model import events as e
from lore.model import items as i

# events in any order


_uuid = st.sampled_from(["u1", "u2", "u3", "u4"])
_call = st.sampled_from(["c1", "c2", "c3"])
_raw = st.builds(lambda t: Raw(write(t)), texts)
_block = st.one_of(
    st.builds(i.TextBlock, _raw),
    st.builds(i.ThinkingBlock, _raw),
    st.builds(i.RawBlock, st.builds(Raw, st.just(b"{}"))),
)
_blocks = st.one_of(st.none(), st.lists(_block, max_size=2).map(tuple))
_response = st.sampled_from([None, None, "r1", "r2"])
_item = st.one_of(
    st.builds(i.UserMessage, _uuid, _raw),
    st.builds(lambda u, b: i.UserMessage(u, blocks=b), _uuid, _blocks),
    st.builds(lambda u, t, r: i.AssistantMessage(u, text=t, response_id=r), _uuid, _raw, _response),
    st.builds(
        lambda u, c, r, s: i.ToolCall(u, c, "tool", Raw(b"{}"), status=s, response_id=r),
        _uuid, _call, _response, st.sampled_from(["running", "completed"]),
    ),
    st.builds(i.CompactDivider, _uuid, st.just("manual")),
    st.builds(i.OpaqueItem, _uuid, _raw),
)  # fmt: skip
_usage = st.one_of(
    st.none(), st.builds(e.Usage, st.one_of(st.none(), st.integers(0, 9)), st.one_of(st.none(), st.just(3)))
)
_number = st.integers(0, 3)
_names = st.lists(st.sampled_from(["a", "b", "mcp__s__t", ""]), max_size=3).map(tuple)
_kinds = st.one_of(
    st.builds(lambda: e.SessionStarted(session_id="s", model="m", system=Raw(b'"sys"'))),
    st.builds(lambda m: e.SessionChanged(model=m, params=Raw(b"{}")), st.sampled_from(["m", "n"])),
    st.builds(
        lambda w, t: e.Layer(name="l", when=w, text=t),
        st.sampled_from(["once_at_start", "every_turn", "never"]), _raw,
    ),
    st.builds(lambda item: e.Append(item=item), _item),
    st.builds(lambda item: e.Append(item=item), _item),
    st.builds(lambda u, t: e.PatchText(uuid=u, delta_text=t), _uuid, _raw),
    st.builds(
        lambda c, s, t: e.PatchToolCall(call_id=c, status=s, output=t),
        _call, st.sampled_from(["completed", "failed"]), _raw,
    ),
    st.builds(lambda c: e.ToolResultCleared(call_ids=tuple(c)), st.lists(_call, max_size=2)),
    st.builds(lambda u: e.Remove(uuids=tuple(u)), st.lists(_uuid, max_size=2)),
    st.builds(lambda: e.CompactStarted(trigger="manual")),
    st.builds(
        lambda u, p, s: e.CompactApplied(uuid=u, trigger="auto", preserved_uuids=p, summary=s),
        _uuid, st.one_of(st.none(), st.lists(_uuid, max_size=3).map(tuple)), _raw,
    ),
    st.builds(lambda n: e.TurnStarted(turn=n, context=Raw(b'{"extra":["x"]}')), _number),
    st.builds(lambda n, u: e.TurnCompleted(turn=n, usage=u), _number, _usage),
    st.builds(lambda n, u: e.TurnFailed(turn=n, usage=u, error="x"), _number, _usage),
    st.builds(lambda n: e.TurnCanceled(turn=n), _number),
    st.builds(
        lambda op, i, t: e.Knowledge(op=op, id=i, content=t),
        st.sampled_from(["add", "update", "remove", "guess"]), st.sampled_from(FACTS), clean_texts,
    ),
    st.builds(
        lambda n, s: e.PromptDelta(seq=n, selector=Raw(s)),
        _number, st.sampled_from([b'{"target":"messages","insert_at":1}', b"{}", b"5"]),
    ),
    st.builds(
        lambda t, at, outside: e.ContextPersisted(turn=1, insert_at=at, content=t, outside=outside),
        _raw, st.sampled_from([0, 0, 2]), st.booleans(),
    ),
    st.builds(lambda: e.CacheReset(reason="why not")),
    st.builds(
        lambda n, names, gone, value: e.Observed(name=n, names=names, removed=gone, before=value, after="x"),
        st.sampled_from(["effort", "image", "guess"]), _names, _names, st.sampled_from(["", "low"]),
    ),
    st.builds(
        lambda n: e.Saved(size=n, after=n, base="cd" * 32, digest="ab" * 32, leaf_id="x", metadata=Raw(b"{}")),
        _number,
    ),
    st.builds(lambda t: e.OpaqueEvent(record=t), _raw),
)  # fmt: skip


@st.composite
def any_events(draw: Any, max_size: int = 20) -> list[e.Event]:
    """Events of every kind, in any order, on several chains, about few ids."""
    import msgspec  # noqa: PLC0415 - only `replace` is wanted

    pairs = draw(st.lists(st.tuples(_kinds, st.sampled_from(("main", "main", "side"))), max_size=max_size))
    return [msgspec.structs.replace(event, chain=chain) for event, chain in pairs]
