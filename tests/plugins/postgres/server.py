"""A private PostgreSQL server for tests, made from installed binaries in a temporary folder.

    with Server(binaries()) as server:       # or the fixture `postgres`, which skips without binaries
        url = server.lend()                  # a database without sessions (fixture `database`)
        server.take_back(url)                # emptied, and lent again: a new one takes half a second
        url = server.database()              # a new one without schema lore (fixture `bare`)
        server.kill()                        # a crash: connections break, nothing is flushed
        server.start()                       # recovers, with the same URLs
        server.stop()                        # closes connections and stops in order
        server.run("SELECT 1", url)          # SQL without lore, committed; returns the rows

It listens only on a unix socket in its folder. `lore` is a superuser without password; a role `guarded`, if a test
creates it, needs its password. fsync is on. As PostgreSQL refuses to run as root, it then runs as `postgres` or
`nobody`. A guard process stops the server and removes the folder when the test process is gone, even after a crash.
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
    "shared_buffers": "16MB",  # small: each pytest worker has a server
    "max_wal_size": "128MB",
    "max_connections": "60",
    "jit": "off",
}
HBA = "local all guarded scram-sha-256\nlocal all all trust\n"
PATIENCE = 60.0  # seconds to start or stop


def binaries() -> Path | None:
    """Return the folder of the newest installed PostgreSQL, or None."""
    if os.name != "posix":
        return None
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(DEBIAN.glob("*/bin"), key=lambda one: float(one.parent.name), reverse=True)
    return next((one for one in folders if all((one / name).is_file() for name in NAMES)), None)


class Server:
    """A server in its own folder; the first `start` creates the cluster."""

    def __init__(self, folder_of_binaries: Path) -> None:
        self._binaries = folder_of_binaries
        self._owner = _owner()
        self.folder = Path(tempfile.mkdtemp(prefix="lore-pg-", dir="/tmp"))  # short, as socket paths have a limit
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
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and wait until it answers; after a kill it recovers."""
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
        """Stop the server in order: open transactions are rolled back, connections are closed."""
        self._end(signal.SIGINT)

    def _end(self, by: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(by)
            self._process.wait(PATIENCE)
            self._process = None

    def kill(self) -> None:
        """End all processes at once, as a crash would."""
        self._end(signal.SIGQUIT)

    def close(self) -> None:
        self.kill()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard.wait(PATIENCE)

    def lend(self) -> str:
        """Return the URL of a database without sessions; it may have tables of earlier tests."""
        return self._spare.pop() if self._spare else self.database()

    def take_back(self, url: str, *, bare: bool = False) -> None:
        """Disconnect all clients of a lent database and empty it, with `bare` by dropping its tables."""
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
        """Create a database and return its URL; `options` are those of CREATE DATABASE."""
        name = name or f"test_{next(self._names)}"
        self.run(f"CREATE DATABASE {_quoted(name)} {options}")
        return self.url(name)

    def url(self, database: str = "postgres", *, user: str = "lore", password: str = "") -> str:
        """Return the URL of a database, which need not exist."""
        login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        return f"postgresql://{login}@/{quote(database, safe='')}?host={self.folder}"

    def run(self, sql: str, url: str = "", parameters: tuple[object, ...] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement as the superuser, without lore, and return its rows."""
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
    """Return the user that runs the server, or None for the current one."""
    if os.geteuid() != 0:
        return None
    import pwd

    known = {one.pw_name: one for one in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _guard(folder: Path) -> subprocess.Popen[bytes]:
    """Start the guard process; its standard input ends with this process."""
    words = [sys.executable, "-I", __file__, str(folder)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, cwd="/", start_new_session=True)


def _watch(folder: Path) -> None:
    """Wait for the end of standard input, then stop the server and remove its folder."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdin.buffer.read()
    with suppress(OSError, ValueError, IndexError):  # a server that was stopped leaves no such file
        os.kill(int((folder / "data" / "postmaster.pid").read_text().splitlines()[0]), signal.SIGQUIT)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
