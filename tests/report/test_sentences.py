"""Sentences of findings: each says a thing once, in plain numbers."""

from __future__ import annotations

import pytest

from lore.judge.base import finding
from lore.model import evidence as e
from lore.model.cause import Place
from lore.model.differences import BlockChanged
from lore.model.results import SecondaryCause
from lore.report.sentences.evidence import sentence
from lore.report.sentences.findings import worded


def test_an_end_within_a_block_is_told_once():
    """The note said twice, in two wordings, that nothing of the end could be cached."""
    also = (SecondaryCause("LORE100", "prefix-moved", "messages", "certain", e.WithinBlock(9, 128)),)
    changed = BlockChanged("messages[1].content", "a", "b")
    made = worded(finding("LORE146", Place("a"), changed, also=also, qualifiers=("within-a-block",)))
    assert made.message.count("could be cached") == 1
    assert "also seen" not in made.message


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (e.MessagesTakenBack(1), "1 message was taken back"),
        (e.MessagesTakenBack(1200), "1,200 messages were taken back"),
        (e.ChainRestarted(1), "dropped its only tool"),
        (e.ChainRestarted(2), "dropped all 2 tools"),
        (e.HookText(4, ("lint",)), "text of hook lint stood behind entry 4 of the history until the user spoke again"),
    ],
)
def test_a_sentence_counts_as_a_person_would(evidence, said):
    assert said in sentence(evidence)


@pytest.mark.parametrize("exact", [True, False])
def test_a_bill_that_read_about_as_much_did_not_read_exactly_that(exact):
    assert ("the bill read exactly" in sentence(e.HookText(4, ("lint",), exact))) is exact


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        (e.Rerouted(host_before="a.example", host_after="b.example"), "host a.example became b.example"),
        (e.Rerouted(endpoint_before="a/v1", endpoint_after="a/v2"), "endpoint a/v1 became a/v2"),
        (e.Rerouted(account=True), "another key was used"),
        (
            e.Rerouted(host_before="a.example", host_after="b.example", account=True),
            "host a.example became b.example; another key was used",
        ),
    ],
)
def test_another_place_is_named_and_another_key_only_where_one_was_used(moved, said):
    assert sentence(moved) == f"{said}: its cache is another one"


def test_what_a_reader_found_wrong_is_told_in_its_own_words():
    """A continued response that was not recorded was said to make the prompt partial, twice."""
    made = worded(finding("LORE132", Place("a"), e.Damage("a request continues r1: its prompt is partial")))
    assert made.message == "a request continues r1: its prompt is partial"
