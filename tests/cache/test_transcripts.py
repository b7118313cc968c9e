"""Predictions of transcripts whose cache has breakpoints."""

import random
from itertools import islice

import pytest
from msgspec import Raw
from msgspec.structs import replace

from cache.talk import ONE_BY_ONE, Chains, Talk, bill
from helpers.each import each
from lore.cache import transcript_history
from lore.cache.counts import total
from lore.cache.predictor import Predictor
from lore.model.events import Usage
from lore.model.items import AssistantMessage, ThinkingBlock
from lore.model.state import Change, Sign
from lore.model.turn import Prompt, PromptBasis, Turn
from lore.recording.opening import Options
from lore.run.rules import packaged


def opened(begin=None, **fields):
    talk = Talk() if begin is None else Talk(begin)
    talk.open(**fields)
    return talk


def test_continued_turn_reads_everything_cached():
    prediction = opened().turn(bill(12_300, 200))
    assert (prediction.read, prediction.confidence, prediction.reason) == (12_300, "rule", "goes-on")


def test_appended_tokens_are_estimated_from_bytes():
    talk = opened()
    talk.use(8_000)
    prediction = talk.turn(bill(12_300, 200))
    assert prediction.uncached == 2
    assert 1_500 < prediction.write < 4_000
    assert prediction.total == prediction.read + prediction.write + prediction.uncached
    assert prediction.write_1h == 0


def test_bytes_per_token_are_learned_from_usage():
    talk, stood = opened(), 12_300
    for _ in range(20):
        talk.use(8_000)
        prediction = talk.turn(bill(stood, 4_000))  # two bytes a token
        stood += 4_000
    assert abs(prediction.write - 4_000) < 500


@pytest.mark.parametrize(("hour", "pause", "reason"), [
    (False, 305, "goes-on"), (False, 307, "expiry"), (True, 307, "goes-on"), (True, 3_700, "expiry"),
])  # fmt: skip
def test_entry_expires_after_lifetime_and_grace(hour, pause, reason):
    prediction = opened(hour=hour).turn(bill(12_300, 200), after=pause)
    assert prediction.reason == reason
    assert prediction.read == (12_300 if reason == "goes-on" else 10_000)


def test_compaction_leaves_the_head():
    talk = opened(hour=True)
    change = talk.compact()
    assert talk.turn(bill(11_000, 1_500, hour=True), changes=(change,)).read == 10_000
    talk.use()
    talk.turn(bill(12_500, 100, hour=True))
    change = talk.compact()
    assert talk.turn(bill(11_000, 1_500, hour=True), changes=(change,)).read == 11_000


def test_rewind_reads_the_last_position_before_it():
    talk = Talk()
    talk.ask()
    talk.turn(bill(10_000, 2_000))
    kept_entries = len(talk.entries)
    for stood in (12_000, 12_500, 13_000):
        talk.use()
        talk.turn(bill(stood, 500))
    change = talk.rewind(kept_entries)
    talk.ask()
    prediction = talk.turn(bill(12_000, 300), changes=(change,))
    assert (prediction.read, prediction.reason) == (12_000, "shrunk")
    assert talk.turn(bill(12_300, 10)).read == 12_300


def test_each_model_has_its_own_entries():
    talk = opened(hour=True)
    talk.model = "claude-y"
    prediction = talk.turn(bill(0, 12_000, hour=True), changes=(Change("LORE119", "model changed"),))
    assert (prediction.read, prediction.reason) == (0, "model")
    talk.model = "claude-x"
    talk.use()
    assert talk.turn(bill(12_300, 700, hour=True), changes=(Change("LORE119", "model changed"),)).read == 12_300


@pytest.mark.parametrize(("pause", "output", "hidden"), [(30.0, 70, True), (10.0, 70, False), (30.0, 12_000, False)])
def test_hidden_request_is_predicted_after_short_turns(pause, output, hidden):
    talk = opened()
    talk.ask()
    talk.turn(bill(12_370, 200, output=output))  # 70 tokens more than was cached: the client asked in between
    talk.ask()
    prediction = talk.turn(bill(12_570, 200), after=pause)
    assert (prediction.reason == "hidden-request", prediction.read > 12_570) == (hidden, hidden)


@pytest.mark.parametrize(("version", "reads", "reasons"), [
    ("2.1.215", (12_350, 12_650), ["hidden-request", "hidden-request"]), ("2.1.81", (12_300, 12_500), ["goes-on"] * 2),
    ("2.1.37", (12_300, 12_500), ["hidden-request", "goes-on"]),  # the first prompt showed that the user has it off
])  # fmt: skip
def test_versions_say_whether_first_prompts_follow_hidden_requests(version, reads, reasons):
    talk, found = Talk(), []
    talk.ask()
    talk.turn(replace(bill(10_000, 2_000), client=f"claude-code {version}"))
    for read in (12_000, *reads):
        talk.ask()
        usage = replace(bill(read, 300 if read == 12_000 else 200), client=f"claude-code {version}")
        found.append(talk.turn(usage, after=5.0 if read == 12_000 else 60.0).reason)
    assert found == ["goes-on", *reasons]


def test_output_count_of_a_begun_response_is_ignored():
    """Versions before 2.1.59 kept the count of the first event: 1 for answers of thousands of tokens."""
    talk = opened()
    for read in (12_350, 12_600):
        talk.ask()
        talk.turn(bill(read, 200, output=1))
    talk.say(8_000)
    talk.ask()
    assert talk.turn(bill(14_600, 100)).read > 14_000


@pytest.mark.parametrize("sign", ["effort", "client-version"])
def test_signal_that_always_broke_predicts_a_fall(sign):
    prediction = opened().turn(bill(10_000, 2_500), signs=(sign,))
    assert (prediction.read, prediction.reason, prediction.confidence) == (10_000, sign, "ceiling")


@pytest.mark.parametrize(("names", "moved"), [
    ((), True), (("PostToolUse:Bash",), True), (("Stop", "PostToolUse:Edit"), True), (("Stop",), False),
])  # fmt: skip
def test_hook_text_is_removed_at_next_prompt(names, moved):
    talk = opened(hour=True)
    talk.turn(bill(12_300, 2_000, hour=True), signs=(Sign("hook-context", names),))
    talk.ask()
    prediction = talk.turn(bill(12_300 if moved else 14_300, 1_900, hour=True))
    assert prediction.read == (12_300 if moved else 14_300)
    hooks = [(signal.read_if_moved, signal.names) for signal in talk.state.signals]
    assert hooks == ([(12_300, names)] if moved else [])


def version(name, number):
    return Sign(name, version=number)


@each("number, reads", [
    ("2.1.118", [12_300, 12_500]), ("2.1.119", [10_000, 12_500]), ("2.1.207", [10_000, 12_500]),
    ("2.1.208", [10_000, 12_500]), ("2.1.209", [12_300, 12_500]), ("", [12_300, 12_500]),
])  # fmt: skip
def test_first_tool_search_changes_head_in_some_versions(number, reads):
    """First and later tool searches are counted separately."""
    talk, read_tokens = opened(), []
    for stood in (12_300, 12_500):
        read_tokens.append(talk.turn(bill(stood, 200), signs=(version("tool-reference", number),)).read)
        talk.use()
    assert read_tokens == reads


@pytest.mark.parametrize(("number", "read"), [("2.1.58", 12_300), ("2.1.59", 14_300), ("", 14_300)])
def test_skill_text_moves_at_prompt_in_early_versions(number, read):
    talk = opened(hour=True)
    assert talk.turn(bill(12_300, 2_000, hour=True), signs=(version("skill", number),)).read == 12_300
    talk.ask()
    prediction = talk.turn(bill(read, 500, hour=True))
    assert prediction.read == read
    assert (prediction.reason == "skill") == (read == 12_300)


@pytest.mark.parametrize(("model", "read"), [
    ("claude-opus-4-5-20251101", 10_000), ("claude-sonnet-4-5", 10_000), ("claude-opus-4-6", 12_300), ("x", 12_300),
])  # fmt: skip
def test_missing_thinking_changes_history_for_some_models(model, read):
    talk = Talk()
    talk.model = model
    talk.open()
    talk.ask()
    assert talk.turn(bill(read, 500), signs=("no-thinking",)).read == read


@pytest.mark.parametrize(
    ("number", "after", "read"), [("2.1.33", "off", 10_000), ("2.1.33", "on", 12_300), ("2.1.38", "off", 12_300)]
)
def test_thinking_switched_off_changes_history(number, after, read):
    switched = Sign("thinking", ("/review",), after=after, version=number)
    assert opened().turn(bill(read, 500), signs=(switched,)).read == read


@pytest.mark.parametrize(("model", "client", "thinks", "read"), [
    ("claude-opus-4-6", "claude-code 2.1.33", False, 16_600), ("claude-opus-4-6", "claude-code 2.1.33", True, 42_600),
    ("claude-opus-4-6", "claude-code 2.1.38", False, 42_600), ("claude-opus-4-5", "claude-code 2.1.33", False, 42_600),
    ("claude-opus-4-6", "", False, 42_600),
])  # fmt: skip
def test_first_turn_without_thinking_leaves_the_head(model, client, thinks, read):
    talk = Talk()
    talk.model = model
    talk.ask()
    talk.turn(replace(bill(16_600, 26_000, hour=True), client=client))
    if thinks:
        talk.add(AssistantMessage("thought", blocks=(ThinkingBlock(Raw(b'""'), "signature"),)))
    talk.ask()
    assert talk.turn(replace(bill(16_600, 26_100, hour=True), client=client)).read == read
    talk.ask()
    assert talk.turn(bill(42_700, 100, hour=True)).read == 42_700  # only the first turn counts


@pytest.mark.parametrize(("client", "read"), [("2.0.76", 0), ("2.1.35", 0), ("2.1.36", 10_000), ("", 10_000)])
def test_early_versions_read_nothing_after_expiry(client, read):
    talk = Talk()
    talk.ask()
    talk.turn(replace(bill(10_000, 2_000), client=f"claude-code {client}"))
    talk.use()
    prediction = talk.turn(bill(read, 2_500), after=400)
    assert (prediction.read, prediction.reason) == (read, "expiry")


@pytest.mark.parametrize(("hour", "after"), [(False, 400.0), (True, 4_000.0)])
def test_expired_entries_are_not_read(hour, after):
    prediction = opened(hour=hour).turn(bill(10_000, 2_500), after=after)
    assert (prediction.read, prediction.reason, prediction.confidence) == (10_000, "expiry", "rule")


def test_prediction_within_seconds_is_the_best_case():
    prediction = opened().turn(bill(12_000, 500), after=2.0)
    assert (prediction.read, prediction.confidence) == (12_300, "ceiling")


def test_shared_head_is_learned_from_certain_causes():
    talk = opened(hour=True)
    talk.turn(bill(4_000, 9_000, hour=True), signs=("tools-delta",))  # a guess: nothing is learned of what others keep
    talk.use()
    assert talk.turn(bill(10_000, 3_000, hour=True), after=4_000).read == 10_000
    talk.use()
    talk.turn(bill(4_000, 9_000, hour=True), after=4_000)
    talk.use()
    assert talk.turn(bill(4_000, 9_000, hour=True), after=4_000).read == 4_000


@pytest.mark.parametrize(("uses", "read"), [(5, 13_000), (25, 11_000)])
def test_one_hour_entry_survives_within_lookback(uses, read):
    talk = Talk(ONE_BY_ONE)
    talk.ask()
    talk.turn(bill(11_000, 1_000))
    talk.use()
    talk.use()
    talk.turn(Usage(2, 12_000, 2_000, 50, 1_000, 1_000))  # an hour up to 13,000, then five minutes
    for _ in range(uses):
        talk.use()
    prediction = talk.turn(bill(read, 9_000), after=400)
    assert (prediction.read, prediction.reason) == (read, "expiry")


def test_too_many_new_positions_leave_the_head():
    for begin, read in ((ONE_BY_ONE, 10_000), (None, 12_300)):
        talk = opened(begin)
        for _ in range(15):
            talk.use()
        assert talk.turn(bill(read, 3_000)).read == read


def test_turn_after_missing_usage_is_estimated():
    talk = opened()
    talk.turn(None)
    talk.use()
    prediction = talk.turn(bill(12_600, 100))
    assert talk.state.cached is None
    assert 12_300 < prediction.read < 12_800
    assert prediction.confidence == "ceiling"


@pytest.mark.parametrize("usage", [
    Usage(-1, 5, 5), Usage(0, 0, 0), Usage(1, 2**40, 5), Usage(1, 12_300, 5, 1, 7, 9), Usage(1, -7, 5),
])  # fmt: skip
def test_impossible_usage_is_reported_and_not_learned(usage):
    talk, other = opened(), opened()
    talk.turn(usage)
    other.turn(None)
    assert talk.odd
    assert not other.odd
    talk.use()
    other.use()
    assert talk.turn(bill(12_600, 100)) == other.turn(bill(12_600, 100))


@pytest.mark.parametrize("after", [None, -5_000.0])
def test_missing_or_backward_clock_predicts_no_expiry(after):
    talk = opened()
    assert talk.turn(bill(12_300, 100), after=after).read == 12_300


def test_changed_system_prompt_leaves_the_shared_head():
    talk = Talk()
    for system, usage, read in (("a", bill(3_000, 5_000), None), ("b", bill(3_000, 5_000), 3_000)):
        turn = Turn("main", 1, Prompt("anthropic", "reconstructed"), usage=usage,
                   basis=PromptBasis(talk.entries, "anthropic", "claude-x", (system, None)))  # fmt: skip
        assert talk.cache.predict(turn).read == read
        talk.cache.learn(turn)


def test_long_session_measures_each_entry_few_times(monkeypatch):
    looked = [0]

    def counting_islice(entries, most):
        for entry in islice(entries, most):
            looked[0] += 1
            yield entry

    monkeypatch.setattr(transcript_history, "islice", counting_islice)
    talk, stood = Talk(), 12_000
    talk.ask()
    talk.turn(bill(10_000, 2_000))
    for number in range(3_000):
        talk.ask() if number % 7 == 0 else talk.use()
        talk.turn(bill(stood, 100), signs=("hook-context",) if number % 5 == 0 else ())
        stood += 100
    assert looked[0] < 25 * len(talk.entries)


def random_turns(seed):
    """Yield the turns of a random session."""
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
        odd = draw.choice((None, Usage(3, None), Usage(-1, 2**60, 5), Usage(7, 1, 2, 3, 2, 0)))
        usage = draw.choices((bill(read, 400), bill(read, 400, hour=True), odd), (80, 10, 10))[0]
        signs = draw.choices(((), ("hook-context",), ("effort",)), (80, 12, 8))[0]
        talk.turn(usage, after=draw.choice((2.0, 20.0, 200.0, 400.0, None)), changes=changes, signs=signs,
                  chain=draw.choices(("main", "side"), (90, 10))[0])  # fmt: skip
        stood = read + 400
        yield talk.last


def holds(prediction, whole):
    """Assert that a prediction is possible: its parts sum to the prompt."""
    read, write, uncached = prediction.read, prediction.write, prediction.uncached
    assert min(read, write, uncached) >= 0
    assert read + write + uncached == prediction.total == whole


@each([*range(40)])
def test_predictions_stay_within_the_prompt(seed):
    cache, predicted_turns = Chains(), 0
    for turn in random_turns(seed):
        prediction = cache.predict(turn)
        if prediction.read is not None:
            holds(prediction, cache.latest.state.expected_tokens)
            predicted_turns += 1
        cache.learn(turn)
    assert predicted_turns > 30


@pytest.mark.parametrize("cut", [1, 2, 5, 10])
def test_shrunk_history_bounds_the_read(cut):
    """A head that was estimated too large was predicted as the read of a shorter prompt."""
    talk = Talk()
    talk.ask(200)
    talk.turn(bill(0, 60_000))
    for stood in range(10):
        talk.use(100)
        talk.turn(bill(60_000 + 100 * stood, 100))
    prediction = talk.turn(bill(0, 30_000), changes=(talk.rewind(len(talk.entries) - cut),))
    holds(prediction, talk.state.expected_tokens)


@pytest.mark.corpus
def test_predictions_of_real_sessions_stay_within_prompts(corpus):
    turns = above = 0
    for path in sorted((corpus / "claude-code").glob("*.jsonl")):
        predictor = Predictor(packaged())
        predictor.begin_recording()
        for turn in Options().open(str(path)).turns():
            predicted = predictor.predict(turn)
            if predicted.state is None or predicted.prediction.read is None:
                continue
            holds(predicted.prediction, predicted.state.expected_tokens)
            billed = None if turn.usage is None else total(turn.usage)
            turns += 1
            above += billed is not None and predicted.prediction.read > billed
    assert turns > 1_000
    assert above <= turns // 90  # text that the client removed without a record is unknown before usage
