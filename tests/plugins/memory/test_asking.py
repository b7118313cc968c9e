"""Questions to a model, and its answers."""

import json

import pytest

from helpers.each import each
from lore.asking import SummaryAnswer, SummaryError, UnusableAnswerError, make_ask
from lore.compaction.extractive import Extractive
from lore.compaction.transcripts import instructions, transcript_request
from lore_plugins.memory.buckets import NO_TEXTS
from lore_plugins.memory.extraction import extract_by_model, transcript
from plugins.memory.remembering import Model, entries

KNOWN = NO_TEXTS | {"facts": ("old",)}
ANSWER = {"facts": ["old", "new"], "preferences": [], "decisions": [], "tasks": [], "open_items": []}


def extract(model, *items, known_texts=KNOWN, window=60_000):
    return extract_by_model(model, transcript(entries(*(items or ("hi",)))), known_texts, window=window)


def test_model_answer_replaces_known_texts():
    model = Model(ANSWER)
    assert extract(model).texts == NO_TEXTS | {"facts": ("old", "new")}
    prompt, data, _ = model.questions[0]
    assert "Update, do not append" in prompt
    assert '"facts":["old"]' in data
    assert '{"role":"user","text":"hi"}' in data


@pytest.mark.parametrize("around", ["```json\n{}\n```", "Here it is:\n{}\nAnything else?", "```\n{}```"])
def test_text_around_json_answer_is_ignored(around):
    assert extract(Model(around.replace("{}", json.dumps(ANSWER)))).texts["facts"] == ("old", "new")


def test_truncated_answer_is_requested_with_twice_the_room():
    """openfang's 1,024 tokens truncated every answer."""
    model = Model(SummaryAnswer('{"facts": ["o', cut_off=True), '{"facts": ["old", {"', ANSWER)
    assert extract(model).failure == ""
    assert model.limits == [4_096, 8_192, 16_384]


def test_answer_always_truncated_fails():
    model = Model(SummaryAnswer("{", cut_off=True))
    assert extract(model) == (KNOWN, "the answer was cut off, even with 16,384 tokens", 0)
    assert model.limits == [4_096, 8_192, 16_384]


@each("answer, why", [
    ("", "empty"), ("no JSON at all", "not a JSON"), ("[1]", "not a JSON"), ("{]}", "not a JSON"),
    ({"fact": []}, "other keys"),
    ({"facts": "text"}, "other"), ({"facts": [1]}, "other"), ({"facts": []}, "something was known"),
    ("{" * 900 + "}" * 900, "not a JSON"), (UnusableAnswerError("it is no text"), "no text"),
])  # fmt: skip
def test_unusable_answer_is_requested_once_more(answer, why):
    model = Model(answer)
    extraction = extract(model)
    assert (extraction.texts, extraction.unusable) == (KNOWN, 2)
    assert why in extraction.failure
    (first, data, _), (second, same, _) = model.questions
    assert data == same
    assert second.startswith(first)
    assert why in second[len(first) :]


def test_second_answer_is_used():
    model = Model("Sure!", ANSWER)
    assert extract(model) == (NO_TEXTS | {"facts": ("old", "new")}, "", 1)
    assert "not a JSON object" in model.questions[1][0]


def test_failing_summariser_is_not_asked_again():
    model = Model(SummaryError("nobody there"))
    assert extract(model) == (KNOWN, "nobody there", 0)
    assert len(model.questions) == 1


def test_long_history_is_asked_in_pieces():
    model = Model(*({"facts": [f"{number}"]} for number in range(3)))
    extraction = extract(model, *("x" * 3_000 for _ in range(3)), window=0)
    assert (extraction.texts["facts"], len(model.questions)) == (("2",), 3)
    assert '"facts":["1"]' in model.questions[2][1]


def test_ticks_alone_ask_no_model():
    model = Model(ANSWER)
    assert extract(model, "[SCHEDULED TICK] x") == (KNOWN, "", 0)
    assert model.questions == []


def test_model_texts_are_cleaned_and_shortened():
    texts = extract(Model({"facts": ["a\n b", "", "a b", "sk-abcdefghijklmnopqrstuvwxyz", "x" * 5_000]})).texts
    assert [text[:5] for text in texts["facts"]] == ["a b", "sk-a*", "xxxxx"]
    assert len(texts["facts"][2]) == 1_000


def test_summariser_gets_prompt_and_data():
    requests = []

    class Fake:
        name = "command"

        def summarize(self, request):
            requests.append(request)
            return SummaryAnswer(json.dumps(ANSWER))

    ask = make_ask(Fake())
    assert ask is not None
    assert extract(ask).texts["facts"] == ("old", "new")
    assert instructions(requests[0]).startswith("You keep the long-term memory")
    assert '{"role":"user","text":"hi"}' in transcript_request(requests[0])
    assert make_ask(Extractive()) is None
