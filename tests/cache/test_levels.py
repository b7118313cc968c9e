"""Levels: what a cache reads where a recording holds neither system prompt nor tools."""

from __future__ import annotations

import random
from itertools import islice

import msgspec
import pytest

from cache.talk import ONE_BY_ONE, Talk, bill
from lore.cache import lanes
from lore.cache.bills import DROP
from lore.cache.levels import Levels
from lore.model.events import Billed
from lore.model.state import Change
from lore.model.turn import Basis, Prompt, Turn


def opened(begin=None, **fields):
    talk = Talk() if begin is None else Talk(begin)
    talk.open(**fields)
    return talk


def test_of_the_first_turn_nothing_is_said():
    talk = Talk()
    talk.ask()
    assert talk.turn(bill(10_000, 2_000)).read is None
    assert talk.situation.stood is None


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


def test_what_an_expiry_left_is_learned():
    talk = opened()
    talk.turn(bill(0, 12_500), after=900)
    talk.use()
    assert talk.turn(bill(0, 12_700), after=900).read == 0


def test_entries_of_an_hour_outlive_those_of_five_minutes():
    talk = Talk()
    talk.ask()
    talk.turn(Billed(2, 10_000, 3_000, 50, 1_000, 2_000))
    talk.use()
    assert talk.turn(bill(12_000, 1_200), after=400).read == 12_000


def test_a_compaction_leaves_the_head_and_what_it_left_is_learned():
    talk = opened(hour=True)
    change = talk.compact()
    assert talk.turn(bill(11_000, 1_500, hour=True), changes=(change,)).read == 10_000
    talk.use()
    talk.turn(bill(12_500, 100, hour=True))
    change = talk.compact()
    assert talk.turn(bill(11_000, 1_500, hour=True), changes=(change,)).read == 11_000


def test_a_head_that_was_cold_at_first_is_guessed_from_the_first_bill():
    talk = opened(read=0, write=12_000)
    found = talk.turn(bill(11_000, 1_500), changes=(talk.compact(),))
    assert 11_000 < found.read < 12_000


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


def test_results_that_were_cleared_far_back_leave_the_head():
    talk, stood = Talk(), 12_000
    talk.ask()
    talk.turn(bill(10_000, 2_000))
    for _ in range(20):
        talk.use()
        talk.turn(bill(stood, 500))
        stood += 500
    entries = talk.entries
    item = msgspec.structs.replace(entries[1].item, output=msgspec.Raw(b'"[cleared]"'))
    talk.entries = entries.set(1, msgspec.structs.replace(entries[1], item=item))
    talk.use()
    found = talk.turn(bill(10_000, 9_000), changes=(Change("LORE117", "1 tool results cleared"),))
    assert found.read == 10_000
    assert talk.situation.level.tokens < talk.situation.stood - DROP


def test_another_model_has_nothing_and_the_first_one_still_has_its_own():
    talk = opened(hour=True)
    talk.model = "claude-y"
    found = talk.turn(bill(0, 12_000, hour=True), changes=(Change("LORE119", "model changed"),))
    assert (found.read, found.reason) == (0, "model")
    talk.model = "claude-x"
    talk.use()
    assert talk.turn(bill(12_300, 700, hour=True), changes=(Change("LORE119", "model changed"),)).read == 12_300


def test_a_hidden_request_is_foreseen_where_the_last_turn_end_had_one():
    talk = opened()
    talk.ask()
    assert talk.turn(bill(12_350, 200, output=70)).read == 12_300
    talk.ask()
    found = talk.turn(bill(12_620, 100))
    assert (found.read, found.reason) == (12_550 + 70, "hidden-request")
    talk.ask()
    talk.turn(bill(12_720, 100))
    talk.ask()
    assert talk.turn(bill(12_820, 10)).reason == "goes-on"


def test_an_output_count_of_a_response_that_had_just_begun_is_not_taken_for_its_length():
    """Versions before 2.1.59 kept the count of the first event: 1 for answers of thousands of tokens."""
    talk = opened()
    talk.ask()
    talk.turn(bill(12_350, 200, output=1))
    talk.say(8_000)
    talk.ask()
    assert talk.turn(bill(14_600, 100)).read > 14_000


@pytest.mark.parametrize("sign", ["effort", "client-version"])
def test_changes_that_always_broke_the_prefix_are_foreseen(sign):
    found = opened().turn(bill(10_000, 2_500), signs=(sign,))
    assert (found.read, found.reason, found.confidence) == (10_000, sign, "ceiling")


def test_changes_that_seldom_break_the_prefix_are_foreseen_once_the_session_shows_it():
    talk, read = opened(), []
    for _ in range(5):
        read.append(talk.turn(bill(10_000, 2_500), signs=("tool-reference",)).read)
        talk.use()
    assert read[:2] == [12_300, 12_500]
    assert read[4] == 10_000


def test_a_sign_that_the_session_shows_to_be_harmless_is_foreseen_no_more():
    talk = opened()
    talk.turn(bill(12_300, 200), signs=("effort",))
    talk.use()
    assert talk.turn(bill(12_500, 200), signs=("effort",)).read == 12_500


def test_text_of_hooks_beside_results_is_taken_out_when_the_user_speaks_once_it_was_so_twice():
    talk, stood = opened(hour=True), 12_300
    for times in range(3):
        before = stood
        talk.turn(bill(stood, 2_000, hour=True), signs=("hook-context",))
        stood += 2_000
        talk.ask()
        found = talk.turn(bill(before, 1_900, hour=True))
        assert found.read == (before if times == 2 else stood)
        assert (talk.situation.waiting is None, talk.situation.put_back) == (False, before)
        stood = before + 1_900
        talk.use()


def test_more_new_positions_than_are_looked_back_leave_the_head_where_each_block_counts():
    for begin, read in ((ONE_BY_ONE, 10_000), (None, 12_300)):
        talk = opened(begin)
        for _ in range(15):
            talk.use()
        assert talk.turn(bill(read, 3_000)).read == read


def test_within_three_seconds_confidence_is_lower_and_nothing_is_foreseen():
    found = opened().turn(bill(12_000, 500), after=2.0)
    assert (found.read, found.confidence) == (12_300, "ceiling")


def test_missing_usage_is_unknown_and_what_follows_is_a_guess():
    talk = opened()
    talk.turn(None)
    talk.use()
    found = talk.turn(bill(12_600, 100))
    assert talk.situation.stood is None
    assert 12_300 < found.read < 12_800
    assert found.confidence == "ceiling"


@pytest.mark.parametrize("usage", [
    Billed(-1, 5, 5), Billed(0, 0, 0), Billed(1, 2**40, 5), Billed(1, 12_300, 5, 1, 7, 9), Billed(1, -7, 5),
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


def test_chains_do_not_mix():
    talk = opened()
    assert talk.turn(bill(0, 900), chain="side").read is None
    assert talk.turn(bill(900, 100), chain="side").read == 900


def test_another_system_prompt_leaves_what_others_keep():
    talk = Talk()
    for system, usage, read in (("a", bill(3_000, 5_000), None), ("b", bill(3_000, 5_000), 3_000)):
        one = Turn("main", 1, Prompt("anthropic", "reconstructed"), usage=usage,
                   basis=Basis(talk.entries, "anthropic", ("claude-x", system)))  # fmt: skip
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
        usage = draw.choices((bill(read, 400), bill(read, 400, hour=True), None, Billed(3, None)), (80, 10, 5, 5))[0]
        signs = draw.choices(((), ("hook-context",), ("effort",)), (80, 12, 8))[0]
        talk.turn(usage, after=draw.choice((2.0, 20.0, 200.0, 400.0, None)), changes=changes, signs=signs,
                  chain=draw.choices(("main", "side"), (90, 10))[0])  # fmt: skip
        stood = read + 400
        yield talk.last


@pytest.mark.parametrize("seed", range(40))
def test_what_is_followed_is_remembered_as_what_is_predicted(seed):
    """A turn that plainly goes on takes a shorter way, and nobody can tell by what is said of the turns behind it."""
    predicted, followed, asked = Levels(), Levels(), random.Random(seed)
    for turn in random_turns(seed):
        expected = predicted.predict(turn)
        if asked.random() < 0.7:
            predicted.learn(turn)
            followed.follow(turn)
            continue
        assert (followed.predict(turn), followed.situation) == (expected, predicted.situation)
        assert followed.learn(turn) == predicted.learn(turn)
