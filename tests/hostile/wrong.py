"""Values that no field of a record should have, whatever its type."""

from __future__ import annotations

WRONG = (None, True, -1, 2**70, -(2**70), 10**400, 1.5, 1e300, "", "\ud83d", "\x00", [], [[]], [None], ["\ud83d"], {},
         {"a": 1}, [{"type": "text"}], [{"type": "text", "text": 5}], [{"type": "raw", "json": 5}], [{"id": 1}],
         [{"score": 10**400}], [{"type": "image", "media_type": "a", "data": "b"}], {"type": "nothing"},
         {"project_dir": 5}, {"recent_files": [5]}, {"reason": None})  # fmt: skip
