"""Sessions in a PostgreSQL database, for many machines: `postgresql://USER@HOST/DATABASE`."""

from lore.errors import install_hint
from lore.store import Store, StoreError, Tell


def open_store(url: str, tell: Tell) -> Store:
    """Open the store of a URL; raises StoreError, with what to install if PostgreSQL's client is missing."""
    try:
        from lore_plugins.postgres.store import Postgres  # noqa: PLC0415 - the client is slow to import
    except ImportError as error:
        message = f"a PostgreSQL store needs psycopg, which cannot be used: {error}"
        raise StoreError(message, hint=install_hint("postgres")) from None
    return Postgres.open(url, tell)
