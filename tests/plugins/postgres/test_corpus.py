"""PostgreSQL stores every session of the corpus unchanged."""

from contextlib import closing

from lore.store import open_store
from store.test_corpus import assert_round_trip, log_of, logs, readable  # noqa: F401 - fixtures


def test_sessions_are_stored_unchanged(readable, logs, database):  # noqa: F811 - fixtures
    with closing(open_store(database)) as store:
        assert_round_trip(store, log_of(readable, logs))
