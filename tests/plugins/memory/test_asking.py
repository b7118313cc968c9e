"""What a model is asked, and what becomes of its answers."""

from __future__ import annotations

import json

import pytest

from lore.asking import SummaryAnswer, SummaryError, UnusableAnswerError, asking
from lore.compaction.extractive import Extractive
from lore.compaction.transcripts import instructions, transcript
from lore_plugins.memory.buckets import Structure
from lore_plugins.memory.extraction import extract, transcript_of
from plugins.memory.remembering import Model, entries

KNOWN = Structure(facts=("old",))
ANSWER = {"facts": ["old", "new"], "preferences": [], "decisions": [], "tasks": [], "open_items": []}


def learnt(model, *items, known=KNOWN, window=60_000):
    return extract(model, transcript_of(entries(*(items or ("hi",)))), known, window=window)


def test_the_answer_replaces_what_is_known():
    model = Model(ANSWER)
    assert learnt(model).structure == Structure(facts=("old", "new"))
    prompt, data, _ = model.asked[0]
    assert "Update, do not append" in prompt
    assert '"facts":["old"]' in data
    assert '{"role":"user","text":"hi"}' in data


@pytest.mark.parametrize("around", ["```json\n{}\n```", "Here it is:\n{}\nAnything else?", "```\n{}```"])
def test_fences_and_words_around_the_object_are_stripped(around):
    assert learnt(Model(around.replace("{}", json.dumps(ANSWER)))).structure.facts == ("old", "new")


def test_an_answer_that_was_cut_off_is_asked_for_with_twice_the_room():
    """1,024 tokens cut every answer, and the same question three times over switched the feature off in silence."""
    model = Model(SummaryAnswer('{"facts": ["o', cut_off=True), '{"facts": ["old", {"', ANSWER)
    assert learnt(model).failure == ""
    assert model.limits == [4_096, 8_192, 16_384]


def test_one_that_is_always_cut_off_is_given_up_and_says_so():
    model = Model(SummaryAnswer("{", cut_off=True))
    assert learnt(model) == (KNOWN, "the answer was cut off, even with 16,384 tokens", 0)
    assert model.limits == [4_096, 8_192, 16_384]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "empty"), ("no JSON at all", "no JSON"), ("[1]", "no JSON"), ("{]}", "no JSON"),
        ({"fact": []}, "other keys"),
        ({"facts": "text"}, "other"), ({"facts": [1]}, "other"), ({"facts": []}, "something was known"),
        ("{" * 900 + "}" * 900, "no JSON"), (UnusableAnswerError("it is no text"), "no text"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_asked_for_again_once_with_the_error_then_what_is_known_stays(answer, why):
    model = Model(answer)
    found = learnt(model)
    assert (found.structure, found.unusable) == (KNOWN, 2)
    assert why in found.failure
    (first, data, _), (second, same, _) = model.asked
    assert data == same
    assert second.startswith(first)
    assert why in second[len(first) :]


def test_a_second_answer_that_can_be_used_is():
    model = Model("Sure!", ANSWER)
    assert learnt(model) == (Structure(facts=("old", "new")), "", 1)
    assert "no JSON object" in model.asked[1][0]


def test_where_there_is_no_answer_nobody_is_asked_again():
    model = Model(SummaryError("nobody there"))
    assert learnt(model) == (KNOWN, "nobody there", 0)
    assert len(model.asked) == 1


def test_long_histories_are_asked_about_a_piece_at_a_time_on_top_of_each_other():
    model = Model(*({"facts": [f"{number}"]} for number in range(3)))
    found = learnt(model, *("x" * 3_000 for _ in range(3)), window=0)
    assert (found.structure.facts, len(model.asked)) == (("2",), 3)
    assert '"facts":["1"]' in model.asked[2][1]


def test_nobody_is_asked_about_nothing():
    model = Model(ANSWER)
    assert learnt(model, "[SCHEDULED TICK] x") == (KNOWN, "", 0)
    assert model.asked == []


def test_what_a_model_says_is_cleaned_and_bounded():
    found = learnt(Model({"facts": ["a\n b", "", "a b", "sk-abcdefghijklmnopqrstuvwxyz", "x" * 5_000]})).structure
    assert [one[:5] for one in found.facts] == ["a b", "sk-a*", "xxxxx"]
    assert len(found.facts[2]) == 1_000


def test_a_configured_summariser_is_asked_with_the_prompt_and_the_data():
    requests = []

    class Fake:
        name = "command"

        def summarize(self, request):
            requests.append(request)
            return SummaryAnswer(json.dumps(ANSWER))

    ask = asking(Fake())
    assert ask is not None
    assert learnt(ask).structure.facts == ("old", "new")
    assert instructions(requests[0]).startswith("You keep the long-term memory")
    assert '{"role":"user","text":"hi"}' in "".join(transcript(requests[0].entries))
    assert asking(Extractive()) is None
