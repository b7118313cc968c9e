"""Locks by agent and user, and the key of boundary lines."""

import errno
import os
import subprocess
import sys
from contextlib import ExitStack, closing

import pytest

from lore.errors import LoreError
from lore.store.locks import lock_path, trylock
from lore.store.registry import open_store
from lore.testing.stores import header

URL = "postgresql://me:secret@host/db"
HOLD = """
import sys
from lore.store.locks import trylock
with trylock(sys.argv[1], "a", "u") as held:
    print(held, flush=True)
    sys.stdin.read()
"""

posix = pytest.mark.skipif(os.name != "posix", reason="flock")


@pytest.fixture
def held_elsewhere(state):
    """Another process that holds the lock of agent `a` and user `u`."""
    run = [sys.executable, "-c", HOLD, URL]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"True\n"
        yield process
        process.kill()


@posix
def test_lock_ends_with_its_process(held_elsewhere):
    with trylock(URL, "a", "u") as is_held:
        assert not is_held
    held_elsewhere.kill()
    held_elsewhere.wait()
    with trylock(URL, "a", "u") as is_held:
        assert is_held


def test_lock_name_hides_agent_user_and_password(tmp_path, state):
    with trylock(URL, "agent-x", "ada"):
        (name,) = os.listdir(tmp_path / "state" / "locks")
    assert len(name) == 64 + len(".lock")
    paths = [lock_path(url, "a", "u") for url in (URL, URL.replace("secret", "other"))]
    assert paths[0] == paths[1]


def test_spellings_of_a_place_share_a_lock(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spelled = {lock_path(url, "a", "u") for url in ("sqlite:s.db", "sqlite:./s.db", f"sqlite:{tmp_path}/s.db")}
    assert [path.parent for path in spelled] == [tmp_path]
    assert lock_path("jsonl:s.db", "a", "u") not in spelled


@pytest.mark.parametrize("url", ["sqlite:s.db", "jsonl:s"])
def test_lock_holds_for_all_machines_that_share_files(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with closing(open_store(url)) as store:
        store.create(header())
        results = []
        with ExitStack() as stack:
            for machine in "ab":
                monkeypatch.setenv("LORE_STATE", str(tmp_path / machine))
                results.append(stack.enter_context(trylock(store, "a", "u")))
        assert results == [True, False]


@pytest.mark.parametrize("url", ["sqlite:s.db", "jsonl:s.jsonl", URL])
def test_released_lock_leaves_no_file(tmp_path, monkeypatch, state, url):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with trylock(url, "a", "u") as is_held:
            assert is_held
            assert lock_path(url, "a", "u").exists()
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@posix
def test_removed_lock_file_locks_nothing(tmp_path, monkeypatch):
    """A process that opened the file before its holder removed it would hold a lock that nobody else sees."""
    import fcntl

    flock, first = fcntl.flock, ExitStack()
    url = f"sqlite:{tmp_path}/s.db"
    first.enter_context(trylock(url, "a", "u"))

    def release_first(descriptor, operation):
        monkeypatch.setattr(fcntl, "flock", flock)
        first.close()
        return flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", release_first)
    with trylock(url, "a", "u") as second, trylock(url, "a", "u") as third:
        assert (second, third) == (False, True)


@posix
def test_folder_writable_by_others_is_refused(tmp_path, state):
    folder = tmp_path / "state" / "locks"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(LoreError, match="can be written by others"), trylock(URL, "a", "u"):
        pass


def test_environment_names_the_lock_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LORE_STATE", str(tmp_path / "here"))
    with trylock(URL, "a", "u"):
        assert os.listdir(tmp_path / "here" / "locks")
    monkeypatch.delenv("LORE_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with trylock(URL, "a", "u"):
        assert os.listdir(tmp_path / "state" / "lore" / "locks")


@posix
def test_lock_that_is_a_link_is_refused(tmp_path, state):
    elsewhere = tmp_path / "precious"
    elsewhere.write_text("kept")
    lock_path(URL, "a", "u").symlink_to(elsewhere)
    with pytest.raises(LoreError, match="cannot keep locks"), trylock(URL, "a", "u"):
        pass
    assert elsewhere.read_text() == "kept"


@posix
def test_file_system_without_locks_names_the_variable(state, monkeypatch):
    """Such a lock was taken as held: two compactions of one session could run at once."""
    import fcntl

    def without(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", without)
    with pytest.raises(LoreError, match="no locks available") as refused, trylock(URL, "a", "u"):
        pass
    assert "$LORE_STATE" in (refused.value.hint or "")
