"""`lore.open`: begin a session in a store, or go on with it, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lore.events.strict import JSON, named
from lore.prompt.base import Dialect, Rules
from lore.session import dialect_from, header_of
from lore.store.base import ConflictError, Store, Tell, UnknownSessionError
from lore.store.registry import open_store, silent
from lore.store.session import StoredSession
from lore.store.sync import Clock, now


@named
def open_session(
    store: str | Store, session_id: str, *, model: str | None = None, system: str | Sequence[str] | None = None,
    tools: Sequence[JSON] | Mapping[str, JSON] | None = None, params: Mapping[str, JSON] | None = None,
    dialect: Dialect | str | None = None, rules: Rules | None = None, attachments: Sequence[str] = (),
    user_id: str | None = None, project_id: str | None = None, clock: Clock = now, tell: Tell = silent,
) -> StoredSession:  # fmt: skip
    """Begin a session in a store, or go on with the one of this id: `lore.open`.

    `store` is a URL (`sqlite:agent.db`, `jsonl:DIR`, `postgresql://…`), whose store is closed with the session, or a
    store. The other arguments are those of `lore.Session`; where the session is there already, what is given and
    differs (another model, system prompt, tools, parameters) is changed from the next turn on, what is not given
    stays. `clock` gives times as RFC 3339: the system's, by default. `tell` hears what a person should know: a store
    that was repaired. Raises StoreError, and LoreError where there is no such session and no model to begin one with.

    >>> session = lore.open("memory:", "demo", model="claude-opus-5", clock=lambda: "2026-11-20T10:00:00Z")
    >>> session.created_at, session.leaf_id
    ('2026-11-20T10:00:00Z', 'demo')
    """
    opened = open_store(store, tell) if isinstance(store, str) else store
    try:
        session = _opened(
            opened, session_id, clock, tell, dialect_from(dialect), rules,
            {"system": system, "tools": tools, "params": params, "attachments": attachments, "user_id": user_id,
             "project_id": project_id}, model,
        )  # fmt: skip
        session.owns_store = isinstance(store, str)
        session.change(model=model, system=system, tools=tools, params=params)
        if session.leaf_id is None:
            last = session.state.main().entries.last()
            session.note(leaf_id=session_id if last is None else last.item.uuid)
            session.save()
    except BaseException:
        if isinstance(store, str):
            opened.close()
        raise
    return session


def _opened(
    store: Store, session_id: str, clock: Clock, tell: Tell, dialect: Dialect | None, rules: Rules | None,
    given: dict[str, Any], model: str | None,
) -> StoredSession:  # fmt: skip
    """Go on with a session, or create it; where another process does so at the same moment, go on with that one."""
    try:
        return StoredSession.open(store, session_id, dialect=dialect, rules=rules, clock=clock, tell=tell)
    except UnknownSessionError:
        if model is None:
            error = UnknownSessionError(session_id, store.url)
            error.hint = f"model= begins one; {error.hint}"
            raise error from None
    header = header_of(model, dialect=dialect, session_id=session_id, at=clock(), **given)
    try:
        return StoredSession.begin(store, header, dialect=dialect, rules=rules, clock=clock, tell=tell)
    except ConflictError:
        return StoredSession.open(store, session_id, dialect=dialect, rules=rules, clock=clock, tell=tell)
