"""lore's verdicts agree with an independent reading of the raw file: pairs of turns, lost tokens, causes."""

import json
from pathlib import Path

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

EACH = 5  # random sessions of one test
PARTS = 72  # into which the generated captures are divided
CUT = "已截断".encode()  # an exporter wrote this at the end of texts that it cut, so that bytes say nothing of tokens
FOLDERS = ("claude-code", "capture", "vcr")
FILES = [file for name in FOLDERS for file in CORPUS.glob(f"{name}/*") if CUT not in file.read_bytes()]


def answers(path: Path, *options: str) -> Answers:
    simulated = lore("simulate", "--json", *options, str(path))
    checked = lore("check", "-v", "--json", *options, str(path))
    pairs = lore("diff-prefix", "--json", "--no-tokens", *options, str(path))
    assert simulated.code in (0, 2, 3), simulated.err  # 2: no line holds a request
    assert checked.code in (0, 1, 2, 3), checked.err
    return Answers(simulated.json, checked.json, [row for row in pairs.lines if "error" not in row])


@pytest.mark.corpus
@pytest.mark.parametrize("path", recordings(FILES))
def test_verdicts_on_real_recordings_hold(path):
    assert read(path)
    assert differences(path, answers(path)) == []


@pytest.mark.parametrize("first", some(range(0, 2_000, EACH)))
def test_verdicts_on_random_sessions_hold(first, tmp_path):
    wrong: list[str] = []
    for seed in range(first, first + EACH):
        path = tmp_path / f"{seed}.jsonl"
        path.write_bytes(drawn_session(seed))
        wrong += differences(path, answers(path))
    assert wrong == []


@pytest.mark.parametrize("first", some(range(0, 1_000, EACH)))
def test_verdicts_on_random_captures_hold(first, tmp_path, monkeypatch):
    monkeypatch.setitem(READERS, Injected.name, Injected)
    wrong: list[str] = []
    for seed in range(first, first + EACH):
        path = tmp_path / f"{seed}.jsonl"
        path.write_bytes(drawn_capture(seed))
        wrong += differences(path, answers(path, "--format", Injected.name))
    assert wrong == []


@pytest.mark.parametrize("first", some(range(PARTS)))
def test_verdicts_on_captures_with_faults_hold(first, tmp_path, monkeypatch):
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
def test_verdicts_on_logs_with_odd_lines_hold(data, tmp_path_factory):
    """Logs with sidechains, rewinds, compactions, and incomplete lines after a crash."""
    path = tmp_path_factory.mktemp("odd") / "session.jsonl"
    path.write_bytes(data)
    assert differences(path, answers(path, "--format", "claude-code")) == []


def passes(*counts: tuple[int, int]):
    """Return `iterations` of a usage: tokens read and written by each pass of a response."""
    return [
        {"type": "message", "input_tokens": 3, "output_tokens": 50, "cache_read_input_tokens": read,
         "model": "claude-opus-4-8", "cache_creation_input_tokens": write,
         "cache_creation": {"ephemeral_1h_input_tokens": write}}
        for read, write in counts
    ]  # fmt: skip


@pytest.mark.parametrize(("read", "lost"), [(0, 31_000), (29_000, 2_000), (31_000, 0)])
def test_loss_is_measured_at_first_pass_of_response(read, lost, tmp_path):
    log = Session()
    log.ask("Do it.")
    log.answer(20_000, 11_000, calls=("Read",))
    log.results()
    log.answer(31_500, 1_000, calls=("Read",), iterations=passes((read, 31_500 - read), (31_500, 1_000)))
    log.results()
    log.answer(32_500, 500)
    path = tmp_path / "session.jsonl"
    path.write_bytes(log.written())
    found = answers(path)
    assert [row["lost_tokens"] for row in found.simulated["turns"]] == [None, lost, 0]
    assert differences(path, found) == []


# the oracle finds wrong answers


def session() -> Session:
    """Return a log of six requests: the fourth reads only the head after a tool search, the last comes after expiry."""
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
def right_answers(tmp_path) -> tuple[Path, Answers]:
    """lore's answers about that session, which are right."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(session().written())
    found = answers(path)
    assert [row["lost_tokens"] for row in found.simulated["turns"]] == [None, 0, 0, 11_000, 0, 33_000]
    assert differences(path, found) == []
    return path, found


OUTCOME = {"read_tokens": 25_000, "probability": 0.6, "reason": "warm"}
# Turn, changes of its row (`causes`: a number copies the leading cause of that turn), and the difference to be found.
WRONG = {
    "more lost": (4, {"lost_tokens": 14_300}, "lost 11,000 tokens, reported 14,300"),
    "nothing lost": (4, {"causes": [], "lost_tokens": 0}, "lost 11,000 tokens, reported none"),
    "other read": (2, {"billed": {"read_tokens": 24_999}}, "read_tokens is 25,000 and shown as 24,999"),
    "probabilities": (2, {"predicted": {"outcomes": [OUTCOME, OUTCOME]}}, "with probabilities"),
    "waste": (3, {"causes": 4, "kind": "waste"}, "everything cached was read, reported as waste"),
    "weak waste": (4, {"causes": 4, "kind": "waste", "strength": "weak"}, "is weak, but reported as waste"),
    "too soon": (4, {"causes": 6}, "LORE128 cache-expired, though only"),
}


@pytest.mark.parametrize(("turn", "change", "words"), WRONG.values(), ids=WRONG)
def test_oracle_finds_wrong_answer(turn, change, words, right_answers):
    path, answers = right_answers
    rows = answers.simulated["turns"]
    if isinstance(change.get("causes"), int):
        cause = rows[change["causes"] - 1]["causes"][0]
        own = {key: value for key, value in change.items() if key != "causes"}
        change = {"causes": [{**cause, **own}]}
    for key, value in change.items():
        rows[turn - 1][key] = {**rows[turn - 1][key], **value} if isinstance(value, dict) else value
    assert any(words in what for what in differences(path, answers))


def test_oracle_finds_other_pair_and_missing_turn(right_answers):
    path, answers = right_answers
    answers.pairs[3]["left"]["name"] = answers.pairs[1]["left"]["name"]
    assert any("compared with line" in what for what in differences(path, answers))
    del answers.simulated["turns"][2], answers.pairs[1:3]
    assert any("lore has no turn here" in what for what in differences(path, answers))


def test_copies_of_response_are_one_request(tmp_path):
    log = session()
    copied = [line for line in log.lines if line["type"] == "assistant"][:6]
    for line in copied:
        log.line("assistant", message=line["message"], requestId=line["requestId"])
    path = tmp_path / "session.jsonl"
    path.write_bytes(log.written())
    assert len(read(path)) == 6
    assert differences(path, answers(path)) == []


def test_requests_copied_by_fork_count_once(tmp_path):
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


def test_prompt_too_short_for_cache_loses_nothing(tmp_path):
    usage = {"input_tokens": 30, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 5}
    path = tmp_path / "capture.jsonl"
    lines = []
    for number, system in enumerate(("It is noon.", "It is one.")):
        body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": system,
                "messages": [{"role": "user", "content": "Hi."}]}  # fmt: skip
        lines.append(json.dumps({"ts": 1_779_000_000 + number, "request": body, "usage": usage}))
    path.write_text("\n".join(lines))
    assert [request.bill and request.bill.prompt_tokens for request in read(path)] == [30, 30]
    found = answers(path)
    assert differences(path, found) == []
    for row in found.simulated["turns"]:
        row["lost_tokens"] = 7
    assert [what for what in differences(path, found) if "lost 0 tokens, reported 7" in what]
