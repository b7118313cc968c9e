"""Contract suites for those who add a format, a dialect, a cache model or a store of their own.

Subclass one, give it what it asks for, and let pytest collect the subclass:

    class TestMyReader(ReaderContract):
        reader = MyReader
        samples = (b"...",)

Needs pytest only to be collected, but for that of stores, whose scenarios take fixtures; plain asserts inside.
"""

from typing import TYPE_CHECKING

from lore.testing.contracts import CacheContract, DialectContract, ReaderContract, everything

if TYPE_CHECKING:
    from lore.testing.stores import StoreContract

__all__ = ["CacheContract", "DialectContract", "ReaderContract", "StoreContract", "everything"]


def __getattr__(name: str) -> object:
    if name != "StoreContract":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lore.testing.stores import StoreContract  # noqa: PLC0415 - pytest is not everywhere

    return StoreContract
