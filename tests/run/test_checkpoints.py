"""`lore fold --checkpoint`: what a cold fold gives, from what was added; anything that does not fit is refused."""

from __future__ import annotations

import os
import stat

import pytest

from cli.running import compacted, session
from lore.errors import LoreError
from lore.files import try_lock
from lore.formats.lore_log import LoreLog
from lore.recording.opening import Options
from lore.run import checkpoints as checkpoint_file
from lore.run.checkpoints import fold_resumed
from lore.run.folding import fold
from model.making import dumps, record, user

LOG = compacted()
MORE = dumps(record("append", item=user("u9", "more"))) + b"\n"


class Desk:
    """A log and its checkpoint."""

    def __init__(self, folder):
        self.log, self.saved = folder / "log.jsonl", folder / "log.ck"

    def resume(self, data=None, options=None, **more):
        """Write the log, resume, compare with a cold fold."""
        if data is not None:
            self.log.write_bytes(data)
        options = options or Options()
        made = fold_resumed(str(self.log), options, str(self.saved), **more)
        assert made.folded == fold(str(self.log), Options())
        return made


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def lines_of(data):
    return data.splitlines(keepends=True)


def test_every_line_more_gives_what_a_cold_fold_gives(desk):
    data = b""
    for line in lines_of(LOG):
        data += line
        assert desk.resume(data).refused is None


def test_only_what_was_added_is_read(desk, monkeypatch):
    desk.resume(LOG)
    fed = []
    feed = LoreLog.feed
    monkeypatch.setattr(LoreLog, "feed", lambda self, data: fed.append(data) or feed(self, data))
    fold_resumed(str(desk.log), Options(), str(desk.saved))
    desk.log.write_bytes(LOG + MORE)
    assert fold_resumed(str(desk.log), Options(), str(desk.saved)).refused is None
    assert fed == [MORE]


def test_a_torn_last_line_is_finished_by_what_comes(desk):
    whole = LOG + MORE
    for cut in range(len(LOG), len(whole) + 1):
        desk.resume(whole[:cut])
        assert desk.resume(whole).refused is None
        desk.saved.unlink()


def test_problems_are_counted_over_all_runs_and_bear_the_name_that_the_log_has_now(desk, tmp_path):
    desk.resume(LOG + b"junk\n" * 15)
    other = tmp_path / "renamed.jsonl"
    desk.log.rename(other)
    desk.log = other
    problems = desk.resume(LOG + b"junk\n" * 40).folded.result.problems
    assert (len(problems), {one.file for one in problems}) == (20, {str(other)})


def test_what_compactions_pruned_is_known_after_them(desk):
    desk.resume(LOG)
    assert desk.resume(LOG + MORE).folded.result.pruned == ["u1", "a1", "a2"]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (LOG[:-5], "shrunk"),
        (LOG.replace(b"gpt-4o", b"gpt-4x"), "begins with other bytes"),
        (session(), "shrunk"),
        (LOG.replace(b"answer", b"ANSWER") + MORE, "begins with other bytes"),
    ],
)
def test_a_log_that_is_another_is_folded_anew_and_the_checkpoint_replaced(desk, now, said):
    desk.resume(LOG)
    assert said in (desk.resume(now).refused or "")
    assert desk.resume(now + MORE).refused is None


def test_a_change_in_the_middle_is_found_with_verify(desk, monkeypatch):
    monkeypatch.setattr("lore.run.checkpoints.BLOCK", 64)
    desk.resume(LOG)
    changed = LOG.replace(b"answer", b"ANSWER")
    desk.log.write_bytes(changed)
    assert fold_resumed(str(desk.log), Options(), str(desk.saved)).refused is None
    assert "in its middle" in (desk.resume(changed, verify=True).refused or "")
    assert desk.resume(changed + MORE, verify=True).refused is None


def test_another_format_is_refused(desk):
    desk.resume(LOG, Options(format="lore"))
    made = fold_resumed(str(desk.log), Options(format="claude-code"), str(desk.saved))
    assert "read as lore, not as claude-code" in (made.refused or "")


def test_every_byte_that_is_damaged_is_noticed_or_does_no_harm(desk):
    desk.resume(session())
    good = desk.saved.read_bytes()
    start = len(checkpoint_file.MAGIC)
    for at in range(start, len(good), 7):
        desk.saved.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        desk.resume()
    for at in range(start, len(good), 11):
        desk.saved.write_bytes(good[:at])
        assert desk.resume().refused is not None


def test_a_crash_leaves_the_checkpoint_before(desk, monkeypatch):
    desk.resume(LOG)
    before = desk.saved.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("no")))
        assert desk.resume(LOG + MORE).failure is not None
    assert desk.saved.read_bytes() == before
    assert desk.resume(LOG + MORE).refused is None


def long_log(number):
    """A session of so many messages."""
    made = [record("append", item=user(f"long{at}", "x" * 300)) for at in range(number)]
    return LOG + b"".join(dumps(one) + b"\n" for one in made)


def test_saving_again_and_again_takes_twice_the_bytes_of_saving_once_at_most(desk):
    data, sizes = long_log(200), []
    for number in range(60):
        data += dumps(record("append", item=user(f"more{number}"))) + b"\n"
        assert desk.resume(data).refused is None
        sizes.append(desk.saved.stat().st_size)
    desk.saved.unlink()
    desk.resume(data)
    assert max(sizes) <= 2 * desk.saved.stat().st_size
    assert sizes != sorted(sizes), "written whole now and then"


def test_what_was_saved_is_not_written_again(desk):
    """All 100 MB of a session were written again for each turn that came."""
    desk.resume(long_log(3000))
    before = desk.saved.read_bytes()
    desk.resume(long_log(3001))
    after = desk.saved.read_bytes()
    assert after.startswith(before)
    assert len(after) - len(before) < len(before) / 5
    assert desk.resume(long_log(3001)).refused is None


def test_a_run_that_finds_nothing_new_writes_nothing(desk):
    desk.resume(LOG)
    before = os.stat(desk.saved)
    desk.resume()
    after = os.stat(desk.saved)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_run_that_was_killed_while_it_appended_costs_the_checkpoint_alone(desk):
    desk.resume(LOG)
    before = len(desk.saved.read_bytes())
    desk.resume(LOG + MORE)
    whole = desk.saved.read_bytes()
    for end in {*range(before, len(whole), 7), before, len(whole) - 1, len(whole)}:
        desk.saved.write_bytes(whole[:end])
        refused = desk.resume(LOG + MORE).refused
        assert (refused is None) == (end in (before, len(whole))), "up to an earlier seal it is an earlier checkpoint"


def test_a_checkpoint_that_another_run_wrote_to_meanwhile_is_replaced(desk, monkeypatch):
    desk.resume(long_log(300))
    append = checkpoint_file._append

    def late(path, known, state, data):
        monkeypatch.setattr(checkpoint_file, "_append", append)
        fold_resumed(str(desk.log), Options(), path)
        appended.append(desk.saved.read_bytes().startswith(bytes(data)))
        return append(path, known, state, data)

    appended = []
    monkeypatch.setattr(checkpoint_file, "_append", late)
    desk.resume(long_log(301))
    assert appended == [True]
    assert desk.resume(long_log(302)).refused is None


def test_a_checkpoint_that_another_run_holds_locked_is_replaced(desk):
    desk.resume(long_log(300))
    held = os.stat(desk.saved)
    with desk.saved.open("rb") as file:
        assert try_lock(file.fileno())
        desk.resume(long_log(301))
    assert os.stat(desk.saved).st_ino != held.st_ino
    assert desk.resume(long_log(302)).refused is None


def test_a_checkpoint_is_read_where_no_file_can_be_mapped(desk, monkeypatch):
    desk.resume(LOG)
    monkeypatch.setattr(checkpoint_file, "mmap", lambda *_, **__: (_ for _ in ()).throw(OSError("no such device")))
    assert desk.resume(LOG + MORE).refused is None


def test_a_checkpoint_that_may_not_be_written_to_is_replaced(desk, monkeypatch):
    desk.resume(long_log(300))
    held = os.stat(desk.saved)
    with monkeypatch.context() as patch:
        patch.setattr("os.chmod", lambda *_: (_ for _ in ()).throw(PermissionError("not yours")))
        assert desk.resume(long_log(301)).failure is None
    assert os.stat(desk.saved).st_ino != held.st_ino


# It could not be appended to, and none was written in its place.
def test_a_checkpoint_that_is_deleted_meanwhile_is_written_anew(desk, monkeypatch):
    desk.resume(long_log(300))
    append = checkpoint_file._append
    monkeypatch.setattr(checkpoint_file, "_append", lambda *given: desk.saved.unlink() or append(*given))
    assert desk.resume(long_log(301)).failure is None
    monkeypatch.undo()
    assert desk.resume(long_log(302)).refused is None


def test_a_session_of_many_chunks_goes_on_from_a_change_in_each(desk, monkeypatch):
    """Entries of a checkpoint are decoded a chunk at a time, where an event names one."""
    monkeypatch.setattr("lore.model.vector.WIDTH", 3)
    data = long_log(20)
    desk.resume(data)
    for change in (
        record("append", item=user("long4", "again")),
        record("append", item=user("long17", "again")),
        record("remove", uuids=["long9"]),
        record("compact_applied", uuid="d9", trigger="manual", preserved_uuids=["long2", "long18"], summary="S"),
        record("append", item=user("last")),
    ):
        data += dumps(change) + b"\n"
        assert desk.resume(data).refused is None


def test_only_the_owner_may_read_a_checkpoint(desk):
    desk.resume(LOG)
    assert stat.S_IMODE(desk.saved.stat().st_mode) == 0o600
    desk.saved.chmod(0o644)
    desk.resume(LOG + MORE)
    assert stat.S_IMODE(desk.saved.stat().st_mode) == 0o600
    assert sorted(os.listdir(desk.saved.parent)) == ["log.ck", "log.jsonl"]


def test_an_empty_file_is_a_checkpoint_that_is_not_there_yet(desk):
    desk.saved.write_bytes(b"")
    assert desk.resume(LOG).refused is None
    assert desk.saved.stat().st_size


@pytest.mark.parametrize("content", [b"notes\n", LOG, b"{}", b"\x00"])
def test_another_file_is_never_overwritten(desk, content):
    desk.log.write_bytes(LOG)
    desk.saved.write_bytes(content)
    with pytest.raises(LoreError, match="no checkpoint of lore and will not be overwritten"):
        fold_resumed(str(desk.log), Options(), str(desk.saved))
    assert desk.saved.read_bytes() == content


def test_a_folder_or_a_device_is_no_checkpoint(desk):
    desk.log.write_bytes(LOG)
    for name in (str(desk.log.parent), os.devnull):
        with pytest.raises(LoreError, match="is not a file"):
            fold_resumed(str(desk.log), Options(), name)


def test_the_log_itself_is_no_checkpoint(desk):
    desk.log.write_bytes(b"")
    with pytest.raises(LoreError, match="one file"):
        fold_resumed(str(desk.log), Options(), str(desk.log))


def test_a_checkpoint_that_cannot_be_written_does_not_cost_the_answer(desk):
    desk.log.write_bytes(LOG)
    made = fold_resumed(str(desk.log), Options(), str(desk.log.parent / "none" / "ck"))
    assert made.folded == fold(str(desk.log), Options())
    assert "cannot write the checkpoint" in str(made.failure)


def test_a_checkpoint_of_another_version_is_refused(desk, monkeypatch):
    desk.resume(LOG)
    with monkeypatch.context() as patch:
        patch.setattr("lore.run.checkpoints.__version__", "9.9")
        assert "of lore 0" in (desk.resume(LOG + MORE).refused or "")
    desk.saved.write_bytes(checkpoint_file.MAGIC + b'"version":99}\n')
    assert "of another version" in (desk.resume(LOG).refused or "")


def test_recorded_requests_have_no_checkpoint(desk):
    desk.log.write_bytes(b'{"model":"m","messages":[]}\n')
    with pytest.raises(LoreError, match="nothing to fold"):
        fold_resumed(str(desk.log), Options(), str(desk.saved))
    assert not desk.saved.exists()
