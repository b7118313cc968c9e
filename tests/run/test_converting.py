"""A session converted to lore's own log folds, assembles and is judged as before."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from formats.claude import answered, asked, line, log_bytes, result, text, use
from helpers.each import each
from helpers.strategies import any_events, claude_logs, lore_logs, read_all
from lore.commands import convert as converting
from lore.errors import LoreError
from lore.formats.base import Read
from lore.formats.lore_log import LoreLog
from lore.formats.registry import READERS
from lore.model import events as e
from lore.recording.base import Problems
from lore.recording.opening import Options
from model.making import call, dumps, header, log, record, said, user
from run.equal import assert_same, converted, replay

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SESSIONS = sorted([*(FIXTURES / "sessions").glob("*.jsonl"), *(FIXTURES / "claude-code").rglob("*.jsonl")])


def put(tmp_path, data, name="s.jsonl"):
    path = tmp_path / name
    path.write_bytes(data)
    return str(path)


def kinds(data):
    return [json.loads(line)["kind"] for line in data.splitlines()]


def same(data):
    with tempfile.TemporaryDirectory() as folder:
        return assert_same(put(Path(folder), data))


@given(lore_logs())
def test_a_converted_lore_log_says_what_it_said(log_):
    assert same(log_.data).count(b"\n") >= 1


@given(claude_logs())
def test_converted_claude_code_log_folds_equally(data):
    output = same(data)
    assert json.loads(output.splitlines()[0])["origin"] == "claude-code"


@given(any_events())
def test_events_in_any_order_are_read_back(events):
    events = [event for event in events if not isinstance(event, e.Saved)]  # a store's own records are omitted
    if all(isinstance(event, e.OpaqueEvent) for event in events):  # not a session
        return
    data = b"".join(e.encode(event) + b"\n" for event in events)
    with tempfile.TemporaryDirectory() as folder:
        output = converted(put(Path(folder), data))
    before = [read.value for read in read_all(LoreLog(), data) if isinstance(read.value, e.Envelope)]
    after = [read.value for read in read_all(LoreLog(), output) if isinstance(read.value, e.Envelope)]
    assert after == before or _without_header(before) == after


def _without_header(events):
    """Return the events with opaque ones before the header moved after it."""
    at = next(n for n, event in enumerate(events) if isinstance(event, e.SessionStarted))
    assert all(isinstance(event, e.OpaqueEvent) for event in events[:at])
    return [events[at], *events[:at], *events[at + 1 :]]


@each(SESSIONS)
def test_every_fixture_stays_what_it_was(path):
    assert_same(str(path))


def test_every_real_recording_stays_what_it_was(recording):
    if recording.parent.name != "claude-code":
        pytest.skip("no session log")
    assert_same(str(recording))


AWKWARD = [
    record("append", item=user("u1", "cut \ud83d", source="tick")),
    record("append", item={"type": "user_message", "uuid": "u2", "blocks": [
        {"type": "raw", "json": {"n": 2**70, "f": 1.0, "\ud83d": [True, None]}},
        {"type": "image", "media_type": "image/png", "data": "aGk="},
        {"type": "thinking", "text": "", "signature": "c2ln"},
    ]}),
    record("append", item={"type": "user_message", "uuid": "u3", "blocks": []}),
    record("append", item={"type": "opaque", "uuid": "o", "record": {"type": "x", "v": "\u2028\ud800"}}),
    record("append", item=call("t1", "c1", input={"n": -(2**80), "e": 1e16})),
    record("patch_tool_call", call_id="c1", status="failed", error="\u0085", detail={"d": [1]}),
    record("append", item={"type": "compact_divider", "uuid": "d", "trigger": "gap", "pre_tokens": 2**64}),
    record("knowledge", op="add", id="k1", category="c", title="t", content="é\0"),
    record("layer", name="l", when="every_turn", text="cut \udfff"),
    record("prompt_delta", seq=1, selector={"target": "messages", "insert_at": 1}, content=[{"role": "user"}]),
    record("context_persisted", turn=1, insert_at=0, content="kept"),
    record("compact_applied", uuid="d2", trigger="auto", preserved_uuids=[], summary="s", id=7, agent_id="a"),
    record("turn_started", turn=1, at="2026-01-01T00:00:00Z", context={"extra": ["\ud83d"]}, id="one"),
    record("turn_completed", turn=1, usage={}, verdict={"reason": "r", "missed_tokens": 5}, response_id="r1"),
    record("turn_started", turn=2),
    record("turn_failed", turn=2, error="e", usage={"write_5m_tokens": 3, "write_1h_tokens": 4}),
]  # fmt: skip


def surrogate(*records):
    """A log with what JavaScript writes: escapes of half a character."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.mark.parametrize("record_", AWKWARD, ids=lambda value: value["kind"])
def test_awkward_content_comes_back_to_the_byte(tmp_path, record_):
    data = surrogate(header(), record_)
    path = put(tmp_path, data)
    assert read_all(LoreLog(), converted(path))[1].value == read_all(LoreLog(), data)[1].value
    assert_same(path)


def test_converted_header_keeps_all_fields(tmp_path):
    fields = header(
        user_id="u", project_id="p", parent_session_id="q", attachments=["a"], tools=[], origin="codex", v=3
    )
    data = log(fields, record("turn_started", turn=1))
    assert json.loads(converted(put(tmp_path, data)).splitlines()[0]) == fields


def test_unknown_keys_are_kept(tmp_path):
    """A record with a key of its own was written without it."""
    odd = [header(vendor="x"), record("append", item=user("u1"), later={"a": 1}), {"kind": "cacheReset", "reason": "r"}]
    assert converted(put(tmp_path, log(*odd))) == log(*odd)


def test_records_on_one_line_are_taken_apart(tmp_path):
    pair = dumps(record("cache_reset", reason="one")) + dumps(record("cache_reset", reason="two"))
    output = converted(put(tmp_path, log(header()) + pair))
    assert kinds(output) == ["session_started", "cache_reset", "cache_reset"]


def test_what_is_opaque_gives_way_to_the_header(tmp_path):
    data = log_bytes({"type": "telemetry", "sessionId": "s", "n": 1}, asked("u", "x"), answered("a", "r", text("y")))
    output = converted(put(tmp_path, data))
    assert kinds(output)[:3] == ["session_started", "opaque", "append"]
    assert_same(str(tmp_path / "s.jsonl"))


def test_events_before_lore_header_keep_their_place(tmp_path):
    """After the header they would fold differently: it sets model and system prompt again."""
    data = log(
        record("session_changed", model="m-9"), record("turn_started", turn=1), header(), record("turn_started", turn=2)
    )
    assert kinds(converted(put(tmp_path, data))) == [
        "session_changed",
        "turn_started",
        "session_started",
        "turn_started",
    ]
    assert_same(str(tmp_path / "s.jsonl"))


def test_a_log_without_a_header_stays_without(tmp_path):
    data = log(record("append", item=user("u")), record("turn_started", turn=1))
    assert converted(put(tmp_path, data)) == data


class Late:
    """A reader of another package whose header comes late, or never."""

    name, yields, clock, state = "late", "events", "first_line", b""
    events: tuple[e.Event, ...] = ()

    @classmethod
    def recognises(cls, head):
        return False

    def read(self, data):
        return iter([Read(event, 1, 0) for event in self.events])


@pytest.mark.parametrize("started", [(), (e.SessionStarted(session_id="x", model="m"),)])
def test_converted_session_begins_with_a_header(tmp_path, monkeypatch, started):
    monkeypatch.setitem(READERS, "late", Late)
    monkeypatch.setattr(Late, "events", (e.TurnStarted(turn=1), *started))
    output = converted(put(tmp_path, b"x\n"), Options(format="late"))
    assert kinds(output) == ["session_started", "turn_started"]
    assert json.loads(output.splitlines()[0])["origin"] == "late"


def test_line_ends_between_values_are_removed(tmp_path, monkeypatch):
    monkeypatch.setitem(READERS, "late", Late)
    broken = e.OpaqueEvent(record=e.Raw(b'{\n "a": 1\r\n}'))
    monkeypatch.setattr(Late, "events", (e.SessionStarted(session_id="x"), broken))
    output = converted(put(tmp_path, b"x\n"), Options(format="late"))
    assert [json.loads(line) for line in output.splitlines()][1] == {"kind": "opaque", "record": {"a": 1}}


def test_usage_time_follows_the_original_format(tmp_path):
    """Claude Code's time of a response is that of its first line; in lore's own log it is the end."""
    data = log_bytes(asked("u", "x"), answered("a", "r", text("y"), "u"))
    original = put(tmp_path, data)
    other = put(tmp_path, converted(original), "made.jsonl")
    times = [next(Options().open(path).turns()).answered_at for path in (original, other)]
    assert times[0] is not None
    assert times == [times[0]] * 2


def test_converted_session_gets_no_added_text(tmp_path):
    data = log_bytes(asked("u", "x"), answered("a", "r", text("y"), "u"))
    path = put(tmp_path, converted(put(tmp_path, data)), "made.jsonl")
    assert b"[session]" not in replay(path).bodies[0]


def test_credentials_are_not_masked(tmp_path):
    secret = "sk-ant-api03-" + "A" * 93 + "AA"
    assert secret.encode() in converted(put(tmp_path, log_bytes(asked("u", secret))))


@pytest.mark.parametrize(("depth", "problem_codes"), [(997, []), (998, ["LORE207"]), (999, ["LORE207"])])
def test_record_too_deep_for_the_copy_is_a_problem(tmp_path, depth, problem_codes):
    """The record is nested two levels deeper in a lore log, whose limit is 1,000."""
    attachment = b"[" * depth + b"]" * depth
    record = b'{"type":"attachment","sessionId":"s","uuid":"a","attachment":%b}\n' % attachment
    problems = Problems()
    recording = Options().open(put(tmp_path, log_bytes(asked("u", "x")) + record), problems, subagents=True)
    path = put(tmp_path, b"".join(converting.convert_recording(recording)), "made.jsonl")
    assert [problem.code for problem in problems.kept] == problem_codes
    assert (replay(path).state == replay(str(tmp_path / "s.jsonl")).state) is (not problem_codes)


@pytest.mark.parametrize(("data", "message"), [
    (log_bytes({"type": "mode", "mode": "x", "sessionId": "s"}), "no session"),
    (log_bytes({"type": "odd", "sessionId": "s"}, {"type": "mode", "sessionId": "s"}), "no session"),
])  # fmt: skip
def test_what_holds_no_session_is_refused(tmp_path, data, message):
    with pytest.raises(LoreError, match=message):
        converted(put(tmp_path, data))


def test_long_session_is_converted_while_reading(tmp_path):
    """Memory is that of a piece, not of the session: the first line is there before the last is read."""
    data = log_bytes(asked("u", "x"), *[line("progress", f"p{n}", data={"n": n}) for n in range(3)])
    parts = data + log_bytes(
        *[asked(f"u{n}", "y" * 1000) for n in range(600)], answered("a", "r", use("c")), asked("z", [result("c")])
    )
    lines = converting.convert_recording(Options().open(put(tmp_path, parts), Problems(), subagents=True))
    assert json.loads(next(lines))["kind"] == "session_started"
    assert len(list(lines)) > 600


def test_a_streamed_answer_stays_in_its_pieces(tmp_path):
    data = surrogate(
        header(), record("append", item=said("a", "x\ud83d")), record("patch_text", uuid="a", delta_text="\ude00!")
    )
    assert kinds(same(data)) == ["session_started", "append", "patch_text"]
