"""Sessions on disk and in databases, saved by delta (`base` has the words, `README` of the package the map)."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.store.base import DamagedError as DamagedError
    from lore.store.base import FormatError as FormatError
    from lore.store.base import Store as Store
    from lore.store.base import StoreError as StoreError
    from lore.store.base import Tell as Tell
    from lore.store.base import refuse_other_version as refuse_other_version
    from lore.store.registry import open_store as open_store
    from lore.store.registry import say_once as say_once
    from lore.store.registry import shown as shown
    from lore.store.sql import SqlStore as SqlStore
    from lore.store.sql_tables import SCHEMA_VERSION as SCHEMA_VERSION
    from lore.store.sql_tables import TABLES as TABLES
    from lore.store.sql_tables import SqlTransaction as SqlTransaction
    from lore.store.sql_tables import SqlValue as SqlValue
    from lore.store.sql_tables import make_tables as make_tables

__all__ = [
    "DamagedError",
    "FormatError",
    "SCHEMA_VERSION",
    "SqlStore",
    "SqlTransaction",
    "SqlValue",
    "Store",
    "StoreError",
    "TABLES",
    "Tell",
    "make_tables",
    "open_store",
    "refuse_other_version",
    "say_once",
    "shown",
]
__getattr__ = public_names(
    __name__,
    {
        "base": (
            "DamagedError",
            "FormatError",
            "Store",
            "StoreError",
            "Tell",
            "refuse_other_version",
        ),
        "registry": (
            "open_store",
            "say_once",
            "shown",
        ),
        "sql": ("SqlStore",),
        "sql_tables": (
            "SCHEMA_VERSION",
            "SqlTransaction",
            "SqlValue",
            "TABLES",
            "make_tables",
        ),
    },
)
