"""Random recordings: sessions and captures with random events and random usage.

Input: a seed. Output: the bytes of a file. Usage does not follow from the events: any read may come with any signal, so
that verdicts are tried on combinations that no real cache produces.
"""

import contextlib
import copy
import random

from faults.catalogue import FAULTS
from faults.faults import Nowhere
from faults.script import Turn
from faults.serving import bill, stable, written
from faults.sessions import HOUR, SHORT, Session

VERSIONS = ("1.0.120", "2.0.76", "2.1.12", "2.1.56", "2.1.119", "2.1.150", "2.1.207", "2.1.217")
MODELS = ("claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-opus-4-8", "claude-fable-5")
LEAST = {"opus-4-5": 4_096, "sonnet-4-5": 1_024, "opus-4-8": 1_024}  # tokens of the shortest cached prompt
VERDICTS = ("tools_changed", "system_changed", "messages_changed", "previous_message_not_found", "unavailable")
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
PAUSES = (20.0, 20.0, 20.0, 20.0, 2.0, 200.0, 299.0, 320.0, 700.0, 3500.0, 3700.0, 9000.0)


def drawn_session(seed: int) -> bytes:
    """Return a log of up to 24 requests, some of a subagent, some repeated."""
    return _Drawn(seed).written()


class _Drawn:
    """Draws events and usage, turn by turn."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"drawn {seed}")
        draw = self.chance
        self.log = Session(version=draw.choice(VERSIONS), model=draw.choice(MODELS), ttl=draw.choice((HOUR, SHORT)))
        self.head = draw.choice((400, 9_000, 22_000, 31_000))
        self.total = self.head + draw.randrange(200, 9_000)
        self.marks = [0, self.head]
        self.model = self.log.model

    def written(self) -> bytes:
        log, draw = self.log, self.chance
        log.ask("Do it.")
        self._answer(levels=(0, self.head))
        for _ in range(draw.randrange(2, 24)):
            draw.choices(
                (self._loop, self._prompt, self._compact, self._clear, self._aside, self._again, self._model),
                (8, 5, 1, 1, 1, 1, 0.5),
            )[0]()
        return log.written()

    def _loop(self) -> None:
        log, draw = self.log, self.chance
        if not log.calls:
            self._prompt()
            return
        found = [{"type": "tool_reference", "tool_name": f"mcp__x__{draw.randrange(9)}"}]
        log.results(draw.choice(("done", "done", "done", found, [IMAGE])))
        if draw.random() < 0.2:
            log.attach("hook_additional_context", content=["be brief"], hookName="PostToolUse:Edit", toolUseID="t",
                       hookEvent="PostToolUse")  # fmt: skip
        self._answer()

    def _prompt(self) -> None:
        log, draw = self.log, self.chance
        if log.calls:
            log.results()
        if draw.random() < 0.15:
            log.attach("deferred_tools_delta", addedNames=["mcp__x__a"], addedLines=["a"], removedNames=[],
                       **({"pendingMcpServers": ["x"]} if draw.random() < 0.5 else {}))  # fmt: skip
        if draw.random() < 0.1:
            log.version = draw.choice(VERSIONS)
        log.wait(draw.choice(PAUSES))
        text = draw.choice(("Next.", "Next.", "Next.", "[Request interrupted by user]", [IMAGE]))
        log.ask("<command-name>/model</command-name>" if draw.random() < 0.1 else text)
        self._answer()

    def _compact(self) -> None:
        self.log.compact(self.total)
        self.total = self.head + self.chance.randrange(500, 6_000)
        self._answer(levels=(0, self.head, self.head, self.head))

    def _clear(self) -> None:
        calls = tuple(call for call, _ in self.log.calls) if self.chance.random() < 0.5 else ()
        self.log.results()
        self.log.clear(calls, self.total)
        self.total = max(self.head, self.total - self.chance.randrange(900, 20_000))
        self._answer()

    def _aside(self) -> None:
        """Add a request of a subagent, with its own cache."""
        name = self.chance.choice(("a1b2", "c3d4"))
        self.log.ask("Look at it.", name)
        read = self.chance.choice((0, 4_000, 4_000, 9_000))
        self.log.answer(read, self.chance.randrange(1, 5_000), chain=name)

    def _again(self) -> None:
        """Repeat a response under its id, as a resumed session does."""
        answers = [line for line in self.log.lines if line["type"] == "assistant" and not line["isSidechain"]]
        message = self.chance.choice(answers)["message"]
        self.log.line("assistant", message=message, requestId=f"req_{message['id']}")

    def _model(self) -> None:
        self.log.model = self.chance.choice(MODELS)
        self._prompt()

    def _answer(self, *, levels: tuple[int, ...] = ()) -> None:
        """Add an answer: it reads one of the levels; without them mostly everything cached, sometimes anything."""
        draw, stood = self.chance, self.marks[-1]
        if not levels:
            self.total += draw.choice((40, 300, 900, 3_000, 12_000))
            if draw.random() < 0.06:
                self.total = max(self.head, self.total - draw.choice((900, 1_000, 1_001, 5_000, 30_000)))
            levels = (stood,)
            if draw.random() < 0.3:
                before = self.marks[-2]
                levels = (0, self.head, before, before - 1, stood - 999, stood - 1_001, stood + 77, self.total // 2)
        cached = self.total >= next((least for name, least in LEAST.items() if name in self.log.model), 512)
        read = max(0, min(draw.choice(levels), self.total - 3)) if cached else 0
        fell = read < stood - 1_000 and self.log.model == self.model
        verdict = draw.choice(VERDICTS) if fell and draw.random() < 0.5 else ""
        calls = draw.choice(((), ("Read",), ("Read", "Bash"), ("ToolSearch",), ("Skill",)))
        uncached = draw.choice((3, 3, 3, min(700, self.total - read))) if cached else self.total
        self.log.answer(read, self.total - read - uncached, uncached, calls=calls, thinking=draw.random() < 0.8,
                        verdict=verdict, missed=stood - read if verdict else None)  # fmt: skip
        self.marks.append(self.total - uncached)
        self.model = self.log.model


def drawn_capture(seed: int) -> bytes:
    """Return requests of one or two conversations with random usage, some repeated, one with other tools."""
    chance = random.Random(f"drawn capture {seed}")
    dialect = chance.choice(("anthropic", "anthropic", "bedrock", "openai-chat", "openai-responses"))
    capture = stable(dialect, chance.randrange(1, 40), billed=True)
    capture.chance, capture.name = chance, f"drawn {seed}"
    turns = capture.turns
    if chance.random() < 0.3:
        _drop_tool_once(chance, turns)
    if chance.random() < 0.5:
        faults = [fault for fault in FAULTS if dialect in fault.dialects and not fault.setup]
        with contextlib.suppress(Nowhere):
            chance.choice(faults).inject(capture, chance.randrange(1, len(turns)))
    if chance.random() < 0.3:
        place = chance.randrange(len(turns))
        again = copy.deepcopy(turns[place])
        again.at, again.answered = again.at + 0.5, again.answered + 0.5
        turns.insert(place + 1, again)
    if chance.random() < 0.3:
        other = stable(dialect, chance.randrange(40, 60), billed=True)
        begin = turns[0].at - other.turns[0].at + 1.5
        for turn in other.turns:
            turn.at, turn.answered = turn.at + begin, turn.answered + begin
            turn.call = {**turn.call, "session": "other"}
        capture.turns = sorted([*turns, *other.turns], key=lambda turn: turn.at)
    bill(capture)
    for turn in capture.turns:
        if chance.random() < 0.3 and turn.usage is not None:
            _billed_otherwise(chance, turn.usage)
    return written(capture)


def _drop_tool_once(chance: random.Random, turns: list[Turn]) -> None:
    """Send one request without its last tool: the following request extends the preceding one."""
    turn = turns[chance.randrange(1, len(turns))]
    turn.request.tools = turn.request.tools[:-1]
    last = ("tool", len(turn.request.tools) - 1)
    turn.request.breakpoints = [last if place[0] == "tool" else place for place in turn.request.breakpoints]


def _billed_otherwise(chance: random.Random, usage: dict[str, int | None]) -> None:
    uncached, read, write = (usage[name] or 0 for name in ("uncached", "read", "write"))
    whole = uncached + read + write
    now = min(whole - uncached if write else whole, chance.choice((0, read // 2, max(0, read - 1_001), read + 77)))
    if write or {"5m", "1h"} & usage.keys():
        usage["read"], usage["write"] = now, whole - uncached - now
        name = "1h" if usage.get("1h") else "5m"
        usage[name] = usage["write"]
    else:
        usage["read"], usage["uncached"] = now // 128 * 128, whole - now // 128 * 128
