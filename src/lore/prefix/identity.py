"""Whose request it is, where the recording says: session, agent, endpoint, and the response that it continues.

Sources: headers and ids as readers found them; `metadata.user_id` of Claude Code's bodies, which holds the
session as JSON or behind `_session_`; `cc_prev_req` in the line of its own that opens its system prompt.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lore.model.canonical import text_of
from lore.model.jsonslice import table
from lore.model.prompt import Prompt
from lore.model.providers import place_in
from lore.model.turn import Exchange
from lore.prefix.likeness import HEADER

_SESSION = re.compile(r'"session_id"\s*:\s*"([^"\\]{1,128})"|_session_([0-9A-Za-z-]{8,128})$')
_WITHIN = 4096  # bytes of a block in which a header stands
_PREVIOUS = re.compile(rb"cc_prev_req=([\w-]{1,128})")


class Identity(NamedTuple):
    """Empty where the recording does not say; `endpoint` is without model and way of delivery."""

    session: str = ""
    agent: str = ""
    endpoint: str = ""
    previous: str = ""

    def may_be(self, other: Identity) -> bool:
        """Tell whether two requests may be of one conversation: nothing that both say differs."""
        if self.session and other.session:
            return self.session == other.session and self.agent == other.agent
        return not (self.agent and other.agent) or self.agent == other.agent

    def same_place(self, other: Identity) -> bool:
        """Tell whether two requests may have gone to one endpoint."""
        return not self.endpoint or not other.endpoint or self.endpoint == other.endpoint


def identity_of(prompt: Prompt, exchange: Exchange | None) -> Identity:
    """Read who asks."""
    call = None if exchange is None else exchange.call
    session = (call.session if call else "") or _session(prompt)
    previous = (call.previous if call else "") or _previous(prompt)
    return Identity(session, call.agent if call else "", place_in(call.endpoint) if call else "", previous)


def _session(prompt: Prompt) -> str:
    raw = prompt.params.get("metadata", b"")
    if b"session_" not in raw:
        return ""
    found = _SESSION.search(text_of((table(raw) or {}).get("user_id", b'""')))
    return "" if found is None else found[1] or found[2]


def _previous(prompt: Prompt) -> str:
    first = prompt.dropped or next((one.data for one in prompt.head if one.section == "system"), b"")
    found = _PREVIOUS.search(first) if HEADER in first[:_WITHIN] else None
    return "" if found is None else found[1].decode()
