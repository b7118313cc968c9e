"""Sessions that are compacted while they live: scripts with compactions between, and an agent that makes them."""

from hypothesis import strategies as st

from helpers.strategies.sessions import Agent, scripts
from lore.compaction.activity import ChainActivity
from lore.compaction.executor import compaction_events
from lore.compaction.policy import PolicyInput, find_due
from lore.compaction.settings import Compaction
from lore.model import events as e
from lore.model.state import with_streamed_text

OUTSIDE = "what happened outside, number {}"


class Compacted(Agent):
    """An agent that compacts. `made` holds the events of each compaction, with the log before it and after it."""

    def __init__(self, *setup, **header):
        super().__init__(*setup, **header)
        self.made: list[tuple[tuple[e.Event, ...], bytes, bytes]] = []

    def entries(self, chain="main"):
        return with_streamed_text(self.session.state.chain(chain)).entries

    def squeeze(self, keep=2, context=None, chain="main", *, way=""):
        """Compact by hand, with outside context or without; `way` restarts the agent afterwards."""
        inputs = PolicyInput(ChainActivity(), self.entries(chain), Compaction(keep_recent=keep))
        firing = find_due(inputs, ("manual",))
        if firing is not None:
            text = None if context is None else OUTSIDE.format(context)
            self.take(compaction_events(self.session.state, chain, firing, "what was before", text), chain)
        if way:
            self.restart(way)

    def take(self, events, chain="main"):
        """Write a compaction's events to the log and apply them: there is never anything wrong with them."""
        before = self.log
        for event in events:
            self.write(event)
            assert self.session.apply(event) == ()
        self.made.append((events, before, self.log))
        self.entitled.add(chain)
        self.uuids[chain] = [entry.item.uuid for entry in self.entries(chain)]

    def live(self, plot, *, ways=True):
        for script, (chain, keep, context, way) in plot:
            self.play(script, restarts=ways)
            self.squeeze(keep, context, chain, way=way if ways else "")
        return self


def plots(*, resets=True, max_size=3):
    """Draw scripts, each followed by a numbered compaction, so that no two outside contexts are equal."""
    squeezes = st.tuples(
        st.sampled_from(["main", "main", "agent-1"]), st.integers(0, 4), st.booleans(),
        st.sampled_from(["", "log", "lost"]),
    )  # fmt: skip
    parts = st.lists(st.tuples(scripts(resets=resets, min_size=1, max_size=6), squeezes), min_size=1, max_size=max_size)
    return parts.map(
        lambda drawn: [
            (script, (chain, keep, number if is_asked else None, way))
            for number, (script, (chain, keep, is_asked, way)) in enumerate(drawn)
        ]
    )
