"""Contract suites for those who add a format, a dialect, a cache model or a store of their own.

Subclass one, give it what it asks for, and let pytest collect the subclass:

    class TestMyReader(ReaderContract):
        reader = MyReader
        samples = (b"...",)

Needs pytest only to be collected; plain asserts inside.
"""

from lore.testing.caches import CacheContract
from lore.testing.dialects import DialectContract
from lore.testing.readers import ReaderContract, everything
from lore.testing.stores import StoreContract

__all__ = ["CacheContract", "DialectContract", "ReaderContract", "StoreContract", "everything"]
