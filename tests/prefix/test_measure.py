"""Measures: sums turn by turn equal sums over whole prompts, and nothing is weighed twice."""

from __future__ import annotations

from lore.model.turn import Prompt, Segment
from lore.model.vector import Vector
from lore.prefix.overlap import ChainSums, PairSums, byte_size, compare_prompts
from model.making import assistant, body, parsed

BODIES = [
    body("one"),
    body("one", assistant("two"), "three"),
    body("one", assistant("twx")),
    body("one", assistant("twx"), "four", system="Other"),
    body(),
]


def total(prompt, count=None):
    return sum(len(one.data) for one in list(prompt)[:count])


def test_sums_equal_those_of_whole_prompts():
    measure, before = ChainSums(byte_size), None
    for prompt in map(parsed, BODIES):
        common = compare_prompts(before, prompt).common if before is not None else 0
        made = measure.advance(prompt, common)
        expected = (total(before) if before is not None else 0, total(prompt), total(prompt, common))
        assert made == PairSums(*expected)
        before = prompt


def test_a_segment_is_weighed_once_while_it_stays_in_the_prefix():
    weighed = []
    measure = ChainSums(lambda segment: weighed.append(segment) or 1)
    first, second = parsed(BODIES[0]), parsed(BODIES[1])
    measure.advance(first, 0)
    measure.advance(second, compare_prompts(first, second).common)
    assert len(weighed) == len(second)


def test_tails_count_in_the_whole_and_not_in_the_sums():
    def prompt(*tail):
        tails = tuple(Segment("messages", "t", one) for one in tail)
        return Prompt("d", "wire", messages=Vector([Segment("messages", "m", b"mm")]), tail=tails)

    measure = ChainSums(byte_size)
    measure.advance(prompt(b"ttt"), 0)
    assert (measure.tail, measure.sum_before(1), measure.sum_before(9)) == (3, 2, 2)
    assert measure.advance(prompt(b"uuuu"), 1) == PairSums(5, 6, 2)
    assert measure.advance(prompt(b"uuuu"), 2) == PairSums(6, 6, 6)


def test_a_head_that_changes_every_turn_does_not_make_the_history_new():
    """A clock in the system prompt: the whole history was weighed again at each turn."""
    weighed = []
    measure = ChainSums(lambda segment: weighed.append(segment) or len(segment.data))
    history = [Segment("messages", f"messages[{n}]", b"word" * n) for n in range(50)]
    messages, before = Vector(), None
    for turn in range(50):
        messages = messages.append(history[turn])
        prompt = Prompt("anthropic", "wire", head=(Segment("system", "system", b"at %d" % turn),), messages=messages)
        found = measure.advance(prompt, 0 if before is None else compare_prompts(before, prompt).common)
        assert found.current == sum(len(one.data) for one in prompt)
        before = prompt
    assert len(weighed) == 100
