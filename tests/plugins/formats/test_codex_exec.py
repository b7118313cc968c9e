"""What `codex exec --json` prints."""

import pytest

from cli.running import lore, put
from formats.recorded import folded
from lore.formats.agents.gemini_stream import GeminiStream
from lore.model.events import Observed, TurnCompleted
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


def spent(turn: TurnCompleted) -> tuple:
    """Return the uncached, read, written and output tokens that are counted at the end of a turn."""
    assert turn.usage.has_input is False  # no request has counts of its own
    (run,) = turn.usage.iterations
    return run.uncached_tokens, run.read_tokens, run.write_tokens, run.output_tokens


def answer(*counts: int, begin: tuple = BEGIN) -> bytes:
    """What a run prints that only answers."""
    return printed(*begin, item("completed", "agent_message", text="Done."), done(*counts))


def test_sums_of_thread_are_split_by_turn():
    first, last = ends(answer(3_000, 1_280, 90) + answer(8_000, 4_224, 100))
    assert (spent(first), spent(last)) == ((1_720, 1_280, None, 90), (2_056, 2_944, None, 10))


def test_tokens_written_to_cache_are_counted_apart():
    usage = {"input_tokens": 3_000, "cached_input_tokens": 1_280, "cache_write_input_tokens": 1_600, "output_tokens": 9}
    (end,) = ends(printed(*BEGIN, item("completed", "agent_message"), {"type": "turn.completed", "usage": usage}))
    assert spent(end) == (120, 1_280, 1_600, 9)


def test_another_thread_is_a_chain_of_its_own():
    other = ({"type": "thread.started", "thread_id": "t-2"}, BEGIN[1])
    data = answer(9_000, 1_280, 90) + answer(3_000, 1_280, 20, begin=other) + answer(9_900, 2_176, 95)
    assert [(end.chain, spent(end)) for end in ends(data)] == [
        ("main", (7_720, 1_280, None, 90)), ("t-2", (1_720, 1_280, None, 20)), ("main", (4, 896, None, 5)),
    ]  # fmt: skip
    assert len(items(data)) == 2


def test_lower_sums_begin_a_thread():
    first, last = ends(answer(9_000, 1_280, 90, begin=BEGIN[1:]) + answer(3_000, 1_280, 20))
    assert (spent(first), spent(last)) == ((7_720, 1_280, None, 90), (1_720, 1_280, None, 20))


def test_cut_output_ends_in_its_own_chain():
    other = ({"type": "thread.started", "thread_id": "t-2"}, item("completed", "agent_message", text="I look."))
    assert [end.chain for end in ends(answer(3_000, 0, 9) + printed(*other) + b'{"type":7}\n')] == ["main", "t-2"]


def test_resumed_run_numbers_its_items_again():
    killed = printed(*BEGIN, item("started", "command_execution", **LS))
    calls = items(killed + printed(*BEGIN, item("completed", "command_execution", **ENDED)))
    assert [one.status for one in calls] == ["running", "completed"]


def test_sums_of_requests_are_no_cache_break():
    # The second run made two requests, of which one is not printed; the first resumes an earlier run.
    data = answer(250_000, 220_160, 900) + answer(271_500, 238_592, 1_000) + answer(283_000, 240_640, 1_050)
    path = put("run.jsonl", data)
    checked, simulated = lore("check", path), lore("simulate", path)
    assert "0 cache breaks" in checked.out
    assert "the tokens of single requests (only their sum)" in checked.out
    assert "3 turns without usage: nothing can be predicted" in simulated.out
    assert "240,640 read, 42,360 uncached (in 3 responses)" in simulated.out


def test_run_costs_what_its_requests_cost():
    prices = (("uncached", 2), ("read", 0.5), ("output", 8))
    put("own.toml", "".join(
        f"[[rules]]\nprovider = '*'\nmodel = '*'\nrule = 'price_{name}'\nvalue = {price}\n" for name, price in prices
    ).encode())  # fmt: skip
    path = put("run.jsonl", RUN)  # two requests; 1,800 tokens at $2, 1,200 at $0.50, 90 at $8 per million
    totals = lore("simulate", path, "--rules-file", "own.toml", "--json").json["totals"]
    assert totals["cost"] == {
        "currency": "USD",
        "billed": 0.00492,
        "predicted": None,
        "waste": None,
        "unexplained": None,
    }
    assert totals["unbilled"] == 1


def test_failed_run_is_signalled_without_usage():
    data = printed(
        *BEGIN, item("completed", "agent_message", text="I look."), {"type": "error", "message": "Reconnecting... 1/5"},
        {"type": "turn.failed", "error": {"message": "stream disconnected"}},
    )  # fmt: skip
    assert [end.usage for end in ends(data)] == [None]
    assert [one.value.name for one in everything(CodexExec(), data) if isinstance(one.value, Observed)] == [
        "api-error", "api-error",
    ]  # fmt: skip


@pytest.mark.parametrize("usage", [{}, {"usage": {}}, {"usage": done(0, 0, 0)["usage"]}], ids=repr)
def test_run_without_counts_has_no_usage(usage):
    data = printed(*BEGIN, item("completed", "agent_message", text="Done."), {"type": "turn.completed", **usage})
    assert [end.usage for end in ends(data)] == [None]


def test_command_and_changed_file_are_calls():
    changes = {"changes": [{"path": "a.py", "kind": "update"}]}
    command, change = items(printed(
        *BEGIN, item("started", "command_execution", **LS), item("completed", "command_execution", **ENDED),
        item("started", "file_change", 1, **changes, status="in_progress"),
        item("completed", "file_change", 1, **changes, status="completed"), done(6_000, 2_944, 80),
    ))  # fmt: skip
    assert [(one.name, one.status) for one in (command, change)] == [
        ("shell", "completed"),
        ("apply_patch", "completed"),
    ]
    assert bytes(change.input) == dumps(changes)
    assert command.response_id != change.response_id


def test_cut_last_line_is_a_problem():
    cut = RUN[:-20]
    (problem,) = folded(CodexExec, cut).problems
    assert (problem.code, problem.line) == ("LORE202", len(cut.splitlines()))
    assert [end.usage for end in ends(cut)] == [None, None]


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
    found = items(printed(
        *BEGIN, item("started", "web_search", query=""), item("completed", "web_search", query="lore cache"),
        item("completed", "agent_message", 1, text="Found."),
    ))  # fmt: skip
    assert [type(one) for one in found] == [ToolCall, AssistantMessage]
    assert bytes(found[0].input) == b'{"query":"lore cache"}'
    assert len({one.response_id for one in found}) == 1


def test_each_change_of_plan_is_a_call():
    plan = [item(event, "todo_list", items=[{"text": "a", "completed": event != "started"}])
            for event in ("started", "updated", "completed")]  # fmt: skip
    calls = items(printed(*BEGIN, *plan, done(10, 0, 1)))
    assert [(one.name, one.status) for one in calls] == [("update_plan", "completed")] * 2


def test_result_with_content_keeps_its_text():
    found = {"server": "s", "tool": "t", "arguments": {}, "result": {"content": [{"type": "text", "text": "x"}]}}
    (call,) = items(printed(*BEGIN, item("completed", "mcp_tool_call", **found, status="completed")))
    assert bytes(call.output) == b'"x"'


def test_unknown_item_kinds_and_records_are_kept():
    session = folded(CodexExec, printed(
        *BEGIN, item("completed", "hologram"), {"type": "of the future"}, item("completed", "agent_message", text="x"),
    ))  # fmt: skip
    assert [problem.line for problem in session.problems] == [3, 4]
    assert len(session.state.main().entries) == 1
