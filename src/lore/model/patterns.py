"""Regular expressions that are compiled when they are first used.

Compiling those of all rooms takes 30 ms, and judging one small file uses few of them. What every recording needs, or a
hot loop, is compiled at once: this costs a look into a dictionary more at each use.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what `re.compile` would; a fault of it is raised at its first use."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(text, flags))


class _Uncompiled:
    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found

    def __reduce__(self) -> Any:
        return pattern, (self._text, self._flags)
