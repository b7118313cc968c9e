"""What is wrong with a recording, or worth saying about it, with its place."""

from __future__ import annotations

from msgspec import Struct


class Problem(Struct, frozen=True):
    """One thing that could not be read or did not fit. `line` counts from 1, `byte` from 0."""

    code: str
    message: str
    file: str | None = None
    line: int | None = None
    byte: int | None = None
