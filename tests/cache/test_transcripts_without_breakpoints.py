"""Predictions of transcripts whose cache has no breakpoints."""

import pytest
from msgspec import Raw

from cache.talk import Chains, Talk
from lore.cache.served import Served
from lore.model.events import Usage
from lore.model.items import AssistantMessage, RawBlock, ThinkingBlock


def talk(provider="openai", model="gpt-5.2"):
    chat = Talk()
    chat.model = model
    chat.cache = Chains(where=Served(provider, ""), breakpoints=False)
    return chat


def bill(whole, read, output=50):
    return Usage(whole - read, read, None, output)


def think(chat):
    chat.add(AssistantMessage(f"t{chat.number}", blocks=(ThinkingBlock(Raw(b'""'), "s" * 40),)))


def test_earlier_prompt_is_read_in_whole_blocks():
    chat = talk()
    chat.ask()
    assert chat.turn(bill(20_000, 9_600)).read is None
    chat.use()
    assert chat.turn(bill(21_000, 19_968)).read == 19_968
    chat.use()
    prediction = chat.turn(bill(22_000, 20_992))
    assert (prediction.read, prediction.reason) == (20_992, "goes-on")


def test_reasoning_is_dropped_at_the_next_prompt():
    chat = talk()
    chat.ask()
    chat.turn(bill(20_000, 9_600))
    for whole in (22_000, 24_000, 26_000):
        think(chat)
        chat.use()
        assert chat.turn(bill(whole, whole - 2_032)).reason == "goes-on"
    think(chat)
    chat.ask()
    prediction = chat.turn(bill(23_000, 19_968))
    assert (prediction.read, prediction.reason) == (19_968, "reasoning")
    chat.use()
    assert chat.turn(bill(23_600, 22_912)).read == 22_912  # positions after the dropped reasoning are not used


def test_read_that_ends_at_reasoning_shows_it_dropped():
    """Results of an interrupted turn were larger than recorded, so that the prompt seemed to keep its reasoning."""
    chat = talk()
    chat.ask()
    chat.turn(bill(20_000, 9_600))
    for whole, read in ((22_000, 19_968), (24_000, 21_888)):
        think(chat)
        chat.use()
        chat.turn(bill(whole, read))
    think(chat)
    chat.use(2_000)
    chat.ask()
    chat.turn(bill(25_000, 19_968))
    think(chat)
    chat.ask()
    assert chat.turn(bill(25_100, 24_960)).read == 24_960


def test_shorter_prompt_holds_no_reasoning():
    """More was read than precedes the reasoning, so that it seemed to be kept, at each later prompt again."""
    chat = talk()
    chat.ask()
    chat.turn(bill(20_000, 9_600))
    for whole, read in ((30_000, 19_968), (40_000, 29_952)):
        think(chat)
        chat.use()
        chat.turn(bill(whole, read))
    think(chat)
    chat.ask()
    chat.turn(bill(38_000, 25_600))
    think(chat)
    chat.ask()
    assert chat.turn(bill(38_100, 37_888)).read == 37_888


def test_positions_outlive_a_pause_without_breakpoints():
    """The request after a pause writes everything again, so what precedes earlier reasoning can be read later."""
    chat = talk()
    chat.ask()
    chat.turn(bill(20_000, 9_600))
    think(chat)
    chat.use()
    chat.turn(bill(22_000, 19_968))
    chat.use()
    assert chat.turn(bill(24_000, 9_600), after=1_200.0).reason == "expiry"
    think(chat)
    chat.ask()
    assert chat.turn(bill(22_500, 19_968)).read == 19_968


def test_session_that_keeps_falling_reads_its_latest_read():
    """Through a router ten requests read 31,600 tokens each, and the first read was predicted each time."""
    chat = talk("gemini", "gemini-2.5-pro")
    chat.ask()
    chat.turn(bill(36_000, 16_000))
    read_tokens = []
    for whole, read in ((37_000, 0), (38_000, 31_600), (39_000, 31_580), (40_000, 31_550), (41_000, 31_540)):
        chat.use(40)
        read_tokens.append(chat.turn(bill(whole, read)).read)
    assert read_tokens[3:] == [31_580, 31_550]


@pytest.mark.parametrize(("platform", "read"), [("", 12_135), ("vertex", 14_161)])
def test_gemini_3_reads_whole_steps(platform, read):
    chat = talk("gemini", "gemini-3-pro-preview")
    chat.cache = Chains(where=Served("gemini", platform), breakpoints=False)
    chat.ask()
    for whole, cached in ((9_000, 0), (15_000, 8_090)):
        chat.turn(bill(whole, cached))
        chat.use()
    assert chat.turn(bill(16_000, 12_140)).read == read


def test_cache_that_never_reads_is_predicted_to_read_nothing():
    chat = talk("moonshot", "kimi-k2.5")
    chat.ask()
    for whole in (20_000, 21_000, 22_000, 23_000):
        chat.turn(bill(whole, 0))
        chat.use()
    assert chat.turn(bill(24_000, 0)).read == 0


def test_gpt_5_6_keeps_reasoning_at_the_next_prompt():
    chat = talk(model="gpt-5.6-sol")
    chat.ask()
    chat.turn(bill(20_000, 9_600))
    think(chat)
    chat.use()
    chat.turn(bill(24_000, 19_968))
    chat.ask()
    assert chat.turn(bill(24_500, 23_040)).read == 23_040  # 512 and whole steps of 1,024


@pytest.mark.parametrize(("model", "after", "reason"), [
    ("gpt-5.4", 860.0, "goes-on"), ("gpt-5.4", 1_200.0, "expiry"),
    ("gpt-5.5", 1_617.0, "goes-on"), ("gpt-5.5", 1_851.0, "expiry"),  # 24 hours are promised
])  # fmt: skip
def test_entries_of_openai_live_as_long_as_was_seen(model, after, reason):
    chat = talk(model=model)
    chat.ask()
    chat.turn(bill(20_000, 9_600))
    chat.use()
    assert chat.turn(bill(21_000, 19_968), after=after).reason == reason


@pytest.mark.parametrize(("model", "thoughts", "read"), [
    ("gpt-5.4", RawBlock(Raw(b'{"type":"reasoning","encrypted_content":"gAAA"}')), 22_016),
    ("gpt-5.4", ThinkingBlock(Raw(b'"a"'), None), 19_968),  # OpenCode keeps a text that it does not send
    ("gpt-5.5", RawBlock(Raw(b'{"type":"reasoning","encrypted_content":"gAAA"}')), 19_840),
])  # fmt: skip
def test_answer_is_read_if_its_reasoning_is_returned(model, thoughts, read):
    chat = talk(model=model)
    chat.ask()
    chat.turn(bill(20_000, 9_600, output=2_100))
    chat.add(AssistantMessage("t1", blocks=(thoughts,)))
    chat.use()
    assert chat.turn(bill(23_000, read)).read == read


def test_unknown_lifetime_never_expires():
    """Lifetimes of explicit caches (Gemini 60 minutes, Qwen five) were applied to implicit ones."""
    for provider, model in (("gemini", "gemini-3-pro"), ("qwen", "qwen3-coder-plus")):
        chat = talk(provider, model)
        chat.ask()
        chat.turn(bill(36_000, 16_000))
        chat.use()
        chat.turn(bill(37_000, 36_000))
        chat.time += 3 * 3600
        chat.use()
        prediction = chat.turn(bill(38_000, 36_900))
        assert (chat.state.lifetime, chat.state.first_expired) == (None, None)
        assert prediction.reason != "expiry"


def test_unread_tokens_are_uncached_unless_writes_are_charged():
    """A tenth of each prompt was predicted as written, which has no price there, so turns had no cost."""
    chat = talk()
    chat.ask()
    chat.turn(bill(20_000, 9_600))
    chat.use()
    prediction = chat.turn(bill(22_000, 19_968))
    assert (prediction.write, prediction.uncached) == (0, prediction.total - prediction.read)
    charging = talk(model="gpt-5.6")
    charging.ask()
    charging.turn(Usage(400, 9_600, 10_000, 50))
    charging.use()
    assert charging.turn(Usage(400, 19_600, 2_000, 50)).write > 0


@pytest.mark.parametrize(("model", "read"), [("deepseek-chat", 21_184), ("deepseek-reasoner", 20_992)])
def test_deepseek_reads_the_previous_answer_except_reasoners(model, read):
    chat = talk("deepseek", model)
    chat.ask()
    chat.turn(bill(20_000, 9_600, output=200))
    chat.use()
    chat.turn(bill(21_000, 20_160, output=200))
    chat.use()
    assert chat.turn(bill(22_000, read)).read == read


@pytest.mark.parametrize(("stays", "read"), [(2, 23_168), (3, 9_600)])
def test_deepseek_that_often_repeats_reads_is_predicted_so(stays, read):
    """Of the writes of some runs every second one is lost."""
    chat = talk("deepseek", "deepseek-chat")
    chat.ask()
    for step in range(4):
        chat.turn(bill(20_000 + step * 1_000, 9_600 if step <= stays else 22_000, output=200))
        chat.use()
    assert chat.turn(bill(24_000, 9_600)).read == read
