"""The gateway's oracle of cache use: reused bytes against rewritten bytes, as a provider would bill them.

The oracle is itself tested on an assembler that rewrites, because fixtures without cache use once hid a regression.
"""

from __future__ import annotations

import json

import pytest

from helpers.strategies import shapes
from helpers.strategies.sessions import Agent
from lore.model.turn import Memo
from lore.prompt.base import POLICIES, Rules
from lore.prompt.dialects import DIALECTS

TURNS = 16


class Bill:
    """The reads and writes, in bytes, of a provider that caches every prefix of a list of bodies."""

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
    """Return the bodies of sixteen turns in which knowledge, time and recall keep changing."""
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
def test_sixteen_turns_are_mostly_read_from_cache(dialect, policy, restart):
    bill = Bill(dialect, _bodies(dialect, policy, restart=restart))
    assert sum(bill.reads) > 0
    assert bill.ratio < 0.5
    assert bill.breaks == 0
    assert min(bill.matches[1:]) > 0.8


@pytest.mark.parametrize("dialect", DIALECTS)
def test_rewriting_assembler_is_noticed_by_the_oracle(dialect):
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


@pytest.mark.parametrize("what", ["compact", "reset", "cap"])
def test_reset_is_recorded_with_the_next_turn(what):
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
