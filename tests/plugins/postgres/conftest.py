"""Fixtures: a private PostgreSQL server for each pytest worker, started for the first test that needs it."""

from collections.abc import Callable, Iterator

import pytest

from plugins.postgres.server import Server, binaries


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Yield a private server; skips if PostgreSQL is not installed."""
    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL: install Debian's `postgresql`, or put initdb and postgres on PATH")
    with Server(found) as server:
        yield server


@pytest.fixture
def databases(postgres: Server) -> Iterator[Callable[[], str]]:
    """Return a function that gives URLs of empty databases."""
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
    """Return the URL of a database without sessions."""
    return databases()


@pytest.fixture
def bare(postgres: Server) -> Iterator[str]:
    """Return the URL of a database without schema lore."""
    postgres.start()
    url = postgres.lend()
    postgres.take_back(url, bare=True)
    yield postgres.lend()
    postgres.take_back(url, bare=True)
