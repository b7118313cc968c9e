"""The reader of OpenCode 2's sessions: exports and databases, requests and bills, what the client says, compactions."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing

import pytest

from formats import opencode
from formats.opencode import START
from formats.opencode_typed import GPT, Typed, compacted, database, plain, tokens
from lore.formats.opencode.reader import OpenCode
from lore.formats.registry import recognise
from lore.judge.policy import Budgets
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.codes import Problem
from lore.model.items import AssistantMessage, CompactDivider, ImageBlock, ThinkingBlock, ToolCall, UserMessage
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.run.folding import fold
from lore.testing import ReaderContract
from recording.test_opencode_store import SCHEMA as OLDER
from recording.test_opencode_store import fill, listing


def ends(made, chain=e.MAIN):
    """The bills of a chain's requests: what was not read, what was, and the output."""
    found = [value for value in made.read() if isinstance(value, e.TurnCompleted | e.TurnFailed | e.TurnCanceled)]
    bills = [end.usage for end in found if end.chain == chain]
    return [bill and (bill.uncached_tokens, bill.read_tokens, bill.output_tokens) for bill in bills]


def items(made):
    """The timeline."""
    return [entry.item for entry in opencode.folded(made.data()).state.main().entries]


def texts(made):
    """What stands in the prompt that no model made, with its source."""
    found = [item for item in items(made) if isinstance(item, UserMessage)]
    return [("".join(text_of(bytes(block.text)) for block in item.blocks), item.source) for item in found]


def busy() -> Typed:
    """All that happens in one session."""
    image = {"data": "aGk=", "mime": "image/png", "name": "a.png", "source": {"type": "inline"}}
    made = compacted().message("system", text="It is Tuesday.").message("synthetic", text="a note")
    made.message("shell", shellID="s", command="ls", status="exited", output={"output": "a.txt"}).user(
        "see", files=[image]
    )
    made.message("agent-switched", agent="plan").message("skill", skill="s", name="s", text="how to")
    made.answer(
        made.tool("c5", "long", time={"pruned": START + 95_000}), made.tool("c6", status="streaming", input="{")
    )
    made.answer(made.tool("c7", status="error", error={"type": "unknown", "message": "no"}), agent="plan")
    made.answer("part", error={"type": "aborted", "message": "x"}, bill=None).message("compaction", status="running")
    made.message("compaction", status="failed", reason="manual", error={"type": "api", "message": "x"})
    return made.message("hologram", x=1).user("ä \ud83d").answer({"type": "hologram"}, bill=None)


class TestContract(ReaderContract):
    reader = OpenCode
    samples = (
        plain().data(),
        compacted().data(),
        busy().data(),
        busy().data()[:-9],
        json.dumps(json.loads(busy().data())).encode(),
    )


def test_an_export_of_version_2_is_recognised():
    assert recognise(plain().data()) is OpenCode


def test_an_assistants_message_is_a_request_whose_output_holds_the_reasoning():
    assert ends(plain()) == [(100, 0, 5), (20, 96, 5)]
    assert ends(Typed().user("a").answer("b", tokens=tokens(7, 0, 5, 40))) == [(7, 0, 45)]


def test_a_response_is_thinking_text_and_calls_with_their_outcome():
    _, thought, said, call, _ = items(plain())
    assert isinstance(thought, AssistantMessage)
    assert isinstance(thought.blocks[0], ThinkingBlock)
    assert isinstance(said, AssistantMessage)
    assert isinstance(call, ToolCall)
    assert (call.call_id, call.status, bytes(call.output)) == ("c1", "completed", b'"a.txt"')


def test_what_the_client_says_stands_in_the_prompt_as_it_writes_it():
    held = base64.b64encode(b"one\ntwo").decode()
    made = Typed().message("system", text="It is Tuesday.").message("synthetic", text="a note")
    made.message("shell", command="ls", output={"output": "a.txt"}).message("shell", command="w", output="x")
    made.user("see", files=[{"data": held, "mime": "text/plain", "name": "a.txt", "source": {"type": "inline"}}])
    assert texts(made) == [
        ("It is Tuesday.", "context_injection"), ("a note", "context_injection"),
        ("Shell command: ls\n\na.txt", "context_injection"), ("Shell command: w\n\nx", "context_injection"),
        ("seeAttached file: a.txt\n\none\ntwo", "user"),
    ]  # fmt: skip


def test_an_image_is_an_image():
    made = Typed().user("see", files=[{"data": "aGk=", "mime": "image/png", "name": "a.png"}])
    assert [type(block) for block in items(made)[0].blocks][1:] == [ImageBlock]


def test_a_compaction_is_a_request_of_its_own_and_its_checkpoint_stands_for_the_history():
    assert ends(compacted(), "utility-1") == [(140, 0, 30)]
    divider, asked, _ = items(compacted())
    assert isinstance(divider, CompactDivider)
    assert "<summary>\n## Goal\n</summary>\n\n<recent-context>\nuser: hi\n" in text_of(bytes(divider.summary))
    assert isinstance(asked, UserMessage)
    (model,) = [
        value.model
        for value in compacted(model=None).read()
        if isinstance(value, e.SessionChanged) and value.chain != e.MAIN
    ]
    assert model == "gpt-5.4"  # the session's own


def test_a_compaction_that_runs_or_failed_changes_nothing():
    for status, requests in (("running", 0), ("failed", 1)):
        made = compacted(status=status, error={"type": "api", "message": "x"} if requests else None)
        assert len(ends(made, "utility-1")) == requests
        assert not [item for item in items(made) if isinstance(item, CompactDivider)]


def test_an_abort_is_a_request_that_was_canceled():
    made = Typed().user("a").answer("b", bill=None, error={"type": "aborted", "message": "x"})
    assert [type(value) for value in made.read() if isinstance(value, e.TurnCanceled | e.TurnFailed)] == [
        e.TurnCanceled
    ]


def test_another_agent_and_effort_are_seen_and_a_prompt_alone_is_no_change():
    made = plain().user("b").answer("c").answer("d", agent="plan", model={**GPT, "variant": "low"})
    seen = [value.name for value in made.read() if isinstance(value, e.Observed)]
    assert seen == ["instructions", "effort"]


def test_what_was_reverted_is_taken_back():
    made = plain()
    made.info["revert"] = {"messageID": "msg_004"}
    assert len(items(made)) == len(items(plain())) - 1


def test_a_type_that_nobody_knows_is_kept():
    found = [value.message for value in plain().message("hologram").read() if isinstance(value, Problem)]
    assert found == ["unknown message of type 'hologram'; kept as opaque"]


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [7], {"a": 7}, -1, 1e400, "\ud83d"])
def test_hostile_values_never_raise(value):
    for name in ("id", "type", "time", "text", "files", "content", "tokens", "model", "error", "summary", "output"):
        for kind in ("user", "assistant", "compaction", "shell"):
            made = plain().message(kind, content=[])
            made.messages[-1][name] = value
            made.read()
    for name in ("state", "text", "time", "native"):
        made = plain().answer({**Typed().tool("c9", "x"), name: value})
        made.read()


def usage(path):
    """What a session is billed, and what it holds."""
    result = fold(str(path), Options()).result
    return result.session.id, result.usage, len(result.timeline)


def test_a_session_of_a_database_is_read_as_its_export_is(tmp_path):
    sessions = (compacted(), Typed("ses_2", parentID="ses_1").user("task").answer("done", bill=(40, 8, 2)))
    path = database(tmp_path / "opencode.db", *sessions)
    folder = tmp_path / "exports"
    folder.mkdir()
    for made in sessions:
        (folder / f"{made.info['id']}.json").write_bytes(made.data())
    before = listing(tmp_path)
    for made in sessions:
        assert usage(f"{path}#{made.info['id']}") == usage(folder / f"{made.info['id']}.json")
    result = check([str(path)], Budgets(), Options()).result
    assert result.summary.turns == 5  # those of both sessions, and the summary's
    assert listing(tmp_path) == before


def test_a_session_that_was_taken_over_is_read_once_where_it_goes_on(tmp_path):
    older, only = opencode.plain(), opencode.Export("ses_0").user("a").answer("b")
    newer = plain().user("more").answer("yes", bill=(30, 120, 5))
    path = database(tmp_path / "opencode.db", newer, Typed("ses_0"), more=OLDER)
    with closing(sqlite3.connect(path)) as connection:
        fill(connection, older, only)
    assert sorted(file.path.rpartition("#")[2] for file in inputs([str(path)])) == ["ses_0", "ses_1"]
    assert (usage(f"{path}#ses_1")[1].turns, usage(f"{path}#ses_0")[1].turns) == (3, 1)


@pytest.mark.parametrize("damage", ["alter table session_message drop column data", "drop table session_v2"])
def test_a_database_without_what_is_read_is_none_of_its(tmp_path, damage):
    path = database(tmp_path / "opencode.db", plain())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(damage)
    assert [file.path for file in inputs([str(path)])] == [str(path)]


def test_rows_that_are_no_objects_are_problems(tmp_path):
    path = database(tmp_path / "opencode.db", plain())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update session_message set data = ? where seq = 2", (b"\xff[",))
        connection.commit()
    result = check([str(path)], Budgets(), Options()).result
    assert (result.summary.turns, [found.code for found in result.findings]) == (2, ["LORE203"])
