"""Topics -> `knowledge` events of a session.

Rules: a topic is an entry `memory.TOPIC`; only what changed becomes an event. Before the first turn the topics are
pinned with what else is known; what a later dream changes arrives as a durable delta, so that remembering never
rewrites the prefix. What is no topic any more, wiped or expired, is taken back. Nothing remembered, no event.
"""

from __future__ import annotations

from collections.abc import Iterable

from lore.compaction.memory.records import Topic
from lore.model.events import Event, Knowledge
from lore.model.state import Session

PREFIX, CATEGORY = "memory.", "Memory"


def topics_events(topics: Iterable[Topic], state: Session, *, at: str | None = None) -> tuple[Event, ...]:
    """Return what a session is to be told, in the order of the topics' names: apply it before the turn begins.

    `topics` are those that are visible now (`Known.visible`). Costs O(topics and entries known).
    """
    wanted = {PREFIX + topic.topic: topic for topic in topics}
    events: list[Event] = []
    for name in sorted(wanted):
        title, content = _title(wanted[name]), wanted[name].content
        fact = state.knowledge.get(state.aliases.get(name, name))
        if fact is None:
            events.append(Knowledge(op="add", id=name, category=CATEGORY, title=title, content=content, at=at))
        elif (fact.title, fact.content) != (title, content):
            events.append(Knowledge(op="update", id=name, title=title, content=content, at=at))
    gone = sorted(name for name in state.knowledge if name.startswith(PREFIX) and name not in wanted)
    events += [Knowledge(op="remove", id=name, at=at) for name in gone]
    return tuple(events)


def _title(topic: Topic) -> str:
    return f"{topic.topic}: {topic.summary}" if topic.summary else topic.topic
