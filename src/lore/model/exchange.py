"""A recorded turn: the request body as it was stored, what was billed, when."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.events import Billed, Verdict

Fidelity: TypeAlias = Literal["wire", "parsed", "structural", "reconstructed", "rendered"]


class Exchange(Struct, frozen=True):
    """One request with what is known of its response. `at` is seconds since the epoch."""

    body: bytes
    fidelity: Fidelity
    at: float | None = None
    usage: Billed | None = None
    verdict: Verdict | None = None
