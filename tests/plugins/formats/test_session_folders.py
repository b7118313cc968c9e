"""Sessions that are folders: any of their files names them, and they are read whole, with their subagents."""

import pytest

from formats.kimi import text
from lore.formats.folders import CONTEXT, WIRE
from lore.recording import corpus, packed
from lore.recording.agents.companions import companions, session_of
from lore.recording.agents.sessions import newest
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from plugins.formats import openhands
from plugins.formats.kimi_session import counts, lines, plain


def write(folder, made):
    for name, data in made.files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def kimi(tmp_path):
    """A session of Kimi CLI with a subagent."""
    made = plain()
    for number in range(10):
        made.compact(f"So far {number}.").step(text("on"), usage=counts(2_000 + number, 0))
    own = plain()
    own.wire = [line for line in own.wire if line.get("message", {}).get("type") != "StatusUpdate"]
    folder = write(tmp_path / "abc" / "s-1", made)
    write(folder / "subagents" / "a1", own)
    (folder / "state.json").write_bytes(b"{}")
    (folder / "context_sub_1.jsonl").write_bytes(lines(plain().context))
    return folder


def test_files_are_read_in_writing_order(kimi):
    aside = [f"context_{number}.jsonl" for number in range(1, 11)]
    assert packed.find_pack(str(kimi))[1] == (WIRE, *aside, CONTEXT)
    assert not packed.find_pack(str(kimi.parent))[1]


def test_any_file_names_the_whole_session(kimi, monkeypatch):
    for name in (WIRE, CONTEXT, "context_3.jsonl"):
        assert corpus.parse_name(str(kimi / name) + "#2") == (str(kimi), None, 2)
    monkeypatch.chdir(kimi)
    assert corpus.parse_name(WIRE).path == "."
    (kimi / WIRE).unlink()
    assert corpus.parse_name(CONTEXT).path == CONTEXT


def test_folder_of_sessions_has_each_session_once(kimi):
    found = {file.path for file in inputs([str(kimi.parent)])}
    own = {str(kimi), str(kimi / "subagents" / "a1")}
    assert own < found
    assert not found & {str(kimi / name) for name in packed.find_pack(str(kimi))[1]}


def test_subagents_are_chains(kimi):
    assert companions(str(kimi)) == [str(kimi / "subagents" / "a1")]
    assert not companions(str(kimi / "subagents" / "a1"))
    assert session_of(str(kimi / "subagents" / "a1")) == str(kimi)
    recording = Options().open(str(kimi), subagents=True)
    turns = list(recording.turns())
    assert sorted(turn.chain for turn in turns) == ["a1"] * 2 + ["main"] * 12
    assert not recording.problems.kept
    assert {turn.fidelity for turn in turns[2:8]} == {"structural"}


def test_reading_in_pieces_changes_nothing(kimi, monkeypatch):
    before = {path.name: path.read_bytes() for path in kimi.iterdir() if path.is_file()}
    whole = [turn.usage for turn in Options().open(str(kimi)).turns()]
    monkeypatch.setattr(packed, "PIECE", 100)
    assert [turn.usage for turn in Options().open(str(kimi)).turns()] == whole
    assert {path.name: path.read_bytes() for path in kimi.iterdir() if path.is_file()} == before


def test_broken_link_is_ignored(kimi):
    (kimi / "context_1.jsonl").unlink()
    (kimi / "context_1.jsonl").symlink_to(kimi / "nowhere")
    recording = Options().open(str(kimi))
    names = packed.find_pack(str(kimi))[1]
    assert "context_1.jsonl" not in names
    assert len(list(recording.turns())) == 12


def test_newest_recording_may_be_a_folder(kimi):
    assert newest([str(kimi.parent)], None) == str(kimi)


@pytest.fixture
def conversation(tmp_path):
    folder = write(tmp_path / "conversations" / "c1", openhands.plain())
    write(folder / "subagents" / "s1", openhands.plain())
    (folder / "events" / ".lock").write_bytes(b"")
    (folder / "events" / "notes.json").write_bytes(b"{}")
    return folder


def test_conversation_has_state_and_ordered_events(conversation):
    (conversation / "events" / "event-100000-00000000-0000.json").write_bytes(b"{}")
    names = [*packed.find_pack(str(conversation))[1]]
    assert names[:2] == ["base_state.json", "events/event-00000-00000000-0000.json"]
    assert (len(names), names[-1][-31:]) == (9, "event-100000-00000000-0000.json")


def test_any_file_names_its_conversation(conversation, monkeypatch):
    event = conversation / "events" / "event-00003-00000003-0000.json"
    assert corpus.parse_name(str(event)).path == str(conversation)
    assert corpus.parse_name(str(conversation / "base_state.json")).path == str(conversation)
    assert inputs([str(event.parent)])[0].path == str(conversation)
    monkeypatch.chdir(event.parent)
    assert corpus.is_same(corpus.parse_name(event.name).path, str(conversation))
    found = [file.path for file in inputs([str(conversation.parent)])]
    assert found == [str(conversation), str(conversation / "subagents" / "s1")]
    assert companions(str(conversation)) == found[1:]
    (event.parent.parent / "base_state.json").unlink()
    assert corpus.parse_name(str(event)).path == str(event)


def test_conversation_without_events_is_not_a_recording(tmp_path):
    folder = write(tmp_path / "c2", openhands.Talk())
    assert not packed.find_pack(str(folder))[1]
    assert corpus.parse_name(str(folder / "base_state.json")).path == str(folder / "base_state.json")


def test_conversation_is_read_and_not_changed(conversation):
    before = {path: path.read_bytes() for path in conversation.rglob("*.json")}
    recording = Options().open(str(conversation), subagents=True)
    turns = list(recording.turns())
    assert sorted(turn.chain for turn in turns) == ["main", "main", "s1", "s1"]
    assert not recording.problems.kept
    assert {path: path.read_bytes() for path in conversation.rglob("*.json")} == before
