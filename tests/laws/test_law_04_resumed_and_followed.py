"""Law 4, as commands show it: a fold from a checkpoint, and a log that was followed, are a cold fold.

For every cut, also inside a line and inside a compaction: the same bytes with `--json` and as text, and
the events after a snapshot, folded by `step`, give the state of the whole.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.running import lore
from helpers.strategies import claude_logs, lore_logs
from helpers.waiting import Script, add
from lore.errors import LoreError
from lore.fold.step import step
from lore.formats.claude.reader import ClaudeCode
from lore.formats.lore_log import LoreLog
from lore.model import checkpoint
from lore.model.codes import Problem
from lore.model.events import Event
from lore.model.state import FoldedSession
from lore.model.vector import WIDTH
from lore.recording.opening import Options
from lore.run.checkpoints import fold_resumed
from lore.run.folding import fold
from lore.run.following import cursor_of, epoch_of, follow_events

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
LOGS = [FIXTURES / "sessions/compaction_keeps_some.jsonl", FIXTURES / "claude-code/compaction.jsonl"]
logs = st.one_of(
    st.tuples(st.just("lore"), lore_logs().map(lambda log: log.data)), st.tuples(st.just("claude-code"), claude_logs())
)
shares = st.lists(st.floats(0, 1), min_size=1, max_size=4)


def _read(line: bytes) -> Event:
    """An event as lore's own log would be read."""
    return LoreLog().feed(line + b"\n")[-1].value


def _cuts(data: bytes, made: list[float]) -> list[int]:
    return sorted({round(share * len(data)) for share in made} | {len(data)})


@given(logs, shares, st.sampled_from([2, 3, WIDTH]))
def test_a_fold_from_a_checkpoint_answers_as_a_cold_one(log, made, width):
    """`width`: what is saved is decoded so many entries at a time."""
    name, data = log
    options = Options(format=name)
    with tempfile.TemporaryDirectory() as folder, patch("lore.model.vector.WIDTH", width):
        path, saved = Path(folder, "log.jsonl"), Path(folder, "log.ck")
        for end in _cuts(data, made):
            path.write_bytes(data[:end])
            resumed = fold_resumed(str(path), options, str(saved), verify=bool(end % 2))
            assert (resumed.refused, resumed.failure) == (None, None)
            assert resumed.folded == fold(str(path), options), f"cut at byte {end}"


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
@pytest.mark.parametrize("form", [["--json"], []], ids=["json", "text"])
def test_the_command_writes_the_same_bytes_wherever_the_log_was_cut(log, form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = log.read_bytes()
    name = "claude-code" if "claude" in str(log) else "lore"
    for end in range(0, len(data), max(1, len(data) // 20)):
        Path("log.jsonl").write_bytes(data[:end])
        first = lore("fold", "log.jsonl", "--checkpoint", "ck", "--format", name, *form)
        assert (first.code, first.err) == (0, "")
        Path("log.jsonl").write_bytes(data)
        resumed, cold = lore("fold", "log.jsonl", "--checkpoint", "ck", *form), lore("fold", "log.jsonl", *form)
        assert resumed == cold, f"cut at byte {end}"
        Path("ck").unlink()


def _whole(reader, data: bytes) -> tuple[list[Event], FoldedSession]:
    """All events of what was read, and the state that they give; nothing is closed."""
    made, state = [], FoldedSession(format=reader.name)
    for read in reader().feed(data):
        if not isinstance(read.value, Problem):
            made.append(read.value)
            state = step(state, read.value).state
    return made, state


@given(logs, shares, st.integers(-3, 30))
def test_a_log_that_is_followed_gives_its_events_from_any_cursor_on(log, made, behind):
    name, data = log
    reader = {"lore": LoreLog, "claude-code": ClaudeCode}[name]
    events, state = _whole(reader, data)
    since = cursor_of(f"{epoch_of(data)}:{max(0, len(events) - behind)}")
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
    place = since.number
    live = FoldedSession(format=name)
    for event in events[:place]:
        live = step(live, event).state
    for line in lines:
        epoch, _, number = line.cursor.partition(":")
        assert epoch == since.epoch
        if line.snapshot is not msgspec.UNSET:
            place, live = int(number), FoldedSession(format=name)
            for event in events[:place]:
                live = step(live, event).state
            main = live.main()
            assert [bytes(one) for one in line.snapshot.timeline] == [
                msgspec.json.encode(entry.item) for entry in main.entries
            ]
            continue
        place += 1
        assert int(number) == place
        live = step(live, _read(bytes(line.event))).state
    if lines and place == len(events):
        assert checkpoint.dump(live) == checkpoint.dump(state)
    assert not lines or place == len(events)


def test_a_recording_resumed_at_any_cut_answers_as_a_cold_fold(recording, tmp_path):
    if "claude-code" not in str(recording):
        pytest.skip("recorded requests are not folded")
    data = recording.read_bytes()
    path = tmp_path / recording.name
    boundaries = [at for at in range(0, len(data), 97) if data[at : at + 97].find(b"compact_boundary") >= 0][:4]
    for end in [len(data) // 3, data.find(b"\n", len(data) // 2) + 1, *boundaries, *(at + 500 for at in boundaries)]:
        saved = tmp_path / f"{end}.ck"
        path.write_bytes(data[:end])
        fold_resumed(str(path), Options(), str(saved))
        path.write_bytes(data)
        assert fold_resumed(str(path), Options(), str(saved)).folded == fold(str(path), Options())
