"""Events that change a cache without waste, put into stable captures as faults are."""

import copy
import functools
import json
import random
from collections.abc import Callable
from typing import NamedTuple

from faults.bodies import DIALECTS, body
from faults.faults import CLAUDE, WITH_BREAKPOINTS, Nowhere
from faults.inject_text import billing
from faults.script import Capture, Message, Request, Turn, answer, conversation, prose, system, text, tool
from faults.serving import bill, breakpoints, stable


class Expected(NamedTuple):
    """An event at turn k; `code` is its expected code, empty if any code is right."""

    name: str
    code: str
    inject: Callable[[Capture, int], None]
    dialects: tuple[str, ...] = DIALECTS
    setup: dict[str, object] = {}  # noqa: RUF012


def _again(capture: Capture, turns: list[Turn], base: list[Message], cut: int) -> None:
    """Replace the history of turns: `base`, then their messages after `cut`."""
    for turn in turns:
        turn.request.messages = copy.deepcopy([*base, *turn.request.messages[cut:]])
        turn.request.breakpoints = breakpoints(turn.request, capture.dialect)


# compaction

_SUMMARIES = {
    "claude code": (
        "This session is being continued from a previous conversation that ran out of context. "
        "The conversation is summarized below:\nAnalysis:\n{0}\n\nSummary:\n1. Primary Request and Intent:\n{1}"
    ),
    "tag": "<summary>\n{0}\n\n{1}\n</summary>",
    "codex": (
        "Another language model started to solve this problem and produced a summary of its thinking process. "
        "Here is the summary produced by the other language model: {0} {1}"
    ),
    "heading": "# Conversation Summary\n\n## Goal\n{0}\n\n## Progress\n{1}",
    "words": "Here is a summary of the conversation so far:\n\n{0}\n\n{1}",
}


def _compacted(form: str, *, keep: int = 0, first: bool = False):
    def inject(capture: Capture, k: int) -> None:
        messages = capture.turns[k - 1].request.messages
        cut = len(messages) - keep
        if k < 2 or cut < 3:
            raise Nowhere
        chance = capture.chance
        summary = text(_SUMMARIES[form].format(prose(chance, 5), prose(chance, 5)))
        base = [*(messages[:1] if first else []), Message("user", [summary])]
        _again(capture, capture.turns[k:], base, cut)

    return inject


# rewind


def _rewound(capture: Capture, k: int) -> None:
    if k < 2:
        raise Nowhere
    base = copy.deepcopy(capture.turns[capture.chance.randrange(k - 1)].request.messages)
    tools = capture.turns[k].request.tools
    base += [answer(capture.chance, tools, 0, thinking=False), Message("user", [text(prose(capture.chance, 2))])]
    _again(capture, capture.turns[k:], base, len(capture.turns[k].request.messages))


def _taken_back(capture: Capture, k: int) -> None:
    """Repeat the second last request, and end the capture there."""
    if k < 2:
        raise Nowhere
    capture.turns[k].request = copy.deepcopy(capture.turns[k - 2].request)
    del capture.turns[k + 1 :]


# time


def _paused(seconds: float):
    def inject(capture: Capture, k: int) -> None:
        if k < 2 and capture.dialect not in WITH_BREAKPOINTS:
            raise Nowhere
        for turn in capture.turns[k:]:
            turn.at += seconds
            turn.answered += seconds
        capture.turns[k].bill = "miss"

    return inject


def _much(capture: Capture, k: int) -> None:
    """Make turn k so long that its usage shows whether it was read."""
    number = len(capture.turns[k].request.messages) - 1
    more = "\n" + prose(capture.chance, 90)
    for turn in capture.turns[k:]:
        blocks = turn.request.messages[number].blocks
        with_text = [block for block in blocks if "text" in block]
        with_text[-1]["text"] += more


def _older(capture: Capture, k: int) -> None:
    if k < 2:
        raise Nowhere
    _much(capture, k - 1)
    back = capture.turns[k].at - capture.turns[k - 1].at - 1.5
    for turn in capture.turns[k:]:
        turn.at -= back
        turn.answered -= back
    capture.turns[k - 1].answered = capture.turns[k - 1].at + 0.6
    for turn in capture.turns:
        message_points = [point for point in turn.request.breakpoints if point[0] == "message"]
        turn.request.breakpoints = [
            point for point in turn.request.breakpoints if point[0] != "message"
        ] + message_points[-1:]
    capture.turns[k].bill = "older"


def _fanned_out(capture: Capture, k: int) -> None:
    """Ask three things at once of one prompt, before the first answer begins."""
    first = capture.turns[0]
    branches = []
    for number in range(3):
        branch = copy.deepcopy(first)
        branch.request.messages[0].blocks[1:] = [text(prose(capture.chance, 3))]
        branch.request.breakpoints = breakpoints(branch.request, capture.dialect)
        branch.at, branch.answered, branch.bill = first.at + number * 0.05, first.at + 3 + number * 0.05, "miss"
        branches.append(branch)
    capture.turns[:] = branches


def _twice_at_once(capture: Capture, k: int) -> None:
    """Ask the next thing before the response that writes the entry has begun."""
    before, turn = capture.turns[k - 1], capture.turns[k]
    _much(capture, k - 1)
    before.answered = before.at + 6
    back = turn.at - before.at - 4
    for following in capture.turns[k:]:
        following.at -= back
        following.answered -= back
    turn.bill = "older" if k > 1 else "miss"


# other chains


def _other_model(capture: Capture, k: int) -> None:
    others = {"anthropic": "claude-haiku-4-5", "gemini": "gemini-3.5-flash", "bedrock": "amazon.nova-pro-v1:0"}
    for turn in capture.turns[k:]:
        turn.request.model = others.get(capture.dialect, "gpt-4.1")


def _interleaved(capture: Capture, k: int) -> None:
    """Run a subagent between two turns: its own system prompt, tools and task."""
    chance = capture.chance
    tools = [tool(chance, name) for name in ("search_text", "read_file", "fetch_page")]
    messages, message_counts = conversation(chance, tools, 1)
    if capture.dialect == "openai-chat":
        for message in messages:
            message.blocks = [block for block in message.blocks if block["kind"] != "thinking"]
    prompt = system(chance)
    before, at = capture.turns[k - 1], capture.turns[k - 1].at
    turns = []
    for count in message_counts:
        at += 0.5
        main_request = before.request
        request = Request(
            prompt,
            tools,
            messages[:count],
            copy.deepcopy(main_request.params),
            main_request.model,
            breakpoint=main_request.breakpoint,
        )
        request.breakpoints = breakpoints(request, capture.dialect)
        turns.append(Turn(copy.deepcopy(request), at, at + 0.4, call=dict(before.call)))
    capture.turns[k:k] = turns


def _titled(capture: Capture, k: int) -> None:
    """Ask for a title in between: no tools, a few tokens, another system prompt."""
    limits = {
        "anthropic": {"max_tokens": 16},
        "openai-chat": {"max_completion_tokens": 16},
        "openai-responses": {"max_output_tokens": 16, "store": False},
        "gemini": {"generationConfig": {"maxOutputTokens": 16}},
        "bedrock": {"inferenceConfig": {"maxTokens": 16}},
    }
    before = capture.turns[k - 1]
    messages = [Message("user", [text("Write a title of at most five words for: " + prose(capture.chance, 1))])]
    request = Request(["You write titles."], [], messages, limits[capture.dialect], before.request.model)
    capture.turns.insert(k, Turn(request, before.at + 0.3, before.at + 0.9, call=dict(before.call)))


def _restarted(capture: Capture, k: int) -> None:
    """Drop all tools as a new turn of the user begins, the system prompt as it was."""
    turn = copy.deepcopy(capture.turns[k])
    turn.request.tools = []
    if turn.request.messages[-1].blocks[-1]["kind"] == "result":
        turn.request.messages.append(answer(capture.chance, capture.turns[k].request.tools, 0, thinking=False))
        turn.request.messages.append(Message("user", [text(prose(capture.chance, 2))]))
    points = [point for point in breakpoints(turn.request, capture.dialect) if point[0] != "tool"]
    turn.request.breakpoints = points
    capture.turns[k:] = [turn]


# breakpoints


def _tail(capture: Capture, _: int) -> None:
    """End every request with text after its last breakpoint that the next turn lacks."""
    for turn in capture.turns:
        turn.request.messages[-1].blocks.append(
            text(f"Step {capture.chance.randrange(99)}: {prose(capture.chance, 1)}")
        )


def breakpoints_set(how: str):
    def inject(capture: Capture, k: int) -> None:
        for number, turn in enumerate(capture.turns):
            request = turn.request
            head = [point for point in request.breakpoints if point[0] != "message"]
            rolling = [point for point in request.breakpoints if point[0] == "message"]
            if how == "once" and number >= k:
                request.breakpoints = rolling[-1:]
            elif how == "moved" and number >= k:
                request.breakpoints = [("tool", 0), ("system", 0), ("message", 0, 0), *rolling[-1:]]
            elif how == "added":
                request.breakpoints = [*head, *rolling][-4:] if number >= k else rolling[-1:]
            elif how == "ttl" and number >= k:
                request.breakpoint = (
                    {"type": "ephemeral", "ttl": "1h"} if "ttl" not in request.breakpoint else {"type": "ephemeral"}
                )

    return inject


def _breakpoints(capture: Capture, k: int) -> None:
    for number, turn in enumerate(capture.turns):
        points = [
            ("message", n, p)
            for n, message in enumerate(turn.request.messages)
            if message.role == "user"
            for p, block in enumerate(message.blocks)
            if block["kind"] == "text"
        ]
        turn.request.breakpoints = points[-1:] if number < k else points[-3:]


# continuations


def _continued(capture: Capture, k: int, *, missing: bool) -> None:
    """Send only the new items, with the id of the response that they follow."""
    bill(capture)
    whole = [body(turn.request, capture.dialect)["input"] for turn in capture.turns]
    for number, turn in enumerate(capture.turns):
        turn.response_id = f"resp_{capture.seed}_{sum(capture.name.encode())}_{number}"
        turn.output = "[]"
        if not number:
            continue
        size = len(whole[number - 1])
        new = whole[number][size:]
        start = next(
            (n for n, entry in enumerate(new) if entry.get("role") == "user" or entry["type"].endswith("_output")),
            len(new),
        )
        previous = capture.turns[number - 1]
        previous.output = json.dumps(new[:start], ensure_ascii=False)
        turn.call = {**turn.call, "previous": previous.response_id}
        turn.patch = _only(new[start:], previous.response_id)
    if missing:
        del capture.turns[:2]


def _only(items: list, previous: str):
    def patch(json_body: str) -> str:
        fields = {**json.loads(json_body), "previous_response_id": previous, "store": True, "input": items}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    return patch


_BILLED = {"billed": True}
EXPECTED: tuple[Expected, ...] = (
    *(Expected(f"a compaction, {form}", "LORE125", _compacted(form)) for form in _SUMMARIES),
    Expected("a compaction that keeps the first message", "LORE125", _compacted("tag", first=True)),
    Expected("a compaction that keeps the latest messages", "LORE125", _compacted("claude code", keep=2)),
    Expected("a rewind to another question", "", _rewound),
    Expected("a request that is sent again", "", _taken_back),
    Expected("six minutes under five", "LORE128", _paused(400), WITH_BREAKPOINTS, {"billed": True, "ttl": "5m"}),
    Expected("two hours under one", "LORE128", _paused(7300), CLAUDE, {"billed": True, "ttl": "1h"}),
    Expected("an older entry within seconds", "LORE155", _older, CLAUDE, {"billed": True, "ttl": "5m"}),
    Expected("three questions at once", "", _fanned_out, WITH_BREAKPOINTS, _BILLED),
    Expected("asked before the answer began", "LORE129", _twice_at_once, CLAUDE, _BILLED),
    Expected("another model", "LORE119", _other_model, ("anthropic", "openai-chat", "openai-responses", "gemini")),
    Expected("a subagent in between", "", _interleaved),
    Expected("a title in between", "", _titled),
    Expected("the tool set dropped", "LORE154", _restarted),
    Expected("a tail behind the last breakpoint", "LORE156", _tail, WITH_BREAKPOINTS),
    Expected("one breakpoint alone from now on", "", breakpoints_set("once"), WITH_BREAKPOINTS),
    Expected("breakpoints elsewhere", "", breakpoints_set("moved"), WITH_BREAKPOINTS),
    Expected("breakpoints added, up to four", "", breakpoints_set("added"), WITH_BREAKPOINTS),
    Expected("another lifetime", "", breakpoints_set("ttl"), CLAUDE, {"billed": False}),
    Expected("breakpoints added", "", _breakpoints, ("openai-chat",), {"model": "gpt-5.6-sol"}),
    Expected("breakpoints moved", "", _breakpoints, ("openai-responses",), {"model": "gpt-5.6-terra"}),
    Expected(
        "a billing header at Anthropic", "", lambda c, k: billing(c, endpoint="api.anthropic.com/v1/messages"), CLAUDE
    ),
    Expected("a billing header, the host not recorded", "", lambda c, k: billing(c, endpoint=""), CLAUDE),
    Expected(
        "continuations from the beginning", "", lambda c, k: _continued(c, k, missing=False), ("openai-responses",)
    ),
    Expected(
        "continuations, their beginning missing",
        "LORE132",
        lambda c, k: _continued(c, k, missing=True),
        ("openai-responses",),
    ),
)


class Happened(NamedTuple):
    """A capture in which something expected happened."""

    name: str
    capture: Capture
    k: int
    code: str


@functools.cache
def happening(number: int) -> tuple[Happened, ...]:
    """Return one event of the list in every dialect, at two places; never change the returned captures."""
    event = EXPECTED[number]
    happened: list[Happened] = []
    for turned, dialect in enumerate(event.dialects):
        for seed in range(1 + (number + turned) % 3, 12, 4):
            capture = stable(dialect, seed, **event.setup)
            k = (1, len(capture.turns) // 2, len(capture.turns) - 2)[(seed + number) % 3]
            name = f"{event.name} [{dialect}, seed {seed}, turn {k + 1}]"
            capture.name, capture.chance = name, random.Random(name)
            try:
                event.inject(capture, k)
            except Nowhere:
                continue
            happened.append(Happened(name, capture, k, event.code))
    return tuple(happened)
