"""The pages of `lore memory page`: the functions of `actions.py`, called from a browser.

The store is opened and closed for each answer. A GET changes nothing. A POST deletes exactly what its page asked
about: its `proof` is a digest, under a key of this process, of the action, the owner, the names and the contents."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import msgspec

from lore.errors import LoreError
from lore.model import encode
from lore.store import Clock, Store
from lore.store import now as now_utc
from lore_plugins.memory import actions
from lore_plugins.memory import html as page
from lore_plugins.memory.html import MemoryFilter, PageSubject
from lore_plugins.memory.identities import valid_user
from lore_plugins.memory.results import MemoryShown
from lore_plugins.memory.server import Fields, PageAnswer

_CHANGED = "memory changed since the page was shown, or the form does not belong to this page. Look again."
_UNSURE = "the box was not ticked."


class MemoryRequest(NamedTuple):
    """The memory that a request names."""

    user: str
    agent: str | None
    names: tuple[str, ...]  # topics and ids of texts


class MemoryPage:
    """The pages of a store. `opened` opens it for one answer, `key` signs forms, `store` is the URL to show."""

    def __init__(
        self, opened: Callable[[], AbstractContextManager[Store]], key: bytes, store: str, *, clock: Clock = now_utc
    ) -> None:  # fmt: skip
        self._opened = opened
        self._key = key
        self._store = store
        self._clock = clock

    def answer(self, name: str, query: Fields, form: Fields | None) -> PageAnswer:
        """Answer a GET (`form` is None) or a POST of a page; a LoreError becomes a page with status 400."""
        try:
            return get_pages[name](self, query) if form is None else post_pages[name](self, form)
        except LoreError as error:
            return self.error_answer(error)

    def error_answer(self, error: LoreError, status: int = 400) -> PageAnswer:
        """Return the page of an error."""
        return PageAnswer(page.error_page(error.message, error.hint, self._store).encode(), status)

    def users(self, _: Fields) -> PageAnswer:
        """Show the users."""
        with self._opened() as store:
            return PageAnswer(page.users_page(actions.list_users(store)).encode())

    def user(self, query: Fields) -> PageAnswer:
        """Show a user's memory, or the part that the query selects."""
        asked, notes = _parse_request(query), list[str]()
        memory_filter = MemoryFilter(_single(query, "q") or "", session := _single(query, "session"))
        with self._opened() as store:
            found = actions.read_memory(store, asked.user, asked.agent, now=self._clock(), tell=notes.append)
            log = actions.read_audit(store, asked.user, asked.agent).entries if session is not None else []
            entries = [entry for entry in log if entry.session_id == session]
            texts = (text for agent in found.agents for text in agent.texts)
            is_source = session is not None and (entries or any(text.session_id == session for text in texts))
            summaries = store.list() if is_source else ()
            source = next((summary for summary in summaries if summary.session_id == session), None)
        shown = page.user_page(found, self._subject(asked, notes), memory_filter, source, entries)
        return PageAnswer(shown.encode())

    def audit(self, query: Fields) -> PageAnswer:
        """Show a user's audit log."""
        asked = _parse_request(query)
        with self._opened() as store:
            found = actions.read_audit(store, asked.user, asked.agent)
        return PageAnswer(page.audit_page(found, self._subject(asked)).encode())

    def export(self, query: Fields) -> PageAnswer:
        """Return a user's memory as a JSON file, as `lore memory export` writes it."""
        asked = _parse_request(query)
        with self._opened() as store:
            found = self._read(store, asked)
        return PageAnswer(msgspec.json.encode(found) + b"\n", kind="application/json", file="memory.json")

    def ask_wipe(self, query: Fields, *, stale: str = "") -> PageAnswer:
        """Show the question that confirms a wipe."""
        asked = _parse_request(query)
        with self._opened() as store:
            found = actions.preview_wipe(store, asked.user, asked.agent)
            proof = self._proof("wipe", asked, self._read(store, asked)) if found.entries else ""
        shown = page.wipe_page(found, self._subject(asked), proof, stale=stale)
        return PageAnswer(shown.encode(), 409 if stale else 200)

    def wipe(self, form: Fields) -> PageAnswer:
        """Wipe what the page asked about."""
        asked, notes = _parse_request(form), list[str]()
        with self._opened() as store:
            stale = self._refusal("wipe", form, asked, self._read(store, asked))
            if not stale:
                found = actions.wipe_memory(store, asked.user, asked.agent, now=self._clock(), tell=notes.append)
                return PageAnswer(page.wiped_page(found, self._subject(asked, notes)).encode())
        return self.ask_wipe(form, stale=stale)

    def ask_delete(self, query: Fields, *, stale: str = "") -> PageAnswer:
        """Show the question that confirms a deletion. Raise LoreError for an unknown name."""
        asked = _parse_request(query)
        if not asked.names:
            raise LoreError("nothing is chosen", hint="tick the entries to delete")
        with self._opened() as store:
            found = actions.select_names(self._read(store, asked), asked.names)
        proof = self._proof("delete", asked, found)
        shown = page.delete_page(found, self._subject(asked), asked.names, proof, stale=stale)
        return PageAnswer(shown.encode(), 409 if stale else 200)

    def delete(self, form: Fields) -> PageAnswer:
        """Delete what the page asked about."""
        asked, notes = _parse_request(form), list[str]()
        with self._opened() as store:
            stale = self._refusal("delete", form, asked, actions.select_names(self._read(store, asked), asked.names))
            if not stale:
                now = self._clock()
                found = actions.delete_names(store, asked.names, asked.user, asked.agent, now=now, tell=notes.append)
                return PageAnswer(page.deleted_page(found, self._subject(asked, notes)).encode())
        return self.ask_delete(form, stale=stale)

    def _subject(self, asked: MemoryRequest, notes: Sequence[str] = ()) -> PageSubject:
        return PageSubject(self._store, asked.user, asked.agent, notes)

    def _read(self, store: Store, asked: MemoryRequest) -> MemoryShown:
        return actions.read_memory(store, asked.user, asked.agent, now=self._clock())

    def _refusal(self, action: str, form: Fields, asked: MemoryRequest, found: MemoryShown) -> str:
        """Return why a form may not be carried out; "" if its page asked about exactly this memory."""
        proof = (_single(form, "proof") or "").encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(proof, self._proof(action, asked, found).encode()):
            return _CHANGED
        return "" if _single(form, "sure") == "yes" else _UNSURE

    def _proof(self, action: str, asked: MemoryRequest, found: MemoryShown) -> str:
        content = encode([action, asked.user, asked.agent, list(asked.names), page.fingerprint(found)])
        return hmac.digest(self._key, content, "sha256").hex()


def _parse_request(fields: Fields) -> MemoryRequest:
    names = tuple(dict.fromkeys(fields.get("name", ())))
    return MemoryRequest(valid_user(_single(fields, "user")), _single(fields, "agent"), names)


def _single(fields: Fields, name: str) -> str | None:
    values = fields.get(name, ())
    if len(values) > 1:
        raise LoreError(f"{name!r} is given more than once", hint="follow a link of the page")
    return values[0] if values else None


get_pages: dict[str, Callable[[MemoryPage, Fields], PageAnswer]] = {
    "": MemoryPage.users, "user": MemoryPage.user, "audit": MemoryPage.audit, "export": MemoryPage.export,
    "wipe": MemoryPage.ask_wipe, "delete": MemoryPage.ask_delete,
}  # fmt: skip
post_pages: dict[str, Callable[[MemoryPage, Fields], PageAnswer]] = {
    "wipe": MemoryPage.wipe, "delete": MemoryPage.delete,
}  # fmt: skip
