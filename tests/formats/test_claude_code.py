"""Claude Code's logs: responses, usage, content, subagents, compactions, forks, titles, damaged records."""

import json

import pytest

from formats.claude import answered, asked, counts, folded, line, log_bytes, read, result, text, use
from helpers.each import each
from lore.formats.claude.reader import ClaudeCode
from lore.model import events as e
from lore.model.codes import Code, Problem
from lore.model.items import OpaqueItem
from lore.run.checking.check import check
from lore.testing import ReaderContract

PLAIN = [
    asked("u1", "list the files"),
    answered("a1", "r1", {"type": "thinking", "thinking": "", "signature": "sig"}, "u1", usage=counts(3, 100, 50, 1)),
    answered("a2", "r1", use("c1"), "a1", usage=counts(3, 100, 50, 1)),
    asked("u2", [result("c1", "a.py")], "a2"),
    answered("a3", "r1", use("c2"), "a2", usage=counts(3, 100, 50, 77)),
    asked("u3", [result("c2", [text("b.py")], is_error=True)], "a3"),
    answered("a4", "r2", text("two files"), "u3", usage=counts(1, 150, 20, 9)),
]
COMPACTED = [
    *PLAIN,
    line("system", "b1", None, subtype="compact_boundary", logicalParentUuid="a4", content="Conversation compacted",
         compactMetadata={"trigger": "auto", "preTokens": 900}),
    asked("u4", "This session is being continued", "b1", isCompactSummary=True, isVisibleInTranscriptOnly=True),
    asked("u5", "go on", "u4"),
    answered("a5", "r3", text("ok"), "u5", usage=counts(1, 0, 60, 2)),
]  # fmt: skip


class TestContract(ReaderContract):
    reader = ClaudeCode
    samples = (
        log_bytes(*PLAIN), log_bytes(*COMPACTED)[:-1], b"\xef\xbb\xbf" + log_bytes(*PLAIN).replace(b"\n", b"\r\n"),
    )  # fmt: skip


def turns(values):
    return [value for value in values if isinstance(value, e.TurnCompleted)]


# responses


def test_late_usage_replaces_that_of_the_previous_turn():
    lines = (
        asked("u", "x"),
        answered("a", "r1", use("c1"), "u", usage=counts(1, 1, 1, 1)),
        answered("b", "r2", text("2"), "a", usage=counts(2, 2, 2, 2)),
        answered("c", "r1", use("c2"), "a", usage=counts(1, 1, 1, 9)),
    )
    fold = folded(*lines)
    assert {end.turn: end.usage.output_tokens for end in turns(read(*lines))} == {1: 9, 2: 2}
    assert (fold.usage.turns, fold.usage.uncached_tokens, fold.usage.output_tokens) == (2, 3, 11)
    assert (fold.problems, fold.uuids) == ([], ["u", "a", "b", "c"])


def test_result_before_its_call_waits_for_it():
    """A client that streams a response may write the result of a call first; that call then had none."""
    late = answered("a2", "r1", use("c1"), "a1", usage=counts(1, 1, 1, 9))
    lines = (
        asked("u", "x"),
        answered("a1", "r1", text("I look."), "u", usage=counts(1, 1, 1, 1)),
        asked("u2", [result("c1", "a.py")], "a2"),
    )
    fold = folded(*lines, late)
    assert (fold.problems, fold.uuids, bytes(fold.item(2).output)) == ([], ["u", "a1", "a2"], b'"a.py"')
    assert Code.UNKNOWN_ID in [problem.code for problem in folded(*lines).problems]


def test_error_shown_to_the_user_is_no_request():
    error = answered("a", "r", text("API Error"), "u", model="<synthetic>", usage=counts(0, 0, 0, 0))
    values = read(asked("u", "x"), error)
    assert turns(values) == []
    assert isinstance(values[-1].item, OpaqueItem)


def test_messages_inside_progress_records_are_no_requests():
    embedded = {"type": "assistant", "message": {"id": "r9", "model": "m", "content": [], "usage": counts(9, 9, 9, 9)}}
    values = read(
        asked("u1", "x"),
        {"type": "progress", "uuid": "p1", "parentUuid": "u1", "sessionId": "s", "isSidechain": True,
         "data": {"type": "agent_progress", "agentId": "a7", "message": embedded}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": "s", "content": "later"},
        answered("a1", "r1", text("1"), "u1", usage=counts(1, 2, 3, 4)),
    )  # fmt: skip
    assert [end.response_id for end in turns(values)] == ["r1"]
    assert {value.chain for value in values} == {"main"}


# content


REFERENCE = {"type": "tool_reference", "tool_name": "Read"}


@each("content, output", [
    (None, ""), ("", ""), ({"odd": 1}, [{"type": "raw", "json": {"odd": 1}}]),
    ([REFERENCE], [{"type": "raw", "json": REFERENCE}]),
])  # fmt: skip
def test_result_of_any_content_is_kept(content, output):
    fold = folded(asked("u", "x"), answered("a", "r", use("c"), "u"), asked("v", [result("c", content)], "a"))
    assert json.loads(bytes(fold.item(1).output)) == output


@each("fields, source", [
    ({"isMeta": True}, "context_injection"), ({"origin": {"kind": "task-notification"}}, "tick"),
    ({"origin": {"kind": "human"}}, "user"), ({"origin": {"kind": 7}}, "user"),
    ({"origin": "task-notification"}, "user"), ({"origin": None}, "user"),
])  # fmt: skip
def test_source_of_a_user_message(fields, source):
    assert folded(asked("u", "words", **fields)).item(0).source == source


# subagents


def side(record):
    return {**record, "isSidechain": True}


def test_subagents_without_ids_are_separated_by_roots():
    roots = side(asked("s1", "task one")), side(asked("t1", "task two"))
    answers = side(answered("s2", "q1", text("1"), "s1")), side(answered("t2", "q2", text("2"), "t1"))
    fold = folded(asked("u", "x"), *roots, *answers)
    chains = {name: [entry.item.uuid for entry in chain.entries] for name, chain in fold.state.chains.items()}
    assert chains == {"main": ["u"], "sidechain-1": ["s1", "s2"], "sidechain-2": ["t1", "t2"]}


# forks and titles


def forked(*lines):
    copies = [
        {**line, "sessionId": "f", "forkedFrom": {"sessionId": "s", "messageUuid": line["uuid"]}} for line in lines
    ]
    new_lines = [asked("u8", "another way", "a4"), answered("a8", "r8", text("sure"), "u8", usage=counts(1, 170, 9, 5))]
    return [*copies, *({**line, "sessionId": "f"} for line in new_lines)]


def test_fork_without_its_parent_counts_no_inherited_request(tmp_path):
    (tmp_path / "fork.jsonl").write_bytes(log_bytes(*forked(*PLAIN)))
    summary = check([str(tmp_path)]).result.summary
    assert (summary.turns, summary.copied) == (1, 2)
    (tmp_path / "parent.jsonl").write_bytes(log_bytes(*PLAIN))  # is read after its fork
    summary = check([str(tmp_path)]).result.summary
    assert (summary.turns, summary.copied) == (3, 2)
    assert read(*forked(*PLAIN))[0].parent_session_id == "s"


def title(kind, name, **fields):
    member = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}[kind]
    return {"type": kind, member: name, "sessionId": "s", **fields}


@each("lines, expected", [
    ((*PLAIN, title("ai-title", "List files"), title("ai-title", "Read files")), "Read files"),
    ((*PLAIN, title("custom-title", "mine"), title("ai-title", "Read files")), "mine"),
    ((title("ai-title", "List files"), *PLAIN), "List files"),
    ((title("summary", "List files", leafUuid="a4"), title("summary", "x", leafUuid="x9"), *PLAIN), "List files"),
    ((title("summary", "of another session", leafUuid="x9"), *PLAIN), None),
    ((*PLAIN, title("ai-title", "List files"), title("summary", "Old", leafUuid="a4")), "List files"),
])  # fmt: skip
def test_title_is_the_users_or_the_models(lines, expected):
    assert folded(*lines).state.title == expected


# damage


@pytest.mark.parametrize(("odd", "code"), [
    (line("novelty", "n", "u", payload=1), "LORE203"),
    ({"nothing": 1, "sessionId": "s"}, "LORE207"),
    ({"type": 3}, "LORE207"),
    (asked("v", 5) | {"message": {"content": 5, "model": 7}}, "LORE207"),
])  # fmt: skip
def test_unknown_or_malformed_record_is_opaque(odd, code):
    fold = folded(asked("u", "x"), odd)
    assert (fold.codes, fold.uuids) == ([code], ["u"])


@each("head, is_known", [
    (log_bytes(line("file-history-snapshot", None, messageId="m", snapshot={})), True),
    (log_bytes({"type": "summary", "summary": "s", "leafUuid": "u"}), True),
    (log_bytes({"type": "user", "message": {}}), False),
    (log_bytes({"type": "assistant", "message": {"usage": {"cache_read_input_tokens": 0}}}), True),
    (log_bytes({"type": "message", "message": {"usage": {"cache_read_input_tokens": 0}}}), False),
    (log_bytes({"type": "novelty", "sessionId": "s"}), False),
    (b"not json\n" + log_bytes(*PLAIN[:1]), True),
    (b"", False),
    (b"{", False),
])  # fmt: skip
def test_log_is_recognised_by_its_records(head, is_known):
    assert ClaudeCode.recognises(head) is is_known


def test_record_of_too_many_values_is_reported():
    (problem,) = ClaudeCode().read([b'{"type":"user","x":[' + b"{}," * 400_000 + b"{}]}\n"])
    assert (problem.value.code, problem.line) == (Code.CAPTURE_TOO_LARGE, 1)


# what `claude -p` prints as stream-json


def ended(cost: float, output: int):
    return {"type": "result", "session_id": "s", "total_cost_usd": cost, "usage": counts(9, 9, 9, output)}


def test_result_of_a_run_completes_output_and_cost():
    first, last = answered("a1", "r1", use("c1"), usage=counts(3, 0, 50, 1)), text("done")
    run = first, asked("u1", [result("c1")]), answered("a2", "r2", last, usage=counts(1, 50, 9, 2)), ended(0.25, 80)
    again = answered("a3", "r3", text("more"), usage=counts(1, 59, 9, 5)), ended(0.5, 5)
    values = read(*run, *again)
    ends = {end.turn: (end.usage.output_tokens, end.usage.recorded) for end in turns(values)}
    assert ends == {1: (1, None), 2: (79, e.RecordedCost(0.25, requests=2)), 3: (5, e.RecordedCost(0.5, requests=1))}
    assert [value.code for value in values if isinstance(value, Problem)] == [Code.FIELDS_FILLED_IN]


def test_subagent_of_a_run_is_named_by_its_call():
    inner = {"parent_tool_use_id": "toolu_1"}
    run = (
        answered("a1", "r1", use("toolu_1", "Task"), usage=counts(3, 0, 50, 1)),
        asked("u1", "look", **inner),
        answered("a2", "r2", text("seen"), usage=counts(3, 0, 20, 9), **inner),
        asked("u2", [result("toolu_1")]),
        answered("a3", "r3", text("done"), usage=counts(1, 50, 9, 2)),
        ended(0.25, 80),
    )
    values = read(*run)
    assert {end.chain: end.usage.read_tokens for end in turns(values)} == {"main": 50, "toolu_1": 0}
    assert turns(values)[-1].usage.recorded == e.RecordedCost(0.25, requests=3)
    assert turns(values)[-1].usage.output_tokens == 2  # the result may count the subagent's, too
    assert not any(isinstance(value, Problem) for value in values)


def test_cost_of_an_old_response_is_recorded():
    (end,) = turns(read(answered("a", "r", text("x"), usage=counts(3, 0, 50, 1), costUSD=0.125)))
    assert end.usage.recorded == e.RecordedCost(0.125)


def test_missing_parent_of_hook_record_is_no_problem():
    summary = line("system", "s1", "gone", subtype="stop_hook_summary")
    hook = line("progress", "p1", "gone", data={"type": "hook_progress"})
    assert not any(isinstance(value, Problem) for value in read(*PLAIN, summary, hook))
    lost = [value.code for value in read(*PLAIN, asked("u9", "x", "gone")) if isinstance(value, Problem)]
    assert lost == [Code.DANGLING_PARENT]
