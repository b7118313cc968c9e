"""Prompts that are known by hash: what moved, by name, in the order of the prompt."""

from __future__ import annotations

import pytest

from lore.model.differences import HashesMoved
from lore.model.events import PromptHashes
from lore.prefix.tools import NAMED, explain_hashes

TOOLS = (("bash", "a1"), ("view", "b1"), ("grep", "c1"))
SYSTEM = (("identity", "s1"), ("environment_context", "s2"))
POINTS = ((0, "m0"), (3, "m3"), (6, "m6"))
WHOLE = PromptHashes(TOOLS, SYSTEM, POINTS)


def moved(right, left=WHOLE, turns=2):
    """What moved: code and evidence of each cause."""
    return [(cause.code.value, cause.evidence) for cause in explain_hashes(left, right, turns)]


@pytest.mark.parametrize(
    ("right", "code", "evidence"),
    [
        (PromptHashes((*TOOLS, ("edit", "d1"))), "LORE103", HashesMoved("tools", 2, added=("edit",))),
        (PromptHashes(TOOLS[:2]), "LORE103", HashesMoved("tools", 2, removed=("grep",))),
        (PromptHashes((("bash", "a2"), *TOOLS[1:])), "LORE104", HashesMoved("tools", 2, changed=("bash",))),
        (PromptHashes(TOOLS[::-1]), "LORE102", HashesMoved("tools", 2, reordered=3)),
        (PromptHashes(system=(SYSTEM[0], ("environment_context", "s9"))), "LORE100",
         HashesMoved("system", 2, changed=("environment_context",))),
        (PromptHashes(system=SYSTEM[::-1]), "LORE100", HashesMoved("system", 2, reordered=2)),
        (PromptHashes(points=((0, "m0"), (3, "x"), (6, "y"), (9, "z"))), "LORE100",
         HashesMoved("messages", 2, message=3)),
    ],
)  # fmt: skip
def test_what_moved_is_named(right, code, evidence):
    assert moved(right) == [(code, evidence)]


def test_what_goes_on_moved_nothing():
    assert moved(PromptHashes(TOOLS, SYSTEM, (*POINTS, (9, "m9")))) == []
    assert moved(PromptHashes(TOOLS, SYSTEM, ((9, "m9"),))) == []


def test_causes_stand_in_the_order_of_the_prompt_and_are_strong():
    right = PromptHashes((("bash", "a2"), *TOOLS[1:], ("edit", "d")), SYSTEM[:1], ((0, "x"),))
    found = explain_hashes(WHOLE, right, 1)
    assert [cause.section for cause in found] == ["tools", "tools", "system", "messages"]
    assert {cause.strength for cause in found} == {"strong"}


def test_names_are_bounded():
    many = tuple((f"t{number}", "h") for number in range(NAMED * 2))
    assert len(moved(PromptHashes(many), left=PromptHashes(TOOLS))[0][1].added) == NAMED
