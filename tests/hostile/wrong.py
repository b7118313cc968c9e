"""Values that no field of a record should have, whatever its type, and how they come into a record."""

from collections.abc import Iterator
from typing import Any

WRONG = (None, True, -1, 2**70, -(2**70), 10**400, 1.5, 1e300, "", "\ud83d", "\x00", [], [[]], [None], ["\ud83d"], {},
         {"a": 1}, [{"type": "text"}], [{"type": "text", "text": 5}], [{"type": "raw", "json": 5}], [{"id": 1}],
         [{"score": 10**400}], [{"type": "image", "media_type": "a", "data": "b"}], {"type": "nothing"},
         {"project_dir": 5}, {"recent_files": [5]}, {"reason": None})  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every place of a value, as the keys that lead to it."""
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from places(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], wrong: object) -> Any:
    """Return a copy of a value with another one at a place."""
    if not path:
        return wrong
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], wrong)
    return copy
