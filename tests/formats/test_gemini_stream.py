"""Gemini CLI's stream-json output."""

from pathlib import Path

from formats.recorded import folded
from helpers.recognising import recognise
from lore.formats.agents.gemini_stream import GeminiStream
from lore.model.canonical import text_of
from lore.model.events import TurnCompleted
from lore.model.items import AssistantMessage, ToolCall
from lore.testing import ReaderContract, everything
from model.making import dumps

RUN = (Path(__file__).parents[2] / "fixtures/gemini-cli/stream.jsonl").read_bytes()
LINES = RUN.splitlines(keepends=True)


class TestContract(ReaderContract):
    reader = GeminiStream
    samples = (RUN, RUN[:-1], LINES[0])


def run(*records: dict) -> bytes:
    """Return a run with these records after its `init`."""
    return LINES[0] + b"".join(dumps(record) + b"\n" for record in records)


def ends(data: bytes) -> list[TurnCompleted]:
    reads = everything(GeminiStream(), data)
    return [read.value for read in reads if isinstance(read.value, TurnCompleted)]


def result(**models: dict) -> dict:
    return {"type": "result", "status": "success", "stats": {"models": models}}


def test_run_is_recognised_without_its_first_records():
    assert all(recognise(b"".join(LINES[cut:])) is GeminiStream for cut in range(len(LINES)))
    assert recognise(LINES[1]) is not GeminiStream
    assert [end.usage for end in ends(b"".join(LINES[1:]))] == [end.usage for end in ends(RUN)]


def test_answer_in_pieces_is_one_message():
    entries = folded(GeminiStream, RUN).state.main().entries
    answers = [entry.item for entry in entries if isinstance(entry.item, AssistantMessage)]
    texts = [text_of(bytes(block.text)) for answer in answers for block in answer.blocks or ()]
    assert texts == ["I run the tests first.", "One: test_total counts the header as a row."]


def test_failed_call_keeps_its_error():
    calls = [entry.item for entry in folded(GeminiStream, RUN).state.main().entries if isinstance(entry.item, ToolCall)]
    assert [call.status for call in calls] == ["completed", "failed"]
    assert b"File not found" in bytes(calls[1].error)


def test_run_tokens_are_passes_of_last_request():
    first, last = ends(RUN)
    assert first.usage is None
    assert [(row.model, row.uncached_tokens, row.read_tokens, row.output_tokens) for row in last.usage.iterations] == [
        ("gemini-3-pro-preview", 12_120, 8_200, 360), ("gemini-3-flash-preview", 780, 0, 20),
    ]  # fmt: skip
    usage = folded(GeminiStream, RUN).usage
    assert (usage.uncached_tokens, usage.read_tokens, usage.output_tokens) == (12_900, 8_200, 380)


def test_run_ending_with_call_keeps_tokens():
    call = {"type": "tool_use", "tool_name": "ls", "tool_id": "ls-1", "parameters": {}}
    finished = {"type": "tool_result", "tool_id": "ls-1", "status": "success", "output": "a.py"}
    tokens = {"total_tokens": 110, "input_tokens": 100, "output_tokens": 10, "cached": 0}
    unsplit = {"type": "result", "status": "success", "stats": tokens}
    for end_of_run in (result(m=tokens), unsplit):
        assert [end.usage is None for end in ends(run(call, finished, end_of_run))] == [True, False]


def test_interrupted_run_has_its_last_answer():
    data = run({"type": "message", "role": "assistant", "content": "I am", "delta": True})
    assert len(folded(GeminiStream, data).state.main().entries) == 1


def test_malformed_record_is_kept_with_its_place():
    session = folded(GeminiStream, run({"type": "message", "role": "user", "content": 5}, {"type": "of the future"}))
    assert [problem.line for problem in session.problems] == [2, 3]
