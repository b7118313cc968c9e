"""Which remembered sentences contradict each other, and which only seem to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.memory.statements import conflicts_in, is_same, listed, relation, statement_of

REPLACES = [
    ("My editor is vim.", "My editor is helix."),
    ("A's port is 1.", "The port of A is 2."),
    ("The user's editor is vim.", "My editor is helix."),
    ("Remember that the timeout is 30 s.", "Note that the timeout is 1 minute."),
    ("The server is not slow.", "The server is slow."),
    ("The API is stable.", "The API isn't stable."),
    ("The flag is on.", "The flag is off."),
    ("The build is broken.", "The build is fixed."),
    ("The deadline is Friday.", "The deadline is 2026-03-04."),
    ("My favourite drink is tea.", "My favourite drink is coffee."),
    ("port: 8080", "port: 9090"),
    ("port: 8080", "The port is now 9090."),
    ("timeout = 30", "timeout := 60"),
    ("Sprache: Deutsch", "Sprache: Englisch"),
    ("ポート：8080", "ポート：9090"),
    ("Let's use SQLite for the store.", "We switched to Postgres for the store."),
    ("We use Redis for caching.", "We now use Memcached for caching."),
    ("We use Redis for caching.", "We no longer use Redis for caching."),
    ("We use Redis.", "We don't use Redis."),
    ("We don't use Redis.", "We use Redis."),
    ("I prefer tabs over spaces.", "I prefer spaces over tabs."),
    ("I prefer spaces.", "I prefer tabs rather than spaces."),
    ("I prefer light mode.", "I prefer dark mode."),
    ("I prefer pytest for tests.", "I now prefer unittest for tests."),
    ("My theme is dark.", "My theme is light."),
    ("I prefer tabs.", "I no longer prefer tabs."),
    ("The user likes tea.", "The user dislikes tea."),
    ("Always use type hints.", "Never use type hints."),
    ("Don't ever push to main.", "Always push to main."),
    ("Call me Ann.", "Please call me Anna."),
    ("I live in Berlin.", "I now live in Munich."),
    ("My birthday is 1 May.", "My birthday is 2 June."),  # a month, no "may"
    ("My favourite colour is blue.", "My favourite colour is red."),  # red as of a build is a quality
    ("We decided to use postgres.", "We decided to use sqlite instead of postgres."),
    ("We use npm.", "We use pnpm rather than npm."),
]
CONFLICTS = [
    ("I live in Berlin.", "I'm based in Germany."),
    ("I prefer pytest for tests.", "I prefer small functions for tests."),
    ("The repo is 3 years.", "The repo is 2 GB."),
    ("service: a; port: 80", "service: a; port: 81"),
    ("My team is five people.", "My team is Platform."),
    ("Let's use SQLite for the store.", "Let's use Postgres for the store."),
    ("We decided to use uv for packaging.", "We decided to go with poetry for packaging."),
    ("The parser uses lark for grammars.", "The parser uses ply for grammars."),
    ("The parser is written in C.", "The parser is written in Rust."),
    ("The tests are in tests/.", "The tests are in spec/."),
    ("The standup is on Monday.", "The standup is on Thursday."),
    ("I work at Acme.", "I work at Initech."),
    ("The reviewer is Ann.", "The reviewer is Bob."),
    ("I prefer tabs over spaces.", "I prefer spaces."),
]
NEITHER = [
    ("My port is 80.", "My port may be 81."),
    ("We use npm.", "We don't use pnpm instead of npm."),
    ("The port of A is 1.", "The port of B is 2."),
    ("Ann's editor is vim.", "Bob's editor is emacs."),
    ("My editor is vim.", "Our editor is helix."),
    ("The server is not slow.", "The server is not red."),
    ("The server is not red.", "The server is green."),
    ("My laptop is slow.", "My laptop is a ThinkPad."),
    ("The parser is slow.", "The parser is written in Rust."),
    ("The cache is empty.", "The cache is in Redis."),
    ("My editor is vim at work.", "My editor is helix at home."),
    ("In production, the port is 80.", "In staging, the port is 81."),
    ("My editor is helix.", "My editor was emacs."),
    ("My editor is vim.", "My editor used to be emacs."),
    ("If the port is 80, stop.", "The port is 81."),
    ("Bob said the port is 1.", "The port is 2."),
    ("The port might be 1.", "The port is 2."),
    ("Is the port 1?", "The port is 2."),
    ("It is red.", "It is blue."),
    ("We use pytest for tests.", "We also use hypothesis for tests."),
    ("We use pytest for tests.", "We use pytest for benchmarks."),
    ("We use Redis.", "We use Postgres."),
    ("The parser uses lark for grammars.", "The linter uses ply for grammars."),
    ("I prefer tabs.", "I prefer dark mode."),
    ("I like tea.", "I like coffee."),
    ("Always use tabs.", "Never use eval."),
    ("Rex is a dog.", "Rex is a pet."),
    ("service: a; port: 80", "service: b; port: 81"),
    ("My name is Ann.", "My dog's name is Rex."),
    ("My email is a@example.org.", "My work email is b@example.org."),
    ("http://a.example/x: y", "http://a.example/x: z"),
    ("Error: disk full", "Error: disk gone"),
    ("TODO: write the docs", "TODO: fix the tests"),
    ("Ich mag Tabs.", "Ich mag Leerzeichen."),
    ("", "The port is 1."),
]


def judged(earlier, later):
    return relation(statement_of(earlier), statement_of(later))


@pytest.mark.parametrize(("earlier", "later"), REPLACES)
def test_a_later_statement_of_the_same_slot_replaces_the_earlier_one(earlier, later):
    assert judged(earlier, later) == "replaces"


@pytest.mark.parametrize(("earlier", "later"), CONFLICTS)
def test_where_both_might_hold_they_are_in_conflict(earlier, later):
    assert judged(earlier, later) == "conflict"
    assert conflicts_in([earlier, later]) == {earlier: (later,), later: (earlier,)}


@pytest.mark.parametrize(("earlier", "later"), NEITHER)
def test_what_only_looks_like_a_contradiction_is_none(earlier, later):
    assert judged(earlier, later) == judged(later, earlier) == ""
    assert conflicts_in([earlier, later]) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The port is 80.", "the PORT is 80"),
        ("A's port is 1", "The port of A is 1."),
        ("port: 80", "The port is 80."),
        ("We use Redis for caching.", "We still use redis for the caching"),
        ("I prefer tabs over spaces.", "I really prefer tabs over spaces!"),
    ],
)
def test_the_same_in_other_words_is_the_same(one, other):
    assert is_same(statement_of(one), statement_of(other))
    assert judged(one, other) == ""


NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta", "API", "ann"])
VALUES = st.sampled_from(["1", "2", "30 s", "vim", "Postgres 15", "on", "off", "2026-01-01", "slow", "a dog"])
SENTENCES = st.one_of(
    st.builds("The port of {} is {}.".format, NAMES, VALUES),
    st.builds("{}: {}".format, NAMES, VALUES),
    st.builds("We use {} for {}.".format, VALUES, NAMES),
    st.builds("I prefer {} over {}.".format, VALUES, NAMES),
    st.builds("My {} is not {}.".format, NAMES, VALUES),
    st.builds("{} {} {}".format, st.sampled_from(["Always", "Never"]), st.just("use"), NAMES),
    st.text(max_size=80),
)


@given(SENTENCES)
def test_no_statement_contradicts_itself(text):
    assert judged(text, text) == ""
    assert conflicts_in([text, text]) == {}


@given(SENTENCES, st.sampled_from(["  {} ", "{}!", "Note that {}", "Also, {}"]))
def test_spacing_and_lead_ins_change_no_slot(text, around):
    plain, wrapped = statement_of(text), statement_of(around.format(text))
    if plain is not None and wrapped is not None:
        assert plain.key == wrapped.key


@given(NAMES, NAMES, VALUES, VALUES)
def test_statements_of_different_subjects_never_contradict_each_other(left, right, value, other):
    for form in ("The port of {} is {}.", "{}'s port is {}.", "{}: {}", "{} is {}."):
        if left != right:
            assert judged(form.format(left, value), form.format(right, other)) == ""


@given(st.lists(SENTENCES, max_size=12))
def test_conflicts_are_mutual_and_of_texts_that_are_there(texts):
    found = conflicts_in(texts)
    for text, others in found.items():
        assert text in texts
        assert text not in others
        assert all(text in found[other] for other in others)


@pytest.mark.parametrize(
    "text", ["is " * 99, "a's " * 70, "please " * 40, "x for " * 45, ": " * 140, "(" * 299, "1." * 149]
)
def test_hostile_sentences_are_read_at_once(text):
    statement_of(text)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("port: 8080", ("port: 8080",)),
        ("Name: Ann", ("Name: Ann",)),
        ("Sprache: Deutsch\n\nOrt:  Bern", ("Sprache: Deutsch", "Ort: Bern")),
        ("retries = 3\ntimeout = 30", ("retries = 3", "timeout = 30")),
        ("service: a\nport: 80", ("service: a; port: 80",)),
        ("translate: hello", ()),
        ("Error: 5\nWarning: 6", ()),
        ("port: 8080\nand what do you think?", ()),
        ("\n".join(f"k{number}: {number}" for number in range(13)), ()),
        ("12:30", ()),
        ("a == b", ()),
        ("", ()),
    ],
)
def test_a_message_that_only_lists_what_things_are_is_read_in_any_language(text, lines):
    assert listed(text) == lines
