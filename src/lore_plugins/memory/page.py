"""`lore memory page`: what the commands of `lore memory` answer and do, for a browser.

In: the query of a page, a form. Out: a `PageAnswer`. Rules: pages are views of the functions that the commands call;
the store is opened for each answer and closed, so that nothing is held while nobody looks. Nothing is taken away by a
GET. A POST takes away what its page asked about, or nothing: its `proof` is a digest, under a key of this process, of
the action, whose memory, what is named, and what was there."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import msgspec

from lore.errors import LoreError
from lore.model import encode
from lore.store import Clock, SessionSummary, Store
from lore.store import now as now_utc
from lore_plugins.memory import actions
from lore_plugins.memory import html as page
from lore_plugins.memory.html import MemoryFilter, PageAbout
from lore_plugins.memory.identities import good_user
from lore_plugins.memory.results import MemoryShown
from lore_plugins.memory.server import Fields, PageAnswer

_CHANGED = "what is remembered changed since the page was shown, or the form is not of this page. Look again."
_UNSURE = "the box was not ticked."


class Whose(NamedTuple):
    """Whose memory a page is about, and what of it is named."""

    user: str
    agent: str | None
    names: tuple[str, ...]


class MemoryPage:
    """The pages over a store. `opened` opens it for one answer, `key` signs forms, `store` is its shown URL."""

    def __init__(
        self, opened: Callable[[], AbstractContextManager[Store]], key: bytes, store: str, *, clock: Clock = now_utc
    ) -> None:  # fmt: skip
        self._opened = opened
        self._key = key
        self._store = store
        self._clock = clock

    def answer(self, name: str, query: Fields, form: Fields | None) -> PageAnswer:
        """Answer a GET (`form` is None) or a POST of a page; what lore refuses is a page that says why (400)."""
        try:
            return getting[name](self, query) if form is None else posting[name](self, form)
        except LoreError as error:
            return self.refused(error)

    def refused(self, error: LoreError, status: int = 400) -> PageAnswer:
        """Return a page that says why something could not be done."""
        return PageAnswer(page.error_page(error.message, error.hint, self._store).encode(), status)

    def users(self, _: Fields) -> PageAnswer:
        """Show the users."""
        with self._opened() as store:
            return PageAnswer(page.users_page(actions.users(store)).encode())

    def user(self, query: Fields) -> PageAnswer:
        """Show what is remembered of a user, all of it or what is wanted."""
        whose, notes = _whose(query), list[str]()
        narrowed = MemoryFilter(_single(query, "q") or "", _single(query, "session"))
        with self._opened() as store:
            found = actions.everything(store, whose.user, whose.agent, now=self._clock(), tell=notes.append)
            log = actions.audited(store, whose.user, whose.agent).entries if narrowed.session is not None else []
            entries = [entry for entry in log if entry.session_id == narrowed.session]
            texts = (text for agent in found.agents for text in agent.texts)
            known = entries or any(text.session_id == narrowed.session for text in texts)
            source = _stored(store, narrowed.session) if narrowed.session is not None and known else None
        return PageAnswer(page.user_page(found, self._about(whose, notes), narrowed, source, entries).encode())

    def audit(self, query: Fields) -> PageAnswer:
        """Show who changed what is remembered of a user."""
        whose = _whose(query)
        with self._opened() as store:
            found = actions.audited(store, whose.user, whose.agent)
        return PageAnswer(page.audit_page(found, self._about(whose)).encode())

    def export(self, query: Fields) -> PageAnswer:
        """Give all that is remembered of a user as JSON, to be saved: what `lore memory export` writes."""
        whose = _whose(query)
        with self._opened() as store:
            found = actions.everything(store, whose.user, whose.agent, now=self._clock())
        return PageAnswer(msgspec.json.encode(found) + b"\n", kind="application/json", file="memory.json")

    def ask_wipe(self, query: Fields, *, stale: str = "") -> PageAnswer:
        """Ask whether to wipe."""
        whose = _whose(query)
        with self._opened() as store:
            found = actions.wiping(store, whose.user, whose.agent)
            proof = self._proof("wipe", whose, self._all(store, whose)) if found.entries else ""
        return PageAnswer(page.wipe_page(found, self._about(whose), proof, stale=stale).encode(), 409 if stale else 200)

    def wipe(self, form: Fields) -> PageAnswer:
        """Wipe what was asked about."""
        whose, notes = _whose(form), list[str]()
        with self._opened() as store:
            stale = self._stale("wipe", form, whose, self._all(store, whose))
            if not stale:
                found = actions.wiped(store, whose.user, whose.agent, now=self._clock(), tell=notes.append)
                return PageAnswer(page.wiped_page(found, self._about(whose, notes)).encode())
        return self.ask_wipe(form, stale=stale)

    def ask_delete(self, query: Fields, *, stale: str = "") -> PageAnswer:
        """Ask whether to delete what is named. Raises LoreError for a name that is not remembered."""
        whose = _whose(query)
        if not whose.names:
            raise LoreError("nothing is chosen", hint="tick what is to be deleted")
        with self._opened() as store:
            found = actions.named(self._all(store, whose), whose.names)
        proof = self._proof("delete", whose, found)
        shown = page.delete_page(found, self._about(whose), whose.names, proof, stale=stale)
        return PageAnswer(shown.encode(), 409 if stale else 200)

    def delete(self, form: Fields) -> PageAnswer:
        """Delete what was asked about."""
        whose, notes = _whose(form), list[str]()
        with self._opened() as store:
            stale = self._stale("delete", form, whose, actions.named(self._all(store, whose), whose.names))
            if not stale:
                found = actions.deleted(
                    store, whose.names, whose.user, whose.agent, now=self._clock(), tell=notes.append
                )
                return PageAnswer(page.deleted_page(found, self._about(whose, notes)).encode())
        return self.ask_delete(form, stale=stale)

    def _about(self, whose: Whose, notes: Sequence[str] = ()) -> PageAbout:
        return PageAbout(self._store, whose.user, whose.agent, notes)

    def _all(self, store: Store, whose: Whose) -> MemoryShown:
        return actions.everything(store, whose.user, whose.agent, now=self._clock())

    def _stale(self, action: str, form: Fields, whose: Whose, found: MemoryShown) -> str:
        """Say why a form does nothing; empty where it is that of a page that asked about just this."""
        given = (_single(form, "proof") or "").encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(given, self._proof(action, whose, found).encode()):
            return _CHANGED
        return "" if _single(form, "sure") == "yes" else _UNSURE

    def _proof(self, action: str, whose: Whose, found: MemoryShown) -> str:
        said = encode([action, whose.user, whose.agent, list(whose.names), page.fingerprint(found)])
        return hmac.digest(self._key, said, "sha256").hex()


def _whose(fields: Fields) -> Whose:
    return Whose(
        good_user(_single(fields, "user")), _single(fields, "agent"), tuple(dict.fromkeys(fields.get("name", ())))
    )


def _single(fields: Fields, name: str) -> str | None:
    given = fields.get(name, ())
    if len(given) > 1:
        raise LoreError(f"{name!r} is given more than once", hint="follow a link of the page")
    return given[0] if given else None


def _stored(store: Store, session_id: str) -> SessionSummary | None:
    return next((summary for summary in store.list() if summary.session_id == session_id), None)


getting: dict[str, Callable[[MemoryPage, Fields], PageAnswer]] = {
    "": MemoryPage.users, "user": MemoryPage.user, "audit": MemoryPage.audit, "export": MemoryPage.export,
    "wipe": MemoryPage.ask_wipe, "delete": MemoryPage.ask_delete,
}  # fmt: skip
posting: dict[str, Callable[[MemoryPage, Fields], PageAnswer]] = {"wipe": MemoryPage.wipe, "delete": MemoryPage.delete}
