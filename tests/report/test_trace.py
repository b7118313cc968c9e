"""Traces: laws that viewers depend on, whatever times a recording has, and substitutes for missing times.

The fields of each phase are those of the Trace Event Format (The Chromium Authors, read on 2026-11-23).
"""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lore.judge.sums import LedgerRequest
from lore.model.ledger import LedgerRow, Loss
from lore.report.forms.base import render
from lore.report.redacted import redacted
from lore.report.trace import SECOND, UNTIMED, trace_of

COMMON = {"name": str, "ph": str, "pid": int, "tid": int, "ts": int, "args": dict}
OF_PHASE = {"X": {"dur": int, "cat": str}, "C": {}, "M": {}, "i": {"s": str, "cat": str}}
METADATA = {"process_name": ("name", str), "thread_name": ("name", str), "thread_sort_index": ("sort_index", int)}


def valid(trace):
    """Hold a trace, as it was parsed, against the documented fields, and against what viewers draw."""
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    lanes, named, owner = {}, {}, {}
    for event in trace["traceEvents"]:
        fields = {**COMMON, **OF_PHASE[event["ph"]]}
        assert set(fields) == set(event), event
        assert all(type(event[name]) is kind for name, kind in fields.items()), event
        assert event["ts"] >= 0
        assert owner.setdefault(event["tid"], event["pid"]) == event["pid"]  # ids of lanes are unique in a trace
        if event["ph"] == "M":
            member, kind = METADATA[event["name"]]
            assert type(event["args"][member]) is kind
            named.setdefault(event["name"], set()).add(event["tid"])
        if event["ph"] == "C":
            assert event["args"]
            assert all(type(value) is int and value >= 0 for value in event["args"].values())
        if event["ph"] == "X":
            assert event["dur"] >= 0
            lanes.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for slices in lanes.values():
        assert all(end <= begin for (_, end), (begin, _) in zip(slices, slices[1:], strict=False))
    assert set(lanes) <= named.get("thread_name", set())
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def row(number=1, at=None, answered=None, chain="main", loss=None, read=5, **more):
    plain = {"line": 1, "model": "m", "client": "", "gateway": "", "response_id": "", "prompt_tokens": 9,
             "uncached_tokens": 4, "read_tokens": read, "write_tokens": None, "output_tokens": 1, "billed": True,
             "spent": None, "appended": None, "compacted": False}  # fmt: skip
    return LedgerRow(chain=chain, number=number, at=at, answered=answered, loss=loss, **{**plain, **more})


def lane(row, file="a.jsonl", session="a.jsonl"):
    return file, LedgerRequest(row, session, "Claude Code", "/w", subagent=False, at=row.at)


def made(*rows):
    trace = json.loads(render(trace_of([each if isinstance(each, tuple) else lane(each) for each in rows])))
    return trace, valid(trace)


TIMES = st.none() | st.floats() | st.floats(1.7e9, 1.7e9 + 20)
ROWS = st.lists(
    st.builds(row, st.integers(1, 9), TIMES, TIMES, st.sampled_from(["main", "agent-1"]), compacted=st.booleans()),
    max_size=12,
)


@given(ROWS)
def test_every_request_is_a_slice_without_overlap(rows):
    trace, slices = made(*rows)
    assert sorted(drawn["args"]["turn"] for drawn in slices) == sorted(row.number for row in rows)
    assert len(json.dumps(trace)) < 4_000 * (len(rows) + 1)


@given(ROWS, st.text(max_size=20), st.text(max_size=20))
def test_trace_escapes_names_and_redacts_them(rows, chain, model):
    canary = "zEiSiG"
    loss = Loss("LORE101", "waste", 5, (canary + model,))
    rows = [*rows, row(chain=f"{canary}{chain}", model=f"{canary} {model}", loss=loss)]
    assert canary in render(trace_of(map(lane, rows)))
    made(*rows)
    hidden = list(map(redacted, rows))
    assert canary not in render(trace_of(map(lane, hidden)))
    made(*hidden)


def test_slice_lasts_until_the_response_begins():
    _, slices = made(row(1, 1000.5, 1003.25), row(2, 1010.0))
    assert [(drawn["ts"], drawn["dur"]) for drawn in slices] == [(0, 2_750_000), (9_500_000, SECOND)]
    assert slices[0]["args"]["response_began_after"] == "2.750 s"
    assert slices[1]["args"]["response_began_after"] == "not recorded"
    assert slices[0]["args"]["sent"] == "1970-01-01T00:16:40.500Z"


def test_lane_without_times_has_one_second_a_turn():
    trace, slices = made(*(row(number) for number in (1, 2, 3)))
    assert [(drawn["ts"], drawn["dur"]) for drawn in slices] == [(0, SECOND), (SECOND, SECOND), (2 * SECOND, SECOND)]
    assert {drawn["args"]["sent"] for drawn in slices} == {"not recorded: one turn a second"}
    assert trace["otherData"]["note"] == f"{UNTIMED} (lanes: 1 of 1)"
    assert trace["otherData"]["begin"] == "not recorded"
    assert any(event["args"].get("name") == f"main ({UNTIMED})" for event in trace["traceEvents"])


def test_lane_without_times_begins_with_its_session():
    _, slices = made(
        lane(row(1, 1000.0)), lane(row(2, 5000.0), "b", "b"), lane(row(3, chain="agent-1"), "b", "b"),
        lane(row(4), "c", "c"),
    )  # fmt: skip
    assert {drawn["args"]["turn"]: drawn["ts"] for drawn in slices} == {1: 0, 2: 4000 * SECOND, 3: 4000 * SECOND, 4: 0}


def test_turn_without_time_follows_by_a_second():
    _, slices = made(row(1), row(2, 1000.0), row(3), row(4, 2000.0))
    assert [drawn["ts"] // SECOND for drawn in slices] == [0, 1, 2, 1001]


def test_subagent_chains_are_lanes_of_their_session():
    trace, slices = made(
        row(1, 10.0), row(2, 11.0, chain="agent-7"), lane(row(3, 12.0), "sub/agent-x.jsonl", "a.jsonl"),
        lane(row(4, 13.0), "b.jsonl", "b.jsonl"),
    )  # fmt: skip
    names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert list(names.values()) == ["main", "agent-7", "agent-x.jsonl main", "main"]
    processes = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"]
    assert processes == ["Claude Code: a.jsonl", "Claude Code: b.jsonl"]
    assert len({drawn["pid"] for drawn in slices}) == 2


def test_lanes_with_equal_names_get_different_names():
    trace, _ = made(*(lane(row(1, 10.0), f"{folder}/agent-x.jsonl", "a.jsonl") for folder in "bcd"))
    counters = [event["name"] for event in trace["traceEvents"] if event["ph"] == "C"]
    assert list(dict.fromkeys(counters)) == [
        "agent-x.jsonl main: tokens", "agent-x.jsonl main (2): tokens", "agent-x.jsonl main (3): tokens"
    ]  # fmt: skip


def test_long_name_is_not_repeated_with_every_request():
    rows = [row(number, float(number), chain="c" * 1_000_000, model="m" * 1_000_000) for number in range(1, 50)]
    assert len(render(trace_of(map(lane, rows)))) < 100_000


def test_cache_break_slice_is_named_by_its_cause():
    loss = Loss("LORE128", "waste", 5_000, ("an hour",))
    trace, slices = made(row(1, 10.0), row(2, 20.0, loss=loss, compacted=True))
    assert [drawn["name"] for drawn in slices] == ["turn 1", "turn 2: cache-expired"]
    assert slices[1]["cat"] == "request,waste"
    assert slices[1]["args"]["lost_tokens"] == 5_000
    assert [event["ts"] for event in trace["traceEvents"] if event["ph"] == "i"] == [10 * SECOND]


def test_counters_show_usage_and_end_with_their_lane():
    trace, _ = made(row(1, 10.0, 12.0, read=7), row(2, 20.0, 21.0, billed=False, read=None, uncached_tokens=None))
    counters = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert [(event["ts"], event["args"]) for event in counters] == [
        (0, {"read": 7, "uncached": 4}), (11 * SECOND, {"read": 0, "uncached": 0})
    ]  # fmt: skip
    assert {event["name"] for event in counters} == {"main: tokens"}


def test_half_a_surrogate_pair_and_escapes_are_spelled():
    text = "a\ud83d\x1b[31m\u202eb"
    spelled = render(trace_of([lane(row(chain=text, model=text))]))
    assert spelled.isprintable()
    assert "\u202e" not in spelled
    assert msgspec.json.decode(spelled)
