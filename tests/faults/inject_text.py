"""Faults of the system prompt and of the user's words: what moves in text."""

from functools import partial

from faults import texts
from faults.faults import CLAUDE, Nowhere, blocks_of, choose, fault, left_of, since, volatile
from faults.script import WORDS, Capture, Message, prose, text, token


def _pick(name, forms, chance):
    return forms(chance)[name] if callable(forms) else forms[name]


def _family(code: str, forms, names, *, block: bool = False) -> None:
    for number, name in enumerate(names):
        form = partial(_pick, name, forms)
        fault(code, f"{name}, in the system prompt", volatile("system", form, block=block and number % 2 == 0))
        if number % 2:
            fault(code, f"{name}, in a message", volatile("message", form))


def _names(forms) -> list[str]:
    import random  # noqa: PLC0415

    return list(forms(random.Random(0)))


_family("LORE101", texts.DATES, texts.DATES)
_family("LORE108", texts.ids, _names(texts.ids))
_family("LORE109", texts.counts, _names(texts.counts))
_family("LORE110", texts.trees, _names(texts.trees), block=True)
_family("LORE126", texts.memories, _names(texts.memories), block=True)


# the first message


def _first(change):
    """Change the first text of the first message, from turn k on."""

    def inject(capture: Capture, k: int) -> None:
        if k == 1:  # the first message is also the last: no later message shows that it alone was rendered again
            raise Nowhere
        first_text = left_of(capture, k).messages[0].blocks[0]["text"]
        new = change(capture, first_text)
        for turn in since(capture, k):
            turn.request.messages[0].blocks[0]["text"] = new

    return inject


def _editors(capture: Capture, content: str) -> str:
    lines = content.split("\n")
    at = next(n for n, line in enumerate(lines) if line.startswith("Open editors:"))
    lines[at] = "Open editors: " + ", ".join(f"{word}.ts" for word in capture.chance.sample(WORDS, 4))
    return "\n".join(lines)


def _platform(capture: Capture, content: str) -> str:
    return content.replace("Shell: bash", "Shell: zsh\nTerminal: one open")


def _skills_shuffled(capture: Capture, content: str) -> str:
    lines = content.split("\n")
    at = [n for n, line in enumerate(lines) if line.startswith("- ")]
    for place, line in zip(at, reversed([lines[n] for n in at]), strict=True):
        lines[place] = line
    return "\n".join(lines)


def _rules_read_again(capture: Capture, content: str) -> str:
    return content + "\nContents of AGENTS.md (project instructions):\n" + prose(capture.chance, 2)


fault("LORE127", "the editors that are open", _first(_editors))
fault("LORE127", "the environment rendered otherwise", _first(_platform))
fault("LORE127", "a wrapping that came later", _first(lambda _, said: f"<initial_prompt>\n{said}\n</initial_prompt>"))


def _resumed(change, gap: float):
    """Render the first message otherwise, after a pause."""
    first = _first(change)

    def inject(capture: Capture, k: int) -> None:
        first(capture, k)
        for turn in since(capture, k):
            turn.at += gap
            turn.answered += gap

    return inject


_HOUR = {"ttl": "1h", "billed": True}
_UNBILLED = {"billed": False}
for _name, _change in (("skills in another order", _skills_shuffled), ("instructions read again", _rules_read_again)):
    fault("LORE123", f"{_name}, after 50 minutes of an hour", _resumed(_change, 3000), setup=_HOUR, dialects=CLAUDE)
    # Some models' caches live half an hour: after that the cause is LORE128.
    fault("LORE123", f"{_name}, after 25 minutes", _resumed(_change, 1500), setup=_UNBILLED,
          dialects=("openai-chat", "openai-responses", "gemini"))  # fmt: skip


# reminders


def _reminder(capture: Capture) -> dict:
    return text(f"<system-reminder>\n{prose(capture.chance, 2)}\n</system-reminder>")


def _placed(capture: Capture, k: int, reminder: dict, *, front: bool) -> int:
    """Put a reminder into a message of the user that was sent before turn k; return which."""
    message, _ = choose(capture, blocks_of(capture, k, "text", role="user", first=2))
    for turn in capture.turns[:k]:
        if message < len(turn.request.messages):
            blocks = turn.request.messages[message].blocks
            blocks.insert(0 if front else len(blocks), reminder)
            turn.request.breakpoints = [_moved(point, message, len(blocks) - 1) for point in turn.request.breakpoints]
    return message


def _moved(breakpoint, message: int, last: int):
    return ("message", message, last) if breakpoint[0] == "message" and breakpoint[1] == message else breakpoint


def _reminder_gone(capture: Capture, k: int, *, front: bool) -> None:
    _placed(capture, k, _reminder(capture), front=front)


fault("LORE111", "gone from behind the user's words", partial(_reminder_gone, front=False))
fault("LORE111", "gone from before the user's words", partial(_reminder_gone, front=True))


def _reminder_follows(capture: Capture, k: int) -> None:
    """Put a reminder into one user message before turn k, and into a later one from k on."""
    reminder = _reminder(capture)
    message = _placed(capture, k, reminder, front=True)
    later = [n for n, other in enumerate(capture.turns[k].request.messages) if other.role == "user" and n > message]
    if not later:
        raise Nowhere
    for turn in since(capture, k):
        blocks = turn.request.messages[later[-1]].blocks
        blocks.append(dict(reminder))
        turn.request.breakpoints = [_moved(point, later[-1], len(blocks) - 1) for point in turn.request.breakpoints]


fault("LORE111", "moved to a later message", _reminder_follows)


# the billing header


def _header(chance) -> str:
    hexes = "0123456789abcdef"
    return (
        f"x-anthropic-billing-header: cc_version=2.1.{chance.randint(150, 220)}.{token(chance, 3, hexes)}; "
        f"cc_entrypoint=cli; cch={token(chance, 5, hexes)};"
    )


def billing(capture: Capture, *, endpoint: str, model: str = "") -> None:
    """Begin every system prompt with a header that is another one each time."""
    for turn in capture.turns:
        turn.call = {**turn.call, "endpoint": endpoint}
        turn.request.model = model or turn.request.model
        turn.request.system.insert(0, _header(capture.chance))
        turn.request.breakpoints = [
            ("system", point[1] + 1) if point[0] == "system" else point for point in turn.request.breakpoints
        ]


def _gateway(endpoint: str, model: str = ""):
    return lambda capture, k: billing(capture, endpoint=endpoint, model=model)


for _name, _call in (
    ("an engine on the own machine", _gateway("localhost:8080/v1/messages", "qwen3-coder")),
    ("a gateway", _gateway("gateway.example.com/v1/messages")),
    ("DeepSeek", _gateway("api.deepseek.com/anthropic/v1/messages", "deepseek-v4-flash")),
):
    fault("LORE107", f"sent to {_name}", _call, dialects=CLAUDE, anywhere=True)


def tail_without_breakpoint(capture: Capture, k: int) -> None:
    """End the last message with text that the next turn lacks."""
    for number, turn in enumerate(capture.turns):
        request = turn.request
        last = request.messages[-1]
        if last.blocks[-1]["kind"] == "result":
            last = Message("user", [text(prose(capture.chance, 1))])
            request.messages.append(last)
            for later in capture.turns[number + 1 :]:
                later.request.messages.insert(len(request.messages) - 1, Message("user", [dict(last.blocks[0])]))
        spoken = next(block for block in reversed(last.blocks) if block["kind"] == "text")
        spoken["text"] += (
            f"\n\nPlan: step {number + 1} is {capture.chance.choice(WORDS)}; cursor in {token(capture.chance, 6)}.py"
        )


for _dialect, _model in (
    ("openai-chat", "gpt-5.6-sol"),
    ("openai-responses", "gpt-5.6-terra"),
    ("openai-responses", "gpt-6-sol"),
):
    fault(
        "LORE133",
        f"{_model}, implicit",
        tail_without_breakpoint,
        dialects=(_dialect,),
        setup={"model": _model},
        anywhere=True,
        content=False,
    )
