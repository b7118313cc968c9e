"""`lore store append`: events as they come, each durable before it is answered, none of them twice."""

import json
import select
import subprocess
import sys

import pytest

from cli.storing import appended, each_store, exported, fed, store
from helpers.schemas import valid
from lore.commands.store import writing
from lore.commands.store.writing import SessionAppender
from lore.formats.lines import read_lines
from lore.store.base import ConflictError
from lore.store.sqlite import Memory

HEADER = b'{"kind":"session_started","v":1,"session_id":"s"}'
RESET = b'{"kind":"cache_reset","reason":"%b"}'
FIRST, SECOND = RESET % b"first", RESET % b"second"

pytestmark = pytest.mark.usefixtures("desk")


def numbered(line, number):
    return line[:-1] + b',"id":%d}' % number


def numbers(ran):
    for line in ran.lines:
        valid(line, "store-appended")
        assert list(line) == ["session_id", "id"]
    return [line["id"] for line in ran.lines]


@each_store
def test_append_begins_a_session_and_answers_with_numbers(url):
    result = appended("s", HEADER, FIRST, SECOND, url=url)
    assert (result.code, result.err, numbers(result)) == (0, "", [1, 2, 3])
    assert exported("s", url) == b"%b\n%b\n%b\n" % (HEADER, FIRST, SECOND)


@each_store
def test_event_sent_again_is_acknowledged_and_stored_once(url):
    appended("s", HEADER, numbered(FIRST, 2), url=url)
    again = appended("s", numbered(HEADER, 1), numbered(FIRST, 2), numbered(SECOND, 3), HEADER, url=url)
    assert (again.code, numbers(again)) == (0, [1, 2, 3, 1])
    assert exported("s", url) == b"%b\n%b\n%b\n" % (HEADER, FIRST, SECOND)


@each_store
@pytest.mark.parametrize("number", [2, 5])
def test_unexpected_number_is_a_conflict(url, number):
    appended("s", HEADER, FIRST, url=url)
    result = appended("s", SECOND, numbered(RESET % b"third", number), RESET % b"never", url=url)
    assert (result.code, numbers(result)) == (2, [3])
    assert f"expects to be event {number}" in result.err
    assert "the store holds event 3" in result.err
    assert "--> <stdin>:2, byte " in result.err
    assert exported("s", url).count(b"\n") == 3


@each_store
def test_number_is_removed_and_other_bytes_stay(url):
    spelled = b'{ "id" : 2 , "kind":"cache_reset", "reason":"\\u00e9\xc3\xa9", "extra": [1.0, 1e3 ] }'
    appended("s", HEADER, spelled, url=url)
    assert exported("s", url).splitlines()[1] == spelled.replace(b'"id" : 2 , ', b"")


@each_store
def test_knowledge_event_has_its_number_in_number(url):
    fact = b'{"kind":"knowledge","op":"add","id":"k","title":"t"%b}'
    result = appended("s", HEADER, fact % b',"number":2', fact % b',"number":2', fact % b"", url=url)
    assert numbers(result) == [1, 2, 2, 3]
    assert exported("s", url).splitlines()[1:] == [fact % b""] * 2


@pytest.mark.parametrize("value", [b'"2"', b"2.0", b"0", b"-1", b"true", b"[2]"])
def test_invalid_number_is_an_error(value):
    result = appended("s", HEADER, FIRST[:-1] + b',"id":%b}' % value, url="sqlite:s.db")
    assert (result.code, numbers(result)) == (2, [1])
    assert "`id` is not a number of an event" in result.err


def test_unknown_record_keeps_its_id():
    """`id` is text in many records; of kinds that lore does not know it is theirs."""
    other = b'{"kind":"theirs","id":"x-1"}'
    result = appended("s", HEADER, other, b'{"kind":"theirs","id":3}', url="sqlite:s.db")
    assert numbers(result) == [1, 2, 3]
    assert exported("s", "sqlite:s.db").splitlines()[1:] == [other, b'{"kind":"theirs"}']
    assert result.err.startswith("note: line 2: unknown record kind 'theirs'; kept as opaque\n")


@pytest.mark.parametrize(("line", "message"), [
    (b"{torn", "the line is not an event: "),
    (b"[]", "not a JSON object"),
    (b'{"kind":"a"}{"kind":"b"}', "the line is not an event: "),
    (b'{"kind":"saved","size":1}', "a store's own note"),
    (b'{"kind":"apend","item":{"type":"user_message","uuid":"u","text":"a"}}', "hint: did you mean 'append'?"),
    (b'{"kind":"append","item":{"type":"user_mesage","uuid":"u","text":"a"}}', "type: did you mean 'user_message'?"),
    (b'{"kind":"append","itm":{}}', "the event append has missing or wrong fields"),
    (b'\xff{"kind":"a"}', "the line is not an event: bytes that are not UTF-8"),
    (b'{"kind":"session_started","session_id":"other"}', "names session 'other', not 's'"),
    (b'{"kind":"session_started","session_id":"s","model":"m"}', "another event is stored there"),
])  # fmt: skip
def test_refused_line_ends_it_and_keeps_earlier_events(line, message):
    result = appended("s", HEADER, FIRST, line, SECOND, url="jsonl:s")
    assert (result.code, numbers(result)) == (2, [1, 2])
    assert message in result.err
    assert "--> <stdin>:3, byte " in result.err
    assert "hint: " in result.err
    assert exported("s", "jsonl:s") == b"%b\n%b\n" % (HEADER, FIRST)


def test_session_begins_with_its_header():
    result = appended("s", FIRST, url="sqlite:s.db")
    assert (result.code, result.out) == (2, "")
    assert "error: the store has no session 's'" in result.err
    assert "hint: begin with its session_started" in result.err
    ahead = appended("s", numbered(HEADER, 2), url="sqlite:s.db")
    assert ahead.code == 2


def test_blank_lines_and_a_missing_end_are_accepted():
    result = fed(b"\n" + HEADER + b"\n \r\n" + FIRST, "store", "append", "s", "--store", "jsonl:s")
    assert numbers(result) == [1, 2]
    torn = fed(SECOND[:-3], "store", "append", "s", "--store", "jsonl:s")
    assert (torn.code, torn.out) == (2, "")


def test_memory_store_notes_that_it_is_gone():
    result = appended("s", HEADER, url="memory:")
    assert numbers(result) == [1]
    assert result.err == "note: `memory:` is gone when this command ends\n"


@each_store
def test_each_line_is_answered_before_the_next(url, monkeypatch):
    """Where PYTHONUNBUFFERED was set, answers that were never flushed came all the same: the test saw nothing."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    words = [sys.executable, "-m", "lore", "store", "append", "s", "--store", url]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for number, line in enumerate((HEADER, FIRST, SECOND), 1):
            running.stdin.write(line + b"\n")
            running.stdin.flush()
            assert select.select([running.stdout], [], [], 60)[0], "no answer comes"
            assert json.loads(running.stdout.readline()) == {"session_id": "s", "id": number}
        running.kill()
    assert exported("s", url).count(b"\n") == 3
    assert store("verify", url=url).code == 0


class Busy(Memory):
    """A store in which another writer comes before each of the first saves."""

    def __init__(self, others):
        super().__init__()
        self.others = others

    def save_delta(self, session_id, delta):
        if self.others:
            self.others -= 1
            head = super().load(session_id).head
            data = RESET % b"other %d" % self.others
            super().save_delta(session_id, type(delta)(base=head, new_events=(data,)))
        return super().save_delta(session_id, delta)


def append_lines(busy, *lines):
    appender = SessionAppender(busy, "s", print)
    return [appender.append(line).id for line in read_lines([b"".join(line_data + b"\n" for line_data in lines)])]


def test_line_without_a_number_follows_other_writers(monkeypatch):
    monkeypatch.setattr(writing, "now", lambda: "2026-01-01T00:00:00Z")
    busy = Busy(3)
    assert append_lines(busy, HEADER, FIRST, SECOND) == [1, 5, 6]
    assert busy.load("s").events[4:] == (FIRST, SECOND)
    assert busy.list()[0].updated_at == "2026-01-01T00:00:00Z"


def test_number_taken_by_another_writer_is_a_conflict():
    with pytest.raises(ConflictError, match="expects to be event 2, and another event is stored there"):
        append_lines(Busy(1), HEADER, numbered(FIRST, 2))


def test_writer_that_is_never_first_gives_up(monkeypatch):
    monkeypatch.setattr(writing, "ATTEMPTS", 3)
    with pytest.raises(ConflictError, match="repeated write conflicts"):
        append_lines(Busy(9), HEADER, FIRST)


def test_log_sent_again_is_read_once():
    """Each event was loaded with all later ones: 1,000 events sent again cost a million."""

    class Counting(Memory):
        loaded = 0

        def load(self, session_id, *, after=0):
            data = super().load(session_id, after=after)
            self.loaded += len(data.events)
            return data

    store, lines = Counting(), [HEADER, *(RESET % b"%d" % number for number in range(99))]
    append_lines(store, *lines)
    store.loaded = 0
    assert append_lines(store, *(numbered(line, number) for number, line in enumerate(lines, 1))) == [*range(1, 101)]
    assert store.loaded == 100
