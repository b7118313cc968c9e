"""Stores for asyncio: the same methods as coroutines, each in a thread of its own.

Rules: what is safe between threads is what the store says of itself (`base`): all of lore's are. A call that is
cancelled goes on in its thread to its end; what it saved is saved, and a delta that is sent again changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from lore.store.applying import save_delta
from lore.store.base import Head, SessionDelta, Store

P = ParamSpec("P")
T = TypeVar("T")


def _in_thread(
    method: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[AsyncStore, P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: AsyncStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound: Callable[P, T] = getattr(self.store, method.__name__)
        return await asyncio.to_thread(bound, *args, **kwargs)

    return call


class AsyncStore:
    """Any store, for an event loop. Errors are the store's own."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def save_delta(self, session_id: str, delta: SessionDelta) -> Head:
        """Add a delta, also in a store that only saves in full."""
        return await asyncio.to_thread(save_delta, self.store, session_id, delta)

    create = _in_thread(Store.create)
    load = _in_thread(Store.load)
    save = _in_thread(Store.save)
    delete = _in_thread(Store.delete)
    list = _in_thread(Store.list)
    move = _in_thread(Store.move)
    bind = _in_thread(Store.bind)
    resolve = _in_thread(Store.resolve)
    prompt_deltas = _in_thread(Store.prompt_deltas)
    checkpoint = _in_thread(Store.checkpoint)
    save_checkpoint = _in_thread(Store.save_checkpoint)
    verify = _in_thread(Store.verify)
    vacuum = _in_thread(Store.vacuum)
    close = _in_thread(Store.close)
