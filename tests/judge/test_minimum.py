"""Prompts that no cache holds lose nothing: by the dated minimum of the model, from the bill or from bytes."""

from __future__ import annotations

import pytest

from judge.captures import asks, call, judged, text, told, usage

CHAT = "https://api.openai.com/v1/chat/completions"
WORDS = "one two three four five six seven eight nine ten. "  # some 11 tokens in 50 bytes


def claude(number, tools=("ls",), model="claude-opus-4-8"):
    """Requests whose prompt is about so many tokens long."""
    talk = [text("user", WORDS * (number // 11))]
    return asks(*talk, tools=tools, system="Be brief.", model=model)


def chat(number, system="Be brief."):
    return {
        "model": "gpt-4o",
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": WORDS * (number // 11)}],
    }


def bill(tokens, read=0):
    return {"prompt_tokens": tokens, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": read}}


@pytest.mark.parametrize(("tokens", "lost"), [(1_023, 0), (1_024, 1_020)])
def test_a_bill_below_the_minimum_of_a_model_lost_nothing(tmp_path, tokens, lost):
    found, _ = judged(
        tmp_path,
        call(0, chat(1000), bill(tokens), url=CHAT),
        call(10, chat(1000, "Be wordy."), bill(tokens), url=CHAT),
    )
    assert told(found[1]) != []  # the change is there all the same, and the client's
    assert found[1].lost_tokens == lost
    assert (found[1].pair.lost_bytes == 0) is (lost == 0)


@pytest.mark.parametrize(
    ("tokens", "lost"),
    [(600, False), (1_100, True)],  # of 1,024; bytes may be off by half
)
def test_without_a_bill_bytes_say_it_with_a_margin(tmp_path, tokens, lost):
    found, _ = judged(
        tmp_path, call(0, claude(tokens - 150, ("ls",)), None), call(10, claude(tokens - 150, ("cat",)), None)
    )
    assert "LORE103" in told(found[1])
    assert bool(found[1].lost_tokens) is lost
    assert ("under-minimum" in found[1].causes[0].qualifiers) is not lost


def test_what_a_bill_shows_to_be_cached_was_long_enough_whatever_a_table_says(tmp_path):
    found, _ = judged(
        tmp_path,
        call(0, claude(300), usage(0, 500)),
        call(10, claude(300, ("cat",)), usage(0, 510)),
    )
    assert found[1].lost_tokens == 500


def test_a_short_request_loses_nothing_of_what_a_long_one_left(tmp_path):
    """It could not have read it: what is too short is neither written nor looked for."""
    found, _ = judged(
        tmp_path, call(0, claude(3_000), usage(0, 3_000)), call(10, claude(3_000, ("cat",)), usage(0, 0, 900)),
        call(20, claude(3_000), usage(0, 0, 1_100)),
    )  # fmt: skip
    assert [verdict.lost_tokens for verdict in found[1:]] == [0, 1_100]
