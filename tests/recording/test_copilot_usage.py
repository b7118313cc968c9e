"""The database of Copilot CLI: usage is joined with the requests of the log, and the database is not changed."""

import os
import sqlite3
from contextlib import closing

import pytest

from formats.copilot import Log, plain
from lore.commands.fold import fold
from lore.formats.copilot.reader import Copilot
from lore.model import events as e
from lore.model.codes import Problem
from lore.recording.agents.copilot_usage import line_of
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.testing import ReaderContract, everything

COLUMNS = (
    "id integer primary key, session_id text, turn_index integer, agent_id text, parent_tool_call_id text, model text,"
    " input_tokens integer, output_tokens integer, cache_read_tokens integer, cache_write_tokens integer,"
    " initiator text, created_at text"
)
NAMES = "session_id, agent_id, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, initiator"
ROW = f"insert into assistant_usage_events ({NAMES}) values (?,?,?,?,?,?,?,?)"
SONNET = "claude-sonnet-5"
TWO = [("s-1", None, SONNET, 15_000, 10, 0, 14_000, "user"), ("s-1", None, SONNET, 15_100, 7, 14_000, 1_000, "agent")]


@pytest.fixture
def home(tmp_path):
    """A folder of Copilot CLI: a log, and a database whose rows are only in its `-wal` file."""

    def make_home(rows, log=None, columns=COLUMNS):
        folder = tmp_path / "session-state" / "s-1"
        folder.mkdir(parents=True)
        (folder / "events.jsonl").write_bytes((log or plain()).data())
        connection = sqlite3.connect(tmp_path / "session-store.db")
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"create table assistant_usage_events ({columns})")
        if rows:
            connection.executemany(ROW, rows)
        connection.commit()
        opened.append(connection)
        return folder / "events.jsonl"

    opened = []
    yield make_home
    for connection in opened:
        connection.close()


def bills(path):
    """The usage of each request of a log: (uncached, read, written, output)."""
    turns = Options().open(str(path)).turns()
    return [(u.uncached_tokens, u.read_tokens, u.write_tokens, u.output_tokens) for turn in turns if (u := turn.usage)]


def files(folder):
    """Every file in a folder, with its content and time."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_database_gives_usage_and_is_not_changed(home, tmp_path):
    path = home(TWO)
    before = files(tmp_path)
    assert (tmp_path / "session-store.db-wal").stat().st_size
    assert bills(path) == [(1_000, 0, 14_000, 10), (100, 14_000, 1_000, 7)]
    assert files(tmp_path) == before


def test_database_may_be_beside_the_log(home, tmp_path):
    path = home(TWO)
    for name in os.listdir(tmp_path):
        if name.startswith("session-store.db"):
            (tmp_path / name).rename(path.parent / name)
    assert bills(path)[0] == (1_000, 0, 14_000, 10)


def test_rows_belong_to_their_session_and_agent(home):
    log = plain().line("session.compaction_start", {}).answer("", "c2").answer("in", agent="c2", output=5).compact()
    rows = [("s-2", None, SONNET, 1, 10, 0, 0, "user"), *TWO, ("s-1", "c2", SONNET, 700, 5, 600, 0, "sub-agent")]
    rows += [
        ("s-1", None, SONNET, 900, 90, 100, 700, "compaction"),
        ("s-1", None, SONNET, 16_000, 10, 15_000, 0, "agent"),
    ]
    result = fold(str(home(rows, log)), Options()).result
    assert (result.usage.turns, result.usage.read_tokens) == (5, 14_000 + 600 + 100 + 15_000)
    assert not result.problems


def test_row_without_request_is_skipped(home):
    rows = [
        TWO[0],
        ("s-1", None, "gpt-5-mini", 90, 7, 0, 0, "user"),
        ("s-1", None, SONNET, 15_050, 3, 0, 0, "agent"),
        TWO[1],
    ]
    path = home(rows)
    assert bills(path)[1] == (100, 14_000, 1_000, 7)
    assert not check([str(path)]).result.summary.problems


def test_requests_without_row_are_one_problem(home):
    path = home([("s-1", None, SONNET, 15_000, 99, 0, 0, "user")])
    problems = check([str(path)]).result.problems
    assert [problem.message for problem in problems] == [
        "2 requests of the log have no usage in session-store.db; 1 of its rows belong to no request"
    ]
    assert bills(path) == [(None, None, None, 10), (None, None, None, 7)]


def test_database_without_the_session_is_accepted(home):
    path = home([("s-2", None, SONNET, 15_000, 99, 0, 0, "user")])
    assert not check([str(path)]).result.problems


def test_null_and_missing_columns_are_unknown(home):
    older = "id integer primary key, session_id text, model text"
    older += "".join(f", {name} integer" for name in ("input_tokens", "output_tokens", "cache_read_tokens"))
    path = home([], columns=older)
    with sqlite3.connect(path.parents[2] / "session-store.db") as connection:
        connection.execute("insert into assistant_usage_events values (1, 's-1', null, 500, null, 100)")
        connection.execute("insert into assistant_usage_events values (2, 's-1', null, null, 7, 'x')")
    connection.close()
    assert bills(path) == [(400, 100, None, 10), (None, None, None, 7)]


def test_cached_beyond_input_gives_no_negative_count(home):
    path = home([("s-1", None, SONNET, 100, 10, 90, 20, "user"), TWO[1]])
    assert bills(path)[0] == (None, 90, 20, 10)


def test_totals_that_contradict_the_database_are_a_problem(home):
    path = home(TWO, plain().shutdown(claude_sonnet_5=(2, 30_100, 13_000, 15_000, 17)))
    (problem,) = check([str(path)]).result.problems
    assert problem.message == (
        "claude-sonnet-5: 2 requests (30,100 input, 13,000 read, 17 output tokens) by the client's sums at the end, "
        "2 requests (30,100 input, 14,000 read, 17 output tokens) by its log, which counts"
    )
    path.write_bytes(plain().shutdown(claude_sonnet_5=(2, 30_100, 14_000, 15_000, 17)).data())
    assert not check([str(path)]).result.problems


def test_totals_without_database_follow_the_last_turn():
    read = plain().shutdown(claude_sonnet_5=(2, 30_100, 14_000, 15_000, 17)).read()
    (run,) = [value.usage for value in read if isinstance(value, e.TurnCompleted)][-1].iterations
    assert (run.uncached_tokens, run.read_tokens, run.write_tokens, run.output_tokens) == (1_100, 14_000, 15_000, 0)


@pytest.mark.parametrize("damage", [b"", b"no database at all" * 100, b"SQLite format 3\x00" + bytes(200)])
def test_unreadable_database_is_a_problem(home, tmp_path, damage):
    path = home(TWO)
    for name in ("session-store.db-wal", "session-store.db-shm"):
        (tmp_path / name).unlink()
    (tmp_path / "session-store.db").write_bytes(damage)
    result = check([str(path)]).result
    assert result.summary.turns == 2
    assert [problem.message.startswith("session-store.db: ") for problem in result.problems] == [True]


def test_database_of_an_older_client_is_no_problem(home, tmp_path):
    path = home([])
    with closing(sqlite3.connect(tmp_path / "session-store.db")) as connection:
        connection.execute("alter table assistant_usage_events rename to sessions")
    assert check([str(path)]).result.problems == []


def test_a_database_of_another_schema_is_a_problem(home):
    path = home([], columns="id integer primary key, session_id text, input_tokens integer")
    problems = check([str(path)]).result.problems
    assert [problem.message for problem in problems] == [
        "session-store.db: no table assistant_usage_events with cache_read_tokens"
    ]


def test_locked_database_is_read(home, tmp_path):
    path = home(TWO)
    with sqlite3.connect(tmp_path / "session-store.db", isolation_level=None) as connection:
        connection.execute("begin exclusive")
        assert bills(path)[0] == (1_000, 0, 14_000, 10)
    connection.close()


def test_places_are_those_of_the_log(home):
    log = Log().start().user("hi").answer("ho")
    path = home(TWO, log)
    path.write_bytes(log.data() + b"no json\n")
    problem = check([str(path)]).result.problems[0]
    assert (problem.line, problem.byte) == (4, len(log.data()))


class TestContract(ReaderContract):
    reader = Copilot
    samples = (
        line_of([["", SONNET, 15_000, 10, 0, 14_000, "user"], ["", SONNET, 15_100, 7, 14_000, 9, ""]], "")
        + plain().data(),
        line_of([], "session-store.db: no table") + plain().data(),
    )


@pytest.mark.parametrize("line", [b'{"lore_usage":7}\n', b'{"lore_usage":{"rows":[[{}]]}}\n', b'{"lore_usage":\n'])
def test_damaged_usage_line_is_a_problem(line):
    values = [item.value for item in everything(Copilot(), line + plain().data())]
    assert [value.code for value in values if isinstance(value, Problem)] == ["LORE215"]
    assert sum(isinstance(value, e.TurnCompleted) for value in values) == 2
