"""Faults outside the content: settings, tool choice, breakpoints, serving, and forbidden prompt structures."""

from functools import partial
from typing import Any

from faults.faults import CLAUDE, OPENAI, WITH_BREAKPOINTS, Nowhere, fault, since
from faults.script import WORDS, Capture, Message, prose, text, token
from faults.serving import bill, breakpoints, spelled


def _missed(capture: Capture, k: int) -> None:
    """Read nothing at turn k; the turn before must have left something to read."""
    if k < 2 and capture.dialect not in WITH_BREAKPOINTS:
        raise Nowhere
    task = "\n" + prose(capture.chance, 90)
    for turn in capture.turns:
        turn.request.messages[0].blocks[1]["text"] += task
    capture.turns[k].bill = "miss"


def _and_missed(inject):
    def both(capture: Capture, k: int) -> None:
        _missed(capture, k)
        inject(capture, k)

    return both


# settings


def setting(path: str, new: Any, *, old: Any = None):
    """Set a parameter (a path with dots) from turn k on; `old` before."""

    def inject(capture: Capture, k: int) -> None:
        task = "\n" + prose(capture.chance, 90)  # enough for a bill to show that the messages were not read
        for number, turn in enumerate(capture.turns):
            turn.request.messages[0].blocks[1]["text"] += task
            if number >= k or old is not None:
                _set(turn.request.params, path, new if number >= k else old)

    return inject


def _set(table: dict[str, Any], path: str, value: Any) -> None:
    *outer, last = path.split(".")
    for name in outer:
        table = table.setdefault(name, {})
    if value is None:
        table.pop(last, None)
    else:
        table[last] = value


def _schema(*members: str) -> dict[str, Any]:
    properties = {member: {"type": "string"} for member in members}
    return {"type": "object", "properties": properties, "required": list(members), "additionalProperties": False}


def _format(*members: str) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": _schema(*members)}}


def _text(*members: str) -> dict[str, Any]:
    return {"type": "json_schema", "name": "answer", "strict": True, "schema": _schema(*members)}


SETTINGS: tuple[tuple[str, str, str, str, Any, Any], ...] = (
    ("LORE120", "anthropic", "thinking budget", "thinking.budget_tokens", 31999, None),
    ("LORE120", "anthropic", "thinking off", "thinking", {"type": "disabled"}, None),
    ("LORE120", "anthropic", "fast mode", "speed", "fast", None),
    ("LORE120", "anthropic", "service tier", "service_tier", "standard_only", "auto"),
    ("LORE120", "openai-chat", "effort", "reasoning_effort", "high", None),
    ("LORE120", "openai-chat", "verbosity", "verbosity", "low", "medium"),
    ("LORE120", "openai-chat", "service tier", "service_tier", "flex", "default"),
    ("LORE120", "openai-responses", "effort", "reasoning.effort", "xhigh", None),
    ("LORE120", "openai-responses", "verbosity", "text.verbosity", "high", None),
    ("LORE120", "openai-responses", "service tier", "service_tier", "priority", "auto"),
    ("LORE120", "gemini", "thinking budget", "generationConfig.thinkingConfig.thinkingBudget", 0, None),
    ("LORE120", "gemini", "thinking level", "generationConfig.thinkingConfig.thinkingLevel", "low", "high"),
    ("LORE120", "bedrock", "thinking budget", "additionalModelRequestFields.thinking.budget_tokens", 2048, None),
    ("LORE121", "anthropic", "any", "tool_choice", {"type": "any"}, None),
    ("LORE121", "anthropic", "one tool", "tool_choice", {"type": "tool", "name": "read_file"}, None),
    ("LORE121", "anthropic", "none", "tool_choice", {"type": "none"}, None),
    ("LORE121", "anthropic", "one at a time", "tool_choice", {"type": "auto", "disable_parallel_tool_use": True}, None),
    ("LORE121", "openai-chat", "required", "tool_choice", "required", None),
    (
        "LORE121",
        "openai-chat",
        "one tool",
        "tool_choice",
        {"type": "function", "function": {"name": "read_file"}},
        None,
    ),
    ("LORE121", "openai-chat", "one at a time", "parallel_tool_calls", False, None),
    ("LORE121", "openai-responses", "none", "tool_choice", "none", None),
    ("LORE121", "openai-responses", "one at a time", "parallel_tool_calls", False, None),
    ("LORE121", "gemini", "any", "toolConfig.functionCallingConfig.mode", "ANY", None),
    ("LORE121", "bedrock", "any", "toolConfig.toolChoice", {"any": {}}, None),
    ("LORE121", "bedrock", "one tool", "toolConfig.toolChoice", {"tool": {"name": "read_file"}}, None),
    ("LORE135", "openai-chat", "a member more", "response_format", _format("plan", "risk"), _format("plan")),
    ("LORE135", "openai-chat", "asked for later", "response_format", _format("plan"), None),
    ("LORE135", "openai-chat", "text, then JSON", "response_format", {"type": "json_object"}, {"type": "text"}),
    ("LORE135", "openai-responses", "a member more", "text.format", _text("plan", "risk"), _text("plan")),
    ("LORE135", "openai-responses", "asked for later", "text.format", _text("plan"), None),
    ("LORE135", "gemini", "a member more", "generationConfig.responseSchema", _schema("plan", "risk"), _schema("plan")),
)
for _code, _dialect, _form, _path, _new, _old in SETTINGS:
    # Only the effect of these on the cache is documented; for others any kind is right.
    _known = (
        _dialect == "anthropic" or (_code in ("LORE120", "LORE135") and _dialect in OPENAI)
    ) and _form != "service tier"
    _model = {"model": "gpt-5.5"} if _dialect == "openai-chat" else {}
    fault(
        _code,
        f"{_form} ({_path})",
        setting(_path, _new, old=_old),
        dialects=(_dialect,),
        content=False,
        kind="waste" if _known else "",
        setup=_model,
    )


_EDITS = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
_CLEARS = {"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 90000}}]}
_BESIDE = {"dialects": CLAUDE, "content": False, "kind": "unattributable", "setup": {"billed": True}}
_BUDGET = {"task_budget": {"type": "tokens", "total": 9000}}
for _form, _inject in (
    ("context management asked for", setting("context_management", _EDITS)),
    ("another context management", setting("context_management", _CLEARS, old=_EDITS)),
    ("a task budget", setting("output_config", _BUDGET)),
):
    fault("LORE122", _form, _and_missed(_inject), **_BESIDE)
    fault("LORE122", f"{_form}, no bill", _inject, **{**_BESIDE, "setup": {"billed": False}})


def _called(old: dict[str, Any], new: dict[str, Any]):
    """Send it otherwise from turn k on: another host, another key, other beta features."""

    def inject(capture: Capture, k: int) -> None:
        for number, turn in enumerate(capture.turns):
            turn.call = {"session": "one", **turn.call, **(new if number >= k else old)}

    return _and_missed(inject)


_BETAS = ["claude-code-20250219", "interleaved-thinking-2025-05-14"]
fault(
    "LORE122",
    "a beta feature more",
    _called({"betas": _BETAS}, {"betas": [*_BETAS, "context-1m-2025-08-07"]}),
    **_BESIDE,
)
fault("LORE122", "a beta feature less", _called({"betas": _BETAS}, {"betas": _BETAS[:1]}), **_BESIDE)
_ELSEWHERE = {"content": False, "kind": "unattributable", "setup": {"billed": True}}
_A, _B = {"account": "3f6c01aa"}, {"account": "90bd77e2"}
fault("LORE131", "another key", _called(_A, _B), **_ELSEWHERE)
fault(
    "LORE131",
    "another host",
    dialects=CLAUDE,
    **_ELSEWHERE,
    inject=_called({"endpoint": "api.anthropic.com/v1/messages"}, {"endpoint": "proxy.example.com/v1/messages"}),
)
fault(
    "LORE131",
    "another region",
    dialects=("bedrock",),
    **_ELSEWHERE,
    inject=_called(
        {"endpoint": "bedrock-runtime.us-east-1.amazonaws.com/x"},
        {"endpoint": "bedrock-runtime.eu-west-1.amazonaws.com/x"},
    ),
)

# breakpoints


def _without_breakpoints(capture: Capture, _: int) -> None:
    for turn in capture.turns:
        turn.request.breakpoints = []


def _short(capture: Capture, _: int) -> None:
    """Keep one breakpoint, on the first block of the system prompt, with a single small tool before it."""
    for turn in capture.turns:
        del turn.request.tools[1:]
        turn.request.tools[0].schema = {"type": "object", "properties": {}}
        turn.request.breakpoints = [("system", 0)]


def _many(capture: Capture, k: int) -> None:
    for turn in since(capture, k):
        turn.request.breakpoints = [
            *dict.fromkeys([("system", 0), ("system", 1), ("tool", 0), *turn.request.breakpoints])
        ]


_NOTHING = {"content": False, "anywhere": True, "kind": "unattributable"}
fault("LORE114", "no breakpoint at all", _without_breakpoints, dialects=WITH_BREAKPOINTS, **_NOTHING)
fault("LORE114", "one that is too short", _short, dialects=CLAUDE, **_NOTHING)
fault(
    "LORE114",
    "explicit without breakpoints",
    setting("prompt_cache_options", {"mode": "explicit"}, old={"mode": "explicit"}),
    dialects=("openai-chat",),
    setup={"model": "gpt-5.6-sol", "billed": False},
    **_NOTHING,
)
fault("LORE152", "seven of them", _many, dialects=CLAUDE, content=False, anywhere=True)


def _still(words: str, *, block: int = 0):
    """Add volatile-looking text to the system prompt that stays the same."""

    def inject(capture: Capture, _: int) -> None:
        for turn in capture.turns:
            turn.request.system[block] += f"\n{words}\n"

    return inject


frozen = {  # text that would be new in each request, if it were not the same in all of them
    "a clock": _still("The current time is 2026-11-21T06:54:40Z."),
    "an id": _still("Request ID: 3f2b8c1e-91d4-4a57-8a3e-5b0c9e7d2f61"),
    "a count": _still("<total_tokens>181000 tokens left</total_tokens>"),
    "a clock in the last of the system prompt": _still("The current time is 2026-11-21T06:54:40Z.", block=-1),
}

# what the laws of prompts forbid


def _text_after_results(capture: Capture, k: int) -> None:
    """Add a separate user message after a tool's results, and keep it."""
    reminder = text(f"<system-reminder>\n{prose(capture.chance, 1)}\n</system-reminder>")
    end = _results_end(capture, k)
    for turn in since(capture, k):
        turn.request.messages.insert(end, Message("user", [dict(reminder)]))
        turn.request.breakpoints = breakpoints(turn.request, capture.dialect)


def _results_end(capture: Capture, k: int) -> int:
    """Count the messages up to the results that turn k ends with."""
    messages = capture.turns[k].request.messages
    if messages[-1].blocks[-1]["kind"] != "result":
        raise Nowhere
    return len(messages)


def beside_results(capture: Capture, k: int) -> None:
    """Add text to the message of a tool's results, after them, where it is no user turn."""
    reminder = text(f"<system-reminder>\n{prose(capture.chance, 1)}\n</system-reminder>")
    end = _results_end(capture, k)
    for turn in since(capture, k):
        turn.request.messages[end - 1].blocks.append(dict(reminder))
        turn.request.breakpoints = breakpoints(turn.request, capture.dialect)


own_id = _still("Session ID: 3f2b8c1e-91d4-4a57-8a3e-5b0c9e7d2f61")  # made once, as the session began


def _orphan(capture: Capture, k: int, *, result: bool) -> None:
    """Add a call without a result, or a result without a call, to the new messages of turn k."""
    messages = capture.turns[k].request.messages
    last = len(messages) - 1
    if messages[last].blocks[-1]["kind"] != "result":
        raise Nowhere
    name = capture.turns[k].request.tools[0].name
    identity = {"id": "call_" + token(capture.chance, 12), "name": name}
    for turn in since(capture, k):
        if result:
            turn.request.messages[last].blocks.insert(0, {"kind": "result", "text": "nobody asked", **identity})
            turn.request.breakpoints = [
                ("message", last, breakpoint[2] + 1) if breakpoint[:2] == ("message", last) else breakpoint
                for breakpoint in turn.request.breakpoints
            ]
        else:
            turn.request.messages[last - 1].blocks.append({"kind": "call", "input": {"path": "a"}, **identity})


_LAW = {"content": False, "kind": "unattributable"}
_ORPHAN = {"content": False, "kind": ""}  # waste if no answer is recorded
fault("LORE149", "a reminder", _text_after_results, anywhere=True, **_LAW)
fault("LORE150", "a call without a result", partial(_orphan, result=False), anywhere=True, **_ORPHAN)
fault("LORE150", "a result without a call", partial(_orphan, result=True), anywhere=True, **_ORPHAN)

# how it was served


def _short_lived(capture: Capture, _: int) -> None:
    bill(capture)
    for turn in capture.turns:
        turn.usage["5m"] = turn.usage.pop("1h", 0)


def _says(verdict: str, bill: str):
    def inject(capture: Capture, k: int) -> None:
        capture.turns[k].verdict = verdict
        capture.turns[k].bill = bill

    return inject


_BILLED = {"billed": True}
fault(
    "LORE134",
    "an hour asked for, five minutes written",
    _short_lived,
    dialects=CLAUDE,
    content=False,
    anywhere=True,
    setup={"billed": True, "ttl": "1h"},
)
fault("LORE301", "nothing was read", _missed, content=False, kind="unattributable", setup=_BILLED)
fault(
    "LORE302",
    "tools are said to have changed, and all was read",
    _says("tools_changed", ""),
    dialects=CLAUDE,
    content=False,
    kind="unattributable",
    setup=_BILLED,
)


def _plain(capture: Capture) -> None:
    """Send words alone, and to the provider itself: what others add to a bill is not in the body."""
    for turn in capture.turns:
        turn.call = {**turn.call, "endpoint": "api.anthropic.com/v1/messages"}
        for message in turn.request.messages:
            message.blocks = [block for block in message.blocks if block["kind"] != "image"]
        turn.request.breakpoints = breakpoints(turn.request, capture.dialect)


def _too_much(capture: Capture, k: int) -> None:
    """Bill more tokens than the body has bytes."""
    _plain(capture)
    bill(capture)
    turn = capture.turns[k]
    turn.usage["uncached"] = 2 * len(spelled(capture, turn))


def _written_without_breakpoints(capture: Capture, k: int) -> None:
    _plain(capture)
    _without_breakpoints(capture, k)
    bill(capture)
    for turn in since(capture, k):
        turn.usage["write"] = turn.usage["5m"] = 3000


_ODD = {"content": False, "kind": "unattributable", "setup": {"billed": True, "ttl": "5m"}}
fault("LORE303", "more tokens than bytes", _too_much, dialects=CLAUDE, **_ODD)
fault("LORE303", "a write without a breakpoint", _written_without_breakpoints, dialects=CLAUDE, **_ODD)


def lookback(capture: Capture, k: int, *, count: int = 26) -> None:
    """Add more than twenty positions after the only rolling breakpoint."""
    last = len(capture.turns[k].request.messages) - 1
    more = [text(f"{capture.chance.choice(WORDS)}: {prose(capture.chance, 1)}") for _ in range(count)]
    for turn in capture.turns:
        turn.request.breakpoints = [
            ("message", len(turn.request.messages) - 1, len(turn.request.messages[-1].blocks) - 1)
        ]
    for turn in since(capture, k):
        turn.request.messages[last].blocks += [dict(block) for block in more]
        end = len(turn.request.messages) - 1
        turn.request.breakpoints = [("message", end, len(turn.request.messages[end].blocks) - 1)]


def _lookback_billed(capture: Capture, k: int) -> None:
    lookback(capture, k)
    capture.turns[k].bill = "miss"


_FAR = {"dialects": CLAUDE, "content": False}
fault("LORE113", "no bill", lookback, kind="unattributable", setup={"billed": False}, **_FAR)
fault("LORE113", "the bill shows the miss", _lookback_billed, setup={"billed": True, "ttl": "1h"}, **_FAR)
