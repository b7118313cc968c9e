"""Faults of tools, of spelling, and of message content: calls, results, thinking, images."""

import copy
import json
import unicodedata
from functools import partial

from faults.faults import CLAUDE, TEXTS, WITH_BREAKPOINTS, Nowhere, blocks_of, choose, fault, left_of, since
from faults.script import WORDS, Capture, Tool, picture, prose, signature, text, tool

# tools


def _change_tools(change):
    """Replace the tools of the turns from k on by a list made once from the earlier one."""

    def inject(capture: Capture, k: int) -> None:
        new = change(capture, copy.deepcopy(left_of(capture, k).tools))
        for turn in since(capture, k):
            turn.request.tools = copy.deepcopy(new)
            turn.request.breakpoints = [
                ("tool", len(new) - 1) if point[0] == "tool" else point for point in turn.request.breakpoints
            ]

    return inject


def _shuffled(capture: Capture, tools: list[Tool]) -> list[Tool]:
    mixed = list(tools)
    while [tool.name for tool in mixed] == [tool.name for tool in tools]:
        capture.chance.shuffle(mixed)
    return mixed


def _swapped(capture: Capture, tools: list[Tool]) -> list[Tool]:
    at = capture.chance.randrange(len(tools) - 1)
    tools[at], tools[at + 1] = tools[at + 1], tools[at]
    return tools


fault("LORE102", "shuffled", _change_tools(_shuffled))
fault("LORE102", "two swapped", _change_tools(_swapped))
fault("LORE102", "reversed", _change_tools(lambda _, tools: tools[::-1]))
fault("LORE102", "the first one last", _change_tools(lambda _, tools: [*tools[1:], tools[0]]))


def _late(capture: Capture, tools: list[Tool], *, at: int, count: int) -> list[Tool]:
    server = capture.chance.choice(("issues", "browser", "drive"))
    new = [tool(capture.chance, f"mcp__{server}__{word}") for word in capture.chance.sample(WORDS, count)]
    at = len(tools) if at < 0 else at
    return [*tools[:at], *new, *tools[at:]]


def _without(capture: Capture, tools: list[Tool]) -> list[Tool]:
    del tools[capture.chance.randrange(len(tools))]
    return tools


def _replaced(capture: Capture, tools: list[Tool]) -> list[Tool]:
    tools[capture.chance.randrange(len(tools))] = tool(capture.chance, "mcp__drive__open")
    return tools


fault("LORE103", "an MCP server came late", _change_tools(partial(_late, at=-1, count=3)))
fault("LORE103", "MCP tools sorted in", _change_tools(partial(_late, at=1, count=2)))
fault("LORE103", "MCP tools before the others", _change_tools(partial(_late, at=0, count=1)))
fault("LORE103", "one is gone", _change_tools(_without))
fault("LORE103", "one for another", _change_tools(_replaced))


def _change_one_tool(change):
    def inject(capture: Capture, tools: list[Tool]) -> list[Tool]:
        change(capture, capture.chance.choice(tools))
        return tools

    return _change_tools(inject)


def _agents(capture: Capture, tools: list[Tool]) -> list[Tool]:
    listed = "\n".join(f"- {word}-agent: {prose(capture.chance, 1)}" for word in capture.chance.sample(WORDS, 4))
    tools[len(tools) // 2].description += f"\n\nAvailable agent types:\n{listed}"
    return tools


def _enum(capture: Capture, tool: Tool) -> None:
    tool.schema["properties"]["mode"] = {"type": "string", "enum": capture.chance.sample(WORDS, 4)}


def _optional(_: Capture, tool: Tool) -> None:
    tool.schema["required"] = tool.schema["required"][:1]


def _reworded(capture: Capture, tool: Tool) -> None:
    tool.description = prose(capture.chance, 3)


def _member(_: Capture, tool: Tool) -> None:
    next(iter(tool.schema["properties"].values()))["description"] += " Use it seldom."


fault("LORE104", "a list of agents in a description", _change_tools(_agents))
fault("LORE104", "a member more", _change_one_tool(_enum))
fault("LORE104", "a member is optional now", _change_one_tool(_optional))
fault("LORE104", "other words", _change_one_tool(_reworded))
fault("LORE104", "other words of a member", _change_one_tool(_member))


def _deferred(capture: Capture, k: int, *, drop: bool) -> None:
    for turn in capture.turns:
        for deferred_tool in turn.request.tools[2:4]:
            deferred_tool.extra["defer_loading"] = True
    place = 2 if capture.chance.random() < 0.5 else 3
    for turn in since(capture, k):
        if drop:
            del turn.request.tools[place].extra["defer_loading"]
        else:
            turn.request.tools[place].extra["defer_loading"] = False


fault("LORE124", "loaded when it was found", partial(_deferred, drop=True), dialects=CLAUDE)
fault("LORE124", "its flag is false now", partial(_deferred, drop=False), dialects=CLAUDE)


# spelling


def _turned(value):
    """Write the members of all objects in the opposite order."""
    if isinstance(value, dict):
        return {key: _turned(inner) for key, inner in reversed(value.items())}
    return [_turned(element) for element in value] if isinstance(value, list) else value


def _sorted(value):
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(element) for element in value] if isinstance(value, list) else value


def _schemas(change):
    def inject(capture: Capture, tools: list[Tool]) -> list[Tool]:
        before = json.dumps([changed_tool.schema for changed_tool in tools])
        for changed_tool in tools:
            changed_tool.schema = change(changed_tool.schema)
        if json.dumps([changed_tool.schema for changed_tool in tools]) == before:
            raise Nowhere
        return tools

    return _change_tools(inject)


fault("LORE105", "schemas from a hash map", _schemas(_turned), kind="")
fault("LORE105", "schemas sorted", _schemas(_sorted), kind="")


def _input(change):
    """Spell the input of one call otherwise."""

    def inject(capture: Capture, k: int) -> None:
        places = blocks_of(capture, k, "call")
        calls = left_of(capture, k).messages
        places = [spot for spot in places if change(calls[spot[0]].blocks[spot[1]]) != calls[spot[0]].blocks[spot[1]]]
        message, place = choose(capture, places)
        for turn in since(capture, k):
            blocks = turn.request.messages[message].blocks
            blocks[place] = change(blocks[place])

    return inject


def _spelled(change, **style):
    def spell(block):
        new = change(block["input"])
        spelled = json.dumps(new, ensure_ascii=False, **{"separators": (",", ":"), **style})
        same = spelled == json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
        return block if same else {**block, "input": new, "spelled": spelled}

    return spell


fault("LORE105", "a call's input in another order", _input(_spelled(_turned)), kind="")
fault(
    "LORE106",
    "a call's arguments with white space",
    _input(_spelled(dict, separators=(", ", ": "))),
    dialects=("openai-chat", "openai-responses"),
    kind="",
)


def _styled(**style):
    """Write everything from turn k on by another serialiser."""

    def inject(capture: Capture, k: int) -> None:
        for turn in capture.turns:
            turn.request.system[1] += "\n- Grüße, naïve café → „ok“ 漢字"
            turn.request.tools[0].description += " Straße"
        for turn in since(capture, k):
            turn.style = style

    return inject


fault("LORE106", "escapes for what is not ASCII", _styled(ensure_ascii=True), kind="", content=False)
fault("LORE106", "white space", _styled(separators=(", ", ": ")), kind="", content=False)


def _number(capture: Capture, k: int, *, old: object, new: object) -> None:
    for number, turn in enumerate(capture.turns):
        schema = turn.request.tools[1].schema
        schema["properties"]["share"] = {"type": "number", "minimum": new if number >= k else old}


fault("LORE106", "1.0 against 1", partial(_number, old=1, new=1.0), kind="", content=False)
fault("LORE106", "100 against 100.0", partial(_number, old=100.0, new=100), kind="", content=False)


def _slashes(capture: Capture, k: int) -> None:
    for turn in since(capture, k):
        turn.patch = lambda body: body.replace("/", "\\/")


fault("LORE106", "slashes escaped", _slashes, kind="", content=False)


def _rewritten(old: str, change, where: str):
    """Write the same text in other code points: in the system prompt, a message or a tool's result."""

    def inject(capture: Capture, k: int) -> None:
        if where == "system":
            for number, turn in enumerate(capture.turns):
                original = f"{turn.request.system[0]}\n{old}\nAs above."
                turn.request.system[0] = change(original) if number >= k else original
            return
        kind = "text" if where == "message" else "result"
        message, at = choose(capture, blocks_of(capture, k, kind, role="user", first=2))
        for number, turn in enumerate(capture.turns):
            if message < len(turn.request.messages):
                block = turn.request.messages[message].blocks[at]
                original = f"{block['text']}\n{old}\nAs above."
                block["text"] = change(original) if number >= k else original

    return inject


def _crlf(words: str) -> str:
    return words.replace("\n", "\r\n")


_ACCENTS = "Résumé für Zoë, naïve Ångström"
for _where in ("system", "message"):
    fault("LORE106", f"CRLF for LF, {_where}", _rewritten("one\ntwo", _crlf, _where), kind="")
    fault(
        "LORE106",
        f"NFD for NFC, {_where}",
        _rewritten(_ACCENTS, partial(unicodedata.normalize, "NFD"), _where),
        kind="",
    )
fault(
    "LORE106",
    "NFC for NFD, system",
    _rewritten(unicodedata.normalize("NFD", _ACCENTS), partial(unicodedata.normalize, "NFC"), "system"),
    kind="",
)
fault(
    "LORE106", "LF for CRLF, system", _rewritten("a\r\nb", lambda said: said.replace("\r\n", "\n"), "system"), kind=""
)


def _flat(capture: Capture, k: int, *, back: bool) -> None:
    """Write a message of one text as a string, or back as a block."""
    request = left_of(capture, k)
    roles = ("user", "assistant") if capture.dialect == "anthropic" else ("user",)
    texts = [
        n
        for n, message in enumerate(request.messages[:-1])
        if len(message.blocks) == 1 and message.blocks[0]["kind"] == "text" and message.role in roles
    ]
    marked = {point[1] for turn in capture.turns for point in turn.request.breakpoints if point[0] == "message"}
    at = choose(capture, [n for n in texts if n not in marked or capture.dialect != "anthropic"])
    for number, turn in enumerate(capture.turns):
        if at < len(turn.request.messages):
            turn.request.messages[at].flat = (number >= k) != back


# Expected with Claude, to which both are one value, and unattributable elsewhere.
fault("LORE112", "a string for a block", partial(_flat, back=False), dialects=TEXTS, kind="")
fault("LORE112", "a block for a string", partial(_flat, back=True), dialects=TEXTS, kind="")


# thinking


def _block(kind: str, change, *, first: int = 1):
    """Change one block that was sent: give another, or None to drop it."""

    def inject(capture: Capture, k: int) -> None:
        message, at = choose(capture, blocks_of(capture, k, kind, first=first))
        new = change(capture, left_of(capture, k).messages[message].blocks[at])
        for turn in since(capture, k):
            blocks = turn.request.messages[message].blocks
            blocks[at : at + 1] = [] if new is None else [dict(new)]
            turn.request.breakpoints = [
                ("message", message, len(blocks) - 1) if point[:2] == ("message", message) else point
                for point in turn.request.breakpoints
            ]

    return inject


_THINKING = {"setup": {}, "dialects": ("anthropic", "openai-responses", "bedrock", "gemini")}
_CHAT = {"setup": {"model": "deepseek-v4-flash"}, "dialects": ("openai-chat",)}


def _all_thinking(capture: Capture, k: int) -> None:
    """Strip the thinking of all turns but the last."""
    places = blocks_of(capture, k, "thinking")
    if not places:
        raise Nowhere
    for turn in since(capture, k):
        last = max(n for n, message in enumerate(turn.request.messages) if message.role == "assistant")
        for number, message in enumerate(turn.request.messages):
            if message.role == "assistant" and (number != last or number <= places[-1][0]):
                message.blocks = [block for block in message.blocks if block["kind"] != "thinking"]


for _more in (_THINKING, _CHAT):
    fault("LORE115", "dropped", _block("thinking", lambda *_: None), **_more)
    fault(
        "LORE115",
        "said otherwise",
        _block("thinking", lambda c, one: {**one, "text": prose(c.chance, 2), "signature": signature(c.chance)}),
        **_more,
    )
    fault("LORE115", "all of it stripped", _all_thinking, repeats=True, **_more)
fault(
    "LORE115", "signed again", _block("thinking", lambda c, one: {**one, "signature": signature(c.chance)}), **_THINKING
)


# results of tools


def _result(change):
    return _block("result", lambda capture, block: {**block, "text": change(capture, block["text"])})


fault("LORE117", "cleared", _result(lambda *_: "[Old tool result content cleared]"))
fault("LORE117", "truncated", _result(lambda _, said: said[: len(said) // 3] + "\n… [truncated]"))
fault(
    "LORE117",
    "its middle is gone",
    _result(lambda _, said: said[:60] + f"\n\n... [{len(said) - 120} characters truncated] ...\n\n" + said[-60:]),
)
fault("LORE117", "summarised", _result(lambda c, _: f"Summary: {prose(c.chance, 1)}"))
fault("LORE117", "empty", _result(lambda *_: ""))
fault("LORE117", "run again", _result(lambda c, said: said.replace("(", f"({c.chance.choice(WORDS)}, ", 1)))


def _all_results(capture: Capture, k: int) -> None:
    places = blocks_of(capture, k, "result")
    if len(places) < 2:
        raise Nowhere
    for turn in since(capture, k):
        for message, at in places[:-1]:
            turn.request.messages[message].blocks[at]["text"] = "[Old tool result content cleared]"


fault("LORE117", "all old ones cleared", _all_results)


# images

fault("LORE118", "encoded again", _block("image", lambda c, one: {**one, "data": picture(c.chance)}))
fault(
    "LORE118", "smaller", _block("image", lambda c, one: {**one, "data": picture(c.chance, 400), "media": "image/jpeg"})
)
fault("LORE118", "a text for it", _block("image", lambda *_: text("[image omitted]")))
fault("LORE118", "a description for it", _block("image", lambda c, _: text(f"[Image: {prose(c.chance, 1)}]")))
fault("LORE118", "dropped", _block("image", lambda *_: None))


# breakpoints


def _dropped(capture: Capture, k: int) -> None:
    for turn in since(capture, k):
        turn.request.breakpoints = []


fault("LORE114", "breakpoints that went", _dropped, dialects=WITH_BREAKPOINTS, setup={"billed": True}, content=False)
