"""Stores for asyncio: the same methods as coroutines, each in a thread of its own.

Rules: what is safe between threads is what the store says of itself (`base`): all of lore's are. A call that is
cancelled goes on in its thread to its end; what it saved is saved, and a delta that is sent again changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lore.store.applying import save_delta
from lore.store.base import Checkpoint, DeltaRow, Head, SessionData, SessionDelta, Store, Summary, Verified


class AsyncStore:
    """Any store, for an event loop. Errors are the store's own."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def create(self, header: bytes) -> Head:
        return await asyncio.to_thread(self.store.create, header)

    async def load(self, session_id: str, *, after: int = 0) -> SessionData:
        return await asyncio.to_thread(self.store.load, session_id, after=after)

    async def save(self, data: SessionData) -> Head:
        return await asyncio.to_thread(self.store.save, data)

    async def save_delta(self, session_id: str, delta: SessionDelta) -> Head:
        return await asyncio.to_thread(save_delta, self.store, session_id, delta)

    async def delete(self, session_id: str) -> tuple[str, ...]:
        return await asyncio.to_thread(self.store.delete, session_id)

    async def list(self, project_id: str | None = None) -> Sequence[Summary]:
        return await asyncio.to_thread(self.store.list, project_id)

    async def move(self, session_id: str, project_id: str) -> None:
        await asyncio.to_thread(self.store.move, session_id, project_id)

    async def bind(self, client_key: str, session_id: str, *, replace: bool = False) -> None:
        await asyncio.to_thread(self.store.bind, client_key, session_id, replace=replace)

    async def resolve(self, client_key: str) -> str | None:
        return await asyncio.to_thread(self.store.resolve, client_key)

    async def prompt_deltas(self, session_id: str) -> Sequence[DeltaRow]:
        return await asyncio.to_thread(self.store.prompt_deltas, session_id)

    async def checkpoint(self, session_id: str) -> Checkpoint | None:
        return await asyncio.to_thread(self.store.checkpoint, session_id)

    async def save_checkpoint(self, session_id: str, checkpoint: Checkpoint) -> None:
        await asyncio.to_thread(self.store.save_checkpoint, session_id, checkpoint)

    async def verify(self, session_id: str | None = None) -> Verified:
        return await asyncio.to_thread(self.store.verify, session_id)

    async def vacuum(self) -> int:
        return await asyncio.to_thread(self.store.vacuum)

    async def close(self) -> None:
        await asyncio.to_thread(self.store.close)
