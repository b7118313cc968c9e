"""Identity: session, agent and previous response, from headers as read and from bodies."""

from __future__ import annotations

import json

import pytest

from lore.model.turn import Call, Exchange
from lore.prefix.likeness import Identity, drop_unrendered, identify_sender
from model.making import body, parsed

HEADER = "x-anthropic-billing-header: cc_version=2.1.195.d67; cc_prev_req=req_011; cch=aec51;"


def identity(call=Call(), **fields):  # noqa: B008 - a frozen record
    return identify_sender(parsed(body("a", **fields)), Exchange(b"{}", "wire", call=call))


@pytest.mark.parametrize(
    ("user", "session"),
    [
        (json.dumps({"device_id": "d", "session_id": "5b0f3c1e-2a64"}), "5b0f3c1e-2a64"),
        ("user_0f_account__session_5b0f3c1e-2a64-4c55", "5b0f3c1e-2a64-4c55"),
        ("somebody", ""),
        (7, ""),
    ],
)
def test_claude_codes_bodies_name_their_session(user, session):
    assert identity(metadata={"user_id": user}).session == session


def test_what_a_reader_found_comes_before_what_the_body_says():
    call = Call(session="s", agent="a", endpoint="h/p", previous="r")
    assert identity(call, metadata={"user_id": "x_session_12345678"}) == Identity("s", "a", "h/p", "r")


def test_the_clients_header_names_the_request_before():
    assert identity(system=[{"type": "text", "text": HEADER}]).previous == "req_011"
    assert identity(system="cc_prev_req=req_011").previous == ""


def test_what_only_one_of_them_says_does_not_tell_two_apart():
    assert Identity("s").may_share_conversation(Identity())
    assert Identity(agent="a").may_share_conversation(Identity("s"))
    assert not Identity("s").may_share_conversation(Identity("t"))
    assert not Identity("s").may_share_conversation(Identity("s", "a"))
    assert not Identity(agent="a").may_share_conversation(Identity(agent="b"))
    assert Identity(endpoint="h/p").may_share_endpoint(Identity())
    assert not Identity(endpoint="h").may_share_endpoint(Identity(endpoint="i"))


def test_a_header_that_the_provider_drops_names_the_request_before_too():
    """At Anthropic the header is no part of the head; `cc_prev_req` was lost with it."""
    prompt = drop_unrendered(parsed(body("a", model="claude-x", system=[{"type": "text", "text": HEADER}])), "")
    assert prompt.dropped
    assert identify_sender(prompt, None).previous == "req_011"
