"""Sessions on disk and in databases, saved by delta (`base` has the words, `README` of the package the map)."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.store.base import ConflictError as ConflictError
    from lore.store.base import DamagedError as DamagedError
    from lore.store.base import FormatError as FormatError
    from lore.store.base import Head as Head
    from lore.store.base import SessionData as SessionData
    from lore.store.base import SessionDelta as SessionDelta
    from lore.store.base import SessionSummary as SessionSummary
    from lore.store.base import Store as Store
    from lore.store.base import StoreError as StoreError
    from lore.store.base import Tell as Tell
    from lore.store.base import UnknownSessionError as UnknownSessionError
    from lore.store.base import refuse_other_version as refuse_other_version
    from lore.store.deltas import save_delta as save_delta
    from lore.store.lines import NOTHING as NOTHING
    from lore.store.locks import trylock as trylock
    from lore.store.registry import noted as noted
    from lore.store.registry import open_store as open_store
    from lore.store.registry import say_once as say_once
    from lore.store.registry import shown as shown
    from lore.store.registry import silent as silent
    from lore.store.reserved import AUDIT_PREFIX as AUDIT_PREFIX
    from lore.store.reserved import DEFAULT_USER as DEFAULT_USER
    from lore.store.reserved import MEMORY_PREFIX as MEMORY_PREFIX
    from lore.store.reserved import is_reserved as is_reserved
    from lore.store.sql import SqlStore as SqlStore
    from lore.store.sql_tables import SCHEMA_VERSION as SCHEMA_VERSION
    from lore.store.sql_tables import TABLES as TABLES
    from lore.store.sql_tables import SqlTransaction as SqlTransaction
    from lore.store.sql_tables import SqlValue as SqlValue
    from lore.store.sql_tables import make_tables as make_tables
    from lore.store.sync import Clock as Clock
    from lore.store.sync import now as now

__all__ = [
    "AUDIT_PREFIX",
    "Clock",
    "ConflictError",
    "DEFAULT_USER",
    "DamagedError",
    "FormatError",
    "Head",
    "MEMORY_PREFIX",
    "NOTHING",
    "SCHEMA_VERSION",
    "SessionData",
    "SessionDelta",
    "SessionSummary",
    "SqlStore",
    "SqlTransaction",
    "SqlValue",
    "Store",
    "StoreError",
    "TABLES",
    "Tell",
    "UnknownSessionError",
    "is_reserved",
    "make_tables",
    "noted",
    "now",
    "open_store",
    "refuse_other_version",
    "save_delta",
    "say_once",
    "shown",
    "silent",
    "trylock",
]
__getattr__ = public_names(
    __name__,
    {
        "base": (
            "ConflictError",
            "DamagedError",
            "FormatError",
            "Head",
            "SessionData",
            "SessionDelta",
            "SessionSummary",
            "Store",
            "StoreError",
            "Tell",
            "UnknownSessionError",
            "refuse_other_version",
        ),
        "deltas": ("save_delta",),
        "lines": ("NOTHING",),
        "locks": ("trylock",),
        "registry": ("noted", "open_store", "say_once", "shown", "silent"),
        "reserved": ("AUDIT_PREFIX", "DEFAULT_USER", "MEMORY_PREFIX", "is_reserved"),
        "sql": ("SqlStore",),
        "sql_tables": ("SCHEMA_VERSION", "SqlTransaction", "SqlValue", "TABLES", "make_tables"),
        "sync": ("Clock", "now"),
    },
)
