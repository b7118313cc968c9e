"""Transcripts of caches that take no breakpoints: any beginning is read, in whole blocks, and reasoning is dropped."""

from __future__ import annotations

from msgspec import Raw

from cache.talk import Talk
from lore.cache.levels import Levels
from lore.cache.served import Served
from lore.model.events import Usage
from lore.model.items import AssistantMessage, ThinkingBlock
from lore.run.rules import packaged


def talk(provider="openai", model="gpt-5.4"):
    made = Talk()
    made.model = model
    made.levels = Levels(packaged, where=Served(provider, ""), breakpoints=False)
    return made


def bill(whole, read, output=50):
    return Usage(whole - read, read, None, output)


def think(made):
    made.add(AssistantMessage(f"t{made.number}", blocks=(ThinkingBlock(Raw(b'""'), "s" * 40),)))


def test_all_that_was_asked_before_is_read_in_whole_blocks():
    made = talk()
    made.ask()
    assert made.turn(bill(20_000, 9_600)).read is None
    made.use()
    assert made.turn(bill(21_000, 19_968)).read == 19_968
    made.use()
    prediction = made.turn(bill(22_000, 20_992))
    assert (prediction.read, prediction.reason) == (20_992, "goes-on")


def test_what_was_thought_since_the_last_prompt_is_left_out_from_the_next_one_on():
    made = talk()
    made.ask()
    made.turn(bill(20_000, 9_600))
    for whole in (22_000, 24_000, 26_000):
        think(made)
        made.use()
        assert made.turn(bill(whole, whole - 2_032)).reason == "goes-on"
    think(made)
    made.ask()
    prediction = made.turn(bill(23_000, 19_968))
    assert (prediction.read, prediction.reason) == (19_968, "reasoning")
    assert 0.5 < prediction.outcomes[0].probability < 0.7  # 352 of 573 new prompts fell
    made.use()
    assert made.turn(bill(23_600, 22_912)).read == 22_912  # nothing behind the dropped reasoning is believed


def test_a_session_that_keeps_its_reads_at_new_prompts_is_believed_after_a_few():
    made = talk()
    made.ask()
    made.turn(bill(20_000, 9_600))
    whole, reasons = 20_000, []
    for _ in range(6):
        for go_on in (made.use, made.ask):
            think(made)
            go_on()
            whole += 2_000
            prediction = made.turn(bill(whole, (whole - 2_000) // 128 * 128))
        reasons.append(prediction.reason)
    assert reasons[0] == "reasoning"
    assert reasons[-1] == "goes-on"


def test_geminis_implicit_cache_is_nearly_random_and_said_to_be():
    made = talk("gemini", "gemini-3-pro")
    made.ask()
    made.turn(bill(20_000, 5_000))
    made.use()
    prediction = made.turn(bill(21_000, 19_000))
    assert 0.4 < max(outcome.probability for outcome in prediction.outcomes) < 0.6
    assert prediction.confidence == "ceiling"


def test_a_cache_that_reads_all_or_nothing_is_never_predicted_with_confidence():
    """Reads of 47,000 and of none in turn were predicted with 88 %: each counted as one more fall to the last read."""
    made = talk("gemini", "gemini-3-pro")
    made.ask()
    made.turn(bill(50_000, 16_000))
    found = []
    for number in range(12):
        made.use(40)
        found.append(made.turn(bill(51_000 + 300 * number, 47_000 if number % 2 else 0)))
    assert [prediction.read for prediction in found[3:]] == [47_000] * 9
    assert all(prediction.probability < 0.4 for prediction in found[2:])
    assert all(abs(sum(outcome.probability for outcome in each.outcomes) - 1) < 1e-9 for each in found)
    assert found[-1].outcomes[1].read < 16_001  # the other half: nothing, or the head


def test_a_cache_that_keeps_falling_short_is_expected_to_read_what_it_read_last():
    """Reads through a router stood at 31,600 tokens for ten requests, and the first read was predicted each time."""
    made = talk("gemini", "gemini-3-pro")
    made.ask()
    made.turn(bill(36_000, 16_000))
    found = []
    for whole, read in ((37_000, 0), (38_000, 31_600), (39_000, 31_580), (40_000, 31_550), (41_000, 31_540)):
        made.use(40)
        found.append(made.turn(bill(whole, read)).read)
    assert found[3:] == [31_580, 31_550]


def test_no_pause_ends_an_implicit_cache_of_which_nobody_says_how_long_it_lives():
    """The 60 minutes of Gemini's explicit caches, and the five of Qwen's, were taken for the life of implicit ones."""
    for provider, model in (("gemini", "gemini-3-pro"), ("qwen", "qwen3-coder-plus")):
        made = talk(provider, model)
        made.ask()
        made.turn(bill(36_000, 16_000))
        made.use()
        made.turn(bill(37_000, 36_000))
        made.time += 3 * 3600
        made.use()
        prediction = made.turn(bill(38_000, 36_900))
        assert (made.situation.lifetime, made.situation.gone) == (None, None)
        assert prediction.reason != "expiry"


def test_what_is_not_read_is_uncached_unless_a_bill_charges_writes():
    """A tenth of each prompt was predicted as written, which has no price there: whole turns cost nothing."""
    made = talk()
    made.ask()
    made.turn(bill(20_000, 9_600))
    made.use()
    prediction = made.turn(bill(22_000, 19_968))
    assert (prediction.write, prediction.uncached) == (0, prediction.total - prediction.read)
    charging = talk(model="gpt-5.6")
    charging.ask()
    charging.turn(Usage(400, 9_600, 10_000, 50))
    charging.use()
    assert charging.turn(Usage(400, 19_600, 2_000, 50)).write > 0
