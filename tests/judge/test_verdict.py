"""Verdicts: the leading cause; lost, wasted and unexplained tokens; the quick judge agrees."""

import pytest
from msgspec.structs import replace

from cache.talk import Talk, bill
from helpers.each import each
from judge.foretelling import PLACE, START
from lore.cache.base import Prediction
from lore.cache.predictor import LazyTranscriptPredictor
from lore.cache.transcripts import Predicted
from lore.judge.findings import findings_of
from lore.judge.pairs.pair import provider_verdict
from lore.model.events import Usage, Verdict
from lore.model.state import Change
from lore.run.rules import Dated, packaged
from model.making import assistant, body, parsed, turn

LONG = "one " * 10_000
ONE, TWO = body(LONG), body(LONG, assistant("two"), "three")
OTHER = body("two " * 10_000, assistant("two"), "three")
KEPT = body("Summary.", LONG, "three")
OTHER_SYSTEM = body(LONG, system="Be careful.")
COMPACTED = {"changes": (Change("LORE125", "compacted"),)}


def judged(previous, current, *, usages=(None, None), **fields):
    judge = Dated().judge()
    judge.turn(turn(parsed(previous), 1, usage=usages[0], sent=0.0))
    return judge.turn(turn(parsed(current), 2, usage=usages[1], sent=10.0, **fields))


def lead(verdict):
    return None if verdict.leading is None else verdict.leading.code


@pytest.mark.parametrize(("right", "fields", "code", "sums"), [
    (OTHER, {}, "LORE100", (9000, 9000, 0)),
    (TWO, {}, "LORE301", (9000, 0, 9000)),
    (OTHER, COMPACTED, "LORE125", (5, 0, 0)),  # the system prompt: what is new was never cached
    (KEPT, COMPACTED, "LORE125", (9000, 0, 0)),
], ids=["waste", "unattributable", "summary", "kept"])  # fmt: skip
def test_lost_tokens_count_under_the_leading_cause(right, fields, code, sums):
    verdict = judged(ONE, right, usages=(Usage(0, 0, 9000), Usage(0, 0, 9100)), **fields)
    assert lead(verdict) == code
    assert (verdict.lost_tokens, verdict.wasted_tokens, verdict.unexplained_tokens) == sums


@pytest.mark.parametrize(("read", "code"), [(1_010, "LORE112"), (2_000, "LORE301"), (0, "LORE301")])
def test_fallen_read_ending_at_new_shape_names_it(read, code):
    """Claude takes text and block for one value, unless its read stops there and nothing else explains it."""
    model, notes = "claude-fable-5-1", {"role": "system", "content": [{"type": "text", "text": LONG}]}
    previous, current = [
        body("Hi.", {**notes, "content": content}, assistant("Done."), *more, model=model, system=LONG[:4_000])
        for content, more in ((notes["content"], ()), (LONG, ("Go on.",)))
    ]
    verdict = judged(previous, current, usages=(Usage(3, 0, 11_000), Usage(3, read, 11_010 - read)))
    lost = verdict.wasted_tokens if code == "LORE112" else verdict.unexplained_tokens
    assert (lead(verdict), lost) == (code, 11_000 - read)


@pytest.mark.parametrize(("seconds", "says"), [(599.0, False), (600.0, True)])
def test_tail_has_daily_cost_once_pace_is_known(seconds, says):
    # two turns 20 seconds apart were said to cost thousands of dollars a day
    judge = Dated().judge()
    model = "claude-sonnet-4-5"
    bodies = [body(LONG, "it is 10:30", model=model), body(LONG, assistant("b"), "c", "it is 10:40", model=model)]
    judge.turn(turn(parsed(bodies[0]), 1, sent=START))
    (cause,) = judge.turn(turn(parsed(bodies[1]), 2, sent=START + seconds)).causes
    assert cause.code == "LORE156"
    assert (cause.evidence.dollars_a_day is not None) is says
    if says:  # one turn in ten minutes, $3 a million tokens
        assert cause.evidence.dollars_a_day == pytest.approx(cause.evidence.tokens * 144 * 3 / 1e6, rel=1e-3)


@each("model, usages, dollars", [
    ("claude-sonnet-4-5", (Usage(0, 0, 9000), Usage(0, 0, 9100, None, 9100, 0)), 9000 * (3.75 - 0.3) / 1e6),
    ("claude-sonnet-4-5", (Usage(0, 0, 9000), Usage(0, 0, 9100, None, 0, 9100)), 9000 * (6.0 - 0.3) / 1e6),
    ("claude-sonnet-4-5", (Usage(0, 0, 9000), Usage(9100, 0, 0)), 9000 * (3.0 - 0.3) / 1e6),
    ("claude-sonnet-4-5", (Usage(0, 0, 9000), Usage(0, 0, 4000, None, 4000, 0)), 4000 * (3.75 - 0.3) / 1e6),
    ("claude-x", (Usage(0, 0, 9000), Usage(9100, 0, 0)), None),  # its price is unknown
    ("claude-sonnet-4-5", (None, None), 10_006 * (3.0 - 0.3) / 1e6),  # no usage: its size is estimated
])  # fmt: skip
def test_loss_costs_the_difference_to_a_read(model, usages, dollars):
    judge = Dated().judge()
    for number, (request_body, usage) in enumerate(zip((ONE, OTHER_SYSTEM), usages, strict=True), 1):
        verdict = judge.turn(
            turn(parsed(request_body | {"model": model}), number, usage=usage, sent=START + 10 * number)
        )
    ((_, finding),) = findings_of(verdict.pair, PLACE)
    assert finding.lost_dollars == (None if dollars is None else pytest.approx(dollars))


def test_waste_leads_and_remarks_never_do():
    previous = body(LONG, assistant("two"), "three", tools=[{"name": "a"}, {"name": "b"}])
    current = body(LONG, assistant("TWO"), "three", tools=[{"name": "b"}, {"name": "a"}])
    verdict = judged(previous, current, usages=(Usage(0, 0, 9000), Usage(0, 500, 8600)))
    assert lead(verdict) == "LORE102"  # it loses most
    verdict = judged(previous, current, usages=(Usage(0, 0, 9000), Usage(0, 9000, 100)))
    assert {cause.code for cause in verdict.causes} > {"LORE102", "LORE302"}
    assert (lead(verdict), verdict.lost_tokens) == (None, 0)  # the bill read all of it


@each("usage, lost", [
    (Usage(0, 0, 40), 40),  # the prompt shrank: removed text is not re-billed
    (Usage(20, 1000, 40), 40),  # only what precedes its last breakpoint could be read
    (Usage(0, 1000, 7999), 7999),
    (Usage(0, 1000, 8000), 8000),
    (Usage(0, 1000, 8001), 8000),  # at most the cached tokens that were not read
    (Usage(None, 1000, 40), 40),
])  # fmt: skip
def test_loss_is_at_most_the_unread_prompt(usage, lost):
    verdict = judged(ONE, OTHER_SYSTEM, usages=(Usage(0, 0, 9000), usage))
    assert (verdict.lost_tokens, verdict.wasted_tokens) == (lost, lost if lost > 128 else 0)
    finding = findings_of(verdict.pair, PLACE)[0][1]
    assert (finding.lost_tokens, finding.tokens) == (lost, "recorded")


@pytest.mark.parametrize("sign", ["", "effort", "skill"])
def test_quick_judge_agrees_on_a_transcript(sign):
    talk, verdicts = Talk(), []
    judges = [Dated().judge(quick=quick) for quick in (False, True)]
    steps = [bill(10_000, 2_000), bill(12_000, 300), bill(10_000, 2_500), bill(12_500, 50), None, bill(0, 20_000)]
    for number, usage in enumerate(steps):
        talk.use() if number else talk.ask()
        talk.turn(usage, signs=(sign,) if sign and number == 2 else ())
        verdicts.append([judge.turn(talk.last) for judge in judges])
    for whole, quick in verdicts:
        assert whole.causes == quick.causes
        assert (whole.lost_tokens, whole.compared) == (quick.lost_tokens, quick.compared)
        assert (whole.wasted_tokens, whole.was_foreseen) == (quick.wasted_tokens, quick.was_foreseen)
    assert [bool(whole.causes) for whole, _ in verdicts] == [False, False, True, False, False, True]
    assert [judge.finish(PLACE) for judge in judges] == [[], []]


def test_prediction_does_not_use_the_turns_usage():
    outcomes = []
    for last in (bill(10_000, 2_500), bill(0, 12_500), bill(12_300, 200)):
        talk, judge, levels = Talk(), Dated().judge(), LazyTranscriptPredictor(packaged)
        talk.ask()
        for number, usage in enumerate((bill(10_000, 2_000), bill(12_000, 300), last)):
            talk.turn(usage, signs=("effort",) if number == 2 else ())
            levels.take(talk.last)
            levels.state()
            verdict = judge.turn(talk.last, levels.latest)
            talk.use()
        outcomes.append((lead(verdict), verdict.predicted.prediction.read, verdict.was_foreseen))
    assert outcomes == [("LORE120", 10_000, True), ("LORE120", 10_000, True), (None, 10_000, None)]


def test_turn_after_many_waiting_ones_has_a_state():
    """Regression: the turn with which the waiting ones are predicted lost its prediction."""
    talk, levels = Talk(), LazyTranscriptPredictor(packaged)
    talk.ask()
    for number in range(513):
        talk.turn(bill(10_000, 2_000) if number == 0 else bill(12_000, 10))
        levels.take(talk.last)
    assert levels.state() is not None


@pytest.mark.parametrize(("read", "foreseen"), [(12_000, False), (11_001, False), (11_000, False), (10_999, True)])
def test_drop_is_predicted_from_evidence_before_the_turn(read, foreseen):
    """A prediction of a few tokens less than the cached prefix predicts no drop."""
    talk, judge = Talk(), Dated().judge()
    talk.ask()
    talk.turn(bill(10_000, 2_000))
    judge.turn(talk.last)
    talk.use()
    talk.turn(bill(5_000, 7_500))
    prediction = Predicted("anthropic", Prediction(read, 0, 0, "rule"))
    assert judge.turn(talk.last, prediction).was_foreseen is foreseen
    talk.use()
    talk.turn(bill(12_500, 100))
    assert judge.turn(talk.last, prediction).was_foreseen is None


def test_forgotten_chain_is_reported_once():
    judge = Dated().judge()
    texts = ["Be brief. " * 3000, assistant("a"), "b", assistant("a"), "b"]
    for number in range(1, 4):
        prompt = parsed(body(*texts[: 2 * number - 1], model="claude-opus-5"))
        judge.turn(turn(prompt, number, sent=START + 60.0 * number))
    assert [finding.code for finding in judge.forget(["main"], PLACE)] == ["LORE114"]
    assert (judge.forget(["main"], PLACE), judge.finish(PLACE)) == ([], [])
    assert (judge.chain_count, judge.turns) == (1, 3)


@pytest.mark.parametrize(("lost", "prompt", "kind"), [
    (127, 9_000, "expected"), (129, 9_000, "waste"), (129, 13_000, "little"), (1_999, 200_000, "little"),
    (2_001, 200_000, "waste"),
])  # fmt: skip
def test_loss_below_block_or_one_percent_is_note(lost, prompt, kind):
    usage = Usage(0, prompt - lost, lost)
    verdict = judged(ONE, OTHER_SYSTEM, usages=(Usage(0, 0, 400_000), usage))
    (finding,) = [candidate for _, candidate in findings_of(verdict.pair, PLACE) if candidate.is_break]
    assert finding.kind == ("expected" if kind == "expected" else "waste")
    assert (finding.severity == "note", finding.lost_tokens) == (kind != "waste", lost)
    assert ("hardly anything" in finding.message) == (kind != "waste")


@each("words, usage, severity", [
    (6, Usage(9_000), "note"), (400, Usage(9_000), "error"), (400, Usage(90_000), "note"), (6, None, "error"),
])  # fmt: skip
def test_small_loss_without_stated_reads_is_note(words, usage, severity):
    """A server whose usage states no reads: by bytes 8 tokens followed the change, which was an error."""
    previous, current = (
        body("word " * words, *more, system=f"{LONG} {left} tokens left")
        for left, more in (("14999436", ()), ("14958199", (assistant("two"), "three")))
    )
    verdict = judged(previous, current, usages=(usage, usage))
    finding = next(candidate for _, candidate in findings_of(verdict.pair, PLACE) if candidate.is_break)
    assert finding.lost_tokens
    assert (finding.severity, "little-lost" in finding.qualifiers) == (severity, severity == "note")


@each("last, actor", [
    ({"type": "tool_result", "tool_use_id": "t1", "content": "ok"}, "author"),
    ({"type": "text", "text": "Go."}, "user"),
])  # fmt: skip
def test_setting_changed_before_a_result_is_the_authors(last, actor):
    """Nobody sits between a call and its result: the agent itself asked for thinking in one request of the two."""
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}]}
    previous = body(LONG, model="claude-opus-5", thinking={"type": "adaptive"})
    current = body(LONG, call, {"role": "user", "content": [last]}, model="claude-opus-5")
    verdict = judged(previous, current, usages=(Usage(0, 0, 9_000), Usage(0, 0, 9_100)))
    (finding,) = [candidate for _, candidate in findings_of(verdict.pair, PLACE) if candidate.code == "LORE120"]
    assert finding.actor == actor


def test_prediction_above_the_prompt_is_at_best():
    """A prompt that shrank below what was cached: its whole is the most that can be read, by no rule."""
    predicted = Predicted("openai", Prediction(227_712, 0, 0, "rule"))
    shown = predicted.limited_to(Usage(89_754, 133_504, 0))
    assert (shown.read, shown.confidence) == (223_258, "ceiling")
    assert predicted.limited_to(Usage(1_000, 227_712, 0)).confidence == "rule"


def test_miss_larger_than_the_unread_is_named():
    missed = Verdict("messages_changed", 231_391)
    request = turn(parsed(body("Hi.")), 2, usage=Usage(2, 304_375, 10_781), verdict=missed)
    assert provider_verdict(request).unread == 10_783
    assert provider_verdict(replace(request, verdict=Verdict("messages_changed", 9_000))).unread is None
