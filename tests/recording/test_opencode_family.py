"""Subagents of OpenCode: sessions of their own, read with the one that started them, wherever both lie."""

import json
import os
import sqlite3
from contextlib import closing

import pytest

from formats.opencode import START, Export, compacted
from lore.commands.fold import fold
from lore.recording.agents.companions import companions, session_of
from lore.recording.agents.sessions import newest
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run import arguments
from lore.run.checking.check import check
from recording.test_opencode_store import put, stored, written

FAMILY = (("ses_1", None), ("ses_2", "ses_1"), ("ses_3", "ses_2"), ("ses_4", "ses_1"), ("ses_9", None))


def sessions(family=FAMILY):
    """Sessions of one request each, the first one compacted."""
    for number, (name, parent) in enumerate(family):
        fields = {"time": {"created": START + number}, **({} if parent is None else {"parentID": parent})}
        export = Export(name, **fields).user("task").answer("done", bill=(40 + number, 8, 2))
        yield compacted() if name == "ses_1" else export


def in_database(folder):
    """Names of sessions in a database."""
    path = written(folder / "opencode.db", *sessions())
    return [f"{path}#{name}" for name, _ in FAMILY]


def in_storage(folder):
    """Names of sessions in a storage folder."""
    path = stored(folder, *sessions()) / "session" / "p"
    return [str(path / f"{name}.json") for name, _ in FAMILY]


def as_exports(folder):
    """Names of exports in one folder, with other documents."""
    put(folder / "a.json", {"info": {"id": "ses_8", "parentID": "ses_1"}})
    (folder / "b.json").write_bytes(b"\xff{")
    (folder / "c.json").mkdir()
    for export in sessions():
        put(folder / f"{export.info['id']}.json", {"info": export.info, "messages": export.messages})
    return [str(folder / f"{name}.json") for name, _ in FAMILY]


@pytest.fixture(params=[in_database, in_storage, as_exports])
def names(request, tmp_path):
    return request.param(tmp_path)


def test_session_is_read_with_its_subagents(names):
    first, two, three, four, nine = names
    assert companions(first) == [two, three, four]
    assert (companions(two), companions(three), companions(nine)) == ([three], [], [])
    result = fold(first, Options()).result
    assert [chain.id for chain in result.session.chains] == ["main", "utility-1", "ses_2", "ses_3", "ses_4"]
    assert (result.session.id, result.usage.turns, result.problems) == ("ses_1", 8, [])


def test_check_judges_each_subagent_once(names):
    first, two, three, four, _ = names
    assert [file.path for file in inputs([first])] == [first, two, three, four]
    assert check([first]).result.summary.turns == 8
    assert check(names).result.summary.turns == 9


def test_recorded_prompt_wins_over_completion(tmp_path):
    for names in (in_database(tmp_path / "."), in_storage(tmp_path / "older")):
        assert [session_of(name) for name in names] == [None, names[0], names[0], names[0], None]


def test_circles_and_parents_that_lead_elsewhere_end(tmp_path):
    family = (("ses_2", "ses_3"), ("ses_3", "ses_2"), ("ses_4", "ses_4"), ("ses_5", "../../../x"), ("ses_6", "none"))
    put(tmp_path / "x.json", {"id": "../../../x"})
    path = written(tmp_path / "opencode.db", *sessions(family))
    folder = stored(tmp_path, *sessions(family)) / "session" / "p"
    for form in (f"{path}#%s", str(folder / "%s.json")):
        names = [form % name for name, _ in family]
        assert [companions(name) for name in names] == [[names[1]], [names[0]], [], [], []]
        assert [session_of(name) for name in names] == [names[1], names[0], None, None, None]
        assert fold(names[0], Options()).result.usage.turns == 2


def test_newest_database_session_was_written_last(tmp_path):
    names = in_database(tmp_path)
    path = names[0].partition("#")[0]
    assert newest([path], None) == names[-1]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("alter table session add column time_updated integer")
        connection.execute("update session set time_updated = 2000000000000 where id = 'ses_3'")
        connection.commit()
    assert newest([path], None) == names[0]
    new = [file.path for file in inputs([path]) if arguments.is_as_new(file, 1_999_999_999)]
    assert new == [names[2]]
    assert all(file.size > 100 for file in inputs([path]))


def test_oh_my_pi_subagents_are_in_session_folder(tmp_path):
    stem = "2026-04-20T00-30-27-260Z_019da84b-b5b8-706b-bdd2-4179522668f4"
    head = {"type": "session", "version": 3, "timestamp": "2026-04-20T00:30:27.260Z", "cwd": "/w"}
    usage = {"input": 10, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 12}
    answer = {"role": "assistant", "content": [], "api": "anthropic-messages", "model": "m", "stopReason": "stop"}
    entry = {"type": "message", "id": "a", "parentId": None, "timestamp": head["timestamp"]}
    lines = [{**head, "id": "s"}, {**entry, "message": {**answer, "usage": usage}}]
    files = [f"{stem}.jsonl", f"{stem}/Explore.jsonl", f"{stem}/Explore/Explore.Deep.jsonl"]
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    (tmp_path / stem / "0.bash.log").write_bytes(b"none of them")
    names = [os.path.join(tmp_path, name) for name in files]
    assert sorted(companions(names[0])) == sorted(names[1:])
    assert [session_of(name) for name in names] == [None, names[0], names[0]]
    result = fold(names[0], Options()).result
    assert sorted(chain.id for chain in result.session.chains) == ["Explore", "Explore.Deep", "main"]
    assert result.problems == []
