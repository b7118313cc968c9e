"""`lore fold --follow`: items and events as they come, over rotations, without reading a byte twice."""

import json
from types import NoneType

import pytest

from cli.running import session
from formats import opencode
from helpers.each import each
from helpers.waiting import Script, add, put, rotate
from lore.commands.fold import fold, follow_events, follow_timeline, number_of
from lore.errors import LoreError
from lore.model.codes import Problem
from lore.model.items import CompactDivider, ToolCall
from lore.model.results.store import InjectedResult, TurnResult
from lore.recording.opening import Options
from model.making import call, dumps, header, record, said, user
from model.making import log as log_of

LOG = session()


def line(kind, **fields):
    return dumps(record(kind, **fields)) + b"\n"


def items(path, *actions, heard=None):
    """Return one or two words for each row that is shown."""
    shown = follow_timeline(str(path), Options(), (heard if heard is not None else []).append, wait=Script(*actions))
    return [_word(one) for one in shown if not isinstance(one, NoneType | TurnResult | InjectedResult)]


def _word(one):
    match one:
        case str(text):
            return text
        case Problem(code=code):
            return code
        case ToolCall(uuid=uuid, status=status):
            return f"{uuid} {status}"
        case CompactDivider(pruned=pruned):
            return f"pruned {pruned}"
        case _:
            return one.uuid


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(LOG)
    return path


def test_follow_shows_the_timeline_then_new_items(log):
    lines = [
        line("append", item=said("a2")),
        line("append", item=call("t1", "c1")),
        line("patch_tool_call", call_id="c1", status="completed", output="done"),
        line("append", item=user("x1"), chain="side"),
        line("remove", uuids=["a2"]),
        line("tool_result_cleared", call_ids=["c1"]),
        line("compact_applied", uuid="d", trigger="manual"),
        b"junk\n",
    ]
    assert items(log, *[add(log, one) for one in lines]) == [
        "u1", "a1", "u2", "a2", "t1 running", "t1 completed", "1 item removed", "t1 completed",
        "pruned 4", "LORE201",
    ]  # fmt: skip


def test_streamed_message_is_shown_once_complete(log):
    pieces = [line("append", item=said("a2", ""))]
    pieces += [line("patch_text", uuid="a2", delta_text=f"{number} ") for number in range(3)]
    shown = list(
        follow_timeline(
            str(log),
            Options(),
            [].append,
            wait=Script(*[add(log, one) for one in [*pieces, line("turn_completed", turn=2)]]),
        )
    )
    last = [one for one in shown if not isinstance(one, NoneType | TurnResult)][3:]
    assert [bytes(one.text) for one in last] == [b'"0 1 2 "']


def test_replaced_log_is_shown_from_its_beginning(log):
    heard = []
    first = session().splitlines(keepends=True)
    new = b"".join(first[:2])
    assert items(log, put(log, new), rotate(log, LOG), heard=heard) == [
        "u1", "a1", "u2", "2 items removed", "a1", "u2"
    ]  # fmt: skip
    assert [one.partition(" ")[2] for one in heard] == [
        "was truncated; it is read from its beginning",
        "was replaced by another file; it is read from its beginning",
    ]


def request(*texts):
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    usage = {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 1}
    body = {"model": "m", "max_tokens": 1024, "messages": messages}
    return dumps({"request": body, "usage": usage, "timestamp": f"2026-01-01T00:00:{len(texts):02}Z"}) + b"\n"


def test_recorded_requests_are_followed_as_a_session(tmp_path):
    """An answer is shown with the next request, which holds it; both views end as folding the whole file does."""
    path, lines = tmp_path / "r.jsonl", [request("a"), request("a", "b", "c"), request("a", "b", "c", "d", "e")]
    path.write_bytes(lines[0])
    shown = follow_timeline(str(path), Options(), print, wait=Script(*(add(path, line) for line in lines[1:])))
    words = [json.loads(bytes(row.blocks[0].text if row.blocks else row.text)) if hasattr(row, "text") else row.turn
             for row in shown if row is not None]  # fmt: skip
    assert words == ["a", 1, "b", "c", 2, "d", "e", 3]
    path.write_bytes(lines[0])
    first, *more = (
        line
        for line in follow_events(str(path), Options(), print, wait=Script(*(add(path, one) for one in lines[1:])))
        if line is not None
    )
    assert first.snapshot.usage.turns == 1
    assert [json.loads(bytes(line.event))["kind"] for line in more].count("turn_started") == 2


DOCUMENT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]})


@pytest.mark.parametrize(("name", "content"), [
    ("b.json", DOCUMENT),
    ("b.json", DOCUMENT + "\n"),
    ("b.json", json.dumps(json.loads(DOCUMENT), indent=2)),
    ("b.jsonl", json.dumps(json.loads(DOCUMENT), indent=2) + "\n"),
    ("c.json", '[{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]'),
    ("o.json", opencode.plain().data()),
    ("c.yaml", "interactions:\n- request:\n    body: x\nversion: 1\n"),
    ("s.jsonl.zst", b"\x28\xb5\x2f\xfd\x00\x00"),
    ("s.eval", b"PK\x03\x04\x00\x00"),
])  # fmt: skip
def test_follow_rejects_files_that_never_grow(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LoreError, match="it does not grow") as raised:
        items(path, lambda: pytest.fail("it is waited for"))
    assert "without --follow" in raised.value.hint


@pytest.mark.parametrize(("begun", "said"), [(b"", "its first line"), (LOG[:30], "its first line to end")])
def test_follow_names_the_line_it_waits_for(log, begun, said):
    log.write_bytes(begun)
    heard = []
    assert items(log, lambda: None, add(log, LOG[len(begun) :]), heard=heard) == ["u1", "a1", "u2"]
    assert heard == [f"{log}: waiting for {said}"]


# events


def events(path, *actions, since=None, heard=None):
    say = (heard if heard is not None else []).append
    found = follow_events(str(path), Options(), say, since=since, wait=Script(*actions))
    return [one for one in found if one is not None]


def test_cursor_continues_its_own_log_alone(log):
    """Any event can be continued after; a log that replaced the first has other cursors, and gives a snapshot."""
    (first,) = events(log)
    more = b"".join(line("append", item=user(f"m{number}")) for number in range(500))
    log.write_bytes(LOG + more)
    later = events(log, since=first.cursor)
    assert [number_of(one.cursor) for one in later] == list(range(8, 508))
    assert [one.cursor for one in events(log, since=later[6].cursor)] == [one.cursor for one in later[7:]]
    log.write_bytes(LOG.replace(b"s-1", b"s-2") + more)
    (other,) = events(log, since=first.cursor)
    assert other.snapshot
    assert number_of(other.cursor) == 507


def test_replaced_log_begins_with_own_snapshot(log):
    new = LOG.replace(b"s-1", b"s-2")
    first, second = events(log, rotate(log, new))
    assert first.snapshot.session.id == "s-1"
    assert second.snapshot.session.id == "s-2"
    assert first.cursor != second.cursor


@each(["", "1", "abc:1", "0123456G:1", "01234567:", "01234567:-1", "01234567:1 ", "ABCDEF01:1"])
def test_malformed_cursor_is_an_error(text):
    with pytest.raises(LoreError, match="is not a cursor") as caught:
        number_of(text)
    assert "EPOCH:N" in caught.value.hint


def test_requests_and_injected_texts_are_shown(log):
    """A request is shown once it ended, an injected text at once."""
    delta = {"seq": 0, "selector": {"target": "messages", "insert_at": 3}, "content": [{"role": "user", "text": "d"}]}
    events = (
        line("prompt_delta", **delta),
        line("turn_completed", turn=2, usage={"read_tokens": 7}),
        line("turn_started", turn=3),
        line("turn_failed", turn=3),
    )
    shown = follow_timeline(str(log), Options(), [].append, wait=Script(*(add(log, event) for event in events)))
    rows = [one for one in shown if isinstance(one, TurnResult | InjectedResult)]
    first, begun, injected, second, failed = rows
    assert (first.turn, first.state, begun.turn, begun.state) == (1, "completed", 2, "open")
    assert (injected.kind, injected.number, injected.before_turn, injected.saved) == ("delta", 0, 3, True)
    assert (second.turn, second.read_tokens, second.started_at) == (2, 7, "2026-01-01T00:00:10Z")
    assert (failed.turn, failed.state) == (3, "failed")


STREAMED = [
    record("append", item=user("u1", "first")),
    record("append", item=said("a1", "")),
    record("patch_text", uuid="a1", delta_text="the whole "),
    record("patch_text", uuid="a1", delta_text="answer"),
]


@pytest.mark.parametrize("preserved", [[], ["u1"]])
def test_pruned_message_keeps_its_streamed_text(tmp_path, preserved):
    """Pruned before its pieces were joined, it was shown without text."""
    path = tmp_path / "s.jsonl"
    compaction = record("compact_applied", uuid="d", trigger="auto", preserved_uuids=preserved)
    path.write_bytes(log_of(header(), *STREAMED, compaction))
    items = [json.loads(bytes(item)) for item in fold(str(path), Options(), only_pruned=True).result.timeline]
    assert (items[-1]["uuid"], items[-1]["text"]) == ("a1", "the whole answer")
