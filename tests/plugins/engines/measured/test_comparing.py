"""Pairing measurements with predicted turns: by id, size, order or time."""

from datetime import UTC, datetime

import pytest

from lore.model.results.measured import EXTERNAL, MeasuredResult, Measurement
from lore_plugins.engines.measuring import LogMeasures, PredictedTurn, compare_measures

NOON = 1_780_000_000.0 // 86400 * 86400 + 43200


def turn(
    number: int, prompt: int, read: int | None, *, at: float | None = None, name: str = "", has_usage: bool = True
) -> PredictedTurn:
    sent_at = NOON + 60 * number if at is None else at
    return PredictedTurn(sent_at, name, prompt, read, has_usage, number, "main", "a.jsonl")


def request(prompt: int, cached: int, *, at: float | None = None, name: str = "") -> Measurement:
    return Measurement("request", "sglang", at, "utc", name, 1, prompt, cached)


def log(*measures: Measurement) -> LogMeasures:
    return LogMeasures("e.log", "sglang-log", measures)


TURNS = [turn(1, 100, 0, name="a"), turn(2, 200, 96, name="b"), turn(3, 300, 192, name="c")]


def pairs(result: MeasuredResult) -> list[tuple[int | None, int | None, int | None]]:
    return [(row.turn, row.cached_tokens, row.predicted_tokens) for row in result.rows]


def test_requests_are_paired_by_size():
    warm = request(7, 0)
    result = compare_measures([log(warm, request(100, 0), request(200, 64), warm, request(300, 192))], TURNS)
    assert result.pairing == "size"
    assert pairs(result) == [(1, 0, 0), (2, 64, 96), (3, 192, 192)]


def test_unbilled_requests_are_paired_by_order():
    unbilled = [turn._replace(has_usage=False, name="") for turn in TURNS]
    requests = [request(110, 0), request(210, 96), request(310, 96)]
    assert pairs(compare_measures([log(*requests)], unbilled)) == [(1, 0, 0), (2, 96, 96), (3, 96, 192)]
    assert compare_measures([log(*requests[:2])], unbilled).pairing == "totals"


@pytest.mark.parametrize("hours", [-9, -3.5, 0, 2, 13])
def test_times_without_zone_are_shifted(hours: float):
    turns = [turn(number, 100, 50, at=NOON + 3600 * number) for number in range(12)]
    steps = [
        Measurement("batch", "sglang", NOON + 3600 * (number + hours) + 5, "local", "", None, 100, 50)
        for number in range(12)
    ]
    result = compare_measures([log(*steps)], turns)
    assert (result.shifted_seconds or 0) == -3600 * hours
    assert {row.share for row in result.rows if row.share is not None} == {0.5}


@pytest.mark.parametrize("year", [2024, 2026])
def test_times_without_year_get_the_turns_year(year: int):
    log_time = datetime(2000, 11, 20, 8, 3, tzinfo=UTC).timestamp()
    sent_at = datetime(year, 11, 20, 8, 2, tzinfo=UTC).timestamp()
    result = compare_measures(
        [log(Measurement("window", "vllm", log_time, "year", "000", share=0.25))], [turn(1, 100, 50, at=sent_at)]
    )
    assert (result.pairing, result.share, result.rows[-1].at) == ("time", 0.25, sent_at + 60)


def test_rate_is_compared_with_1000_turns():
    turns = [turn(number, 100, 0 if number < 1000 else 100, at=NOON + number) for number in range(2000)]
    windows = [
        Measurement("window", "vllm", NOON + at, "utc", "000", share=share) for at, share in ((999, 0.0), (2000, 0.9))
    ]
    result = compare_measures([log(*windows)], turns)
    assert [(row.turns, row.predicted_share) for row in result.rows] == [(1000, 0.0), (1000, 1.0)]
    assert (result.share, result.predicted_share) == (0.9, 1.0)


@pytest.mark.parametrize(
    ("servers", "expected"),
    [("aabb", ["a", "b"]), ("abab", ["a", "b"]), (["pid 1", "pid 2"] * 2, ["pid 1", "pid 2"]),
     (["pid 1", "pid 1", "pid 2"], [""])],
)  # fmt: skip
def test_restarted_server_is_one_log_entry(servers, expected):
    measures = [Measurement("window", "vllm", 1.0 * at, "utc", "000", share=0.5, server=name)
                for at, name in enumerate(servers)]  # fmt: skip
    result = compare_measures([LogMeasures("x.log", "vllm-log", measures)], ())
    assert [log.server for log in result.logs] == expected
    assert sum(log.measurements for log in result.logs) == len(servers)


def test_finest_measurements_count_once():
    measures = [
        Measurement("batch", "sglang", None, prompt_tokens=600, cached_tokens=1),
        *(request(size, read) for size, read in ((100, 0), (200, 96), (300, 192))),
        Measurement("window", EXTERNAL, None, "utc", "000", share=0.1),
    ]
    result = compare_measures([log(*measures)], TURNS)
    assert result.share == result.predicted_share == 0.48
    assert [(summary.extent, summary.measurements) for summary in result.logs] == [
        ("request", 3),
        ("batch", 1),
        ("window", 1),
    ]


def test_jumping_clock_gives_few_rows():
    steps = [Measurement("batch", "sglang", at, prompt_tokens=10, cached_tokens=5) for at in (0.0, 4e9, 2.5e11)]
    assert len(compare_measures([log(*steps)], TURNS).rows) <= 48


@pytest.mark.parametrize(("count", "rows"), [(3, 3), (30, 10)])
def test_log_without_times_has_rows_by_request(count: int, rows: int):
    measured_rows = compare_measures([log(*(request(100 * number, 64) for number in range(1, count + 1)))], []).rows
    assert [row.requests for row in measured_rows] == [count // rows] * rows
    assert measured_rows[0].prompt_tokens == sum(100 * number for number in range(1, count // rows + 1))
