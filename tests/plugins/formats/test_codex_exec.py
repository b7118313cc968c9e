"""What `codex exec --json` prints."""

from formats.recorded import folded
from lore.formats.agents.gemini import GeminiStream
from lore.model.events import TurnCompleted
from lore.model.items import AssistantMessage, ToolCall
from lore.testing import ReaderContract, everything
from lore_plugins.formats.codex_exec import CodexExec
from model.making import dumps


def printed(*records: dict) -> bytes:
    return b"".join(dumps(record) + b"\n" for record in records)


def item(event: str, kind: str, number: int = 0, **members) -> dict:
    return {"type": f"item.{event}", "item": {"id": f"item_{number}", "type": kind, **members}}


def done(*counts: int) -> dict:
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
    return {"type": "turn.completed", "usage": dict(zip(names, counts, strict=False))}


BEGIN = ({"type": "thread.started", "thread_id": "t-1"}, {"type": "turn.started"})
LS = {"command": "bash -lc ls", "aggregated_output": "", "exit_code": None, "status": "in_progress"}
ENDED = {**LS, "aggregated_output": "a.py\n", "exit_code": 0, "status": "completed"}
RUN = printed(
    *BEGIN,
    item("completed", "reasoning", text="**Looking**"),
    item("started", "command_execution", 1, **LS), item("completed", "command_execution", 1, **ENDED),
    item("completed", "agent_message", 2, text="One file."),
    done(3_000, 1_200, 90),
)  # fmt: skip


class TestContract(ReaderContract):
    reader = CodexExec
    samples = (RUN, RUN[:-1], printed(*BEGIN))


def ends(data: bytes) -> list[TurnCompleted]:
    return [read.value for read in everything(CodexExec(), data) if isinstance(read.value, TurnCompleted)]


def items(data: bytes) -> list:
    return [entry.item for entry in folded(CodexExec, data).state.main().entries]


def test_output_is_recognised_without_its_first_records():
    lines = RUN.splitlines(keepends=True)
    assert [CodexExec.recognises(b"".join(lines[cut:])) for cut in range(len(lines))] == [True] * 6 + [False]
    assert not GeminiStream.recognises(RUN)
    assert not CodexExec.recognises(printed({"type": "item.completed", "item": {"id": "x", "type": "photo"}}))


def test_result_ends_a_request():
    first, last = ends(RUN)
    assert (first.usage, last.usage.uncached_tokens) == (None, None)
    (run,) = last.usage.iterations
    assert (run.uncached_tokens, run.read_tokens, run.output_tokens) == (1_800, 1_200, 90)
    thought, call, said = items(RUN)
    assert (call.name, bytes(call.input), bytes(call.output)) == ("shell", b'{"command":"bash -lc ls"}', b'"a.py\\n"')
    assert thought.response_id == call.response_id != said.response_id


def test_sums_of_thread_are_split_by_turn():
    second = (BEGIN[1], item("completed", "agent_message", 3, text="Done."), done(5_000, 2_900, 100))
    *_, last = ends(RUN + printed(*second))
    assert (last.usage.uncached_tokens, last.usage.read_tokens, last.usage.output_tokens) == (300, 1_700, 10)


def test_failed_and_declined_calls_are_failed():
    error = {
        "server": "docs",
        "tool": "search",
        "arguments": {"q": "x"},
        "error": {"message": "no"},
        "status": "failed",
    }
    declined = {**LS, "status": "declined"}
    calls = [one for one in items(printed(
        *BEGIN, item("started", "mcp_tool_call", **error), item("completed", "mcp_tool_call", **error),
        item("completed", "command_execution", 1, **declined),
    )) if isinstance(one, ToolCall)]  # fmt: skip
    assert [(one.name, one.status, bytes(one.output)) for one in calls] == [
        ("docs__search", "failed", b'"no"'), ("shell", "failed", b'""'),
    ]  # fmt: skip


def test_web_search_is_part_of_its_response():
    query = {"query": "lore cache"}
    said = items(printed(
        *BEGIN, item("started", "web_search", **query), item("completed", "web_search", **query),
        item("completed", "agent_message", 1, text="Found."),
    ))  # fmt: skip
    assert [type(one) for one in said] == [ToolCall, AssistantMessage]
    assert len({one.response_id for one in said}) == 1


def test_each_change_of_plan_is_a_call():
    plan = [item(event, "todo_list", items=[{"text": "a", "completed": event != "started"}])
            for event in ("started", "updated", "completed")]  # fmt: skip
    calls = items(printed(*BEGIN, *plan, done(10, 0, 1)))
    assert [(one.name, one.status) for one in calls] == [("update_plan", "completed")] * 2


def test_result_with_content_keeps_its_text():
    found = {"server": "s", "tool": "t", "arguments": {}, "result": {"content": [{"type": "text", "text": "x"}]}}
    (call,) = items(printed(*BEGIN, item("completed", "mcp_tool_call", **found, status="completed")))
    assert bytes(call.output) == b'"x"'


def test_failure_and_unknown_records_are_kept():
    session = folded(CodexExec, printed(
        *BEGIN, item("completed", "agent_message", text="so f"), {"type": "turn.failed", "error": {"message": "no"}},
        {"type": "of the future"}, item("completed", "hologram"),
    ))  # fmt: skip
    assert [problem.line for problem in session.problems] == [5, 6]
    assert len(session.state.main().entries) == 1
