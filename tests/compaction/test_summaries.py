"""Summaries of histories longer than a summariser's window, and summarisers that fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies.talks import assistant, talk
from lore.asking import GivenUpError, SummaryAnswer, SummaryError, SummaryRequest
from lore.compaction.extractive import Extractive
from lore.compaction.settings import Compaction
from lore.compaction.summaries import TRIES, summarize
from lore.compaction.transcripts import TRUNCATED, transcript, transcript_request

WINDOW = Compaction(summarizer_window=4_000, summary_tokens=200)


class Scripted:
    """A summariser that gives these answers in order, then always `otherwise`; errors are raised."""

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
    return summarize(summarizer, request, settings, tell=tell or (lambda _: None))


def test_long_history_is_shortened_in_its_middle():
    notes, summarizer, entries = [], Scripted(), talk(100, 300)
    assert ask(summarizer, entries, tell=notes.append, previous="before", opening=entries[-2:]) == "sum"
    (request,) = summarizer.requests
    history = "".join(transcript(entries))
    begin, _, end = request.texts[0].partition(" […")
    assert history.startswith(begin)
    assert history.endswith(end.partition("…] ")[2])
    assert (request.previous, request.opening) == ("before", entries[-2:])
    assert notes == ["the messages are too long for summarizer_window = 4,000: their middle is left out"]


@given(st.lists(st.integers(1, 9_000), min_size=1, max_size=60))
def test_request_fits_the_window(sizes):
    entries = [assistant(f"{number} " + "é" * size) for number, size in enumerate(sizes)]
    summarizer = Scripted(otherwise="part " * 150)
    ask(summarizer, entries, previous="p" * 20_000)
    for request in summarizer.requests:
        assert fits(request)


def fits(request):
    return len(transcript_request(request).encode()) / 4 * 1.2 + request.tokens <= 4_000


@given(st.integers(1, 60), st.integers(1, 2_000))
def test_larger_answer_room_fits_the_window(count, size):
    summarizer = Growing()
    assert ask(summarizer, [assistant(f"{number} " + "x" * size) for number in range(count)])
    assert max(request.tokens for request in summarizer.requests) == 2_000
    assert all(map(fits, summarizer.requests))


class Growing(Scripted):
    """A summariser that answers only with half the window to itself."""

    def summarize(self, request):
        super().summarize(request)
        return SummaryAnswer("sum", cut_off=request.tokens < 2_000)


def test_failed_summary_is_asked_for_again():
    notes = []
    summarizer = Scripted(SummaryError("busy"), SummaryError("busy"), "better")
    assert ask(summarizer, tell=notes.append) == "better"
    assert notes == ["busy; asked again"] * 2


def test_missing_summary_is_an_error_after_three_tries():
    summarizer = Scripted(otherwise=SummaryError("no"))
    with pytest.raises(SummaryError, match="no, 3 times"):
        ask(summarizer)
    assert len(summarizer.requests) == TRIES


def test_summarizer_that_gave_up_is_not_asked_again():
    summarizer = Scripted(otherwise=GivenUpError("no server"))
    with pytest.raises(GivenUpError, match="no server"):
        ask(summarizer)
    assert len(summarizer.requests) == 1


def test_invisible_characters_in_summary_are_escaped():
    assert ask(Scripted("a\x00\x1b[31mb\r\u2028c\u202ed\ud83d")) == "a\\x00b\n\nc\\u202ed\\ud83d"


def test_overlong_summary_is_cut_with_a_note():
    assert ask(Scripted("é" * 500_000)) == "é" * 800 + TRUNCATED


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_empty_answer_is_an_error(empty):
    summarizer = Scripted(otherwise=empty)
    with pytest.raises(SummaryError, match="the summary is empty, also when asked again"):
        ask(summarizer)
    assert [request.fault for request in summarizer.requests] == ["", "the summary is empty"]


def test_cut_off_answer_gets_twice_the_room():
    summarizer = Scripted(SummaryAnswer("hal", cut_off=True), SummaryAnswer("", cut_off=True), "whole")
    assert ask(summarizer) == "whole"
    assert [request.tokens for request in summarizer.requests] == [200, 400, 800]


def test_answer_room_has_a_bound():
    summarizer = Scripted(otherwise=SummaryAnswer("x", cut_off=True))
    with pytest.raises(SummaryError, match="cut off, even with 2,000 tokens"):
        ask(summarizer)
    assert [request.tokens for request in summarizer.requests] == [200, 400, 800, 1_600, 2_000]
    with pytest.raises(SummaryError, match="16,384"):
        ask(Scripted(otherwise=SummaryAnswer("x", cut_off=True)), settings=Compaction(summarizer_window=0))


def test_window_too_small_for_answer_is_refused():
    with pytest.raises(SummaryError, match="a window of 1,000 tokens has no room for 200"):
        ask(Scripted(), settings=Compaction(summarizer_window=1_000))


def test_extractive_summary_takes_the_whole_history():
    text = ask(Extractive(), talk(300, 900))
    assert text.startswith("Rule-based summary of 300 earlier messages")
    with pytest.raises(SummaryError, match="the summary is empty"):
        summarize(Extractive(), SummaryRequest(talk(6), tokens=0), WINDOW)
