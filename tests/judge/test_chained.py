"""Joined chains: a restart or fan-out is compared with its origin, other first turns with nothing."""

from msgspec import Raw
from msgspec.structs import replace

from helpers.each import each
from lore.judge.chains.starts import SIBLINGS
from lore.judge.judge import ComparedChains
from lore.judge.pairs.pair import lost_tokens
from lore.model.events import Usage
from lore.model.items import UserMessage
from lore.model.state import Entry
from lore.model.turn import Prompt, PromptBasis
from lore.model.vector import Vector
from lore.run.rules import PACKAGED
from model.making import assistant, body, parsed, turn

TOOLS = [{"name": "ls", "description": "List. " * 2_000, "input_schema": {}}]


def on(chain, number, *messages, tools=TOOLS, given_up="", **fields):
    prompt = parsed(body(*messages, **({"tools": tools} if tools else {})))
    return replace(turn(prompt, number, **fields), chain=chain, given_up=given_up)


def first(chain, at, answered, read, write):
    return on(chain, 1, f"task of {chain}", sent=at, answered=answered, usage=Usage(3, read, write))


def test_restart_is_compared_with_the_abandoned_chain():
    chained = ComparedChains(PACKAGED.rules)
    chained.compare(on("main", 1, "a"))
    chained.compare(on("main", 2, "a", assistant("b"), "c"))
    pair = chained.compare(
        on("chain-2", 1, "a", assistant("b"), "c", assistant("d"), "e", tools=None, given_up="main")
    ).pair
    assert pair is not None
    assert (pair.previous.chain, pair.previous.number) == ("main", 2)
    assert [cause.code for cause in pair.causes] == ["LORE154"]
    later = chained.compare(on("main", 3, "a", assistant("b"), "c", assistant("d"), "e")).pair
    assert later is not None
    assert (later.previous.number, later.causes) == (2, ())
    assert chained.chain_count == 2


def test_first_turns_sent_together_are_parallel_start():
    chained = ComparedChains(PACKAGED.rules)
    assert chained.compare(first("a1", 0.0, 2.0, 0, 4000)).pair is None
    pair = chained.compare(first("a2", 0.5, 2.5, 0, 4000)).pair
    assert pair is not None
    assert ([cause.code for cause in pair.causes], pair.previous.chain) == (["LORE129"], "a1")
    assert len(pair.previous.prompt.messages) == 0  # only tools and system prompt are shared
    again = chained.compare(on("a2", 2, "task of a2", assistant("b"), "c", sent=9.0, usage=Usage(3, 4000, 50))).pair
    assert again is not None
    assert (again.previous.chain, again.causes) == ("a2", ())


def test_first_turns_that_read_or_share_nothing_unpaired():
    chained = ComparedChains(PACKAGED.rules)
    chained.compare(first("a1", 0.0, 2.0, 0, 4000))
    assert chained.compare(first("a2", 2.5, 3.0, 3900, 100)).pair is None
    assert chained.compare(first("a3", 0.5, 2.5, 3900, 100)).pair is None
    alone = on("a4", 1, "x", tools=None, sent=0.5, answered=2.5, usage=Usage(3, 0, 4000))
    assert chained.compare(alone).pair is None


def logged(chain, at, answered, read, write, model="claude-x"):
    """Return the first turn of a chain of a log, whose prompt of the user has 100 tokens."""
    message = Entry(UserMessage("u1", text=Raw(b'"' + b"x" * 400 + b'"')), 1, 0)
    basis = PromptBasis(Vector([message]), "anthropic", model)
    first_turn = turn(Prompt("anthropic", "reconstructed"), 1, sent=at, answered=answered, usage=Usage(3, read, write))
    return replace(first_turn, chain=chain, basis=basis)


def test_logged_subagents_sent_together_are_parallel_start():
    chained = ComparedChains(PACKAGED.rules)
    assert chained.compare(logged("agent-1", 0.0, 2.0, 1_000, 6_100)).pair is None
    pair = chained.compare(logged("agent-2", 0.5, 2.5, 1_000, 6_140)).pair
    assert pair is not None
    assert [(cause.code, cause.kind) for cause in pair.causes] == [("LORE129", "expected")]
    assert lost_tokens(pair, pair.causes[0]) == (6_003, "estimated")


@each(
    "late, read, write, model",
    [(2.5, 0, 6_140, "claude-x"), (0.5, 0, 8_000, "claude-x"), (0.5, 5_900, 200, "claude-x"), (0.5, 0, 6_140, "other")],
)
def test_logged_subagent_with_another_head_unpaired(late, read, write, model):
    chained = ComparedChains(PACKAGED.rules)
    chained.compare(logged("agent-1", 0.0, 2.0, 0, 6_100))
    assert chained.compare(logged("agent-2", late, late + 2, read, write, model)).pair is None


def summarised(after=60.0, read=0, model="claude-x", chain="utility-1", size=58_000, main="main"):
    """Return the causes of a request for a summary of a log's conversation of 60,000 tokens."""
    chained = ComparedChains(PACKAGED.rules)
    chained.compare(logged(main, 0.0, 2.0, 0, 60_000))
    summary_turn = replace(logged(chain, after, after + 9, read, 0, model), usage=Usage(size - read, read, None))
    pair = chained.compare(summary_turn).pair
    return (
        [] if pair is None else [(cause.code, cause.kind, lost_tokens(pair, pair.causes[0])) for cause in pair.causes]
    )


def test_logged_summary_that_reads_nothing_is_cold():
    assert summarised() == [("LORE171", "waste", (58_000, "recorded"))]


def test_logged_summary_belongs_to_its_own_document():
    assert summarised(chain="utility-1-2", main="main-2") == [("LORE171", "waste", (58_000, "recorded"))]
    assert summarised(chain="utility-1-2") == []


@each("options", [
    {"after": 320.0}, {"read": 40_000}, {"model": "other"}, {"chain": "agent-1"}, {"size": 20_000}, {"after": -5.0},
])  # fmt: skip
def test_logged_summary_is_not_called_cold(options):
    assert summarised(**options) == []


def test_forgotten_chain_begins_again():
    chained = ComparedChains(PACKAGED.rules)
    chained.compare(on("main", 1, "a"))
    chained.forget("main")
    chained.forget("unknown")
    assert chained.compare(on("main", 2, "a", "b")).pair is None
    assert chained.chain_count == 2


def test_thousand_chains_keep_few_first_turns():
    chained = ComparedChains(PACKAGED.rules)
    for number in range(3 * SIBLINGS):
        chained.compare(first(f"a{number}", float(number), number + 2.0, 0, 4000))
    assert len(chained.starts) == SIBLINGS
