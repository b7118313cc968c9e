"""Law 4, as commands show it: a log that was followed is a cold fold.

For every cut, also inside a line and inside a compaction: the events after a snapshot, folded by `step`, give the state
of the whole.
"""

import tempfile
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from helpers.fed import fed
from helpers.states import dump_state
from helpers.strategies import claude_logs, lore_logs
from helpers.waiting import Script, add
from lore.commands.fold import cursor_after, follow_events, number_of
from lore.errors import LoreError
from lore.fold.step import step
from lore.formats.claude.reader import ClaudeCode
from lore.formats.lore_log import LoreLog
from lore.model.codes import Problem
from lore.model.events import Event, encode
from lore.model.state import FoldedSession
from lore.recording.opening import Options

logs = st.one_of(
    st.tuples(st.just("lore"), lore_logs().map(lambda log: log.data)), st.tuples(st.just("claude-code"), claude_logs())
)
shares = st.lists(st.floats(0, 1), min_size=1, max_size=4)


def _read(line: bytes) -> Event:
    """An event as lore's own log would be read."""
    return fed(LoreLog(), line + b"\n")[-1].value


def _cuts(data: bytes, made: list[float]) -> list[int]:
    return sorted({round(share * len(data)) for share in made} | {len(data)})


def _whole(reader, data: bytes) -> tuple[list[Event], FoldedSession]:
    """Return all events of the reads, and their state; nothing is closed."""
    made, state = [], FoldedSession(format=reader.name)
    for read in fed(reader(), data):
        if not isinstance(read.value, Problem):
            made.append(read.value)
            state = step(state, read.value).state
    return made, state


@given(logs, shares, st.integers(-3, 30))
def test_followed_log_gives_its_events_from_any_cursor(log, made, behind):
    name, data = log
    reader = {"lore": LoreLog, "claude-code": ClaudeCode}[name]
    events, state = _whole(reader, data)
    encoded = tuple(map(encode, events))
    since = f"00000000:{len(events) + 1}" if behind < 0 else cursor_after(encoded, max(0, len(events) - behind))
    cuts = _cuts(data, made)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.jsonl")
        path.write_bytes(data[: cuts[0]])
        steps = [add(path, data[begin:end]) for begin, end in zip(cuts, cuts[1:], strict=False)]
        found = follow_events(str(path), Options(format=name), [].append, since=since, wait=Script(*steps))
        try:
            lines = [one for one in found if one is not None and not isinstance(one, Problem)]
        except LoreError:
            return  # nothing that could be read yet
    place = number_of(since)
    live = FoldedSession(format=name)
    for event in events[:place]:
        live = step(live, event).state
    for line in lines:
        number = number_of(line.cursor)
        assert line.cursor == cursor_after(encoded, number)
        if line.snapshot is not msgspec.UNSET:
            place, live = number, FoldedSession(format=name)
            for event in events[:place]:
                live = step(live, event).state
            main = live.main()
            assert [bytes(one) for one in line.snapshot.timeline] == [
                msgspec.json.encode(entry.item) for entry in main.entries
            ]
            continue
        place += 1
        assert number == place
        live = step(live, _read(bytes(line.event))).state
    if lines and place == len(events):
        assert dump_state(live) == dump_state(state)
    assert not lines or place == len(events)
