"""Histories longer than a summariser's window, and summarisers that fail: a summary with a hole says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies.talks import call, said, talk, user
from lore.asking import GivenUpError, SummaryAnswer, SummaryError, SummaryRequest
from lore.compaction.extractive import Extractive
from lore.compaction.passes import FEWEST, TRIES, summarize_in_passes
from lore.compaction.settings import Compaction
from lore.compaction.transcripts import TRUNCATED, transcript, transcript_request

WINDOW = Compaction(summarizer_window=4_000, summary_tokens=200)


class Scripted:
    """A summariser that answers as it is told, in order, then always `otherwise`; errors are raised."""

    name = "scripted"

    def __init__(self, *answers, otherwise="sum"):
        self.answers = list(answers)
        self.otherwise = otherwise
        self.requests = []

    def summarize(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else self.otherwise
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, SummaryAnswer) else SummaryAnswer(answer)


def ask(summarizer, entries=None, settings=WINDOW, tell=None, **more):
    """The summary of a short talk, or of other entries."""
    request = SummaryRequest(talk(6) if entries is None else tuple(entries), tokens=200, **more)
    return summarize_in_passes(summarizer, request, settings, tell=tell or (lambda _: None))


def test_a_long_history_is_cut_between_messages_into_parts_and_joined():
    entries = talk(100, 300)
    summarizer = Scripted()
    assert ask(summarizer, entries, previous="before", opening=entries[-2:]) == "sum"
    *parts, joined = summarizer.requests
    assert len(parts) > 3
    assert tuple(one for part in parts for one in part.entries) == entries
    assert min(len(part.entries) for part in parts) >= FEWEST
    assert "Part 1 of " in "".join(transcript(joined.entries))
    assert (joined.previous, joined.opening) == ("before", entries[-2:-1])
    assert {part.previous for part in parts} == {""}


@given(st.lists(st.integers(1, 9_000), min_size=1, max_size=60))
def test_every_pass_fits_the_window_whatever_the_sizes(sizes):
    entries = [said(f"{number} " + "é" * size) for number, size in enumerate(sizes)]
    summarizer = Scripted(otherwise="part " * 150)
    ask(summarizer, entries, previous="p" * 20_000)
    for request in summarizer.requests:
        assert fits(request)


def fits(request):
    return len("".join(transcript_request(request)).encode()) / 4 * 1.2 + request.tokens <= 4_000


@given(st.integers(1, 60), st.integers(1, 2_000))
def test_what_is_asked_for_with_more_room_still_fits_the_window(count, size):
    """A history that just fit was asked for with more room than was left: strict servers refuse that, each time."""
    summarizer = Growing()
    assert ask(summarizer, [said(f"{number} " + "x" * size) for number in range(count)])
    assert max(one.tokens for one in summarizer.requests) == 2_000
    assert all(map(fits, summarizer.requests))


class Growing(Scripted):
    """A summariser that answers only with half the window to itself."""

    def summarize(self, request):
        super().summarize(request)
        return SummaryAnswer("sum", cut_off=request.tokens < 2_000)


def test_a_message_that_is_too_long_is_shortened_and_says_so():
    summarizer = Scripted()
    ask(summarizer, [user("begin " + "x" * 90_000 + " end"), call("Read", {"path": "y" * 9_000}, "z" * 90_000)])
    text = "".join(transcript(summarizer.requests[0].entries))
    assert "begin xxx" in text
    assert "xxx end" in text
    assert "bytes left out" in text
    assert len(text) < 4_000


def test_a_part_that_fails_is_asked_for_again():
    told = []
    summarizer = Scripted(SummaryError("busy"), SummaryError("busy"), "better")
    assert ask(summarizer, tell=told.append) == "better"
    assert told == ["busy; asked again"] * 2


def test_a_part_without_a_summary_is_said_so_in_the_text():
    entries = talk(60, 300)
    whole = Scripted()
    ask(whole, entries)
    second = whole.requests[1].entries
    begin = entries.index(second[0])
    told = []
    summarizer = Scripted("one", *[SummaryError("no")] * TRIES)
    text = ask(summarizer, entries, tell=told.append)
    hole = f"[Messages {begin + 1} to {begin + len(second)} of those that this summary replaces have none: no, 3 times."
    assert text.startswith("sum\n\n" + hole)
    assert told[-1].startswith(f"messages {begin + 1} to ")


def test_a_hole_in_a_later_pass_names_the_messages_that_it_is_about():
    """The second pass counts summaries: a placeholder that did so, too, named messages that were there."""
    entries = talk(1_500, 300)
    count = Scripted()
    ask(count, entries)
    parts = [one for one in count.requests if one.entries[0] in entries]
    answers = ["long " * 300] * len(parts)
    told = []
    text = ask(Scripted(*answers, *[SummaryError("no")] * TRIES), entries, tell=told.append)
    assert text.startswith("sum\n\n[Messages 1 to ")
    last = int(text.split(" to ")[1].split()[0])
    assert last in [len(entries[: entries.index(one.entries[-1]) + 1]) for one in parts]
    assert last > 2 * len(parts[0].entries)


def test_parts_in_a_row_that_are_given_up_end_it():
    """With nobody there, each of a hundred parts was asked for, and each waited for its time-out."""
    summarizer = Scripted("one", otherwise=GivenUpError("nobody is there"))
    with pytest.raises(GivenUpError, match=r"3 of \d+ parts in a row could not be summed up: nobody is there"):
        ask(summarizer, talk(400, 300))
    assert len(summarizer.requests) == 4


def test_where_no_part_has_a_summary_there_is_none():
    with pytest.raises(SummaryError, match="none of . parts could be summed up; the last: no"):
        ask(Scripted(otherwise=SummaryError("no")), talk(60, 300))


def test_what_cannot_be_seen_is_not_left_in_a_summary():
    """A model can be talked into writing it, and it went into every prompt from then on."""
    assert ask(Scripted("a\x00\x1b[31mb\r\u2028c\u202ed\ud83d")) == "a\\x00b\n\nc\\u202ed\\ud83d"


def test_a_summary_that_is_far_too_long_is_cut_and_says_so():
    """A command that wrote a megabyte made the prompt longer than what it replaced."""
    assert ask(Scripted("é" * 500_000)) == "é" * 800 + TRUNCATED


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_an_empty_answer_is_a_failure(empty):
    summarizer = Scripted(otherwise=empty)
    with pytest.raises(SummaryError, match="the summary is empty, also when asked again"):
        ask(summarizer)
    assert [one.fault for one in summarizer.requests] == ["", "the summary is empty"]


def test_an_answer_that_is_cut_off_is_asked_for_with_twice_the_room():
    """A budget of 1,024 tokens cut every answer, and asking the same again switched the feature off unseen."""
    summarizer = Scripted(SummaryAnswer("hal", cut_off=True), SummaryAnswer("", cut_off=True), "whole")
    assert ask(summarizer) == "whole"
    assert [one.tokens for one in summarizer.requests] == [200, 400, 800]


def test_the_room_of_an_answer_has_a_bound():
    summarizer = Scripted(otherwise=SummaryAnswer("x", cut_off=True))
    with pytest.raises(SummaryError, match="cut off, even with 2,000 tokens"):
        ask(summarizer)
    assert [one.tokens for one in summarizer.requests] == [200, 400, 800, 1_600, 2_000]
    with pytest.raises(SummaryError, match="16,384"):
        ask(Scripted(otherwise=SummaryAnswer("x", cut_off=True)), settings=Compaction(summarizer_window=0))


def test_a_window_without_room_for_the_answer_is_said_so():
    with pytest.raises(SummaryError, match="a window of 1,000 tokens has no room for 200"):
        ask(Scripted(), settings=Compaction(summarizer_window=1_000))


def test_without_a_model_a_history_is_summed_up_at_once_and_nothing_is_tried_again():
    text = ask(Extractive(), talk(300, 900))
    assert text.startswith("Rule-based summary of 300 earlier messages")
    with pytest.raises(SummaryError, match="the summary is empty"):
        summarize_in_passes(Extractive(), SummaryRequest(talk(6), tokens=0), WINDOW)
