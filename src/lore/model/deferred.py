"""Values that are imported, patterns that are compiled and tables that are read when they are first used.

A command that writes one report imports no other. Compiling the patterns of all rooms takes 40 of the 360 ms of
processor time that `lore check` takes for a small file, which uses few of them (measured 2026-11-27). A pattern that
every recording needs, or a hot loop, is compiled by `re.compile`: each use of a deferred one costs a look-up more.
"""

from __future__ import annotations

import re
from collections import UserDict
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, AnyStr, TypeVar, cast

T = TypeVar("T")


class Registry(UserDict[str, T]):
    """Values by name. A value may be given by its place, `module:name`, which is imported at the value's first use.

    Listing the names and `in` import nothing; reading a value imports it.
    """

    def __init__(self, values: Mapping[str, T | str], make: Callable[[Any], T] | None = None) -> None:
        super().__init__(cast("Mapping[str, T]", values))
        self._make = make  # makes a value from the imported object

    def __getitem__(self, name: str) -> T:
        value: Any = self.data[name]
        if isinstance(value, str):
            module, _, attribute = value.partition(":")
            target = getattr(import_module(module), attribute)
            value = self.data[name] = target if self._make is None else self._make(target)
        return value


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use, which raises re.error if it is wrong."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(text, flags))


class _Uncompiled:
    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)
        return value

    def __reduce__(self) -> Any:  # without it copying recurses: `__getattr__` needs `_text`, which is not set yet
        return pattern, (self._text, self._flags)


def read_table(kind: type[T], room: str, name: str) -> T:
    """Return a packaged table, `data/NAME` of a room (a package such as `lore.cache`).

    Numbers with a point or an exponent are exact. People change the TOML files; `make data` writes the same rows as
    JSON into that folder, and a test compares the two. Parsing the TOML took 25 of the 145 ms of processor time of
    `lore check` for a small file (measured 2026-11-28).
    """
    from decimal import Decimal  # noqa: PLC0415 - `lore statusline` reads no table

    from msgspec.json import Decoder  # noqa: PLC0415 - as above

    package: Any = import_module(room)
    data = package.__loader__.get_data(f"{package.__path__[0]}/data/{name}")  # also from a zip file
    return Decoder(kind, float_hook=Decimal).decode(data)


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes as 64 hexadecimal digits. `hashlib` loads OpenSSL, which takes 2 ms."""
    import hashlib  # noqa: PLC0415 - imported when it is first used

    return hashlib.sha256(data).hexdigest()
