"""Memory that agents share: `[memory] share = ["main", "helper"]`."""

import pytest

from cli.running import lore, put
from lore.config import MemorySettings
from lore.model.events import Knowledge, SessionStarted
from lore.session import Session
from lore.store.sqlite import Memory
from lore_plugins.memory.actions import read_audit, read_memory, wipe_memory
from lore_plugins.memory.agent import memory_of_session
from lore_plugins.memory.buckets import read_bucket
from lore_plugins.memory.identities import SHARED, MemoryBucket, bucket
from model.making import header, log, record, user
from plugins.memory.remembering import AT, Model, entries, topics

SHARING = MemorySettings("structured", agents=("main", "helper", "loner"), share=("main", "helper"))


def agent_of(store, agent, session_id, *, policy=SHARING, user_id="ann", at=AT, **fields):
    """The memory of an agent's session under a policy."""
    header_ = SessionStarted(session_id=session_id, user_id=user_id, agent_id=agent)
    agent_memory = memory_of_session(store, header_, policy, clock=lambda: at, **fields)
    assert agent_memory is not None
    return agent_memory


def topics_for(memory_):
    """Return the memory that a new session of the agent gets."""
    return "\n".join(
        event_.content for event_ in memory_.events(Session(dialect="anthropic").state) if isinstance(event_, Knowledge)
    )


def test_sharing_agents_read_one_memory():
    store = Memory()
    agent_of(store, "main", "s1").learn(entries("I prefer tabs over spaces. My editor is vim."))
    agent_of(store, "helper", "s2").learn(entries("My editor is helix. We run on Linux."))
    agent_of(store, "helper", "s2").consolidate()
    for agent in ("main", "helper"):
        words = topics_for(agent_of(store, agent, "s3"))
        assert {"tabs over spaces" in words, "helix" in words, "Linux" in words} == {True}
        assert words.index("helix") < words.index("vim"), "the latest comes first"
    assert topics_for(agent_of(store, "main", "s3", user_id="bob")) == ""


def test_unnamed_agent_has_its_own_memory():
    store = Memory()
    agent_of(store, "main", "s1").learn(entries("I prefer tabs over spaces."))
    agent_of(store, "main", "s1").consolidate()
    loner = agent_of(store, "loner", "s4")
    loner.learn(entries("I prefer tea."))
    loner.consolidate()
    assert ("tea" in topics_for(loner), "tabs" in topics_for(loner)) == (True, False)
    assert "tea" not in topics_for(agent_of(store, "helper", "s5"))
    assert read_bucket(store, MemoryBucket("ann", SHARED)).texts["preferences"] == ("I prefer tabs over spaces.",)
    outside = SessionStarted(session_id="s6", user_id="ann", agent_id="other")
    assert memory_of_session(store, outside, SHARING, clock=lambda: AT) is None
    assert memory_of_session(store, outside, MemorySettings("structured", share=("main",)), clock=lambda: AT) is None


def test_agent_keeps_its_memory_from_before_sharing():
    store, alone = Memory(), MemorySettings("structured")
    timeline = entries("I prefer tabs over spaces. My editor is vim.")
    agent_of(store, "main", "s1", policy=alone).learn(timeline)
    agent_of(store, "helper", "s2").learn(entries("My editor is helix."))
    shared = agent_of(store, "main", "s1")
    assert shared.learn(timeline).skipped
    shared.consolidate()
    words = topics_for(shared)
    assert ("tabs over spaces" in words, "helix" in words, "vim" in words) == (True, True, True)
    assert "tabs over spaces" not in topics_for(agent_of(store, "helper", "s2"))
    assert read_bucket(store, bucket("ann")).texts["preferences"] == ("I prefer tabs over spaces.",)


def test_all_commands_respect_shared_memory():
    store = Memory()
    answer = topics("over", "stays")
    answer["topics"][0]["expires_at"] = "2026-01-02T04:00:00Z"
    agent_of(store, "loner", "s0").learn(entries("I prefer tea."))
    main = agent_of(store, "main", "s1", ask=Model({"facts": ["runs Linux"]}, answer))
    main.learn(entries("hi"))
    main.consolidate()
    later = agent_of(store, "helper", "s2", at="2026-01-02T05:00:00Z")
    assert ("all of over" in topics_for(later), "all of stays" in topics_for(later)) == (False, True)
    agents = {agent.agent: agent for agent in read_memory(store, "ann", None, now="2026-01-02T05:00:00Z").agents}
    assert list(agents) == [SHARED, "loner"]
    assert [(agent.topic, agent.expired) for agent in agents[SHARED].topics] == [("over", True), ("stays", False)]
    assert [agent.agent for agent in read_memory(store, "ann", SHARED, now=AT).agents] == [SHARED]
    noted = [(agent.op, agent.agent, agent.by) for agent in read_audit(store, "ann", "main").entries]
    assert noted == [("extract", SHARED, "main"), ("dream", SHARED, "main")]
    heard = []
    assert wipe_memory(store, "ann", "main", now=AT, tell=heard.append).entries == 0
    assert heard == ["the memory of user ann that agents share remains; select it with --agent '*'"]
    assert wipe_memory(store, "ann", SHARED, now=AT, tell=heard.append).agents == {SHARED: agents[SHARED].counts}
    assert topics_for(later) == ""
    assert read_bucket(store, bucket("ann", "loner")).texts["preferences"] == ("I prefer tea.",)
    agent_of(store, "helper", "s7").learn(entries("We run on Linux."))
    assert wipe_memory(store, "ann", None, now=AT, tell=heard.append).entries == 2


def test_wiped_memory_stays_wiped_after_sharing():
    store, timeline = Memory(), entries("I prefer tabs over spaces.")
    agent_of(store, "main", "s1", policy=MemorySettings("structured")).learn(timeline)
    wipe_memory(store, "ann", "main", now="2026-01-02T04:00:00Z", tell=pytest.fail)
    idle = agent_of(store, "main", "s1", at="2026-01-02T05:00:00Z").learn_when_idle(timeline, last=1_767_323_045.0)
    assert idle[0] is not None
    assert idle[0].skipped
    assert not any(read_bucket(store, MemoryBucket("ann", SHARED)).counts().values())


def test_extract_writes_to_shared_memory():
    put("lore.toml", b'[memory]\nsystem = "structured"\nshare = ["main", "helper"]\n')
    put("s.jsonl", log(header(session_id="s9", user_id="ann", agent_id="helper"),
                       record("append", item=user("u", "We run on Linux."))))  # fmt: skip
    assert lore("store", "import", "s.jsonl", "--store", "sqlite:s.db").code == 0
    result = lore("memory", "extract", "s9", "--store", "sqlite:s.db", "--json").json
    assert (result["agent"], result["shared"], result["added"]) == ("helper", True, {"facts": 1})
    out = lore("memory", "show", "--user", "ann", "--agent", "*", "--store", "sqlite:s.db").out
    assert out.splitlines()[0] == "shared by agents  1 fact, with texts that no dream has covered yet"
    alone = lore("memory", "show", "--user", "ann", "--agent", "helper", "--store", "sqlite:s.db")
    assert (
        "that agents share is not shown; select it with --agent '*'" in alone.err
    )  # it looked as if nothing were kept
    ran = lore("memory", "show", "--user", "ann", "--agent", "all", "--store", "sqlite:s.db")
    assert (ran.code, "reserved" in ran.err) == (2, True)
    put("lore.toml", b'[memory]\nshare = ["*"]\n')
    assert lore("memory", "extract", "s9", "--store", "sqlite:s.db").code == 2
