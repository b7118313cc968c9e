"""Recordings of which lore once said what is not so, one for each class of wrong verdict, with the right answer.

Sources: verdicts.md, "How true the verdicts were": 68 of 210 waste findings on unseen recordings were wrong, of these
classes. Every recording is written here; what must be said of its turn stands beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from faults.sessions import HOUR, SHORT, Session

ANTHROPIC, OPENROUTER = "api.anthropic.com/v1/messages", "openrouter.ai/api/v1/messages"
RESPONSES = "api.openai.com/v1/responses"
JULY = 1_784_000_000.0  # 2026: each block counts in the lookback
WORDS = "one line of output that a tool wrote and that nobody will ever read again. "


class Misjudged(NamedTuple):
    """A recording, and what must be said of one turn of its main chain.

    `leads`: names of causes of which one must lead; empty: none may break the cache. `never`: names that may not
    stand as a cause of their own; `kinds` are those that what leads may have. `lost` is the turn's, where it is known.
    """

    name: str
    data: bytes
    turn: int
    leads: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("expected", "unattributable", "waste")
    lost: int | None = None
    says: tuple[str, ...] = ()  # codes that must be said of the file
    silent: tuple[str, ...] = ()  # codes that may not be said of the file at all
    exits: int | None = None  # what `lore check` exits with, where it is known


MISJUDGED: list[Misjudged] = []


def right(name: str, turn: int, **answer: Any) -> Callable[[Callable[[], bytes]], Callable[[], bytes]]:
    """Add a recording to the catalogue, with its right answer."""

    def add(made: Callable[[], bytes]) -> Callable[[], bytes]:
        MISJUDGED.append(Misjudged(name, made(), turn, **answer))
        return made

    return add


# transcripts


def working(**setup: Any) -> Session:
    """Begin a session: head of 20,000 tokens, three requests, the last of which left 31,000."""
    log = Session(**setup)
    log.ask("Do it.")
    log.answer(20_000, 5_000, calls=("Read",))
    log.results(WORDS * 40)
    log.answer(25_000, 3_000, calls=("Read",))
    log.results(WORDS * 40)
    log.answer(28_000, 3_000)
    return log


def _restarted(log: Session) -> None:
    """Start the client anew: hooks run, servers are not connected yet, and the system prompt is another one."""
    log.wait(40)
    log.attach("hook_success", hookName="SessionStart:resume", hookEvent="SessionStart", toolUseID="t", content="",
               stdout="", stderr="", exitCode=0)  # fmt: skip
    log.attach("deferred_tools_delta", addedNames=["mcp__drive__open"], addedLines=["mcp__drive__open"],
               removedNames=[], pendingMcpServers=["drive", "issues"])  # fmt: skip


RESTART = ("client-restarted",)


@right("a restart is not a change of tools", 4, leads=RESTART, never=("tools-added-or-removed",), lost=31_000)
def _() -> bytes:
    log = working()
    _restarted(log)
    log.ask("Go on.")
    log.answer(0, 31_500, verdict="system_changed", missed=31_000)
    return log.written()


@right("a restart is not text of a hook that moved", 4, leads=RESTART,
       never=("reminder-moved", "hook-text-moved"), lost=31_000)  # fmt: skip
def _() -> bytes:
    log = working(version="2.1.217")
    log.attach("hook_additional_context", content=["be brief"], hookName="PostToolUse:Edit", toolUseID="t",
               hookEvent="PostToolUse")  # fmt: skip
    _restarted(log)
    log.ask("Go on.")
    log.answer(0, 31_500, verdict="system_changed", missed=31_000)
    return log.written()


@right("tools cannot have changed where the breakpoint before the last is read", 4,
       leads=("billed-read-fell", "older-entry-served"), kinds=("unattributable", "expected"), lost=3_000)  # fmt: skip
def _() -> bytes:
    log = Session(version="2.1.150")
    log.ask("Do it.")
    log.answer(20_000, 5_000, calls=("Read",))
    log.results(WORDS * 40)
    log.answer(25_000, 3_000, calls=("Read",))
    log.results(WORDS * 40)
    log.answer(28_000, 3_000, calls=("ToolSearch",))
    log.wait(20)
    log.results([{"type": "tool_reference", "tool_name": "mcp__drive__open"}])
    log.answer(28_000, 3_200)
    return log.written()


def _much(names: int, tokens: int = 10_000) -> tuple[Session, list[str]]:
    """Call tools whose results are long; return the session and the calls."""
    log, calls, stood = Session(version="2.1.40", ttl=HOUR), list[str](), 20_000
    log.ask("Do it.")
    log.answer(stood, 5_000, calls=("Read",))
    stood += 5_000
    for _ in range(names):
        calls += [call for call, _ in log.calls]
        log.results(WORDS * 500)
        log.answer(stood, tokens, calls=("Read",))
        stood += tokens
    return log, calls


@right("what was cleared is not lost: known ids", 6, leads=("tool-result-rewritten",), lost=8_003)
def _() -> bytes:
    log, calls = _much(4)
    log.clear(tuple(calls[:3]), tokens=65_000, saved=32_000)
    log.results("done")
    log.answer(25_000, 8_000)  # 65,000 stood; 33,003 are asked now
    return log.written()


@right("what was cleared is not lost: unknown ids", 6, leads=("tool-result-rewritten",), lost=8_003)
def _() -> bytes:
    log, _ = _much(4)
    log.clear((), tokens=65_000, saved=32_000)
    log.results("done")
    log.answer(25_000, 8_000)
    return log.written()


@right("a prompt that shrank speaks, where the log does not", 6, leads=("tool-result-rewritten",), lost=8_003)
def _() -> bytes:
    log, _ = _much(4)
    log.results("done")
    log.answer(25_000, 8_000)
    return log.written()


@right("an image is no evidence", 4, never=("image-changed",), leads=("billed-read-fell",),
       kinds=("unattributable",), lost=5_000)  # fmt: skip
def _() -> bytes:
    log = working()
    picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    log.wait(30)
    log.ask([{"type": "text", "text": "Look."}, {"type": "image", "source": picture}])
    log.answer(26_000, 5_500)
    return log.written()


@right("messages cannot push a read below tools and system prompt", 6, leads=("billed-read-fell",),
       kinds=("unattributable",), lost=27_500)  # fmt: skip
def _() -> bytes:
    log = Session()
    log.ask("Do it.")
    log.answer(0, 25_000)  # nobody else had sent the head
    log.ask("And this.")
    log.answer(25_000, 3_000, calls=("Read",))
    log.results(WORDS * 40)
    log.answer(28_000, 3_000)
    log.compact(31_000)
    log.answer(20_000, 4_000, calls=("Skill",))  # what a compaction leaves is the head
    log.results(WORDS * 40)
    log.answer(24_000, 12_500, calls=("Read",))
    log.wait(30)
    log.results(WORDS * 40)
    log.ask("[Request interrupted by user]")
    log.answer(9_000, 28_000)
    return log.written()


@right("what was out of reach had not expired: a session", 4, leads=("lookback-exceeded",), never=("cache-expired",),
       lost=11_000)  # fmt: skip
def _() -> bytes:
    log = Session(version="2.1.217", ttl=SHORT, begin=JULY)
    log.ask("Do it.")
    log.answer(20_000, 5_000, calls=("Read",))
    log.results(WORDS * 40)
    log.answer(25_000, 3_000, calls=("Read",))
    log.results(WORDS * 40)
    log.answer(28_000, 3_000, calls=("Read",) * 24)
    log.wait(200)  # of the 300 that it lives
    log.results(WORDS)
    log.answer(20_000, 13_000)
    return log.written()


CONTRADICTED = ("client-cause-unknown",)


@right("a verdict on messages: no restart leads", 4, leads=CONTRADICTED, never=RESTART, lost=11_000)
def _() -> bytes:
    log = working()
    _restarted(log)
    log.ask("Go on.")
    log.answer(20_000, 11_500, verdict="messages_changed", missed=11_000)
    return log.written()


@right("a verdict on the system prompt: no loaded tools lead", 4, leads=CONTRADICTED,
       never=("deferred-tools-loaded",), lost=31_000)  # fmt: skip
def _() -> bytes:
    log = Session()
    log.ask("Do it.")
    log.answer(20_000, 5_000, calls=("Read",))
    log.results(WORDS * 40)
    log.answer(25_000, 3_000, calls=("Read",))
    log.results(WORDS * 40)
    log.answer(28_000, 3_000, calls=("ToolSearch",))
    log.wait(20)
    log.results([{"type": "tool_reference", "tool_name": "mcp__drive__open"}])
    log.answer(0, 31_500, verdict="system_changed", missed=31_000)
    return log.written()


@right("a verdict on tools: no text of a hook leads", 4, leads=CONTRADICTED, never=("hook-text-moved",), lost=31_000)
def _() -> bytes:
    log = working(version="2.1.217")
    log.attach("hook_additional_context", content=["be brief"], hookName="PostToolUse:Edit", toolUseID="t",
               hookEvent="PostToolUse")  # fmt: skip
    log.wait(30)
    log.ask("Go on.")
    log.answer(0, 31_500, verdict="tools_changed", missed=31_000)
    return log.written()


# Each model has a cache of its own: what one left there is there when it is asked again.
HAIKU = "claude-haiku-4-5"


def _beside(written: int = 31_500, pause: float = 30) -> Session:
    """Let another model answer one turn of a session that left 31,000 tokens."""
    log = working()
    log.wait(30)
    log.ask("Ask the small one.")
    log.answer(0, written, model=HAIKU)
    log.wait(pause)
    log.ask("And back.")
    return log


@right("a model that comes back to its cache loses nothing", 5, never=("model-changed",), lost=0)
def _() -> bytes:
    log = _beside()
    log.answer(31_000, 1_000)
    return log.written()


@right("a model that comes back loses of its own cache", 5, leads=("billed-read-fell",), kinds=("unattributable",),
       never=("model-changed",), lost=11_000)  # fmt: skip
def _() -> bytes:
    log = _beside()
    log.answer(20_000, 12_000)
    return log.written()


@right("a model that comes back after an hour finds nothing", 5, leads=("cache-expired",), kinds=("expected",),
       never=("model-changed",), lost=31_000)  # fmt: skip
def _() -> bytes:
    log = _beside(pause=3_590)  # with what the other model took, over an hour
    log.answer(0, 32_000)
    return log.written()


@right("what came since to another model's cache is lost by the change of model", 5, leads=("model-changed",),
       kinds=("expected",), lost=19_000)  # fmt: skip
def _() -> bytes:
    log = _beside(50_000)
    log.answer(31_000, 20_000)
    return log.written()


@right("a model that is new to a session has nothing of it", 4, leads=("model-changed",), kinds=("expected",),
       lost=31_000)  # fmt: skip
def _() -> bytes:
    log = _beside()
    log.answer(31_000, 1_000)
    return log.written()


# captures


class Sent(NamedTuple):
    """A request, what was billed for it, and what answered it."""

    body: dict[str, Any]
    usage: dict[str, Any] | None
    answer: list[dict[str, Any]] = []  # noqa: RUF012
    after: float = 30.0
    extra: dict[str, Any] = {}  # noqa: RUF012


def captured(calls: Iterable[Sent], host: str = ANTHROPIC) -> bytes:
    """Write requests with their responses, a line each."""
    lines, at = [], JULY
    for number, call in enumerate(calls):
        at += call.after
        content = {"output" if host == RESPONSES else "content": call.answer}
        answer = {"id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": call.body["model"],
                  **content, "usage": call.usage, **call.extra}  # fmt: skip
        request = {"timestamp": at, "method": "POST", "url": f"https://{host}", "headers": {}, "body": call.body}
        response = {"timestamp": at + 2, "status_code": 200, "headers": {}, "body": answer}
        lines.append(json.dumps({"request": request, "response": response}).encode() + b"\n")
    return b"".join(lines)


def billed(read: int, write: int, uncached: int = 4, **lives: int) -> dict[str, Any]:
    usage = {"input_tokens": uncached, "cache_read_input_tokens": read, "cache_creation_input_tokens": write,
             "output_tokens": 40}  # fmt: skip
    lives = lives or {"short": write}
    spelled = {"short": "ephemeral_5m_input_tokens", "hour": "ephemeral_1h_input_tokens"}
    return {**usage, "cache_creation": {name: lives.get(key, 0) for key, name in spelled.items()}}


def tool(name: str, **extra: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {"name": name, "description": f"{name}: {WORDS * 20}", "input_schema": schema, **extra}


def said(role: str, *blocks: dict[str, Any] | str) -> dict[str, Any]:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    return {"role": role, "content": content}


def asked(tools: list[Any], messages: list[Any], *, system: str = "Be brief.", ttl: str = SHORT) -> dict[str, Any]:
    """Write a body with its one breakpoint on the last block, as agents set it."""
    messages = json.loads(json.dumps(messages))
    messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral", **({"ttl": ttl} if ttl == HOUR else {})}
    prompt = [{"type": "text", "text": f"{system} {WORDS * 60}"}]
    return {"model": "claude-opus-4-8", "max_tokens": 900, "tools": tools, "system": prompt, "messages": messages}


TOOLS = [tool("read_file"), tool("run_tests"), tool("search")]
FIRST = said("user", f"Mend the parser. {WORDS * 80}")


def turns(count: int) -> list[dict[str, Any]]:
    """A conversation whose messages grow by two a request."""
    made = [FIRST]
    for number in range(count):
        made += [said("assistant", f"Step {number}: {WORDS * 20}"), said("user", f"Go on with {number}. {WORDS * 20}")]
    return made


@right("a request that extends an earlier one lost nothing", 3, never=("tools-added-or-removed", "tools-reordered"),
       lost=0)  # fmt: skip
def _() -> bytes:
    more = [*TOOLS, tool("browse")]
    return captured(
        [
            Sent(asked(TOOLS, turns(0)), billed(0, 6_000)),
            Sent(asked(more, turns(1)), billed(0, 7_400)),
            Sent(asked(TOOLS, turns(2)), billed(6_000, 1_600)),
        ]
    )


def _calls(prefix: str, number: int) -> list[dict[str, Any]]:
    """Twelve calls and their results, under ids as one provider gives them."""
    ids = [f"{prefix}{number:02}{place:02}abcdefgh" for place in range(12)]
    calls = [{"type": "tool_use", "id": name, "name": "search", "input": {"path": name}} for name in ids]
    results = [{"type": "tool_result", "tool_use_id": name, "content": WORDS * 4} for name in ids]
    return [said("assistant", *calls), said("user", *results)]


ROUTED = ("routed-elsewhere",)


@right("a router answered elsewhere: ids of another provider", 3, leads=ROUTED, never=("lookback-exceeded",))
def _() -> bytes:
    first = [FIRST]
    second = [*first, *_calls("toolu_01", 1)]
    own, foreign = _calls("toolu_01", 2), _calls("tooluse_", 3)
    return captured(
        [
            Sent(asked(TOOLS, first), billed(0, 6_000), second[1]["content"]),
            Sent(asked(TOOLS, second), billed(6_000, 2_400), own[0]["content"]),
            Sent(asked(TOOLS, [*second, *own, *foreign]), billed(0, 13_200)),
        ],
        OPENROUTER,
    )


@right("a router answered elsewhere: it names the provider", 3, leads=ROUTED,
       never=("lookback-exceeded", "billed-read-fell"))  # fmt: skip
def _() -> bytes:
    first = [FIRST]
    second = [*first, *_calls("toolu_01", 1)]
    third = [*second, *_calls("toolu_01", 2)]
    return captured(
        [
            Sent(asked(TOOLS, first), billed(0, 6_000), second[1]["content"], extra={"provider": "Anthropic"}),
            Sent(asked(TOOLS, second), billed(6_000, 2_400), third[3]["content"], extra={"provider": "Anthropic"}),
            Sent(asked(TOOLS, third), billed(0, 10_800), extra={"provider": "Amazon Bedrock"}),
        ],
        OPENROUTER,
    )


@right("an hour that was honoured is not lost", 2, never=("lifetime-lost",), silent=("LORE134",), says=("LORE303",))
def _() -> bytes:
    """Five minutes are billed behind the last breakpoint that the body shows: it is not the body that was sent."""
    return captured(
        [
            Sent(asked(TOOLS, turns(0), ttl=HOUR), billed(0, 6_000, hour=5_200, short=800)),
            Sent(asked(TOOLS, turns(0), ttl=HOUR), billed(5_200, 900, short=900)),
            Sent(asked(TOOLS, turns(1), ttl=HOUR), billed(5_200, 1_900, short=1_900)),
        ]
    )


@right("an hour that the second bill shows is not lost", 2, never=("lifetime-lost",), silent=("LORE134",))
def _() -> bytes:
    """The order of the two bills says nothing: an hour is passed on."""
    return captured(
        [
            Sent(asked(TOOLS, turns(0), ttl=HOUR), billed(0, 6_000, short=6_000)),
            Sent(asked(TOOLS, turns(1), ttl=HOUR), billed(6_000, 1_400, hour=1_400)),
        ]
    )


@right("an hour that no bill shows is lost", 2, says=("LORE134",))
def _() -> bytes:
    return captured(
        [
            Sent(asked(TOOLS, turns(0), ttl=HOUR), billed(0, 6_000, short=6_000)),
            Sent(asked(TOOLS, turns(1), ttl=HOUR), billed(6_000, 1_400, short=1_400)),
        ]
    )


@right("tools that are loaded later stand outside the prefix", 2, never=("deferred-tools-loaded",
       "tools-added-or-removed", "tool-definition-changed"), lost=0)  # fmt: skip
def _() -> bytes:
    later = [tool(f"late_{number}", defer_loading=True) for number in range(3)]
    return captured(
        [
            Sent(asked([*TOOLS, *later[:1]], turns(0)), billed(0, 6_000)),
            Sent(asked([*TOOLS, *later], turns(1)), billed(6_000, 900)),
            Sent(asked([*TOOLS, *later[1:]], turns(2)), billed(6_900, 900)),
        ]
    )


@right("tools that are loaded later, where nothing is billed", 2, never=("deferred-tools-loaded",
       "tools-added-or-removed", "tool-definition-changed"))  # fmt: skip
def _() -> bytes:
    later = [tool(f"late_{number}", defer_loading=True) for number in range(3)]
    return captured([Sent(asked([*TOOLS, *later[:at]], turns(at)), None) for at in range(3)])


def _short(clock: str, usage: dict[str, Any] | None) -> Sent:
    body = {"model": "claude-opus-4-5", "max_tokens": 900, "messages": [said("user", "Hello there.")],
            "system": f"It is {clock}. Be brief.", "tools": [tool("read_file")]}  # fmt: skip
    return Sent(body, usage)


@right("what is too short to be cached loses nothing: as billed", 2, lost=0, leads=("date-in-prefix",), exits=0)
def _() -> bytes:
    return captured([_short(clock, billed(0, 0, 460)) for clock in ("10:01", "10:02")])


@right("what is too short to be cached loses nothing: by its bytes", 2, lost=0, leads=("date-in-prefix",), exits=1)
def _() -> bytes:
    return captured([_short(clock, None) for clock in ("10:01", "10:02")])


@right("a compaction of the provider is a compaction", 3, leads=("compaction",), never=("prefix-moved",),
       kinds=("expected",))  # fmt: skip
def _() -> bytes:
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"Do it. {WORDS * 90}"}]}]
    reply = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": WORDS * 90}]}
    compact = {"type": "compaction", "id": "cmp_1", "encrypted_content": "Z0FBQUFB" * 40}
    more = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on."}]}
    base = {"model": "gpt-5.5", "instructions": WORDS * 60, "tools": [],
            "context_management": [{"type": "compaction", "compact_threshold": 4_000}]}  # fmt: skip

    def usage(read: int, whole: int) -> dict[str, Any]:
        return {"input_tokens": whole, "input_tokens_details": {"cached_tokens": read}, "output_tokens": 30}

    return captured(
        [
            Sent({**base, "input": history}, usage(0, 3_000), [reply]),
            Sent({**base, "input": [*history, reply, more]}, usage(2_944, 4_600), [compact, reply]),
            Sent({**base, "input": [compact, reply, more]}, usage(1_152, 3_100), [reply]),
        ],
        RESPONSES,
    )


@right("a read above what stood is no waste", 3, kinds=("expected",), leads=("date-in-prefix", ""), lost=0)
def _() -> bytes:
    """Another session had sent the same beginning before: more is read than this one left."""
    return captured(
        [
            Sent(asked(TOOLS, turns(0), system="It is 10:01."), billed(0, 6_000)),
            Sent(asked(TOOLS, turns(1), system="It is 10:01."), billed(6_000, 900)),
            Sent(asked(TOOLS, turns(2), system="It is 10:02."), billed(7_300, 600)),
        ]
    )


@right("what was out of reach had not expired: a capture", 2, leads=("lookback-exceeded",), never=("cache-expired",),
       lost=6_000)  # fmt: skip
def _() -> bytes:
    blocks = [f"Part {number}. {WORDS * 4}" for number in range(25)]
    grown = [FIRST, said("assistant", WORDS * 10), said("user", *blocks)]
    return captured(
        [Sent(asked(TOOLS, turns(0)), billed(0, 6_000)), Sent(asked(TOOLS, grown), billed(0, 9_000), after=200)]
    )
