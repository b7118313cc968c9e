"""LORE304: a turn reads less than the cache holds by the provider's rules, and no pair shows it."""

import pytest
from msgspec.structs import replace

from helpers.each import each
from judge.foretelling import HOUR, answered_turn, bill, body, chain_codes, chain_findings
from lore.cache import predictor
from lore.cache.base import Prediction
from lore.cache.transcripts import Predicted
from lore.model.events import Usage
from lore.model.evidence import ReadBelowForecast
from lore.model.turn import Call
from lore.run.rules import Dated

FIRST = answered_turn(0, body("one"), bill(0, 3000))
SECOND = answered_turn(40, body("one", "1", "two"), bill(3000, 30))
CALL = Call(endpoint="api.anthropic.com/v1/messages")


def other(at=180, usage=None, *, text="another task", **fields):
    return answered_turn(at, body(text), usage or bill(0, 3010), "side", **fields)


@pytest.fixture
def foretold(monkeypatch):
    """What the model of the cache says of every turn; returns who was asked."""

    def set_to(read, confidence="rule"):
        asked_about = []

        class Foretelling:
            def __init__(self, rules):
                asked_about.append(self)

            def begin_recording(self):
                pass

            def predict(self, turn):
                return Predicted("anthropic", Prediction(read, 0, 0, confidence))

        monkeypatch.setattr(predictor, "Predictor", Foretelling)
        return asked_about

    return set_to


def test_first_turn_missing_another_chains_prefix_is_found():
    (finding,) = chain_findings([FIRST, SECOND, other()])
    assert (finding.code, finding.kind, finding.severity, finding.chain) == ("LORE304", "unattributable", "warning",
        "side")  # fmt: skip
    assert (finding.tokens, finding.confidence) == ("estimated", "rule")
    assert finding.lost_tokens == pytest.approx(3000, rel=0.1)
    assert isinstance(finding.evidence, ReadBelowForecast)
    assert (finding.evidence.chain, finding.evidence.seconds, finding.evidence.read_tokens) == ("main", 138.0, 0)
    assert "of chain main used the same beginning 2 min 18 s earlier" in finding.message


@each([
    other(usage=bill(2900, 100)),  # it was read
    other(at=400),  # it had expired
    other(at=43),  # an entry of a second ago
    answered_turn(180, body("x", system="Another system prompt. " * 500), bill(0, 3000), "side"),
    answered_turn(180, body("x", model="claude-opus-4-8"), bill(0, 3000), "side"),
    answered_turn(180, body("x", thinking={"type": "enabled", "budget_tokens": 9}), bill(0, 3000), "side"),
    answered_turn(180, body("x", head=None, breakpoint=None), bill(0, 0, 3000), "side"),  # nothing is looked up
    other(usage=bill(None, None)),
    replace(other(), call=replace(CALL, status=500)),
    replace(other(), call=replace(CALL, account="other")),
    replace(other(), call=replace(CALL, betas=("new",))),
])  # fmt: skip
def test_explained_read_is_no_finding(last):
    before = [turn if not last.call.endpoint else replace(turn, call=CALL) for turn in (FIRST, SECOND)]
    assert not {"LORE304", "LORE305"} & set(chain_codes([*before, last]))


def test_first_answer_time_is_needed_within_a_minute():
    turns = [replace(turn, answered=None) for turn in (FIRST, SECOND, other(at=110))]
    assert chain_codes(turns) == ["LORE304"]
    assert chain_codes([*turns[:2], replace(turns[2], sent=turns[1].at + 50)]) == []


# What the second turn read ended at the first one's last breakpoint. Taken for the position of the system prompt, it
# made a prediction of 23,000 tokens where 3,000 are cached.
def test_long_first_message_is_not_the_head():
    long = "word " * 16_000
    turns = [answered_turn(0, body(long), bill(0, 23_000)), answered_turn(40, body(long, "1", "two"), bill(23_000, 30)),
        answered_turn(180, body("another task"), bill(2_000, 1_000), "side")]  # fmt: skip
    assert chain_codes(turns) == []


@pytest.mark.parametrize(("write", "usage", "code", "lost"), [
    (40, bill(0, 5200, hour=5000), "LORE301", 5140), (2000, bill(5000, 2140, hour=0), "LORE128", 2100),
])  # fmt: skip
def test_one_hour_entry_outlives_a_pause(write, usage, code, lost):
    system = "word " * 4000
    turns = [
        answered_turn(0, body("one", system=system, head=HOUR), bill(0, 5100, hour=5000)),
        answered_turn(60, body("one", "1", "two", system=system, head=HOUR), bill(5100, write, hour=0)),
        answered_turn(900, body("one", "1", "two", "2", "three", system=system, head=HOUR), usage),
    ]
    judge = Dated().judge()
    verdict = [judge.turn(turn) for turn in turns][-1]
    assert (verdict.leading.code, verdict.lost_tokens) == (code, lost)
    assert chain_codes(turns) == []


def test_turn_without_usage_hides_no_fall():
    turns = [FIRST, answered_turn(40, body("one", "1", "two"), None),
        answered_turn(80, body("one", "1", "two", "2", "x"), bill(0, 3060))]  # fmt: skip
    (finding,) = chain_findings(turns)
    assert (finding.code, finding.lost_tokens, finding.tokens) == ("LORE304", pytest.approx(3000, rel=0.05),
        "estimated")  # fmt: skip


@pytest.mark.parametrize("confidence", ["ceiling", "rule"])
def test_best_case_prediction_makes_no_finding(foretold, confidence):
    foretold(2990, confidence)
    findings = chain_findings([FIRST, SECOND, other()])
    assert [finding.code for finding in findings] == (["LORE304"] if confidence == "rule" else [])


def test_tolerance_is_a_share_of_the_prompt(foretold):
    foretold(3030)
    half = Dated(tolerance=0.5)
    assert [finding.code for finding in chain_findings([FIRST, SECOND, other()], half.judge())] == ["LORE304"]
    assert chain_findings([FIRST, SECOND, other(usage=Usage(6100, 0, 10))], half.judge()) == []


def test_nothing_is_predicted_if_all_was_read(foretold):
    asked_about = foretold(3000)
    last = answered_turn(200, body("one", "1", "two", "2", "x"), bill(3030, 9))
    assert chain_findings([FIRST, SECOND, other(usage=bill(2900, 100)), last]) == []
    assert asked_about == []


# Each of 300 conversations missed: predicting all of them took three times as long as judging the recording.
def test_repeated_misses_are_reported_a_few_times(foretold):
    asked_about = foretold(3000)
    turns = [FIRST, SECOND]
    turns += [replace(other(at=100 + 5 * n, text=f"task {n}"), chain=f"c-{n}") for n in range(150)]
    assert len(chain_findings(turns)) == len(asked_about) == 8 + 1


def test_sentence_omits_an_unknown_model():
    short = ReadBelowForecast(9_000, 0, True, "anthropic", "entry", 1, None, 60.0, None)  # noqa: FBT003
    assert short.sentence().endswith("readable yet, breakpoints, parameters, endpoint")
