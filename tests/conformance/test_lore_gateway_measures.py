"""What the gateway measured of its cache, where lore has a counterpart: 1.7, 1.8 and the oracle of 1.9.

The oracle counts bytes that are reused against bytes that are rewritten, as a provider would bill them, and is
itself tested on an assembler that rewrites: fixtures that reported no cache use once hid a regression.

Not here: hit rates, warnings and verdicts over billed tokens (`lore check`, `lore simulate`: issues of their own),
raw bodies at rest (stores), `invariant-check` (1.10: no part of lore).
"""

from __future__ import annotations

import json

import pytest

from helpers.strategies import shapes
from helpers.strategies.sessions import Agent
from lore.model.state import Change
from lore.model.turn import Memo
from lore.prefix.causes import find_causes
from lore.prefix.overlap import compare_prompts, find_divergence
from lore.prompt.base import POLICIES, Rules
from lore.prompt.dialects import DIALECTS

TURNS = 16


class Bill:
    """What a provider that caches every prefix would bill for a row of bodies, in bytes."""

    def __init__(self, dialect: str, bodies: list[bytes]) -> None:
        prompts = [DIALECTS[dialect].parse(one, "wire", Memo()) for one in bodies]
        sizes = [[len(one.data) for one in prompt] for prompt in prompts]
        self.reads, self.writes, self.matches = [0], [sum(sizes[0])], [0.0]
        for number in range(1, len(prompts)):
            common = _common(list(prompts[number - 1]), list(prompts[number]))
            read = sum(sizes[number][:common])
            self.reads.append(read)
            self.writes.append(sum(sizes[number]) - read)
            self.matches.append(read / sum(sizes[number - 1]))
        self.breaks = sum(1 for match in self.matches[1:] if match < 0.5)

    @property
    def ratio(self) -> float:
        """Written against read, from the third turn."""
        return sum(self.writes[2:]) / max(1, sum(self.reads[2:]))


def _common(one, other):
    same = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        same += 1
    return same


def _bodies(dialect, policy, *, restart=None):
    """Sixteen turns in which knowledge, time and recall change all the while."""
    agent = Agent(dialect, Rules(tail=policy), system="You help. " * 40)
    for number in range(12):
        agent.know(f"{number:02}aaaa", f"fact {number} " * 8, category="ops", title=f"F{number}")
    for number in range(TURNS):
        if number % 5 == 3:
            agent.know(f"{number % 12:02}aaaa", f"now it is {number} " * 5, "update")
        if number % 5 == 4:
            agent.forget(f"{number % 12:02}aaaa")
        if restart:
            agent.restart(restart)
        agent.user(f"question {number} " * 12)
        agent.turn({"current_time": f"10:{number}", "memory_recall": f"recall {number}"})
        agent.answer(f"answer {number} " * 12)
    return [one.body for one in agent.turns]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("restart", [None, "dump", "lost"])
def test_the_oracle_sixteen_turns_are_read_and_not_written(dialect, policy, restart):
    bill = Bill(dialect, _bodies(dialect, policy, restart=restart))
    assert sum(bill.reads) > 0
    assert bill.ratio < 0.5
    assert bill.breaks == 0
    assert min(bill.matches[1:]) > 0.8


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_oracle_sees_an_assembler_that_rewrites(dialect):
    """Knowledge and time in the system prompt, as the first version had them."""
    bodies = []
    for number, body in enumerate(_bodies(dialect, "user")):
        changed = json.loads(body)
        blocks = shapes.system_blocks(dialect, changed)
        blocks[0]["text"] = f"It is 10:{number}. {blocks[0]['text']}"
        bodies.append(json.dumps(changed).encode())
    bill = Bill(dialect, bodies)
    assert bill.ratio > 0.5
    assert bill.breaks > TURNS / 2


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_in_a_steady_state_prompts_part_at_the_tail_alone(dialect, policy):
    """From the second turn a difference in tools, system or the first messages is a failure."""
    prompts = [DIALECTS[dialect].parse(one, "wire", Memo()) for one in _bodies(dialect, policy)]
    for before, prompt in zip(prompts, prompts[1:], strict=False):
        common = _common(list(before), list(prompt))
        tail = 0 if policy == "persist" else 2  # an envelope and a block
        assert common >= len(before) - tail


# 1.7, on bodies that were recorded


def _parsed(system, *texts):
    said = [{"role": "user", "content": [{"type": "text", "text": text}]} for text in texts]
    blocks = [{"type": "text", "text": text} for text in system]
    body = {"model": "claude-x", "system": blocks, "messages": said}
    return DIALECTS["anthropic"].parse(json.dumps(body).encode(), "wire", Memo())


def _place(left, right):
    found = find_divergence(left, right, compare_prompts(left, right), 0)
    return found and found.path


def test_a_system_prompt_that_grew_by_a_block_is_told_from_one_whose_text_changed():
    """The bare block means that the array grew, its text that what was sent was rewritten."""
    assert _place(_parsed(["a"], "x"), _parsed(["a", "b"], "x")) == "system[1]"
    assert _place(_parsed(["a", "b"], "x"), _parsed(["a", "c"], "x")) == "system[1].text"


def test_what_is_appended_is_no_divergence():
    assert _place(_parsed(["a"], "x"), _parsed(["a"], "x", "y")) is None


def test_an_earlier_message_that_was_modified_is_named():
    assert _place(_parsed(["a"], "x", "y", "z"), _parsed(["a"], "x", "Y", "z")) == "messages[1].content[0].text"


def test_a_rewrite_is_waste_also_where_something_was_read():
    """Any read once counted as "incremental": a spiral that rewrote 250,000 tokens a turn was never a break."""
    left, right = _parsed(["a"], "x" * 100, "y" * 9000), _parsed(["a"], "x" * 100, "z" * 9000)
    found = compare_prompts(left, right)
    assert found.common > 0
    assert [one.code for one in find_causes(left, right, found, ())] == ["LORE100"]


@pytest.mark.parametrize("code", ["LORE125", "LORE144"])
def test_a_reset_that_was_recorded_is_expected(code):
    left, right = _parsed(["a", "b"], "x"), _parsed(["a", "c"], "x")
    assert [one.code for one in find_causes(left, right, compare_prompts(left, right), [Change(code, "")])] == [code]


@pytest.mark.parametrize("what", ["compact", "reset", "cap"])
def test_lores_own_resets_are_recorded_with_the_turn_that_pays_for_them(what):
    agent = Agent()
    agent.know("aaaaa1", "one")
    agent.play([("exchange", "main", None)])
    if what == "cap":
        agent.play([("cram", "main", 8)])
        agent.know("aaaaa1", "the ninth")
    else:
        getattr(agent, what)()
    agent.user()
    turn = agent.turn()
    changes = [one.cause for one in turn.state.main().turn.since]
    assert changes == (["LORE125"] if what == "compact" else ["LORE144"])


# 1.8: lore chains turns by shared segments instead of a digest; what the digest promised holds for them


def test_order_and_length_of_messages_tell_prompts_apart():
    one, other = _parsed(["a"], "x", "y"), _parsed(["a"], "y", "x")
    joined = _parsed(["a"], "xy")
    assert list(one) != list(other)
    assert list(one) != list(joined)
    assert not compare_prompts(one, other).is_covered
    assert not compare_prompts(one, joined).is_covered
