"""Contract suites for those who add a format, a dialect, a cache model or a store.

Subclass one, set its attributes, and let pytest collect the subclass:

    class TestMyReader(ReaderContract):
        reader = MyReader
        samples = (b"...",)

The suites are plain asserts and need pytest only to be collected. That of stores uses pytest's fixtures.
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
