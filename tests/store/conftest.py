"""What tests of stores share: a private PostgreSQL server, one a pytest worker, started when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from store.server import Server, binaries


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Yield a private server that runs; skips where PostgreSQL is not installed."""
    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL: install Debian's `postgresql`, or put initdb and postgres on PATH")
    with Server(found) as server:
        yield server


@pytest.fixture
def database(postgres: Server) -> str:
    """Return the URL of a fresh database; its server runs."""
    postgres.start()
    return postgres.database()
