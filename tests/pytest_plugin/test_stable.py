"""`assert_prefix_stable`: accepted requests, failures, messages."""

import datetime
import json
import subprocess
import sys

import httpx
import pytest
import requests as requests_library

import lore
from helpers.each import each
from lore.errors import LoreError
from lore.pytest_plugin import LoreWarning, Recorded, Recorder, assert_prefix_stable, unrecorded
from pytest_plugin.asking import body, sent

KEY = "sk-ant-api03-" + "a1B2" * 10


def failure(requests, **more) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_prefix_stable(requests, **more)
    return str(caught.value)


def prepared(turns: int, **more):
    return requests_library.Request("POST", "https://api.example/v1/messages", json=body(turns, **more)).prepare()


def posted(turns: int, **more):
    return httpx.Request("POST", "https://api.example/v1/messages", json=body(turns, **more))


FORMS = {
    "dict": body,
    "bytes": sent,
    "str": lambda turns, **more: sent(turns, **more).decode(),
    "httpx": posted,
    "requests": prepared,
    "requests, not prepared": lambda turns, **more: requests_library.Request(
        "POST", "https://api.example/v1/messages", json=body(turns, **more)
    ),
    "record": lambda turns, **more: {"request": body(turns, **more), "usage": None, "timestamp": turns},
    "record of bytes": lambda turns, **more: {
        "request": sent(turns, **more), "timestamp": datetime.datetime(2026, 11, 20, turns, tzinfo=datetime.UTC),
    },
    "recorded": lambda turns, **more: Recorded("POST", "https://api.example/", {}, sent(turns, **more), float(turns)),
}  # fmt: skip


@each([*FORMS.values()])
def test_extending_requests_pass(form) -> None:
    assert_prefix_stable([form(1), form(2), form(3)])


@each([*FORMS.values()])
def test_moved_prefix_fails_in_every_form(form) -> None:
    assert "LORE101 date-in-prefix" in failure([form(1), form(2, day=21)])


MOCKED = {"input_tokens": 5, "output_tokens": 4, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


@each(["", "Answer in one sentence. " * 2_000])
def test_moved_prefix_fails_whatever_a_mock_bills(rules) -> None:
    requests = [{"request": body(turns, day=day), "usage": MOCKED} for turns, day in ((1, 20), (2, 21))]
    for one in requests:
        one["request"]["system"] += rules
    assert "LORE101 date-in-prefix (" in failure(requests)


def test_late_move_fails_if_usage_states_no_reads() -> None:
    """`lore check` excuses so small a loss; the usage of a mock does not show that it was small."""
    requests = [{"request": body(turns, day=day), "usage": {"input_tokens": 12_050, "output_tokens": 4}}
                for turns, day in ((1, 20), (2, 21))]  # fmt: skip
    for one in requests:
        one["request"]["system"] = "Answer in one sentence. " * 2_000 + one["request"]["system"]
    assert "LORE101 date-in-prefix (" in failure(requests)


def test_failure_names_place_cause_and_fix() -> None:
    said = failure([body(1), body(2), body(3, day=21)])
    assert said.splitlines() == [
        "the prompt's prefix moved in 1 of 2 pairs of successive requests",
        "",
        "request 2 → 3: 47 of 160 bytes can be reused",
        "  differs at system, byte 47 of it, in system",
        '    - …. Today is 2026-11-20. The project is confparse."…',
        '    + …. Today is 2026-11-21. The project is confparse."…',
        "  LORE101 date-in-prefix (waste): a date or time in system changed",
        "    fix: Freeze the date at session start, or move it to the end of the prompt.",
    ]  # fmt: skip


def marked(turns: int, *places: int) -> dict:
    """Return a request with cache breakpoints on these messages."""
    one = body(turns, cache_control=None)
    for place, message in enumerate(one["messages"]):
        mark = {"cache_control": {"type": "ephemeral"}} if place in places else {}
        message["content"] = [{"type": "text", "text": message["content"], **mark}]
    return one


@pytest.mark.parametrize(("requests", "said"), [
    ([marked(1), marked(2)], "request 1 → 2\n  LORE114 breakpoints-missing"),
    ([marked(1), marked(2)], "this request has no cache breakpoint (the previous request: 0)"),
    ([marked(1, 0), marked(2, 2), marked(3)], "request 2 → 3\n  LORE114"),
    ([marked(1, 0), marked(2, 0, 2), marked(3, 0)], "request 2 → 3\n  LORE114"),
])  # fmt: skip
def test_missing_breakpoint_fails_without_usage(requests, said) -> None:
    assert said in failure(requests)
    assert_prefix_stable(requests, allow="breakpoints-missing")


def test_breakpoints_are_judged_only_where_needed() -> None:
    assert_prefix_stable([marked(1, 0), marked(2, 0, 2), marked(3, 2, 4)])
    assert_prefix_stable([{**marked(turns), "model": "gpt-5.5"} for turns in (1, 2)])


def test_failure_message_is_short() -> None:
    message = failure([body(n, day=10 + n, system_note="x" * 100_000) for n in range(1, 20)])
    assert len(message) < 2500
    assert "and 15 pairs more" in message


def test_failure_masks_credentials() -> None:
    said = failure([body(1, system=f"The key is {KEY}. A."), body(2, system=f"The key is {KEY}. B.")])
    assert "a1B2" not in said
    assert "*****. A." in said


def test_failure_escapes_control_characters() -> None:
    said = failure([body(1, system="\x1b[31mred A"), body(2, system="\x1b[31mred B")])
    assert "\x1b" not in said


def test_conversations_may_be_mixed() -> None:
    other = [body(n, system="Another agent.", messages=[{"role": "user", "content": f"Other {n}"}]) for n in (1, 1)]
    assert_prefix_stable([body(1), other[0], body(2), other[1], body(3)])


def test_expected_break_needs_no_allowance() -> None:
    assert_prefix_stable([body(1), body(2, model="claude-sonnet-5")])


@pytest.mark.parametrize("allow", ["LORE101", "lore101", "date-in-prefix", ["date-in-prefix"], ("LORE101",)])
def test_allowed_cause_passes(allow) -> None:
    assert_prefix_stable([body(1), body(2, day=21)], allow=allow)


def test_cause_beside_an_allowed_one_fails() -> None:
    moved = [body(1, tools=("a", "b")), body(2, tools=("a", "b"), day=21), body(3, tools=("b", "a"), day=21)]
    said = failure(moved, allow="date-in-prefix")
    assert "1 of 2 pairs" in said
    assert "LORE102 tools-reordered" in said


@pytest.mark.parametrize(("allow", "said", "hint"), [
    (None, "allow is None", "give a list"),
    (True, "allow is True", "give a list"),
    ({"LORE101": True}, "names no causes", "give a list"),
    ("date-in-prefix, tools-reordered", "there is no cause", "give a list"),
    ("LORE1", "there is no cause 'LORE1'", "write one whole"),
])  # fmt: skip
def test_invalid_allowance_has_a_hint(allow, said, hint) -> None:
    with pytest.raises(LoreError) as caught:
        assert_prefix_stable([body(1), body(2)], allow=allow)
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_members_of_other_recorders_are_accepted() -> None:
    assert_prefix_stable([{"request": body(turns), "response_id": "r1", "time": turns} for turns in (1, 2)])


@each(["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_compaction_by_a_policy_passes(dialect) -> None:
    policy = lore.CompactionPolicy(window=4_000)
    session = lore.Session("any", dialect=dialect, system="Be brief.", compaction=policy)
    requests = []
    for number in range(8):
        session.user(f"What does part {number} do? " * 60)
        requests.append(session.request())
        session.assistant(f"Part {number} reads files. " * 60)
    assert b'"compact_applied"' in session.log()
    assert_prefix_stable(requests)


def talk(exchanges: int) -> list[dict]:
    pairs = (
        (f"Repair part {n} of the parser.", f"Part {n} of the parser is done; its tests are in the same folder.")
        for n in range(exchanges)
    )
    sides = [({"role": "user", "content": asked}, {"role": "assistant", "content": said}) for asked, said in pairs]
    return [message for side in sides for message in side] + [{"role": "user", "content": "Go on."}]


SHORT = {"role": "user", "content": "The parser is done; its part 5 is open."}


def test_short_summary_of_many_messages_passes() -> None:
    assert_prefix_stable([body(1, messages=talk(6)), body(1, messages=[SHORT, *talk(6)[-3:]])])


@pytest.mark.parametrize(("text", "exchanges", "finding"), [
    ("Mind the forecast of tomorrow's weather.", 6, "LORE125 compaction (no certain cause)"),
    ("[12 earlier messages of the parser were removed]", 6, "LORE100 prefix-moved (waste)"),
    (SHORT["content"], 2, "LORE100 prefix-moved (waste)"),
])  # fmt: skip
def test_text_that_sums_nothing_up_fails(text, exchanges, finding) -> None:
    messages = talk(exchanges)
    current = [{"role": "user", "content": text}, *messages[-3:]]
    assert finding in failure([body(1, messages=messages), body(1, messages=current)])


def test_sliding_window_of_one_exchange_fails() -> None:
    windows = [body(1, messages=talk(6)[start : start + 3]) for start in (0, 2, 4)]
    assert "2 messages were removed" in failure(windows)


def test_unused_allowance_is_a_warning() -> None:
    with pytest.warns(LoreWarning, match="allow=tools-reordered: no request needs this"):
        assert_prefix_stable([body(1), body(2)], allow="tools-reordered")


def test_changed_spelling_fails() -> None:
    tools = [{"name": "a", "input_schema": {"type": "object", "minimum": 1.0}}]
    other = [{"name": "a", "input_schema": {"type": "object", "minimum": 1e0}}]
    one, two = (json.dumps(body(n, tools=some)) for n, some in ((1, tools), (2, other)))
    assert "LORE106" in failure([one, two.replace("1.0}", "1.00}")])


@pytest.mark.parametrize(("requests", "why"), [
    ([], "there are no requests"),
    ([body(1)], "there is only one prompt"),
    (Recorder(), "there are no requests; no library that lore records is installed"),
    (Recorder(("httpx",)), "there are no requests; recorded from httpx"),
    (
        [body(1), body(1, system="Else.", messages=[{"role": "user", "content": "Nothing alike at all"}])],
        "no two of 2 requests belong to one conversation",
    ),
    (
        [body(1, max_tokens=1), body(2, max_tokens=1)],
        (
            "no two of 2 requests belong to one conversation; one is a side call: a title, or a check of a key "
            "(max_tokens of at most 16; with a system prompt, of 1)"
        ),
    ),
], ids=["none", "one", "nothing installed", "nothing recorded", "strangers", "side call"])  # fmt: skip
def test_assertion_without_pairs_fails(requests, why, monkeypatch) -> None:
    monkeypatch.setattr(unrecorded, "unrecorded_sdks", list)  # whatever other tests have imported
    assert failure(requests) == f"nothing was compared: {why}"


def test_other_recorded_requests_are_skipped() -> None:
    recorder = Recorder(("httpx",))
    other = (None, b"", b"\xff\xfe", b'{"input":"embed me","model":"e"}', b"a=1")
    for number, data in enumerate((sent(1), *other, sent(2))):
        recorder.requests.append(Recorded("POST", "https://api.example/", {}, data, float(number)))
    assert_prefix_stable(recorder)
    recorder.requests[-1].body = sent(2, day=21)
    assert "request 1 → 7" in failure(recorder)


@each("requests, said", [
    (body(1), "takes a list of requests, not a dict"),
    (sent(1), "takes a list of requests, not a bytes"),
    (3, "takes a list of requests, not an int"),
    ([body(1), {"a": 1}], "request 2 cannot be judged"),
    ([body(1), "no JSON"], "request 2 cannot be judged"),
    ([body(1), b"\xff"], "request 2 is not UTF-8 text (byte 0)"),
    ([body(1), None], "request 2 is a NoneType, not a request"),
    ([body(1), object()], "request 2 is an object, not a request"),
    ([body(1), body(1, extra=object())], "request 2 is not JSON: an object is"),
    ([body(1), body(1, extra=float("nan"))], "request 2 is not JSON"),
    ([body(1), {"request": body(2), "usag": MOCKED}], "request 2: a record has no member 'usag'"),
    ([{"request": body(1), "timestmp": 5}], "request 1: a record has no member 'timestmp'"),
    ([{"request": body(1), "usage": "many"}], "request 1: usage is a str, expected a mapping"),
    ([{"request": body(1), "timestamp": "yesterday"}], "request 1: timestamp 'yesterday' is not a time"),
    ([httpx.Request("POST", "https://a.example", content=iter([b"{}"]))], "request 1 has a body that was not read"),
])  # fmt: skip
def test_invalid_request_is_an_error(requests, said) -> None:
    with pytest.raises(LoreError) as caught:
        assert_prefix_stable(requests)
    assert said in caught.value.message
    assert str(caught.value).count("hint: ") == 1


def test_sdk_objects_are_judged_as_sent() -> None:
    class Block:
        def model_dump(self, *, mode, by_alias, exclude_unset, warnings):
            assert (mode, by_alias, exclude_unset) == ("json", True, True)
            return {"type": "text", "text": "Answer 0."}

    first, second = body(1), body(2)
    second["messages"][1]["content"] = [Block()]
    third = body(3)
    third["messages"][1]["content"] = [Block()]
    assert_prefix_stable([first, second, third])


def test_lone_surrogate_is_judged() -> None:
    assert_prefix_stable([body(1, system="half \ud83d é"), body(2, system="half \ud83d é")])


def test_assertion_needs_no_pytest() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from lore.pytest_plugin import assert_prefix_stable, recording\n"
        "said = [{'role': 'user', 'content': 'hello'}]\n"
        "b = lambda d: {'model': 'm', 'system': d, 'max_tokens': 99, 'messages': said}\n"
        "with recording(): pass\n"
        "try: assert_prefix_stable([b('on 2026-11-20'), b('on 2026-11-21')])\n"
        "except AssertionError as error: print('LORE101' in str(error))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
