"""Dreams: topics, superseded topics, expiry."""

import pytest

from helpers.each import each
from lore.asking import SummaryError
from lore_plugins.memory.buckets import GENERAL, KnownMemory, MemoryText, Topic, has_expired
from lore_plugins.memory.topics import CONTENT, MOST_DREAM_TOPICS, MOST_TOPICS, consolidate
from plugins.memory.remembering import AT, Model, topics


def known_memory(*names, texts=(("facts", "one"), ("facts", "two"), ("tasks", "three")), **fields):
    entries = {key: MemoryText(section=key[0], text=key[1]) for key in texts}
    before = {name: Topic(topic=name, summary="", content="old", **fields) for name in names}
    return KnownMemory(entries, before, is_fresh=True)


def dream_of(answer, *names, **fields):
    return consolidate(known_memory(*names, **fields), Model(answer), at=AT)


def test_without_model_each_section_is_a_topic():
    dream = consolidate(known_memory(), None, at=AT)
    assert {name: topic.content for name, topic in dream.topics.items()} == {
        "known_facts": "- two\n- one",
        "open_tasks": "- three",
    }
    assert "decisions_made" in dream.supersedes


def test_topic_content_is_limited():
    dream = consolidate(
        known_memory(texts=[("facts", f"{number:03} " + "x" * 296) for number in range(40)]), None, at=AT
    )
    content = dream.topics["known_facts"].content
    assert len(content) < CONTENT + 10
    assert content.startswith("- 039")
    assert content.endswith("- …")


def test_model_names_topics_and_superseded_ones():
    dream = dream_of(topics("Code Style", "theTeam", "__a--b  c__", supersedes=["old one", 3]), "old_one", "other")
    assert list(dream.topics) == ["code_style", "the_team", "a_b_c"]
    assert dream.supersedes == (GENERAL, "old_one")
    assert dream.topics["the_team"].content == "all of theTeam"


def test_seven_topics_and_the_later_duplicate_win():
    answer = topics(*(f"t{number}" for number in range(9)), "t0")
    answer["topics"][-1]["content"] = "new"
    dream = dream_of(answer)
    assert len(dream.topics) == MOST_DREAM_TOPICS
    assert dream.topics["t0"].content == "new"


def test_malformed_topics_are_skipped():
    answer = topics("good", "!!", "")
    answer["topics"] += [3, {"topic": "x"}, {"topic": "x", "content": " "}, {"topic": None, "content": "x"}]
    assert list(dream_of(answer).topics) == ["good"]


@pytest.mark.parametrize(
    ("ends", "expected"), [("2026-02-01T00:00:00Z", True), ("soon", False), (7, False), (None, False)]
)
def test_invalid_expiry_is_dropped(ends, expected):
    answer = topics("one")
    answer["topics"][0]["expires_at"] = ends
    assert dream_of(answer).topics["one"].expires_at == (ends if expected else None)


def test_expired_topic_is_hidden_then_removed():
    late = known_memory("late", expires_at="2026-01-02T03:04:05+00:00")
    assert late.visible_topics(AT) == ()
    assert len(late.visible_topics("2026-01-02T03:04:04Z")) == 1
    assert "late" in consolidate(late, None, at=AT).supersedes
    assert not has_expired(Topic(topic="t", summary="", content="", expires_at="never"), AT)


@each(["", "no JSON", {"topics": []}, {"topics": "x"}, {"topic": 1}, SummaryError("nobody there")])
def test_unusable_answer_becomes_one_topic(answer):
    dream = dream_of(answer, "old")
    assert list(dream.topics) == [GENERAL]
    assert dream.topics[GENERAL].content == "- three\n- two\n- one"
    assert (dream.supersedes, bool(dream.failure)) == ((), True)


def test_oldest_topics_are_removed():
    dream = dream_of(topics("new"), *(f"t{number:02}" for number in range(MOST_TOPICS)))
    assert dream.supersedes == (GENERAL, "t00")


def test_model_gets_texts_and_current_topics():
    model = Model(topics("new"))
    both = known_memory("here")
    both.topics["gone"] = Topic(topic="gone", summary="", content="", expires_at="2020-01-01T00:00:00Z")
    consolidate(both, model, at=AT)
    prompt, data, _ = model.questions[0]
    assert AT in prompt
    assert '"topic":"here"' in data
    assert "gone" not in data
    assert '"facts":["one","two"]' in data
