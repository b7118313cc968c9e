"""Helpers of the memory tests: timelines, a scripted model, a memory."""

import json
from collections.abc import Iterator
from typing import Any

from lore.asking import SummaryAnswer, SummaryError
from lore.model.state import Entry
from lore.store.base import Store
from lore_plugins.memory.agent import AgentMemory
from lore_plugins.memory.buckets import KnownMemory, change_bucket
from lore_plugins.memory.identities import MemoryBucket, bucket
from model.making import Fold, append, said, started, user

AT = "2026-01-02T03:04:05Z"
ANN = bucket("ann")
SAID = "I prefer tabs over spaces. My name is Ann. We need to fix the login test."


def entries(*items: Any) -> list[Entry]:
    """Return a timeline; a str is a user's message, a list of one str the model's, a dict an item."""
    fold = Fold(started())
    for number, value in enumerate(items):
        uuid = f"m{number}"
        item = (
            user(uuid, value) if isinstance(value, str) else said(uuid, value[0]) if isinstance(value, list) else value
        )
        fold.take(append(item))
    return list(fold.state.main().entries)


class Model:
    """A model with scripted answers, the last one repeated; exceptions are raised, values sent as JSON."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.questions: list[tuple[str, str, int]] = []

    def __call__(self, prompt: str, data: str, tokens: int) -> SummaryAnswer:
        self.questions.append((prompt, data, tokens))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, SummaryError):
            raise answer
        if isinstance(answer, SummaryAnswer):
            return answer
        return SummaryAnswer(answer if isinstance(answer, str) else json.dumps(answer))

    @property
    def limits(self) -> list[int]:
        return [tokens for _, _, tokens in self.questions]


def memory(store: Store, whose: MemoryBucket = ANN, **fields: Any) -> AgentMemory:
    """Return a user's memory."""
    return AgentMemory(store, whose, **{"clock": lambda: AT, "session_id": "s1", **fields})


def topics(*names: str, **fields: Any) -> dict[str, Any]:
    listed = [
        {"topic": name, "summary": f"about {name}", "content": f"all of {name}", "expires_at": None} for name in names
    ]
    return {"topics": listed, **fields}


def contents(store: Store) -> Iterator[bytes]:
    """Yield the logs of all memory sessions of a store, without audit logs."""
    for summary in store.list():
        if summary.session_id.startswith("lore.memory/"):
            yield store.load(summary.session_id).log


def add_texts(memory: KnownMemory, *texts: str, section: str = "facts") -> KnownMemory:
    """Return the memory with more texts of a section."""
    new = (*memory.texts[section], *texts)
    return memory.with_texts(memory.texts | {section: new}, at=AT, session_id=None)


def learn(
    store: Store, *texts: str, whose: MemoryBucket = ANN, section: str = "facts", purge: bool = False
) -> KnownMemory:
    return change_bucket(store, whose, lambda old: add_texts(old, *texts, section=section), at=AT, purge=purge)


def forget(store: Store, *texts: str, whose: MemoryBucket = ANN) -> KnownMemory:
    keys = [("facts", text) for text in texts]
    return change_bucket(store, whose, lambda old: old.without_entries(keys, ()), at=AT, purge=True)
