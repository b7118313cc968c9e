"""The private server of the tests: it ends with whoever made it, and keeps what it committed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.postgres.server import Server, binaries

ALONE = """
import sys
from plugins.postgres.server import Server, binaries
server = Server(binaries())
server.start()
print(server.folder, flush=True)
sys.stdin.read()
"""


def test_a_killed_server_comes_back_with_what_was_committed(postgres):
    url = postgres.database()
    postgres.run("CREATE TABLE kept (n int)", url)
    postgres.run("INSERT INTO kept VALUES (1)", url)
    postgres.kill()
    assert not postgres.is_running
    postgres.start()
    assert postgres.run("SELECT n FROM kept", url) == [(1,)]


def test_a_server_that_is_closed_leaves_no_folder():
    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL")
    server = Server(found)
    server.close()
    assert not server.folder.exists()


def test_a_server_goes_away_with_tests_that_are_killed():
    if binaries() is None:
        pytest.skip("no PostgreSQL")
    tests = str(Path(__file__).resolve().parents[2])
    owner = subprocess.Popen(
        [sys.executable, "-c", ALONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (tests, os.environ.get("PYTHONPATH"))))},
    )  # fmt: skip
    with owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        socket = folder / ".s.PGSQL.5432"
        assert socket.exists()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        assert owner.stdout.read() == ""  # the guard held the other end until it was done
    assert not folder.exists()
