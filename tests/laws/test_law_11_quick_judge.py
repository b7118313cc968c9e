"""Law 11, in haste: a turn whose usage shows that everything was read gets the verdict of a full comparison.

`check` makes no prompt of such a turn. Tried on fixtures, real recordings and generated sessions, turn by turn.
"""

import random
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from cache.talk import Talk, bill
from helpers.matrix import some
from laws.law_11 import LOOK_ALIKE, OWN, PLACE, READ, REAL_CASES, assert_quick_judge_agrees
from lore.judge.findings import findings_of
from lore.model.turn import Turn
from lore.recording.base import Problems
from lore.run.rules import PACKAGED

OWN_CASES = [path for path in OWN if not path.endswith(LOOK_ALIKE)]


def test_quick_judge_agrees_on_fixtures():
    assert sum(assert_quick_judge_agrees(READ.open(path, Problems()).turns()) for path in OWN_CASES) > 40


@pytest.mark.parametrize("path", REAL_CASES)
def test_quick_judge_agrees_on_recording(path):
    assert_quick_judge_agrees(READ.open(str(path), Problems()).turns())


def test_quick_judge_makes_no_prompt_when_read_falls():
    talk, judge, findings = Talk(), PACKAGED.judge(quick=True), []

    def make_prompt():
        raise AssertionError("a prompt was made")

    for read in (10_000, 12_000, 4_000, 0, 12_000):
        talk.ask()
        talk.turn(bill(read, 2_000))
        assert talk.last is not None
        pair = judge.turn(replace(talk.last, source=make_prompt)).pair
        findings += [] if pair is None else findings_of(pair, PLACE)
    assert len(findings) == 2


def generated(seed: int) -> Iterable[Turn]:
    chance, talk, cached = random.Random(seed), Talk(), 0
    for number in range(chance.randint(2, 12)):
        talk.use() if number and chance.random() < 0.7 else talk.ask()
        read = chance.choice((cached, cached, cached, 0, cached // 2, max(0, cached - 300), cached + 50))
        usage = None if chance.random() < 0.05 else bill(read, chance.randint(0, 4_000) + max(0, cached - read))
        signs = ("effort", "skill", "image", "resume", "restart")
        talk.turn(usage, signs=(chance.choice(signs),) if chance.random() < 0.2 else ())
        assert talk.last is not None
        yield talk.last
        cached = cached if usage is None else read + (usage.write_tokens or 0)


@pytest.mark.parametrize("begin", some(range(0, 2_000, 200)))
def test_quick_judge_agrees_on_generated_sessions(begin):
    assert sum(assert_quick_judge_agrees(generated(seed)) for seed in range(begin, begin + 200)) > 100
