"""The columns of the tables `turns`, `sessions` and `findings`, with types and meanings.

Columns contain only numbers and names, except `message` and `evidence`. Unknown values are NULL, never 0. Dollars are
US dollars; times are UTC, without a zone. Columns are only added, unless `VERSION` changes.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

VERSION = 1  # of the columns: `lore.tables` in the metadata of a file

Kind: TypeAlias = Literal["text", "texts", "integer", "number", "yes or no", "time"]


class Column(NamedTuple):
    """A column: its name, the kind of its values, their meaning and unit."""

    name: str
    kind: Kind
    meaning: str


_PATH = Column("path", "text", "the recording, as it was named: the same in all three tables")
_CHAIN = Column("chain", "text", "the conversation in it: main, or a subagent's")
_LINE = Column("line", "integer", "the line of the recording that holds it")

TABLES: dict[str, tuple[Column, ...]] = {
    "turns": (
        _PATH,
        Column("session", "text", "the session that it belongs to: for subagents' files the path of the main one"),
        Column("agent", "text", "the agent that wrote it: Claude Code, Codex, …"),
        Column("project", "text", "the folder that the session was about"),
        _CHAIN,
        Column("subagent", "yes or no", "the chain is one beside the main one"),
        Column("turn", "integer", "number of the request in its chain, from 1"),
        _LINE,
        Column("sent_at", "time", "when it was sent"),
        Column("answered_at", "time", "when its response began"),
        Column("model", "text", "the model that answered"),
        Column("client", "text", "the program that sent it, with its version"),
        Column("gateway", "text", "the host between, where one is recorded; else empty"),
        Column("response_id", "text", "the provider's id of the response"),
        Column("billed", "yes or no", "usage was recorded"),
        Column("prompt_tokens", "integer", "size of what was sent"),
        Column("uncached_tokens", "integer", "input that was neither read nor written"),
        Column("read_tokens", "integer", "input read from the cache"),
        Column("write_tokens", "integer", "input written to the cache"),
        Column("output_tokens", "integer", "what was generated"),
        Column("dollars", "number", "the whole bill: the sum of the next five"),
        Column("reading_dollars", "number", "reading the cache, and what had been read if nothing had been lost"),
        Column("context_dollars", "number", "input that was new"),
        Column("output_dollars", "number", "output"),
        Column("tools_dollars", "number", "tools that the provider ran"),
        Column("again_dollars", "number", "re-billed: beyond the price of reading, for what stood there before"),
        Column("loss_code", "text", "leading cause of what was not read again; `lore explain CODE`"),
        Column("loss_name", "text", "the cause's name"),
        Column("loss_kind", "text", "waste, expected or unattributable: what it is counted as"),
        Column("loss_tokens", "integer", "tokens that stood in the cache and were not read"),
        Column("loss_names", "texts", "what the cause names: tools, servers, hooks, fields; at most three"),
        Column("loss_lifetime", "number", "seconds that the cache lives, where a pause was longer"),
        Column("appended", "yes or no", "the prompt only grew: was all that stood in the cache read?"),
        Column("compacted", "yes or no", "what was sent before was compacted away"),
        Column("copied", "yes or no", "another recording holds the same response: leave these out of sums"),
    ),
    "sessions": (
        _PATH,
        Column("session", "text", "the session that it belongs to"),
        Column("session_id", "text", "its id, as the recording says it"),
        Column("agent", "text", "the agent that wrote it"),
        Column("format", "text", "the format of the recording"),
        Column("project", "text", "the folder that it was about"),
        Column("written_at", "time", "when it was written last"),
        Column("bytes", "integer", "how long the recording is"),
        Column("requests", "integer", "how many it holds"),
        Column("problems", "integer", "what is wrong with it, counted"),
        Column("message", "text", "why it could not be read, or not whole"),
    ),
    "findings": (
        Column("code", "text", "what was found; `lore explain CODE`"),
        Column("name", "text", "the code's name"),
        Column("kind", "text", "waste, expected or unattributable"),
        Column("severity", "text", "error, warning or note"),
        _PATH,
        _CHAIN,
        Column("turn", "integer", "the request of that chain, as in turns; of a pair the second"),
        _LINE,
        Column("section", "text", "tools, system or messages"),
        Column("json_path", "text", "the place in the request body"),
        Column("byte_offset", "integer", "the first byte that differs"),
        Column("dialect", "text", "the API that the body is written for"),
        Column("lost_bytes", "integer", "bytes behind the difference that were sent before"),
        Column("lost_tokens", "integer", "tokens that were not read again"),
        Column("lost_dollars", "number", "what they cost beyond the price of reading"),
        Column("tokens", "text", "where the counts come from: billed or estimated"),
        Column("fidelity", "text", "how exactly the recording has the prompt"),
        Column("confidence", "text", "how sure the numbers are"),
        Column("strength", "text", "how well the evidence explains it"),
        Column("actor", "text", "who can act"),
        Column("times", "integer", "turns of the chain that it holds for"),
        Column("more", "integer", "places of the same code behind the first"),
        Column("paused", "number", "seconds that the session stood still before it"),
        Column("message", "text", "the finding, in a sentence"),
        Column("fix", "text", "what to do"),
        Column("evidence", "text", "what it was seen by, as JSON"),
        Column("fingerprint", "text", "the same for the same finding in another run"),
    ),
}
