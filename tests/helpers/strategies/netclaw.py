"""netclaw's requests: chat bodies of two leading system messages, the history, and volatile context.

The context is at one of the places that netclaw tried. `Client` keeps the history as netclaw does and records each
request with the server's usage: it reads the longest cached prefix, in tokens of four bytes.
"""

from __future__ import annotations

import os
from typing import Any, Literal

from model.making import dumps

Message = dict[str, Any]
Place = Literal["leading", "merged", "user", "system", "prepended", "nudge", "nudge behind"]
PERSISTED = "You are netclaw. You keep a household in order, you are brief, and you ask before you spend money. " * 12
STATIC = "[house]\nThe bins go out on Thursday.\n\n[session]\nid: s-1\n\n[attachments]\nhint: file_read reads them"
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"{name} a file of the house.", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}}}}}
    for name in ("file_read", "file_write")
]  # fmt: skip


def volatile(minute: int, path: str = "bins.md") -> str:
    """The volatile block: recall, every-turn layers, working context, in its order."""
    return (
        "[memory-recall]\nstatus: healthy\nmode: automatic\n- bins [m-1] sensitivity=low score=0.81\n  Thursday\n\n"
        f"current_utc: 2026-07-01T10:{minute:02d}:00Z\n\n"
        f"[working-context]\nproject_dir: /srv/house\nrecent_files:\n  - {path}"
    )


def text(role: str, words: str, **more: Any) -> Message:
    """A message."""
    return {"role": role, "content": words, **more}


class Client:
    """Assemble and record requests; `place` is where the volatile block goes.

    With `startup` only the first turn has its layers in [1]; with `media` a notice of filtered media
    comes before everything as soon as there is a tool's result.
    """

    def __init__(
        self, place: Place, *, model: str = "qwen3-235b-a22b", startup: bool = False, media: bool = False
    ) -> None:
        self.place: Place = place
        self.startup, self.media = startup, media
        self.model = model
        self.history: list[Message] = []
        self.records: list[dict[str, Any]] = []
        self.calls = 0
        self._sent: list[bytes] = []

    def say(self, words: str, minute: int) -> None:
        """A user's turn begins: a nudge is persisted before the user's message."""
        if self.place == "nudge":
            self.history.append(text("user", f"[system: {volatile(minute)}]"))
        self.history.append(text("user", words))
        if self.place == "nudge behind":
            self.history.append(text("user", f"[system: {volatile(minute)}]"))
        self.request(minute)

    def answer(self, words: str) -> None:
        """The model answers."""
        self.history.append(text("assistant", words))

    def use(self, minute: int, output: str, path: str = "bins.md") -> None:
        """Add a tool call of the model, and a request with its result."""
        self.calls += 1
        name = f"call-{self.calls}"
        function = {"name": "file_read", "arguments": dumps({"path": path}).decode()}
        self.history.append(text("assistant", "", tool_calls=[{"id": name, "type": "function", "function": function}]))
        self.history.append(text("tool", output, tool_call_id=name))
        self.request(minute, path)

    def request(self, minute: int, path: str = "bins.md") -> None:
        """Record a request."""
        body = {"model": self.model, "messages": self.messages(minute, path), "tools": TOOLS, "stream": True}
        rendered = dumps(body["tools"]) + b"".join(dumps(one) + b"\n" for one in body["messages"])
        read = max((len(os.path.commonprefix([rendered, sent])) for sent in self._sent), default=0) // 64 * 16
        self._sent.append(rendered)
        usage = {
            "prompt_tokens": len(rendered) // 4, "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": read},
        }  # fmt: skip
        number = len(self.records)
        at = f"2026-07-01T10:{minute:02d}:{number % 60:02d}Z"
        self.records.append({"request": body, "timestamp": at, "usage": usage})

    def messages(self, minute: int, path: str) -> list[Message]:
        """Return the assembled list."""
        block = volatile(minute, path)
        static = f"[startup]\nThe house was cleaned today.\n\n{STATIC}" if self.startup and not self.records else STATIC
        if self.place in ("leading", "merged"):
            static = f"{static}\n\n{block}"
        leading = [text("system", PERSISTED), text("system", static)]
        if self.place == "merged":
            leading = [text("system", f"{PERSISTED}\n\n{static}")]
        made = [*leading, *self.history]
        if self.media and self.calls:
            made.insert(0, text("user", f"[system: media-filtered] {self.calls} media reference(s) were left out."))
        if self.place in ("user", "system"):
            made.append(text(self.place, block))
        if self.place == "prepended":
            last = max(at for at, one in enumerate(made) if one["role"] == "user")
            made[last] = text("user", f"<context>\n{block}\n</context>\n\n{made[last]['content']}")
        return made


def talk(place: Place, **more: Any) -> list[dict[str, Any]]:
    """Three turns of a user's, the second with two tools."""
    client = Client(place, **more)
    client.say("When do the bins go out? Remind me of all that we said about the street and the neighbours.", 0)
    client.answer("On Thursday. " * 40)
    client.say("Look it up in the notes.", 1)
    client.use(2, "Bins: Thursday, paper every second week. " * 30)
    client.use(3, "Glass: first Monday of the month. " * 30, "glass.md")
    client.answer("Thursday, says the file. " * 20)
    client.say("Thanks. And glass?", 5)
    client.answer("On the first Monday.")
    return client.records


def recording(place: Place, **more: Any) -> bytes:
    """The recording of such a talk."""
    return b"".join(dumps(one) + b"\n" for one in talk(place, **more))
