"""What `simulate` shows of money and of predictions that a bill limits: routers, tools, factors, passes, sizes."""

import pytest

from cli.running import lore
from faults.sessions import Session
from judge.captures import asks, call, put, text, usage

ROUTER = "https://openrouter.ai/api/v1/messages"
WORDS = [text("user", "Begin."), text("assistant", "done"), text("user", "Go on.")]


def costs(path, *options):
    result = lore("simulate", "--json", *options, str(path))
    assert result.code == 0, result.err
    notes = [note for note in result.json["notes"] if not note.startswith("not recorded in ")]
    return [turn["cost"] for turn in result.json["turns"]], notes


def routed(folder, url):
    calls = [
        call(0, asks(*WORDS[:1]), usage(0, 7_000), url=url, provider="Anthropic"),
        call(30, asks(*WORDS), usage(0, 7_500), url=url, provider="Amazon Bedrock"),
    ]
    return put(folder, *calls)


def test_router_request_without_router_price_is_unpriced(tmp_path):
    rows, notes = costs(routed(tmp_path, ROUTER))
    assert rows == [None, None]
    assert "no price is known for claude-opus-5 at openrouter: a file of --rules-file can give one" in notes


def session(folder, **fields):
    log = Session()
    log.ask("Do it.")
    log.answer(20_000, 5_000, **fields)
    path = folder / "session.jsonl"
    path.write_bytes(log.written())
    return path


def test_tool_without_price_is_named(tmp_path):
    rows, notes = costs(session(tmp_path, server_tool_use={"tea_making_requests": 3, "web_fetch_requests": 1}))
    assert rows[0]["at_least"] is True
    assert notes == [
        "no price is known for the provider's tools tea_making (price_tea_making): a file of --rules-file can give one"
    ]


def test_unknown_price_factor_is_named(tmp_path):
    rows, (note,) = costs(session(tmp_path, service_tier="priority"))
    assert rows == [None]
    assert note.startswith("no price is known at priority: its price factor is unknown (multiple_priority)")


def passes(*reads):
    return [
        {"type": "message", "input_tokens": 3, "output_tokens": 50, "cache_read_input_tokens": read,
         "cache_creation_input_tokens": 31_500 - read, "cache_creation": {"ephemeral_1h_input_tokens": 31_500 - read}}
        for read in reads
    ]  # fmt: skip


@pytest.mark.parametrize("first", [0, 31_000])
def test_predicted_cost_ignores_billed_first_pass(first, tmp_path):
    log = Session()
    log.ask("Do it.")
    log.answer(20_000, 11_000, calls=("Read",))
    log.results()
    log.answer(31_500, 0, iterations=passes(first, 31_500))
    path = tmp_path / "session.jsonl"
    path.write_bytes(log.written())
    rows, _ = costs(path)
    assert rows[1]["predicted"] < 0.05
    assert (rows[1]["billed"] > 0.3) == (first == 0)
