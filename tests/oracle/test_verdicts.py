"""What lore says of each turn is what an independent reading of the raw file says must hold: pairs, losses, levels."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from cli.running import lore
from conftest import CORPUS, recordings
from faults.catalogue import FAULTS, alone
from faults.expected import EXPECTED, happening
from faults.serving import Injected, written
from faults.sessions import Session
from helpers.matrix import some
from helpers.strategies import claude_logs
from lore.formats.registry import READERS
from oracle.drawn import drawn_capture, drawn_session
from oracle.recordings import read
from oracle.verdicts import Answers, differences

EACH = 10  # drawn sessions of a case
PARTS = 36  # of all captures with a fault, and of those in which something expected happened
FILES = [file for name in ("claude-code", "capture", "vcr") for file in CORPUS.glob(f"{name}/*")]


def answers(path: Path, *options: str) -> Answers:
    """Ask lore."""
    simulated = lore("simulate", "--json", *options, str(path))
    checked = lore("check", "-v", "--json", *options, str(path))
    pairs = lore("diff-prefix", "--json", "--no-tokens", *options, str(path))
    assert simulated.code in (0, 3), simulated.err
    assert checked.code in (0, 1, 3), checked.err
    return Answers(simulated.json, checked.json, pairs.lines)


@pytest.mark.corpus
@pytest.mark.parametrize("path", recordings(FILES))
def test_of_a_real_recording_is_said_what_must_hold(path):
    assert read(path)
    assert differences(path, answers(path)) == []


@pytest.mark.parametrize("first", some(range(0, 2_000, EACH)))
def test_of_a_drawn_session_is_said_what_must_hold(first, tmp_path):
    wrong: list[str] = []
    for seed in range(first, first + EACH):
        path = tmp_path / f"{seed}.jsonl"
        path.write_bytes(drawn_session(seed))
        wrong += differences(path, answers(path))
    assert wrong == []


@pytest.mark.parametrize("first", some(range(0, 1_000, EACH)))
def test_of_a_drawn_capture_is_said_what_must_hold(first, tmp_path, monkeypatch):
    monkeypatch.setitem(READERS, Injected.name, Injected)
    wrong: list[str] = []
    for seed in range(first, first + EACH):
        path = tmp_path / f"{seed}.jsonl"
        path.write_bytes(drawn_capture(seed))
        wrong += differences(path, answers(path, "--format", Injected.name))
    assert wrong == []


@pytest.mark.parametrize("first", some(range(PARTS)))
def test_of_a_generated_capture_is_said_what_must_hold(first, tmp_path, monkeypatch):
    monkeypatch.setitem(READERS, Injected.name, Injected)
    captures = [case.capture for number in range(first, len(FAULTS), PARTS) for case in alone(number)]
    captures += [case.capture for number in range(first, len(EXPECTED), PARTS) for case in happening(number)[:4]]
    assert captures
    wrong: list[str] = []
    for number, capture in enumerate(captures):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(written(capture))
        wrong += [f"{what} ({capture.name})" for what in differences(path, answers(path, "--format", Injected.name))]
    assert wrong == []


@given(data=claude_logs())
def test_of_a_log_with_odd_lines_is_said_what_must_hold(data, tmp_path_factory):
    """Sidechains, rewinds, compactions, and lines that a crash left behind."""
    path = tmp_path_factory.mktemp("odd") / "session.jsonl"
    path.write_bytes(data)
    assert differences(path, answers(path, "--format", "claude-code")) == []


def passes(*counts: tuple[int, int], kinds: tuple[str, ...] = ("message",), model: str = "claude-opus-4-8"):
    """What a response's passes read and wrote, as a usage lists them."""
    kinds = kinds if len(kinds) == len(counts) else kinds * len(counts)
    return [
        {"type": kind, "input_tokens": 3, "output_tokens": 50, "cache_read_input_tokens": read, "model": model,
         "cache_creation_input_tokens": write, "cache_creation": {"ephemeral_1h_input_tokens": write}}
        for kind, (read, write) in zip(kinds, counts, strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize(("met", "lost"), [(0, 31_000), (29_000, 2_000), (31_000, 0)])
def test_a_response_of_several_passes_loses_what_its_first_one_did_not_find(met, lost, tmp_path):
    log = Session()
    log.ask("Do it.")
    log.answer(20_000, 11_000, calls=("Read",))
    log.results()
    log.answer(31_500, 1_000, calls=("Read",), iterations=passes((met, 31_500 - met), (31_500, 1_000)))
    log.results()
    log.answer(32_500, 500)
    path = tmp_path / "session.jsonl"
    path.write_bytes(log.written())
    found = answers(path)
    assert [row["lost_tokens"] for row in found.simulated["turns"]] == [None, lost, 0]
    assert differences(path, found) == []


# the oracle itself: what is wrong in an answer is seen


def session() -> Session:
    """Six requests: the fourth reads the head alone after a search for tools, the last finds an expired cache."""
    log = Session()
    log.ask("Do it.")
    log.answer(20_000, 5_000, calls=("Read",))
    log.results()
    log.answer(25_000, 3_000, calls=("Read",))
    log.results()
    log.answer(28_000, 3_000, calls=("ToolSearch",))
    log.results([{"type": "tool_reference", "tool_name": "mcp__x__a"}])
    log.answer(20_000, 12_000, calls=("Read",))
    log.results()
    log.answer(32_000, 1_000)
    log.wait(7_300)
    log.ask("And now?")
    log.answer(0, 33_500)
    return log


@pytest.fixture
def told(tmp_path) -> tuple[Path, Answers]:
    """What lore says of that session, which is right."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(session().written())
    found = answers(path)
    assert [row["lost_tokens"] for row in found.simulated["turns"]] == [None, 0, 0, 11_000, 0, 33_000]
    assert differences(path, found) == []
    return path, found


def leading(answers: Answers, turn: int) -> dict[str, Any]:
    return answers.simulated["turns"][turn - 1]["causes"][0]


def _loses_more(answers: Answers) -> None:
    answers.simulated["turns"][3]["lost_tokens"] = 14_300


def _is_fine(answers: Answers) -> None:
    answers.simulated["turns"][3].update(causes=[], lost_tokens=0)


def _reads_another_bill(answers: Answers) -> None:
    answers.simulated["turns"][1]["billed"]["read_tokens"] = 24_999


def _predicts_chances_that_do_not_add_up(answers: Answers) -> None:
    outcome = {"read_tokens": 25_000, "probability": 0.6, "reason": "warm"}
    answers.simulated["turns"][1]["predicted"]["outcomes"] = [outcome, outcome]


def _compares_another(answers: Answers) -> None:
    answers.pairs[3]["left"]["name"] = answers.pairs[1]["left"]["name"]


def _wastes_what_was_read(answers: Answers) -> None:
    answers.simulated["turns"][2]["causes"] = [{**leading(answers, 4), "kind": "waste"}]


def _expires_too_soon(answers: Answers) -> None:
    answers.simulated["turns"][3]["causes"] = [leading(answers, 6)]


def _forgets_a_turn(answers: Answers) -> None:
    del answers.simulated["turns"][2]
    del answers.pairs[1:3]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_loses_more, "lost 11,000 tokens and is said to have lost 14,300"),
        (_is_fine, "lost 11,000 tokens and is called fine"),
        (_reads_another_bill, "read_tokens is 25,000 and is shown as 24,999"),
        (_predicts_chances_that_do_not_add_up, "whose chances are"),
        (_compares_another, "is compared with line"),
        (_wastes_what_was_read, "all that stood was read, and it is called waste"),
        (_expires_too_soon, "LORE128 cache-expired, though only"),
        (_forgets_a_turn, "no turn of lore's stands here"),
    ],
)
def test_the_oracle_sees_what_is_wrong(spoil: Callable[[Answers], None], words, told):
    path, right = told
    spoilt = copy.deepcopy(right)
    spoil(spoilt)
    found = differences(path, spoilt)
    assert [what for what in found if words in what], found


def test_copies_of_a_response_are_one_request(tmp_path):
    log = session()
    copied = [line for line in log.lines if line["type"] == "assistant"][:6]
    for line in copied:
        log.line("assistant", message=line["message"], requestId=line["requestId"])
    path = tmp_path / "session.jsonl"
    path.write_bytes(log.written())
    assert len(read(path)) == 6
    assert differences(path, answers(path)) == []


def test_what_a_fork_copied_is_asked_once_over_all_files(tmp_path):
    log, fork = session(), session()
    for line in fork.lines:
        line["sessionId"] = "s-2"
    fork.ask("Another way.")
    fork.answer(33_500, 700, response="msg_fork")
    for name, made in (("one", log), ("two", fork)):
        (tmp_path / f"{name}.jsonl").write_bytes(made.written())
    asked = [request for name in ("one", "two") for request in read(tmp_path / f"{name}.jsonl")]
    summary = lore("check", "--json", str(tmp_path)).json["summary"]
    assert len(asked) == 13
    assert (summary["turns"], summary["copied"]) == (7, 6)
    alone = lore("check", "--json", str(tmp_path / "one.jsonl")).json["summary"]
    assert (summary["lost_tokens"], summary["breaks"]) == (alone["lost_tokens"], alone["breaks"]) == (11_000, 2)


def test_a_prompt_that_no_cache_holds_loses_nothing(tmp_path):
    usage = {"input_tokens": 30, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 5}
    path = tmp_path / "capture.jsonl"
    lines = []
    for number, system in enumerate(("It is noon.", "It is one.")):
        body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": system,
                "messages": [{"role": "user", "content": "Hi."}]}  # fmt: skip
        lines.append(json.dumps({"ts": 1_779_000_000 + number, "request": body, "usage": usage}))
    path.write_text("\n".join(lines))
    assert [request.bill and request.bill.asked for request in read(path)] == [30, 30]
    found = answers(path)
    assert differences(path, found) == []
    for row in found.simulated["turns"]:
        row["lost_tokens"] = 7
    assert [what for what in differences(path, found) if "lost 0 tokens and is said to have lost 7" in what]
