"""What tests of stores share: a private PostgreSQL server, one a pytest worker, started when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from plugins.postgres.server import Server, binaries


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Yield a private server that runs; skips where PostgreSQL is not installed."""
    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL: install Debian's `postgresql`, or put initdb and postgres on PATH")
    with Server(found) as server:
        yield server


@pytest.fixture
def databases(postgres: Server) -> Iterator[Callable[[], str]]:
    """Return what gives URLs of databases, each without a session; the server runs."""
    postgres.start()
    lent: list[str] = []

    def lend() -> str:
        lent.append(postgres.lend())
        return lent[-1]

    yield lend
    for url in lent:
        postgres.take_back(url)


@pytest.fixture
def database(databases: Callable[[], str]) -> str:
    """Return the URL of a database without a session; its server runs."""
    return databases()


@pytest.fixture
def bare(postgres: Server) -> Iterator[str]:
    """Return the URL of a database without schema lore; its server runs."""
    postgres.start()
    url = postgres.lend()
    postgres.take_back(url, bare=True)
    yield postgres.lend()
    postgres.take_back(url, bare=True)
