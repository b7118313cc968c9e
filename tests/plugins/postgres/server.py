"""A private PostgreSQL server for tests: in a temporary folder, from installed binaries, gone when they end.

    with Server(binaries()) as server:       # or the fixture `postgres` (conftest.py), which skips without binaries
        url = server.lend()                  # a database that holds no session; the fixture `database` is one
        server.take_back(url)                # emptied and lent again: making and removing one costs half a second
        url = server.database()              # a new one, without schema lore; the fixture `bare` is one
        server.kill()                        # an immediate shutdown: connections break, nothing is flushed
        server.start()                       # recovers from the log, under the same URLs
        server.stop()                        # in order; clients that are connected are sent away
        server.run("SELECT 1", url)          # SQL past lore, each statement committed; returns the rows

It listens on a unix socket in its folder alone, lets everyone in as `lore` (a superuser) without a password, and
asks the role `guarded`, where a test makes one, for its own. fsync stays on. It refuses root, so that root runs it as
`postgres` or `nobody`. A guard, a process of its own, ends the server and removes the folder when the process
that made it is gone, however it went. One thread uses an object at a time.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

if TYPE_CHECKING:
    from pwd import struct_passwd  # not on Windows, where these tests skip

NAMES = ("initdb", "postgres")
DEBIAN = Path("/usr/lib/postgresql")
SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "16MB",  # small: it is one of many that run at once
    "max_wal_size": "128MB",
    "max_connections": "60",
    "jit": "off",
}
HBA = "local all guarded scram-sha-256\nlocal all all trust\n"
PATIENCE = 60.0  # seconds until a server that does not come up, or go away, is an error


def binaries() -> Path | None:
    """Return the folder of the newest PostgreSQL that is installed here; None without one."""
    if os.name != "posix":
        return None
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(DEBIAN.glob("*/bin"), key=lambda one: float(one.parent.name), reverse=True)
    return next((one for one in folders if all((one / name).is_file() for name in NAMES)), None)


class Server:
    """A server in a folder of its own; begins stopped, its cluster is made by the first `start`."""

    def __init__(self, folder_of_binaries: Path) -> None:
        self._binaries = folder_of_binaries
        self._owner = _owner()
        self.folder = Path(tempfile.mkdtemp(prefix="lore-pg-", dir="/tmp"))  # short, for the socket; not root's own
        if self._owner is not None:
            os.chown(self.folder, self._owner.pw_uid, self._owner.pw_gid)
        self._data = self.folder / "data"
        self._log = self.folder / "log"
        self._names = count(1)
        self._spare: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = _guard(self.folder)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """Whether its first process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers; what a kill left behind is recovered from the log."""
        if self.is_running:
            return
        if not self._data.exists():
            self._initialise()
        settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        self._process = self._spawn("postgres", "-D", self._data, "-k", self.folder, *settings)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if not self.is_running or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop it in order: transactions that are open are rolled back, connections closed."""
        self._end(signal.SIGINT)

    def _end(self, by: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(by)
            self._process.wait(PATIENCE)
            self._process = None

    def kill(self) -> None:
        """End all of its processes at once, as a crash would: nothing is flushed, no connection is closed in order."""
        self._end(signal.SIGQUIT)

    def close(self) -> None:
        """End it and remove its folder."""
        self.kill()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard.wait(PATIENCE)

    def lend(self) -> str:
        """Return the URL of a database that holds no session; the tables may be there from its last use."""
        return self._spare.pop() if self._spare else self.database()

    def take_back(self, url: str, *, bare: bool = False) -> None:
        """Empty a lent database, of its tables too where it is to be bare; who is connected is sent away."""
        self.start()
        self.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()", url
        )  # fmt: skip
        if bare:
            self.run("DROP SCHEMA IF EXISTS lore CASCADE", url)
        elif self.run("SELECT to_regclass('lore.sessions')", url) != [(None,)]:
            self.run("DELETE FROM lore.sessions", url)
        self._spare.append(url)

    def database(self, name: str = "", options: str = "") -> str:
        """Make a database and return its URL; `options` are those of CREATE DATABASE."""
        name = name or f"test_{next(self._names)}"
        self.run(f"CREATE DATABASE {_quoted(name)} {options}")
        return self.url(name)

    def url(self, database: str = "postgres", *, user: str = "lore", password: str = "") -> str:
        """Return the URL of a database, that need not exist."""
        login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        return f"postgresql://{login}@/{quote(database, safe='')}?host={self.folder}"

    def run(self, sql: str, url: str = "", parameters: tuple[object, ...] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement past lore, as the superuser, and return its rows. Without `url` in no test's database."""
        import psycopg

        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            cursor = connection.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    def _initialise(self) -> None:
        words = ("-D", self._data, "-U", "lore", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        process = self._spawn("initdb", *words)
        if process.wait(PATIENCE):
            raise RuntimeError(f"no cluster:\n{self._log.read_text()[-2000:]}")
        (self._data / "pg_hba.conf").write_text(HBA)

    def _spawn(self, name: str, *words: str | Path) -> subprocess.Popen[bytes]:
        owner = self._owner
        who: dict[str, Any] = {}
        if owner is not None:
            who = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [self._binaries / name, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                env={**outside, "LC_ALL": "C"}, start_new_session=True, **who,
            )  # fmt: skip

    def _answers(self) -> bool:
        import psycopg

        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url(), connect_timeout=5).close()
            return True
        return False


def _owner() -> struct_passwd | None:
    """Return who runs the server; None where we may."""
    if os.geteuid() != 0:
        return None
    import pwd

    known = {one.pw_name: one for one in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _guard(folder: Path) -> subprocess.Popen[bytes]:
    """Start what ends the server when we are gone: then its standard input ends."""
    words = [sys.executable, "-I", __file__, str(folder)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, cwd="/", start_new_session=True)


def _watch(folder: Path) -> None:
    """Wait until nobody holds the other end of standard input; then end the server and remove its folder."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdin.buffer.read()
    with suppress(OSError, ValueError, IndexError):  # a server that was stopped leaves no such file
        os.kill(int((folder / "data" / "postmaster.pid").read_text().splitlines()[0]), signal.SIGQUIT)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
