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


_PATH = Column("path", "text", "the name of the recording, the same in all three tables")
_CHAIN = Column("chain", "text", "the conversation: main, or that of a subagent")
_LINE = Column("line", "integer", "the line of the recording")

TABLES: dict[str, tuple[Column, ...]] = {
    "turns": (
        _PATH,
        Column("session", "text", "the session: for files of subagents the path of the main file"),
        Column("agent", "text", "the agent that wrote the recording: Claude Code, Codex, …"),
        Column("project", "text", "the folder in which the agent worked"),
        _CHAIN,
        Column("subagent", "yes or no", "whether the chain is not the main one"),
        Column("turn", "integer", "number of the request in its chain, from 1"),
        _LINE,
        Column("sent_at", "time", "time of sending"),
        Column("answered_at", "time", "time of the first byte of the response"),
        Column("model", "text", "the model"),
        Column("client", "text", "the client with its version"),
        Column("gateway", "text", "the host of a recorded gateway, else empty"),
        Column("response_id", "text", "the id of the response at the provider"),
        Column("billed", "yes or no", "whether usage with a count of the prompt was recorded"),
        Column("prompt_tokens", "integer", "size of the prompt"),
        Column("uncached_tokens", "integer", "input neither read from nor written to the cache"),
        Column("read_tokens", "integer", "input read from the cache"),
        Column("write_tokens", "integer", "input written to the cache"),
        Column("output_tokens", "integer", "generated tokens"),
        Column("dollars", "number", "the whole cost: the sum of the next five columns"),
        Column("reading_dollars", "number", "reading the cache, as if no cached tokens had been lost"),
        Column("context_dollars", "number", "new input"),
        Column("output_dollars", "number", "output"),
        Column("tools_dollars", "number", "tools that the provider runs"),
        Column("again_dollars", "number", "re-billed: extra cost of tokens that were cached but not read"),
        Column("at_least", "yes or no", "whether a count or a price is unknown, so that the cost is higher"),
        Column("recorded_dollars", "number", "the cost that the log states itself"),
        Column("loss_code", "text", "the main cause of tokens that were not read; `lore explain CODE`"),
        Column("loss_name", "text", "the name of the cause"),
        Column("loss_kind", "text", "waste, expected or unattributable"),
        Column("loss_tokens", "integer", "tokens that were cached but not read"),
        Column("loss_names", "texts", "tools, servers, hooks or fields that the cause names, at most three"),
        Column("loss_lifetime", "number", "lifetime of the cache in seconds, if a pause was longer"),
        Column("appended", "yes or no", "if the prompt only grew: whether all cached tokens were read"),
        Column("compacted", "yes or no", "whether a compaction removed earlier messages"),
        Column("copied", "yes or no", "whether another recording has the same response: do not sum these rows"),
    ),
    "sessions": (
        _PATH,
        Column("session", "text", "the session"),
        Column("session_id", "text", "the id of the session in the recording"),
        Column("agent", "text", "the agent that wrote the recording"),
        Column("format", "text", "the format of the recording"),
        Column("project", "text", "the folder in which the agent worked"),
        Column("written_at", "time", "time of the last change"),
        Column("bytes", "integer", "size of the recording"),
        Column("requests", "integer", "number of requests"),
        Column("problems", "integer", "number of problems"),
        Column("message", "text", "why it could not be read completely"),
    ),
    "findings": (
        Column("code", "text", "the code of the finding; `lore explain CODE`"),
        Column("name", "text", "the name of the code"),
        Column("kind", "text", "waste, expected or unattributable"),
        Column("severity", "text", "error, warning or note"),
        _PATH,
        _CHAIN,
        Column("turn", "integer", "number of the request in its chain, as in turns; the second of a pair"),
        _LINE,
        Column("section", "text", "tools, system or messages"),
        Column("json_path", "text", "the place in the request body"),
        Column("byte_offset", "integer", "the first byte that differs"),
        Column("dialect", "text", "the API of the request"),
        Column("lost_bytes", "integer", "bytes after the difference that an earlier request had sent"),
        Column("lost_tokens", "integer", "tokens that were cached but not read"),
        Column("lost_dollars", "number", "their extra cost, compared with reading them"),
        Column("tokens", "text", "source of the counts: billed or estimated"),
        Column("fidelity", "text", "how exactly the recording contains the prompt"),
        Column("confidence", "text", "how certain the numbers are"),
        Column("strength", "text", "how well the evidence explains the loss"),
        Column("actor", "text", "who can act"),
        Column("times", "integer", "number of turns with this finding"),
        Column("more", "integer", "number of further places with the same code"),
        Column("paused", "number", "seconds without a request before it"),
        Column("message", "text", "the finding, in a sentence"),
        Column("fix", "text", "what to do"),
        Column("evidence", "text", "the evidence as JSON"),
        Column("fingerprint", "text", "identifies the same finding in other runs"),
    ),
}
