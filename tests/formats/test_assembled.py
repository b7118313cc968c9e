"""`lore assemble --all`, written and read back: the same prompts, with damage between turns, too."""

import json
from pathlib import Path

import pytest
from hypothesis import given

from helpers.each import each
from helpers.recognising import recognise
from helpers.strategies import lore_logs
from lore.commands.assemble import Deltas
from lore.formats.lore_log import AssembledLog
from lore.model.codes import Problem
from lore.model.results.assemble import RESETS, changes_of_reset, reset_name
from lore.model.state import Change
from lore.model.turn import Turn
from lore.prefix.overlap import compare_prompts
from lore.prompt.dialects import DIALECTS
from lore.recording.opening import Options
from lore.testing import ReaderContract, everything
from model.making import dumps

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOGS = sorted([*FIXTURES.glob("sessions/*.jsonl"), *FIXTURES.glob("claude-code/*.jsonl")])
PROMPT = ("dialect", "fidelity", "model", "head", "messages", "tail", "breakpoints", "breakpoint_values",
          "auto_breakpoint", "params")  # fmt: skip


def turns_of(path, **options) -> list[Turn]:
    return list(Options(**options).open(str(path)).turns())


def written(turns) -> bytes:
    deltas = Deltas()
    return b"".join(map(deltas.line, turns))


def read(data: bytes) -> list[Turn]:
    values = [item.value for item in everything(AssembledLog(), data)]
    assert not [item for item in values if isinstance(item, Problem)]
    return values


def same(mine: list[Turn], theirs: list[Turn]) -> None:
    assert len(mine) == len(theirs)
    for ours, other in zip(mine, theirs, strict=True):
        assert (ours.chain, ours.number, reset_name(ours.changes)) == (
            other.chain,
            other.number,
            reset_name(other.changes),
        )
        for field in PROMPT:
            assert getattr(ours.prompt, field) == getattr(other.prompt, field), field
        for a, b in zip(ours.prompt, other.prompt, strict=True):
            assert (a.section, a.path, a.kind, a.data, a.origin) == (b.section, b.path, b.kind, b.data, b.origin)


SAMPLES = tuple(written(turns_of(path)) for path in LOGS)


class TestContract(ReaderContract):
    reader = AssembledLog
    samples = (*SAMPLES, SAMPLES[0][:-1], b"\xef\xbb\xbf" + SAMPLES[1])


@pytest.mark.parametrize("path", LOGS, ids=[path.stem for path in LOGS])
@each("dialect", [*sorted(DIALECTS)])
def test_written_prompts_are_read_back(path, dialect):
    turns = turns_of(path, dialect=dialect)
    same(turns, read(written(turns)))


@given(lore_logs())
def test_generated_sessions_are_read_back(tmp_path_factory, log):
    path = tmp_path_factory.mktemp("log") / "s.jsonl"
    path.write_bytes(log.data)
    turns = turns_of(path, format="lore")
    data = written(turns)
    same(turns, read(data))
    if turns:
        assert recognise(data) is AssembledLog
    bodies = [DIALECTS[turn.dialect].write(turn.prompt) for turn in read(data)]
    assert bodies == [DIALECTS[turn.dialect].write(turn.prompt) for turn in turns]


def test_kept_segments_are_shared():
    turns = read(SAMPLES[LOGS.index(FIXTURES / "sessions" / "tool_loop.jsonl")])
    for before, after in zip(turns, turns[1:], strict=False):
        assert after.prompt.head is before.prompt.head
        assert all(a is b for a, b in zip(before.prompt.messages, after.prompt.messages, strict=False))
        assert compare_prompts(before.prompt, after.prompt).is_covered


@pytest.mark.parametrize(("code", "name"), RESETS)
def test_every_reset_is_read_back_as_a_change(code, name):
    assert reset_name((Change("LORE117", "x"), Change(code, "y"))) == name
    assert reset_name(changes_of_reset(name)) == name


# lines that do not fit

FIRST = {
    "turn": 1, "chain": "main", "dialect": "anthropic", "keep_segments": 0, "keep_bytes": 0, "tail_segments": 1,
    "tail_bytes": 2, "reset": None, "model": "m", "fidelity": "reconstructed",
    "breakpoints": [[0, {"type": "ephemeral"}]],
    "params": {"max_tokens": 9},
    "append": [
        {"section": "system", "path": "system[0]", "kind": "text", "data": "abc"},
        {"section": "messages", "path": "messages[0]", "kind": "envelope", "data": "de",
         "breakpoint": 1, "origin": "user"},
        {"section": "messages", "path": "messages[1]", "kind": "envelope", "data": "fg"},
    ],
}  # fmt: skip
SECOND = {**FIRST, "turn": 2, "keep_segments": 2, "keep_bytes": 5, "append": FIRST["append"][2:], "breakpoints": []}


def read_lines(*lines) -> list[object]:
    return [item.value for item in everything(AssembledLog(), b"".join(dumps(line) + b"\n" for line in lines))]


@each("change, message", [
    ({"keep_segments": 3}, "keeps 3 segments of 5 bytes, which the turn before does not have"),
    ({"keep_segments": 10**30}, "which the turn before does not have"),
    ({"keep_segments": -1}, "wrong fields"),
    ({"keep_bytes": 4}, "keeps 2 segments of 4 bytes, which the turn before does not have"),
    ({"tail_segments": 2}, "do not fit its segments"),
    ({"tail_segments": -1}, "wrong fields"),
    ({"tail_bytes": 3}, "do not fit its segments"),
    ({"dialect": "openai-chat"}, "do not fit its segments"),
    ({"breakpoints": [[2, 1]]}, "do not fit its segments"),
    ({"breakpoints": [[1, 1], [0, 1]]}, "do not fit its segments"),
    ({"breakpoints": [[0, 1], [0, 1]]}, "do not fit its segments"),
    ({"append": [{**FIRST["append"][0], "section": "footer"}]}, "wrong fields"),
    ({"append": [{**FIRST["append"][0], "kind": "song"}]}, "wrong fields"),
    ({"reset": "boredom"}, "wrong fields"),
])  # fmt: skip
def test_contradictory_line_is_a_problem_at_its_place(change, message):
    values = read_lines(FIRST, {**SECOND, **change})
    assert isinstance(values[0], Turn)
    problem = values[1]
    assert isinstance(problem, Problem)
    assert (problem.code, problem.line, problem.byte) == ("LORE207", 2, len(dumps(FIRST)) + 1)
    assert message in problem.message


def test_chain_is_lost_until_a_line_keeps_nothing():
    values = read_lines(
        FIRST, {**SECOND, "keep_bytes": 1}, {**SECOND, "turn": 3}, {**FIRST, "turn": 4}, {**SECOND, "turn": 5}
    )
    assert [getattr(value, "number", None) for value in values] == [1, None, None, 4, 5]


def test_line_after_missing_turn_is_a_problem():
    for lines in ([SECOND], [FIRST, {**SECOND, "chain": "agent"}]):
        problem = read_lines(*lines)[-1]
        assert problem.code == "LORE204"
        assert "keeps 2 segments" in problem.message


def test_damage_between_turns_hides_no_turn():
    lines = [dumps(FIRST), b"{", dumps(SECOND)]
    codes = [getattr(item.value, "code", None) for item in everything(AssembledLog(), b"\n".join(lines))]
    assert codes == [None, "LORE201", None]


def test_other_chains_continue_when_one_is_lost():
    other = {"chain": "agent"}
    values = read_lines(FIRST, {**FIRST, **other}, {**SECOND, "keep_bytes": 1}, {**SECOND, **other})
    assert [getattr(value, "chain", None) for value in values] == ["main", "agent", None, "agent"]


@each("line, code", [(b"{", "LORE201"), (b"\xff", "LORE201"), (b"null", "LORE201"), (b'{"turn":1}', "LORE207"),
     (b'{"turn":1,"chain":"main"}', "LORE207"), (b"[" * 5000, "LORE201")])  # fmt: skip
def test_unreadable_line_is_a_problem(line, code):
    items = everything(AssembledLog(), dumps(FIRST) + b"\n" + line + b"\n")
    assert [getattr(item.value, "code", None) for item in items] == [None, code]
    assert (items[1].line, items[1].byte) == (2, len(dumps(FIRST)) + 1)


@pytest.mark.parametrize("value", ["[" * 900 + "]" * 900, '"\\ud83d"', "1" * 400, '{"a":1,"a":2}'])
def test_parameters_and_breakpoints_keep_their_bytes(value):
    line = dumps({**FIRST, "params": {"p": "X"}, "breakpoints": [[0, "X"]]}).replace(b'"X"', value.encode())
    turn = read(line + b"\n")[0]
    assert turn.prompt.params == {"p": value.encode()}
    assert turn.prompt.breakpoint_values == (value.encode(),)


@pytest.mark.parametrize(
    "change", [{"keep_bytes": -1}, {"tail_bytes": -1}, {"breakpoints": [[-1, 1]]}, {"breakpoints": [[0]]}]
)
def test_slow_lane_has_the_same_bounds(change):
    deep = json.dumps({**FIRST, "params": {"p": 0}, **change}).replace(": 0}", ": " + "[" * 990 + "]" * 990 + "}")
    problems = [item.value for item in everything(AssembledLog(), deep.encode())]
    assert [item.code for item in problems] == ["LORE207"]
