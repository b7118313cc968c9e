"""Where Gemini CLI and Qwen Code keep the chats of their subagents: read with the session as its chains."""

from formats import gemini, qwen
from formats.test_deepseek_harness import log, response
from lore.recording.agents.companions import companions, session_of
from lore.recording.opening import Options


def chains(path):
    """Return the chains of a session read with its subagents, and the problems."""
    recording = Options().open(str(path), subagents=True)
    return {turn.chain for turn in recording.turns()}, recording.problems.kept


def test_gemini_chats_in_session_folder_are_subagents(tmp_path):
    folder = tmp_path / "chats"
    (folder / "s-1").mkdir(parents=True)
    main = folder / "session-2026-04-14T08-00-s-1.jsonl"
    main.write_bytes(gemini.plain().data())
    chat = gemini.Chat("s-9", kind="subagent").user("u", "look").model("m", "seen", gemini.tokens(5, 0))
    (folder / "s-1" / "s-9.jsonl").write_bytes(chat.data())
    (folder / "s-1" / "notes.txt").write_bytes(b"none of them")
    assert chains(main) == ({"main", "agent-s-9"}, [])
    assert companions(str(folder / "s-1" / "s-9.jsonl")) == []


def test_session_id_with_path_has_no_subagents(tmp_path):
    (tmp_path / "chats").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.jsonl").write_bytes(gemini.plain().data())
    main = tmp_path / "chats" / "session-x.jsonl"
    main.write_bytes(gemini.Chat("../other").user("u", "look").data())
    assert companions(str(main)) == []


def test_qwen_subagents_belong_to_their_session(tmp_path):
    (tmp_path / "chats").mkdir()
    (tmp_path / "subagents" / "s-1").mkdir(parents=True)
    main = tmp_path / "chats" / "s-1.jsonl"
    main.write_bytes(qwen.plain().data())
    chat = qwen.Chat(agentId="explore-7", isSidechain=True).user("u-1", "find it")
    chat.record("assistant", "m-1", message=qwen.content("model", {"text": "x"}), usageMetadata=qwen.usage(9, 0))
    subagent = tmp_path / "subagents" / "s-1" / "agent-explore-7.jsonl"
    subagent.write_bytes(chat.data())
    assert session_of(str(subagent)) == str(main)
    assert chains(main) == ({"main", "explore-7"}, [])


def test_deepseek_subagents_name_the_session(tmp_path):
    headers = {"s1": {}, "s2": {"parentSession": "s1", "delegationDepth": 1}, "s3": {"parentSession": "s1"}}
    for name, more in headers.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "session.jsonl").write_bytes(log(response(), id=name, **more))
    paths = {name: str(tmp_path / name / "session.jsonl") for name in headers}
    assert companions(paths["s1"]) == [paths["s2"]]
    assert [session_of(path) for path in paths.values()] == [None, paths["s1"], None]  # the last one is a fork
    assert chains(paths["s1"]) == ({"main", "session"}, [])


def test_kimi_code_agents_belong_to_the_main_agent(tmp_path):
    paths = [tmp_path / "session_1" / "agents" / name / "wire.jsonl" for name in ("main", "agent-0")]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_bytes(b'{"type":"metadata","protocol_version":"1.4"}\n')
    main, subagent = map(str, paths)
    assert (companions(main), companions(subagent)) == ([subagent], [])
    assert (session_of(main), session_of(subagent)) == (None, main)
