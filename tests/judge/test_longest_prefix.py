"""Which earlier request a request is compared with: the one whose prompt is its longest prefix."""

import pytest

from judge.captures import asks, break_codes, call, compared_turn, judged, text, usage

ONE = text("user", "Find the bug. " * 60)
TWO = (ONE, text("assistant", "I look into it."), text("user", "Go on. " * 60))
THREE = (*TWO, text("assistant", "It is in the parser."), text("user", "Mend it. " * 60))
FOUR = (*THREE, text("assistant", "It is mended."), text("user", "Test it. " * 60))
ALL, FEWER = ("ls", "cat", "grep"), ("ls", "cat")


def test_returned_tools_are_compared_with_their_last_request(tmp_path):
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(*TWO, tools=ALL), usage(0, 8000)),
        call(10, asks(*THREE, tools=FEWER), usage(0, 8100)),
        call(20, asks(*FOUR, tools=ALL), usage(8000, 400)),
    )
    assert [break_codes(verdict) for verdict in verdicts] == [[], ["LORE103"], []]
    assert [compared_turn(verdict) for verdict in verdicts] == [None, ("main", 1), ("main", 1)]
    assert verdicts[2].lost_tokens == 0


def test_last_request_is_compared_if_it_shares_more(tmp_path):
    edited = (*FOUR[:3], text("assistant", "It is in the lexer."), *FOUR[4:])
    verdicts, _ = judged(tmp_path, call(0, asks(ONE), usage(0, 7000)), call(10, asks(*FOUR), usage(7000, 1000)),
        call(20, asks(*edited), usage(7000, 1000)))  # fmt: skip
    assert [compared_turn(verdict) for verdict in verdicts] == [None, ("main", 1), ("main", 2)]
    assert break_codes(verdicts[2]) == ["LORE100"]


@pytest.mark.parametrize(("pause", "code"), [(298.0, "LORE301"), (301.0, "LORE128")])
def test_lifetime_counts_from_last_request_with_the_prefix(tmp_path, pause, code):
    # the second request read what the first one wrote, and so renewed it; the third had other tools
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(*TWO, tools=ALL), usage(0, 8000)),
        call(200, asks(*THREE, tools=ALL), usage(8000, 300)),
        call(250, asks(*THREE, tools=FEWER), usage(0, 8200)),
        call(201 + pause, asks(*FOUR, tools=ALL), usage(0, 8700)),
    )
    assert compared_turn(verdicts[3]) == ("main", 2)
    assert break_codes(verdicts[3]) == [code]


def test_interleaved_runs_are_compared_with_their_own(tmp_path):
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(ONE, tools=ALL), usage(0, 7000)),
        call(5, asks(*TWO, tools=ALL), usage(7000, 200)),
        call(10, asks(*TWO, tools=FEWER), usage(0, 7100)),
        call(15, asks(*THREE, tools=FEWER), usage(7100, 200)),
        call(20, asks(*THREE, tools=ALL), usage(7200, 200)),
    )
    assert break_codes(verdicts[2]) == ["LORE103"]
    assert not any(map(break_codes, (verdicts[1], verdicts[3], verdicts[4])))
    assert verdicts[4].lost_tokens == 0


def test_retry_is_compared_with_last_answered_request(tmp_path):
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(ONE, tools=ALL), usage(0, 7000)),
        call(10, asks(*TWO, tools=FEWER), None, status=529),
        call(12, asks(*TWO, tools=ALL), usage(7000, 200)),
    )
    assert [break_codes(verdict) for verdict in verdicts] == [[], [], []]
    assert compared_turn(verdicts[2]) == ("main", 1)


@pytest.mark.parametrize(("name", "codes"), [("msg_10", []), ("msg_20", ["LORE301"])])
def test_copy_of_a_request_is_no_turn(tmp_path, name, codes):
    # recorded twice, by a proxy and by the client; another response with the same usage is no copy
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(ONE), usage(0, 7000)),
        call(10, asks(*TWO), usage(7000, 1200), id="msg_10"),
        call(18, asks(*TWO), usage(7000, 1200), id=name),
        call(20, asks(*THREE), usage(8200, 200)),
    )
    assert [break_codes(verdict) for verdict in verdicts] == [[], [], codes, []]


def twice_over(name):
    calls = [call(0, asks(ONE), usage(0, 7000)), call(10, asks(*TWO), usage(7000, 1200)),
        call(20, asks(*THREE), usage(8200, 200))]  # fmt: skip
    again = [
        {**exchange, "response": {**exchange["response"], "body": {**exchange["response"]["body"]}}}
        for exchange in calls
    ]
    for number, exchange in enumerate(again):
        if name:
            exchange["response"]["body"]["id"] = f"{name}{number}"
    return [*calls, *again]


def test_capture_appended_to_itself_lost_nothing(tmp_path):
    """A script appended a capture to itself; each call counts once."""
    verdicts, _ = judged(tmp_path, *twice_over(""), call(30, asks(*FOUR), usage(7000, 1600)))
    assert [break_codes(verdict) for verdict in verdicts] == [[], [], [], ["LORE301"]]
    assert verdicts[-1].lost_tokens == 1_400


def test_constant_response_id_does_not_mark_copies(tmp_path):
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(ONE), usage(0, 7000), id="one"),
        call(10, asks(ONE, tools=("ls",)), usage(0, 6900), id="two"),
        call(20, asks(*TWO, tools=("ls",)), usage(0, 7100), id="one"),
    )
    assert break_codes(verdicts[2]) == ["LORE301"]
