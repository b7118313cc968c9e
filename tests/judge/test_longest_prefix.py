"""Which earlier request a request is compared with: the one whose prompt is its longest prefix."""

from __future__ import annotations

import pytest

from judge.captures import asks, call, judged, left, text, told, usage

ONE = text("user", "Find the bug. " * 60)
TWO = (ONE, text("assistant", "I look into it."), text("user", "Go on. " * 60))
THREE = (*TWO, text("assistant", "It is in the parser."), text("user", "Mend it. " * 60))
FOUR = (*THREE, text("assistant", "It is mended."), text("user", "Test it. " * 60))
ALL, FEWER = ("ls", "cat", "grep"), ("ls", "cat")


def test_tools_that_come_back_go_on_from_the_request_before_they_went(tmp_path):
    found, _ = judged(
        tmp_path,
        call(0, asks(*TWO, tools=ALL), usage(0, 8000)),
        call(10, asks(*THREE, tools=FEWER), usage(0, 8100)),
        call(20, asks(*FOUR, tools=ALL), usage(8000, 400)),
    )
    assert [told(verdict) for verdict in found] == [[], ["LORE103"], []]
    assert [left(verdict) for verdict in found] == [None, ("main", 1), ("main", 1)]
    assert found[2].lost_tokens == 0


def test_where_the_last_request_shares_more_it_is_the_one_that_is_compared(tmp_path):
    edited = (*FOUR[:3], text("assistant", "It is in the lexer."), *FOUR[4:])
    found, _ = judged(
        tmp_path,
        call(0, asks(ONE), usage(0, 7000)),
        call(10, asks(*FOUR), usage(7000, 1000)),
        call(20, asks(*edited), usage(7000, 1000)),
    )
    assert [left(verdict) for verdict in found] == [None, ("main", 1), ("main", 2)]
    assert told(found[2]) == ["LORE100"]


@pytest.mark.parametrize(("pause", "code"), [(299.0, "LORE301"), (301.0, "LORE128")])
def test_a_lifetime_counts_from_the_last_request_that_had_the_earlier_one(tmp_path, pause, code):
    # the second request read what the first one wrote, and so renewed it; the third had other tools
    found, _ = judged(
        tmp_path,
        call(0, asks(*TWO, tools=ALL), usage(0, 8000)),
        call(200, asks(*THREE, tools=ALL), usage(8000, 300)),
        call(250, asks(*THREE, tools=FEWER), usage(0, 8200)),
        call(201 + pause, asks(*FOUR, tools=ALL), usage(0, 8700)),
    )
    assert left(found[3]) == ("main", 2)
    assert told(found[3]) == [code]


def test_two_runs_of_one_task_with_other_tools_each_go_on_from_their_own(tmp_path):
    found, _ = judged(
        tmp_path,
        call(0, asks(ONE, tools=ALL), usage(0, 7000)),
        call(5, asks(*TWO, tools=ALL), usage(7000, 200)),
        call(10, asks(*TWO, tools=FEWER), usage(0, 7100)),
        call(15, asks(*THREE, tools=FEWER), usage(7100, 200)),
        call(20, asks(*THREE, tools=ALL), usage(7200, 200)),
    )
    assert told(found[2]) == ["LORE103"]
    assert not any(map(told, (found[1], found[3], found[4])))
    assert found[4].lost_tokens == 0


def test_a_retry_goes_on_from_the_last_request_that_was_answered(tmp_path):
    found, _ = judged(
        tmp_path,
        call(0, asks(ONE, tools=ALL), usage(0, 7000)),
        call(10, asks(*TWO, tools=FEWER), None, status=529),
        call(12, asks(*TWO, tools=ALL), usage(7000, 200)),
    )
    assert [told(verdict) for verdict in found] == [[], [], []]
    assert left(found[2]) == ("main", 1)


@pytest.mark.parametrize(("name", "codes"), [("msg_10", []), ("msg_20", ["LORE301"])])
def test_a_copy_of_a_request_is_no_turn_that_missed_what_it_wrote_itself(tmp_path, name, codes):
    # recorded twice, by a proxy and by the client; another response with the same bill is none
    found, _ = judged(
        tmp_path,
        call(0, asks(ONE), usage(0, 7000)),
        call(10, asks(*TWO), usage(7000, 1200), id="msg_10"),
        call(18, asks(*TWO), usage(7000, 1200), id=name),
        call(20, asks(*THREE), usage(8200, 200)),
    )
    assert [told(verdict) for verdict in found] == [[], [], codes, []]


def twice_over(name):
    calls = [
        call(0, asks(ONE), usage(0, 7000)),
        call(10, asks(*TWO), usage(7000, 1200)),
        call(20, asks(*THREE), usage(8200, 200)),
    ]
    again = [{**one, "response": {**one["response"], "body": {**one["response"]["body"]}}} for one in calls]
    for number, one in enumerate(again):
        if name:
            one["response"]["body"]["id"] = f"{name}{number}"
    return [*calls, *again]


def test_a_capture_that_was_appended_to_itself_lost_nothing(tmp_path):
    """A script appended a capture to itself; what comes behind the copy goes on from it."""
    found, _ = judged(tmp_path, *twice_over(""), call(30, asks(*FOUR), usage(7000, 1600)))
    assert [told(verdict) for verdict in found] == [*[[]] * 6, ["LORE301"]]
    assert found[-1].lost_tokens == 1_400


def test_a_server_that_gives_every_response_one_id_sends_no_copies(tmp_path):
    found, _ = judged(
        tmp_path,
        call(0, asks(ONE), usage(0, 7000), id="one"),
        call(10, asks(ONE, tools=("ls",)), usage(0, 6900), id="two"),
        call(20, asks(*TWO, tools=("ls",)), usage(0, 7100), id="one"),
    )
    assert told(found[2]) == ["LORE301"]
