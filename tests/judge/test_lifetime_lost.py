"""LORE134 and LORE303: five minutes were billed where every breakpoint asks for an hour."""

import pytest

from judge.captures import SYSTEM, call, judged, text, usage
from lore.cache.predictor import Predictor
from lore.judge.findings import findings_of
from lore.model.cause import Place
from lore.run.rules import load

HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
GATEWAY = "https://llm.example.com/v1/messages"
ONE = text("user", "Find the bug. " * 200)
TWO = (ONE, text("assistant", "I look into it."), text("user", "Go on. " * 1500))


def body(*messages, marked=True):
    """A request whose system prompt (and with `marked` its end) is to be kept for an hour."""
    last = {**messages[-1], "content": [{**messages[-1]["content"][-1], **(HOUR if marked else {})}]}
    system = [{"type": "text", "text": SYSTEM, **HOUR}]
    return {"model": "claude-opus-5", "max_tokens": 900, "system": system, "messages": [*messages[:-1], last]}


def written(read, short, hour, uncached=4):
    split = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": hour}
    return usage(read, short + hour, uncached, cache_creation=split)


def noted(verdicts):
    return [str(cause.code) for verdict in verdicts for cause in verdict.causes]


@pytest.mark.parametrize(("marked", "bills", "codes"), [
    # a gateway dropped the ttl: what the last breakpoint wrote lives five minutes
    (True, (written(0, 7000, 0), written(7000, 2600, 0)), ["LORE134"]),
    # the next write is short, and might be after the last breakpoint
    (True, (written(0, 7000, 0), written(7000, 400, 0)), ["LORE134"]),
    # more was written after the last breakpoint, so another body was billed
    (False, (written(0, 0, 6000, 700), written(6000, 3300, 0)), ["LORE303"]),
    # this chain has one-hour writes, so no gateway drops the ttl
    (True, (written(0, 0, 7000), written(7000, 2600, 0)), []),
    (True, (written(0, 0, 7000), written(7000, 0, 2600)), []),
], ids=["lost", "short write", "after the last breakpoint", "ttl is passed on", "kept"])  # fmt: skip
def test_five_minute_write_loses_the_requested_hour(tmp_path, marked, bills, codes):
    verdicts, _ = judged(tmp_path, call(0, body(ONE, marked=marked), bills[0], url=GATEWAY),
        call(10, body(*TWO, marked=marked), bills[1], url=GATEWAY))  # fmt: skip
    assert noted(verdicts) == codes


def test_contradicted_usage_teaches_no_positions(tmp_path):
    verdicts, _ = judged(
        tmp_path,
        call(0, body(ONE, marked=False), written(0, 0, 6000, 700), url=GATEWAY),
        call(10, body(*TWO, marked=False), written(6000, 3300, 0), url=GATEWAY),
        call(20, body(*TWO, marked=False), written(6000, 0, 0, 3300), url=GATEWAY),
    )
    predictor = Predictor(load(None), "anthropic")
    predicted = [predictor.predict(verdict.turn) for verdict in verdicts]
    assert [bool(prediction.doubt) for prediction in predicted] == [False, True, False]
    assert predicted[2].prediction.read == 6000


@pytest.mark.parametrize(("read", "pause", "code"), [
    (6000, 600.0, "LORE128"),  # the end, for five minutes, had expired
    (0, 600.0, "LORE301"),  # the system prompt, for an hour, had not
    (0, 4_000.0, "LORE128"),
])  # fmt: skip
def test_only_the_end_expires_after_five_minutes(tmp_path, read, pause, code):
    verdicts, _ = judged(
        tmp_path,
        call(0, body(ONE, marked=False) | {"cache_control": {"type": "ephemeral"}}, written(0, 1300, 6000)),
        call(pause, body(*TWO, marked=False) | {"cache_control": {"type": "ephemeral"}}, written(read, 9600 - read, 0)),
    )
    assert (verdicts[1].leading.code, verdicts[1].lost_tokens) == (code, 7300 - read)


@pytest.mark.parametrize(("hour", "pause", "fix"), [(False, 400.0, "Let the gateway"), (True, 4_000.0, "Compact")])
def test_request_with_one_hour_gets_no_ttl_fix(tmp_path, hour, pause, fix):
    counts = (0, 7000) if hour else (7000, 0)
    verdicts, _ = judged(
        tmp_path, call(0, body(ONE), written(0, *counts)), call(pause, body(*TWO), written(0, *counts))
    )
    (_, finding), *_ = findings_of(verdicts[1].pair, Place("calls.jsonl"))
    assert finding.code == "LORE128"
    assert finding.fix.startswith(fix)
