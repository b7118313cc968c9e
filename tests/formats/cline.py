"""Files of a task of Cline, Roo Code or Kilo Code, made for the tests."""

from __future__ import annotations

import json
from typing import Any

from lore.formats.folders import API, UI

BEGIN = 1_760_000_000_000
ENVIRONMENT = "<environment_details>\n# Current Time\n{time}\n<model>{model}</model>\n</environment_details>"


class Task:
    """A task that grows: what the screen is shown, and the messages that are sent; a second passes between records."""

    def __init__(self, begin: int = BEGIN, *, timed: bool = True) -> None:
        self.ui: list[dict[str, Any]] = []
        self.api: list[dict[str, Any]] = []
        self.now = begin
        self.timed = timed

    def tick(self, milliseconds: int = 1000) -> int:
        """Advance the clock."""
        self.now += milliseconds
        return self.now

    def show(self, say: str, text: Any = None, **fields: Any) -> Task:
        """A record of the screen."""
        content = {} if text is None else {"text": text}
        self.ui.append({"ts": self.tick(), "type": "say", "say": say, **content, **fields})
        return self

    def ask(self, ask: str, text: str = "", **fields: Any) -> Task:
        """A question to the user."""
        self.ui.append({"ts": self.tick(), "type": "ask", "ask": ask, "text": text, **fields})
        return self

    def request(self, text: str = "", protocol: str | None = "anthropic", model: str = "", **counts: Any) -> Task:
        """A request; `counts` are `tokens_in`, `tokens_out`, `cache_reads`, `cache_writes`, or what else it notes."""
        api = {"apiProtocol": protocol} if protocol else {}
        bill = {_camel(name): count for name, count in counts.items()}
        return self.show("api_req_started", json.dumps({"request": text, **api, **bill}), **_info(model))

    def send(self, role: str, content: Any, **fields: Any) -> Task:
        """A message of the history."""
        ts = {"ts": self.tick()} if self.timed else {}
        self.api.append({"role": role, "content": content, **ts, **fields})
        return self

    def user(self, *texts: str, model: str = "anthropic/claude-sonnet-4", **fields: Any) -> Task:
        """A message of the user's role, with the details of its moment."""
        texts = (*texts, ENVIRONMENT.format(time=self.now, model=model))
        return self.send("user", [{"type": "text", "text": text} for text in texts], **fields)

    def answer(self, text: str, *calls: str, **fields: Any) -> Task:
        """What the model said, on the screen and in the history."""
        self.show("text", text, partial=False)
        used = [{"type": "tool_use", "id": call, "name": "read_file", "input": {"path": "a"}} for call in calls]
        return self.send("assistant", [{"type": "text", "text": text}, *used], **fields)

    def results(self, *calls: str, **fields: Any) -> Task:
        """The results of calls."""
        return self.send(
            "user", [{"type": "tool_result", "tool_use_id": call, "content": f"of {call}"} for call in calls], **fields
        )

    @property
    def ui_messages(self) -> bytes:
        """`ui_messages.json`."""
        return json.dumps(self.ui, indent=1).encode()

    @property
    def api_history(self) -> bytes:
        """`api_conversation_history.json`."""
        return json.dumps(self.api).encode()

    def pack(self, *files: tuple[str, Any]) -> bytes:
        """The folder of the task, as it comes to a reader."""
        written = [(name, json.dumps(value).encode()) for name, value in files]
        return packed((*written, (UI, self.ui_messages), (API, self.api_history)))


def packed(files: tuple[tuple[str, bytes], ...]) -> bytes:
    """Files as a pack."""
    pack = b""
    for name, data in files:
        header = {"lore_pack": "cline-task", "name": name, "size": len(data), "place": True}
        pack += json.dumps(header, separators=(",", ":")).encode() + b"\n" + data + b"\n"
    return pack


def _camel(name: str) -> str:
    head, *words = name.split("_")
    return head + "".join(map(str.capitalize, words))


def _info(model: str) -> dict[str, Any]:
    return {"modelInfo": {"modelId": model, "providerId": "anthropic", "mode": "act"}} if model else {}


def simple() -> Task:
    """Two requests, one with a call."""
    task = Task().show("text", "mend it")
    task.request("<task>mend it</task>", tokens_in=10, tokens_out=5, cache_reads=0, cache_writes=1000)
    task.user("<task>mend it</task>").answer("I look", "c1")
    task.request("[read_file] Result:", tokens_in=20, tokens_out=6, cache_reads=1000, cache_writes=100)
    return task.results("c1").answer("done").show("completion_result", "done", partial=False)
