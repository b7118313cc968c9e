"""When the gateway's durable deltas are made and what they say (facts 1.4 to 1.6), where the design keeps them.

Not here, for lore decides otherwise: the debounce (changes that no turn has sent yet are merged instead), the block
that is rewritten in place (v2, a wrong turn), the user-assistant pair, the table of contents of related knowledge.
"""

from __future__ import annotations

import hashlib
import itertools

import pytest

from helpers.strategies import shapes
from helpers.strategies.sessions import Agent
from lore.model.inserts import normalised, signature
from lore.prompt.base import Rules

TOKEN = hashlib.sha256(b"s-1").hexdigest()[:8]


def started(*facts, dialect="anthropic", rules=None, **more):
    """An agent that knows these entries and has had its first turn."""
    agent = Agent(dialect, rules, **more)
    for name, content in facts:
        agent.know(name, content, category="ops", title=f"About {name}")
    said(agent)
    return agent


def said(agent, text="go on"):
    """The user's message, its turn, and the answer."""
    agent.user(text)
    turn = agent.turn()
    agent.answer()
    return turn


def texts(turn):
    return [shapes.text_of(one) for one in turn.deltas]


# what makes a delta


@pytest.mark.parametrize("dialect", shapes.NAMES)
def test_an_added_entry_is_told_directly_before_the_users_message(dialect):
    agent = started(("aaaaa1", "one"), dialect=dialect)
    agent.know("bbbbb1", "two", category="ops", title="B")
    agent.user("next")
    origins = [origin for origin, _ in agent.turn().texts]
    assert origins[-2:] == ["context_injection: delta 0", "user"]


@pytest.mark.parametrize("dialect", shapes.NAMES)
def test_a_delta_speaks_in_the_users_role(dialect):
    agent = started(dialect=dialect)
    agent.know("bbbbb1", "two")
    told = [one for one in shapes.parts(dialect, said(agent).body) if "[knowledge update" in one.text]
    assert [(one.role, one.kind) for one in told] == [("user", "text")]


def test_nothing_changed_is_no_message():
    agent = started(("aaaaa1", "one"))
    assert said(agent).new == ["TurnStarted"]


def test_an_entry_that_comes_again_as_it_was_is_no_message():
    agent = started(("aaaaa1", "one"))
    agent.know("aaaaa1", "one", category="ops", title="About aaaaa1")
    assert said(agent).new == ["TurnStarted"]


def test_a_change_that_was_taken_back_before_any_turn_is_no_message():
    agent = started(("aaaaa1", "one"))
    agent.know("aaaaa1", "two", "update")
    agent.know("aaaaa1", "one", "update")
    agent.know("bbbbb1", "two")
    agent.forget("bbbbb1")
    assert said(agent).new == ["TurnStarted"]


def test_a_removed_entry_that_comes_again_cancels_its_removal():
    agent = started(("aaaaa1", "one"))
    agent.forget("aaaaa1")
    agent.know("aaaaa1", "one", category="ops", title="About aaaaa1")
    assert said(agent).new == ["TurnStarted"]


def test_an_entry_that_is_known_again_after_its_removal_was_told_is_told_again():
    agent = started(("aaaaa1", "one"))
    agent.forget("aaaaa1")
    said(agent)
    agent.know("aaaaa1", "one", category="ops", title="About aaaaa1")
    assert "one" in texts(said(agent))[-1]


def test_missing_is_not_removed_without_a_tombstone():
    """Entries that a ranking left out were once told as removed, turn after turn: 24 dollars in one session."""
    agent = started(("aaaaa1", "one"), ("bbbbb1", "two"))
    assert agent.do("knowledge", op="remove", id="never-known") == ("LORE204",)
    agent.know("bbbbb1", "three", "update")
    assert "Superseded" not in texts(said(agent))[0]


def test_changes_that_no_turn_has_sent_are_merged_into_one_delta():
    agent = started(("aaaaa1", "one"))
    agent.know("aaaaa1", "two", "update")
    agent.know("bbbbb1", "new")
    agent.know("aaaaa1", "three", "update")
    turn = said(agent)
    assert turn.new == ["PromptDelta", "TurnStarted"]
    assert "three" in texts(turn)[0]
    assert "two" not in texts(turn)[0]


def test_changes_inside_a_tool_loop_wait_for_the_users_next_message_and_are_merged():
    agent = started(("aaaaa1", "one"))
    agent.user()
    agent.turn()
    for number in range(3):
        agent.calls(2)
        agent.know("aaaaa1", f"in round {number}", "update")
        assert agent.turn().new == ["TurnStarted"]
    agent.answer()
    turn = said(agent)
    assert turn.new == ["PromptDelta", "TurnStarted"]
    assert len(texts(turn)) == 1
    assert "in round 2" in texts(turn)[0]


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ("Use tea", "use TEA", False),
        ("`a` and *b*", "a and b", False),
        ("a, b; c: d.", "a b c d", False),
        ("a \u2014 b \u2026", "a \u2013 b", False),
        ("one\n two\t three", "one two three", False),
        ("(x) [y] {z} ~w~ _v_ #u", "x y z w v u", False),
        *[(f"a {sign} b", "a b", True) for sign in "=<>&|+/^%-!?"],
        ("a = b", "a < b", True),
        ("2 apples", "3 apples", True),
    ],
)
def test_only_what_means_something_else_is_told(before, after, differs):
    """Every respelling once re-told the entry."""
    agent = started(("aaaaa1", before))
    agent.know("aaaaa1", after, "update")
    assert (said(agent).new == ["PromptDelta", "TurnStarted"]) is differs
    assert (normalised(before) != normalised(after)) is differs


def test_title_and_content_are_kept_apart_in_the_signature():
    assert signature("a b", "c") != signature("a", "b c")


def test_another_category_alone_is_not_told():
    agent = started(("aaaaa1", "one"))
    agent.do("knowledge", op="update", id="aaaaa1", category="people")
    assert said(agent).new == ["TurnStarted"]


@pytest.mark.parametrize("op", ["add", "create"])
def test_the_same_entry_under_another_id_is_an_update_under_the_id_that_is_shown(op):
    """A version bump through another id was once told as one removed and one new entry."""
    agent = started(("aaaaa1", "one"))
    agent.know("zzzzz9", "two", op, category="Ops", title="about AAAAA1!")
    assert agent.session.state.knowledge.keys() == {"aaaaa1", "zzzzz9"}  # `!` is an operator, so another title
    agent.know("yyyyy9", "three", op, category="Ops", title="about AAAAA1")
    text = texts(said(agent))[0]
    assert "[aaaaa] About" not in text
    assert "[aaaaa] about AAAAA1**: three" in text
    assert "yyyyy" not in text
    agent.forget("yyyyy9")
    assert "* [aaaaa]" in texts(said(agent))[-1]


def test_an_add_of_a_known_id_is_an_update():
    agent = started(("aaaaa1", "one"))
    agent.know("aaaaa1", "two")
    assert "About aaaaa1**: two" in texts(said(agent))[0]


def test_an_update_before_an_add_is_taken_and_counted():
    agent = started()
    agent.know("aaaaa1", "two", "update")
    assert agent.problems == ["LORE204"]
    assert "two" in texts(said(agent))[0]


# what it says


def test_a_delta_opens_with_the_token_that_the_static_block_announces():
    """Deltas were taken for prompt injection until a token of the session was announced beforehand."""
    agent = started(("aaaaa1", "one"))
    agent.know("bbbbb1", "two")
    turn = said(agent)
    assert texts(turn)[0].startswith(f"[knowledge update {TOKEN}]\n\n")
    assert f"[knowledge update {TOKEN}]".encode() in turn.prompt.head[2].data


def test_removals_are_listed_by_id_also_where_nothing_else_changed():
    agent = started(("aaaaa1", "one"), ("bbbbb1", "two"))
    agent.forget("bbbbb1")
    agent.forget("aaaaa1")
    text = texts(said(agent))[0]
    assert text.split("\n\n")[1].splitlines()[0] == "## Superseded Long-term Knowledge"
    assert text.splitlines()[-2:] == ["* [aaaaa]", "* [bbbbb]"]


def test_an_option_suppresses_deltas_that_only_take_back():
    agent = started(("aaaaa1", "one"), rules=Rules(removals=False))
    agent.forget("aaaaa1")
    assert said(agent).new == ["TurnStarted"]
    agent.know("bbbbb1", "two")
    assert "two" in texts(said(agent))[0]


def test_what_does_not_fit_is_listed_shortened_and_the_rest_is_counted():
    agent = started(rules=Rules(knowledge_tokens=60))
    for number in range(8):
        agent.know(f"{number}abcde", f"{number} is long " * 80, category="ops", title=f"T{number}")
    agent.know("short1", "fits", category="ops", title="S")
    text = texts(said(agent))[0]
    kept, rest = text.split("\n\n")[1:]
    assert kept.splitlines() == ["## Long-term Knowledge", "### ops", "* **[short] S**: fits"]
    lines = rest.splitlines()
    assert lines[0] == "## Additional Changed Knowledge (truncated)"
    assert [line[:17] for line in lines[1:4]] == [f"* **[{number}abcd] T{number}**:" for number in range(3)]
    assert all(line.endswith("...") and len(line) < 540 for line in lines[1:4])
    assert lines[4].startswith("* 5 more changed entries omitted: [3abcd] [4abcd]")
    assert "does not hold any more" in lines[4]


def test_one_more_is_an_entry_and_not_entries():
    agent = started(rules=Rules(knowledge_tokens=60))
    for number in range(5):
        agent.know(f"{number}abcde", f"{number} is long " * 80, category="", title=f"T{number}")
    assert "* 1 more changed entry omitted: [4abcd]" in texts(said(agent))[0]


def test_where_nothing_fits_the_first_entry_is_cut():
    agent = started(rules=Rules(knowledge_tokens=60))
    agent.know("aaaaa1", "word " * 2000, category="ops", title="T")
    text = texts(said(agent))[0]
    assert text.splitlines()[2:4] == ["## Long-term Knowledge", "### ops"]
    assert text.endswith("…")
    assert "Additional" not in text


def test_an_entry_that_does_not_fit_does_not_end_the_packing():
    agent = started(rules=Rules(knowledge_tokens=80))
    for name, content in (("aaaaa1", "first"), ("bbbbb1", "long " * 400), ("ccccc1", "last")):
        agent.know(name, content, category="ops", title=name)
    kept = texts(said(agent))[0].split("\n\n")[1]
    assert "first" in kept
    assert "last" in kept
    assert "long" not in kept


@pytest.mark.parametrize("order", list(itertools.permutations(["aaaaa1", "bbbbb1", "ccccc1"])))
def test_the_same_entries_give_the_same_bytes_in_any_order(order):
    """Ranking by relevance once rewrote the block whenever the conversation turned."""
    agent = started()
    for name in order:
        agent.know(name, f"c of {name}", category=name[-2], title=name)
    assert texts(said(agent))[0].splitlines()[2:] == [
        "## Long-term Knowledge",
        "### a", "* **[aaaaa] aaaaa1**: c of aaaaa1",
        "### b", "* **[bbbbb] bbbbb1**: c of bbbbb1",
        "### c", "* **[ccccc] ccccc1**: c of ccccc1",
    ]  # fmt: skip


@pytest.mark.parametrize("order", list(itertools.permutations(["aaaaa1", "bbbbb1", "ccccc1"])))
def test_what_is_pinned_is_the_same_in_any_order(order):
    agent = started(*[(name, "c") for name in order])
    plain = started(*[(name, "c") for name in sorted(order)])
    assert agent.turns[0].head == plain.turns[0].head


def test_every_delta_is_injected_and_says_so():
    agent = started()
    agent.know("bbbbb1", "two")
    said(agent)
    agent.restart("dump")
    turn = said(agent)
    assert all(one.origin.startswith("context_injection") for one in turn.deltas)
    assert len(turn.deltas) == 1
