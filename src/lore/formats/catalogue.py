"""What each format is for a person: whose it is, how near its prompts are to what was sent, what it can answer.

In: the table of readers. Out: a row each, also of readers that have none here (plug-ins): what they say themselves, the
rest unknown. Rules: `some` is for what a format records in a part of its files, or shows without recording it (a
history that was replaced, of requests); what a log lacks of its prompts is said by its reader (`unseen`).
"""

from __future__ import annotations

from typing import NamedTuple

from lore.formats.base import HOLDS
from lore.formats.registry import READERS
from lore.model.results.found import Holds


class Answers(NamedTuple):
    """What a format is, its fidelity, and what it records: requests, bills, system prompt, tools, compactions."""

    title: str
    fidelity: str
    requests: Holds = "unknown"
    bills: Holds = "unknown"
    system_prompt: Holds = "unknown"
    tools: Holds = "unknown"
    compaction: Holds = "unknown"


class Format(NamedTuple):
    """A format with its name, what one file of it holds, and what that lacks (empty: nothing that is known)."""

    name: str
    holds: str
    lacks: str
    answers: Answers


def _log(title: str, fidelity: str = "reconstructed", **answers: Holds) -> Answers:
    """Return the row of an agent's session log: system prompt and tools are in few of them."""
    usual: dict[str, Holds] = {
        "requests": "yes", "bills": "yes", "system_prompt": "no", "tools": "no", "compaction": "yes",
    }  # fmt: skip
    return Answers(title, fidelity)._replace(**{**usual, **answers})


def _requests(title: str, fidelity: str, *, bills: Holds = "yes") -> Answers:
    """Return the row of recorded requests: whole prompts, and a compaction as far as they show it."""
    return Answers(title, fidelity, "yes", bills, "yes", "yes", "some")


_CHATS: dict[str, Holds] = {"requests": "some", "bills": "some", "system_prompt": "some", "compaction": "no"}
ROWS: dict[str, Answers] = {
    "lore": _log("lore's own session log", system_prompt="yes", tools="yes"),
    "assembled": Answers("what `lore assemble --all` writes", "as written", "yes", "no", "yes", "yes", "some"),
    "claude-code": _log("Claude Code's session logs"),
    "codex": _log("Codex CLI's rollouts", "structural", system_prompt="yes", tools="some"),
    "copilot": _log("GitHub Copilot CLI's events.jsonl", "structural", bills="some", system_prompt="yes"),
    "pi": _log("sessions of pi, oh-my-pi and OpenClaw"),
    "opencode": _log("sessions of OpenCode and Kilo CLI"),
    "gemini-cli": _log("Gemini CLI's chats, JSON Lines"),
    "gemini-cli-json": _log("Gemini CLI's chats, JSON documents", compaction="no"),
    "qwen-code": _log("Qwen Code's chats"),
    "kimi-code": _log("Kimi Code's wire.jsonl", "structural", system_prompt="some", tools="some"),
    "kimi-cli-session": _log("sessions of Kimi CLI, a folder each", "structural", system_prompt="some"),
    "kimi-cli": _log("one file of such a session", bills="some", system_prompt="some", compaction="some"),
    "openhands": _log("OpenHands' conversations (V1), a folder each", "structural", system_prompt="yes", tools="some"),
    "mini-swe-agent": _log("mini-swe-agent's trajectories", "structural", system_prompt="yes", compaction="no"),
    "swe-agent": _log("SWE-agent's trajectories", "structural", bills="no", system_prompt="some", compaction="no"),
    "cline-task": _log("tasks of Cline, Roo Code and Kilo Code, a folder each"),
    "cline": _log("one file of such a task; sessions of Cline's command line", bills="some", system_prompt="some"),
    "flue": _log("sessions of flue"),
    "sidecode": _log("sidecode's event deltas", bills="some"),
    "openfang": _log("openfang's sessions as message lines", bills="no", system_prompt="some", compaction="no"),
    "chat": _log("plain chats, a message or a conversation a line", **_CHATS),
    "chat-json": _log("plain chats, one JSON document", **_CHATS),
    "bodies": _requests("request bodies, alone or with their responses", "wire", bills="some"),
    "body-pairs": _requests("a folder of request and response files", "wire"),
    "claude-events": _requests("request bodies in Claude Code's telemetry events", "wire"),
    "lore-capture": _requests("captures of `lore record`", "wire"),
    "har": _requests("HAR files of browsers and proxies", "wire"),
    "vcr": _requests("VCR cassettes, YAML and JSON", "wire"),
    "cassette": _requests("JSON cassettes with entries", "parsed"),
    "proxy": _requests("logs of recording proxies, JSON Lines", "parsed"),
    "proxy-list": _requests("logs of recording proxies, one document", "parsed"),
    "claude-tap": _requests("exports of claude-tap", "parsed"),
    "litellm": _requests("LiteLLM's logging payloads", "structural"),
    "completions": _requests("a folder of LiteLLM completions, a file a request", "structural"),
    "vllm-log": Answers(
        "vLLM's log: hit rates over time, bodies at DEBUG", "structural", "some", "no", "some", "some", "no"
    ),
    "sglang-log": Answers(
        "SGLang's log: what each request read, bodies", "structural", "some", "some", "some", "some", "no"
    ),
    "llama-log": Answers("llama-server's log: what each request read", "none", "no", "yes", "no", "no", "no"),
    "engine-metrics": Answers(
        "scrapes of engines' metrics: hit rates over time", "none", "no", "some", "no", "no", "no"
    ),
    "otel-genai": _requests("OpenTelemetry spans of model calls", "structural"),
    "inspect": _requests("logs of Inspect evaluations, JSON", "parsed"),
    "inspect-archive": _requests("logs of Inspect evaluations, .eval", "parsed"),
}
_NEITHER = "the system prompt and the schemas of tools"
_BY_PURPOSE = {"events": "reconstructed", "exchanges": "parsed", "turns": "as written"}


def formats() -> list[Format]:
    """Return all formats that lore reads: session logs first, each kind in the order in which its readers are asked."""
    order = list(HOLDS)
    found: list[Format] = []
    for name, kind in sorted(READERS.items(), key=lambda item: order.index(item[1].yields)):
        answers = ROWS.get(name)
        if answers is None:
            title = next(iter((kind.__doc__ or "").strip().splitlines()), "") or name
            answers = Answers(title.rstrip("."), _BY_PURPOSE[kind.yields], "yes")
        found.append(Format(name, HOLDS[kind.yields], lacks_of(name), answers))
    return found


def lacks_of(name: str) -> str:
    """Say what logs of a format do not hold of their prompts; empty where they hold all, or nothing is known of it."""
    answers = ROWS.get(name)
    neither = answers is not None and answers.system_prompt == answers.tools == "no"
    return getattr(READERS.get(name), "unseen", "") or (_NEITHER if neither else "")
