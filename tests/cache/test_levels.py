"""Levels: what a cache reads where a recording holds neither system prompt nor tools."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from cache.talk import ONE_BY_ONE, Talk, bill
from lore.cache import lanes
from lore.cache.bills import total
from lore.cache.levels import Levels
from lore.cache.predictor import Predictor
from lore.model.events import Usage
from lore.model.state import Change, Sign
from lore.model.turn import Prompt, PromptBasis, Turn
from lore.recording.opening import Options
from lore.run.rules import packaged


def opened(begin=None, **fields):
    talk = Talk() if begin is None else Talk(begin)
    talk.open(**fields)
    return talk


def test_a_turn_that_goes_on_reads_all_that_stood_there():
    found = opened().turn(bill(12_300, 200))
    assert (found.read, found.confidence, found.reason) == (12_300, "rule", "goes-on")


def test_what_was_appended_is_estimated_from_bytes_and_splits_into_written_and_uncached():
    talk = opened()
    talk.use(8_000)
    found = talk.turn(bill(12_300, 200))
    assert found.uncached == 2
    assert 1_500 < found.write < 4_000
    assert found.total == found.read + found.write + found.uncached
    assert found.write_1h == 0


def test_the_rate_of_bytes_is_learned_from_earlier_bills():
    talk, stood = opened(), 12_300
    for _ in range(20):
        talk.use(8_000)
        found = talk.turn(bill(stood, 4_000))  # two bytes a token
        stood += 4_000
    assert abs(found.write - 4_000) < 500


@pytest.mark.parametrize(("hour", "pause", "reason"), [
    (False, 305, "goes-on"), (False, 307, "expiry"), (True, 307, "goes-on"), (True, 3_700, "expiry"),
])  # fmt: skip
def test_what_is_older_than_its_lifetime_and_its_grace_is_gone(hour, pause, reason):
    found = opened(hour=hour).turn(bill(12_300, 200), after=pause)
    assert found.reason == reason
    assert found.read == (12_300 if reason == "goes-on" else 10_000)


def test_a_compaction_leaves_the_head_and_what_it_left_is_learned():
    talk = opened(hour=True)
    change = talk.compact()
    assert talk.turn(bill(11_000, 1_500, hour=True), changes=(change,)).read == 10_000
    talk.use()
    talk.turn(bill(12_500, 100, hour=True))
    change = talk.compact()
    assert talk.turn(bill(11_000, 1_500, hour=True), changes=(change,)).read == 11_000


def test_a_rewind_falls_back_to_the_last_position_before_it():
    talk = Talk()
    talk.ask()
    talk.turn(bill(10_000, 2_000))
    kept = len(talk.entries)
    for stood in (12_000, 12_500, 13_000):
        talk.use()
        talk.turn(bill(stood, 500))
    change = talk.rewind(kept)
    talk.ask()
    found = talk.turn(bill(12_000, 300), changes=(change,))
    assert (found.read, found.reason) == (12_000, "shrunk")
    assert talk.turn(bill(12_300, 10)).read == 12_300


def test_another_model_has_nothing_and_the_first_one_still_has_its_own():
    talk = opened(hour=True)
    talk.model = "claude-y"
    found = talk.turn(bill(0, 12_000, hour=True), changes=(Change("LORE119", "model changed"),))
    assert (found.read, found.reason) == (0, "model")
    talk.model = "claude-x"
    talk.use()
    assert talk.turn(bill(12_300, 700, hour=True), changes=(Change("LORE119", "model changed"),)).read == 12_300


def test_a_hidden_request_is_foreseen_where_turn_ends_of_the_session_had_one():
    talk, found, stood = opened(), [], 12_300
    for hidden in (True, True, True, False, False, False, False):
        talk.ask()
        found.append(talk.turn(bill(stood + 70 * hidden, 200, output=70)))
        stood += 70 * hidden + 200
    reasons = [prediction.reason == "hidden-request" for prediction in found]
    assert reasons == [False, False, True, True, True, False, False]
    assert (found[1].read, found[2].read) == (12_570, 12_840 + 70)


def test_an_output_count_of_a_response_that_had_just_begun_is_not_taken_for_its_length():
    """Versions before 2.1.59 kept the count of the first event: 1 for answers of thousands of tokens."""
    talk = opened()
    for read in (12_350, 12_600):
        talk.ask()
        talk.turn(bill(read, 200, output=1))
    talk.say(8_000)
    talk.ask()
    assert talk.turn(bill(14_600, 100)).read > 14_000


@pytest.mark.parametrize("sign", ["effort", "client-version"])
def test_changes_that_always_broke_the_prefix_are_foreseen(sign):
    found = opened().turn(bill(10_000, 2_500), signs=(sign,))
    assert (found.read, found.reason, found.confidence) == (10_000, sign, "ceiling")
    assert 0.8 < found.probability < 0.9


def test_changes_that_seldom_break_the_prefix_are_foreseen_once_the_session_shows_it():
    talk, read = opened(), []
    for _ in range(5):
        read.append(talk.turn(bill(10_000, 2_500), signs=("tool-reference",)).read)
        talk.use()
    assert read[:2] == [12_300, 12_500]
    assert read[4] == 10_000


def test_a_sign_that_the_session_shows_to_be_harmless_is_foreseen_no_more():
    talk, found = opened(), []
    for stood in range(12_300, 13_300, 200):
        found.append(talk.turn(bill(stood, 200), signs=("effort",)))
        talk.use()
    assert [prediction.read == 10_000 for prediction in found] == [True, True, True, False, False]
    assert found[0].falls_below(12_300) > found[1].falls_below(12_500) > found[4].falls_below(13_100)


@pytest.mark.parametrize(("names", "moved"), [
    ((), True), (("PostToolUse:Bash",), True), (("Stop", "PostToolUse:Edit"), True), (("Stop",), False),
])  # fmt: skip
def test_text_of_hooks_beside_results_is_taken_out_when_the_user_speaks(names, moved):
    talk = opened(hour=True)
    talk.turn(bill(12_300, 2_000, hour=True), signs=(Sign("hook-context", names),))
    talk.ask()
    found = talk.turn(bill(12_300 if moved else 14_300, 1_900, hour=True))
    assert (found.read, found.probability > 0.9) == (12_300 if moved else 14_300, True)
    assert talk.situation.put_back == (12_300 if moved else None)
    assert talk.situation.hooks == (names if moved else ())


def version(name, number):
    return Sign(name, version=number)


@pytest.mark.parametrize(("number", "reads"), [
    ("2.1.118", [12_300, 12_500]), ("2.1.119", [10_000, 12_500]), ("2.1.207", [10_000, 12_500]),
    ("2.1.208", [12_300, 12_500]), ("2.1.209", [12_300, 12_500]), ("", [12_300, 12_500]),
])  # fmt: skip
def test_the_first_tools_found_by_a_search_move_the_head_in_some_versions(number, reads):
    """What the first does is not foreseen of the next: they are counted apart."""
    talk, found = opened(), []
    for stood in (12_300, 12_500):
        found.append(talk.turn(bill(stood, 200), signs=(version("tool-reference", number),)).read)
        talk.use()
    assert found == reads


@pytest.mark.parametrize(("number", "read"), [("2.1.58", 12_300), ("2.1.59", 14_300), ("", 14_300)])
def test_a_skill_used_since_the_last_prompt_moves_its_text_in_early_versions(number, read):
    talk = opened(hour=True)
    assert talk.turn(bill(12_300, 2_000, hour=True), signs=(version("skill", number),)).read == 12_300
    talk.ask()
    found = talk.turn(bill(read, 500, hour=True))
    assert found.read == read
    assert (found.reason == "skill") == (read == 12_300)


@pytest.mark.parametrize(("model", "read"), [
    ("claude-opus-4-5-20251101", 10_000), ("claude-sonnet-4-5", 10_000), ("claude-opus-4-6", 12_300), ("x", 12_300),
])  # fmt: skip
def test_answers_without_thinking_move_the_history_at_the_next_prompt_of_some_models(model, read):
    talk = Talk()
    talk.model = model
    talk.open()
    talk.ask()
    assert talk.turn(bill(read, 500), signs=("no-thinking",)).read == read


def test_prompts_that_fell_without_any_sign_make_the_next_likely_to():
    talk, stood, found = opened(), 12_300, []
    for _ in range(5):
        talk.ask()
        found.append(talk.turn(bill(11_000, 3_000)))
        talk.use()
        talk.turn(bill(14_000, 500))
    assert [prediction.reason == "no-sign" for prediction in found] == [False, False, False, False, True]
    likely = [prediction.falls_below(14_500) for prediction in found[1:]]
    assert [found[0].falls_below(stood), *likely] == sorted([found[0].falls_below(stood), *likely])
    assert found[4].read == 11_000


@pytest.mark.parametrize(("hour", "after", "low", "high"), [(False, 400.0, 0.92, 0.94), (True, 4_000.0, 0.96, 0.99)])
def test_an_expired_entry_may_live_all_the_same(hour, after, low, high):
    found = opened(hour=hour).turn(bill(10_000, 2_500), after=after)
    assert low < found.probability < high
    assert {outcome.read for outcome in found.outcomes} == {10_000, 12_300}


def test_within_three_seconds_the_position_before_the_last_may_be_read():
    found = opened().turn(bill(12_000, 500), after=2.0)
    assert [(outcome.read, outcome.why) for outcome in found.outcomes] == [(12_300, "goes-on"), (12_000, "older-entry")]
    assert 0.1 < found.outcomes[1].probability < 0.2


def test_a_floor_is_believed_only_where_its_own_cause_was_certain():
    talk = opened(hour=True)
    talk.turn(bill(4_000, 9_000, hour=True), signs=("tools-delta",))  # a guess: nothing is learned of what others keep
    talk.use()
    assert talk.turn(bill(10_000, 3_000, hour=True), after=4_000).read == 10_000
    talk.use()
    talk.turn(bill(4_000, 9_000, hour=True), after=4_000)
    talk.use()
    assert talk.turn(bill(4_000, 9_000, hour=True), after=4_000).read == 4_000


@pytest.mark.parametrize(("uses", "read"), [(5, 13_000), (25, 11_000)])
def test_what_outlives_an_expiry_is_read_only_where_a_breakpoint_looks_back_so_far(uses, read):
    talk = Talk(ONE_BY_ONE)
    talk.ask()
    talk.turn(bill(11_000, 1_000))
    talk.use()
    talk.use()
    talk.turn(Usage(2, 12_000, 2_000, 50, 1_000, 1_000))  # an hour up to 13,000, five minutes behind
    for _ in range(uses):
        talk.use()
    found = talk.turn(bill(read, 9_000), after=400)
    assert (found.read, found.reason) == (read, "expiry")


def test_what_an_answer_thought_is_not_looked_for_where_prompts_do_not_hold_it():
    talk, stood = opened(), 12_300
    for number in range(3):
        talk.ask()
        found = talk.turn(bill(stood + 60, 100, output=5_000))  # the answer alone is 60 tokens
        assert number < 2 or stood < found.read < stood + 500
        stood += 160


def test_more_new_positions_than_are_looked_back_leave_the_head_where_each_block_counts():
    for begin, read in ((ONE_BY_ONE, 10_000), (None, 12_300)):
        talk = opened(begin)
        for _ in range(15):
            talk.use()
        assert talk.turn(bill(read, 3_000)).read == read


def test_missing_usage_is_unknown_and_what_follows_is_a_guess():
    talk = opened()
    talk.turn(None)
    talk.use()
    found = talk.turn(bill(12_600, 100))
    assert talk.situation.stood is None
    assert 12_300 < found.read < 12_800
    assert found.confidence == "ceiling"


@pytest.mark.parametrize("usage", [
    Usage(-1, 5, 5), Usage(0, 0, 0), Usage(1, 2**40, 5), Usage(1, 12_300, 5, 1, 7, 9), Usage(1, -7, 5),
])  # fmt: skip
def test_bills_that_cannot_be_are_said_and_not_learned_from(usage):
    talk, other = opened(), opened()
    talk.turn(usage)
    other.turn(None)
    assert talk.odd
    assert not other.odd
    talk.use()
    other.use()
    assert talk.turn(bill(12_600, 100)) == other.turn(bill(12_600, 100))


@pytest.mark.parametrize("after", [None, -5_000.0])
def test_clocks_that_are_missing_or_run_backwards_foresee_no_expiry(after):
    talk = opened()
    assert talk.turn(bill(12_300, 100), after=after).read == 12_300


def test_another_system_prompt_leaves_what_others_keep():
    talk = Talk()
    for system, usage, read in (("a", bill(3_000, 5_000), None), ("b", bill(3_000, 5_000), 3_000)):
        one = Turn("main", 1, Prompt("anthropic", "reconstructed"), usage=usage,
                   basis=PromptBasis(talk.entries, "anthropic", "claude-x", (system, None)))  # fmt: skip
        assert talk.levels.predict(one).read == read
        talk.levels.learn(one)


def test_ten_thousand_turns_look_at_each_entry_a_bounded_number_of_times(monkeypatch):
    looked = [0]

    def counted(entries, most):
        for entry in islice(entries, most):
            looked[0] += 1
            yield entry

    monkeypatch.setattr(lanes, "islice", counted)
    talk, stood = Talk(), 12_000
    talk.ask()
    talk.turn(bill(10_000, 2_000))
    for number in range(10_000):
        talk.ask() if number % 7 == 0 else talk.use()
        talk.turn(bill(stood, 100), signs=("hook-context",) if number % 5 == 0 else ())
        stood += 100
    assert looked[0] < 25 * len(talk.entries)


def random_turns(seed):
    """The turns of a session in which much happens, drawn by a seed."""
    draw, talk, stood = random.Random(seed), Talk(), 0
    talk.ask()
    for _ in range(60):
        what = draw.choices(("use", "ask", "compact", "rewind", "model"), (60, 30, 2, 3, 5))[0]
        changes = ()
        if what == "compact":
            changes = (talk.compact(),)
        elif what == "rewind":
            changes = (talk.rewind(len(talk.entries) // 2),)
        elif what == "model":
            talk.model = draw.choice(("claude-x", "claude-y"))
        else:
            getattr(talk, what)(draw.randint(10, 4_000))
        read = draw.choices((stood, stood // 2, 0, stood + 70), (80, 8, 4, 8))[0]
        usage = draw.choices((bill(read, 400), bill(read, 400, hour=True), None, Usage(3, None)), (80, 10, 5, 5))[0]
        signs = draw.choices(((), ("hook-context",), ("effort",)), (80, 12, 8))[0]
        talk.turn(usage, after=draw.choice((2.0, 20.0, 200.0, 400.0, None)), changes=changes, signs=signs,
                  chain=draw.choices(("main", "side"), (90, 10))[0])  # fmt: skip
        stood = read + 400
        yield talk.last


@pytest.mark.parametrize("seed", range(40))
def test_what_is_followed_is_remembered_as_what_is_predicted(seed):
    """A turn that plainly goes on takes a shorter way, and nobody can tell by what is said of the turns behind it."""
    predicted, followed, asked = Levels(packaged), Levels(packaged), random.Random(seed)
    for turn in random_turns(seed):
        expected = predicted.predict(turn)
        if asked.random() < 0.7:
            predicted.learn(turn)
            followed.follow(turn)
            continue
        assert (followed.predict(turn), followed.situation) == (expected, predicted.situation)
        assert followed.learn(turn) == predicted.learn(turn)


def holds(prediction, whole):
    """Assert what holds of every prediction: nothing below zero, nothing above what is asked, chances that sum to 1."""
    read, write, uncached = prediction.read, prediction.write, prediction.uncached
    assert min(read, write, uncached) >= 0
    assert read + write + uncached == prediction.total == whole
    assert sum(outcome.probability for outcome in prediction.outcomes) == pytest.approx(1)
    assert all(0 <= outcome.read <= whole for outcome in prediction.outcomes)
    assert (prediction.outcomes[0].read, prediction.outcomes[0].why) == (read, prediction.reason)
    assert 0 <= prediction.falls_below(read) <= 1


@pytest.mark.parametrize("seed", range(40))
def test_a_prediction_is_never_above_what_is_asked_and_never_below_zero(seed):
    levels, known = Levels(packaged), 0
    for turn in random_turns(seed):
        prediction = levels.predict(turn)
        if prediction.read is not None:
            holds(prediction, levels.situation.whole)
            known += 1
        levels.learn(turn)
    assert known > 30


@pytest.mark.parametrize("cut", [1, 2, 5, 10])
def test_what_is_left_of_a_history_that_shrank_bounds_the_read(cut):
    """A head that was guessed too high from a long opening was read of a prompt that could not hold it."""
    talk = Talk()
    talk.ask(200)
    talk.turn(bill(0, 60_000))
    for stood in range(10):
        talk.use(100)
        talk.turn(bill(60_000 + 100 * stood, 100))
    prediction = talk.turn(bill(0, 30_000), changes=(talk.rewind(len(talk.entries) - cut),))
    holds(prediction, talk.situation.whole)


@pytest.mark.corpus
def test_no_prediction_of_real_sessions_is_above_what_is_asked(corpus):
    turns = above = 0
    for path in sorted((corpus / "claude-code").glob("*.jsonl")):
        predictor = Predictor(packaged())
        predictor.begin()
        for turn in Options().open(str(path)).turns():
            predicted = predictor.turn(turn)
            if predicted.situation is None or predicted.prediction.read is None:
                continue
            holds(predicted.prediction, predicted.situation.whole)
            billed = None if turn.usage is None else total(turn.usage)
            turns += 1
            above += billed is not None and predicted.prediction.read > billed
    assert turns > 1_000
    assert above <= turns // 100  # what the client took out without a word of it cannot be known before the bill


@pytest.mark.parametrize("seed", range(5))
def test_what_another_model_counts_of_habits_holds_and_is_counted_once(seed):
    """A change is compared with what was recorded: a habit is as likely in both, whatever either expects besides."""
    recorded, bare = Levels(packaged), Levels(packaged)
    changed = Levels(packaged, recorded.tallies)
    for turn in random_turns(seed):
        for levels in (recorded, changed, bare):
            levels.predict(turn)
            levels.learn(turn)
        assert changed.tallies is recorded.tallies
        assert recorded.tallies == bare.tallies
    assert recorded.tallies
