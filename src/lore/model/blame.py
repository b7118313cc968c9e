"""Whose doing a finding is: the text that the client sent, the settings of its requests, or the provider.

Rules: what is expected is nobody's fault; what the recording cannot show is said to be open. Codes that are
not listed are about the bytes that the client sent.
"""

from __future__ import annotations

from lore.model.codes import CODES, CauseKind

_SETTINGS = "the settings of the requests (breakpoints, lifetime, endpoint, parameters), not their text"
_OPEN = "not the recorded bytes: the provider, or what the recording does not hold"
_RECORDING = "the recording, or a gateway between: what was recorded does not belong together"
_SPELLING = "the client's spelling, if the server minds it at all: the content is the same"
_WHOSE: dict[str, str] = {
    **dict.fromkeys(("LORE106", "LORE112"), _SPELLING),
    **dict.fromkeys(
        ("LORE113", "LORE114", "LORE119", "LORE120", "LORE121", "LORE122", "LORE131", "LORE133", "LORE134", "LORE135",
         "LORE148", "LORE152", "LORE153"),
        _SETTINGS,
    ),
    "LORE301": _OPEN,
    "LORE304": _OPEN,
    "LORE305": _OPEN,
    "LORE306": _SETTINGS,
    "LORE302": "open: the witnesses contradict one another",
    "LORE303": _RECORDING,
}  # fmt: skip


def whose(code: str, kind: CauseKind) -> str:
    """Say who can mend it; empty for what is expected and what is no matter of prompts."""
    if kind == "expected" or code not in CODES or code[:5] not in ("LORE1", "LORE3"):
        return ""
    return _WHOSE.get(code, "the client: it did not send again what it had sent before")
