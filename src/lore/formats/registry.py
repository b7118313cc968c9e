"""The table of readers, in the order in which they are asked whether a file is theirs.

A reader's module is imported when its reader is first asked for: of a small file most of the time would go into them.
"""

from __future__ import annotations

from lore.formats.base import Reader
from lore.formats.captures.bodies import Bodies
from lore.formats.folders import OPENING
from lore.formats.http import is_plain_request
from lore.formats.lines import SPACE, each, is_crowded, may_be_recording
from lore.model.deferred import Places
from lore.model.jsonslice import Sliced, table

# Text, of which a line may be JSON: the only ones that are asked where a file cannot be JSON.
ENGINE_LOGS = ("engine-metrics", "vllm-log", "sglang-log", "llama-log")
# Module and class of each, in the order in which they are asked.
_BUILT_IN: dict[str, str] = {
    "sidecode": "sidecode:Sidecode",  # before lore, whose own reader takes any event
    "lore": "lore_log:LoreLog",
    "gemini-cli": "agents.gemini:GeminiCli",
    "gemini-cli-json": "agents.gemini:GeminiCliDocument",
    "kimi-code": "kimi.code:KimiCode",
    "kimi-cli": "kimi.cli:KimiCli",
    "kimi-cli-session": "kimi.cli:KimiCliSession",
    "qwen-code": "agents.qwen:QwenCode",  # before Claude Code, whose records have the same members around messages
    "claude-code": "claude.reader:ClaudeCode",
    "codex": "codex.reader:Codex",
    "copilot": "copilot.reader:Copilot",
    "pi": "pi.reader:Pi",
    "opencode": "opencode.reader:OpenCode",
    "assembled": "lore_log:AssembledLog",
    "flue": "pi.flue:Flue",
    "openfang": "agents.openfang:OpenFang",
    "openhands": "agents.openhands:OpenHands",
    "mini-swe-agent": "agents.swe_agent:MiniSweAgent",
    "swe-agent": "agents.swe_agent:SweAgent",
    "cline": "agents.cline:Cline",
    "cline-task": "agents.cline:ClineTask",
    "har": "captures.recorders:Har",
    "vcr": "captures.vcr:Vcr",
    "claude-tap": "captures.recorders:ClaudeTap",
    "cassette": "captures.recorders:Cassette",
    "lore-capture": "captures.lore_capture:LoreCapture",
    "proxy": "captures.recorders:ProxyLines",
    "proxy-list": "captures.recorders:ProxyList",
    "body-pairs": "captures.bodies:BodyPairs",
    "completions": "captures.litellm:Completions",
    "inspect-archive": "captures.inspect_log:InspectArchive",
    "inspect": "captures.inspect_log:InspectLog",
    "claude-events": "captures.telemetry:ClaudeEvents",
    "otel-genai": "captures.telemetry:GenAI",
    "litellm": "captures.litellm:LiteLLM",
    "engine-metrics": "engines.prometheus:EngineMetrics",
    "vllm-log": "engines.vllm:VllmLog",
    "sglang-log": "engines.sglang:SglangLog",
    "llama-log": "engines.llama:LlamaLog",
    "bodies": "captures.bodies:Bodies",
    "chat": "plain_chat.reader:Chat",
    "chat-json": "plain_chat.reader:ChatDocument",
}
LAST = frozenset(("chat", "chat-json"))  # of which a file is only where no reader of another package takes it
BUILT_IN = frozenset(_BUILT_IN)
# Members of the first record of each file of a format: where they are not there, its reader need not look.
_OPENINGS = {
    "sidecode": frozenset(("kind",)), "lore": frozenset(("kind",)), "assembled": frozenset(("turn", "chain")),
    "gemini-cli": frozenset(("sessionId", "projectHash")), "kimi-code": frozenset(("type", "protocol_version")),
}  # fmt: skip
# Folders and archives, which `folders` makes one stream of.
_PACKED = frozenset(("kimi-cli-session", "openhands", "cline-task", "body-pairs", "completions", "inspect-archive"))
# One of these stands in the beginning of each file of a format: where none does, its reader need not look.
_SIGNS: dict[str, tuple[bytes, ...]] = {
    "claude-code": (b'"sessionId"', b'"session_id"', b'"leafUuid"', b'"messageId"'),
    "flue": (b'"parentId"', b'"leafId"', b'"newEntries"', b'"removedEntryIds"'),
    "codex": (b'"payload"',),
    "copilot": (b'"parentId"',),
    "pi": (b'"session"',),
    "kimi-cli": (b'"timestamp"', b'"role"', b'"protocol_version"'),
    "qwen-code": (b'"parentUuid"',),
    "gemini-cli-json": (b'"projectHash"',),
    "opencode": (b'"info"',),
    "openfang": (b'"role"',),
    "mini-swe-agent": (b'"mini_version"', b'"mini-swe-agent'),
    "swe-agent": (b'"trajectory"',),
    "cline": (b'"ts"', b'"system_prompt"', b'"metrics"'),
    "har": (b'"entries"',),
    "vcr": (b"interactions",),
    "claude-tap": (b'"packets"',),
    "cassette": (b'"entries"',),
    "lore-capture": (b'"lore_capture"',),
    "proxy": (b'"body"', b'"parsed_body"', b'"body_raw"', b'"rawBody"', b'"postData"'),
    "proxy-list": (b'"headers"',),
    "inspect": (b'"eval"',),
    "claude-events": (b"api_request_body", b"api_response_body"),
    "otel-genai": (b'"gen_ai.',),
    "chat": (b'"role"', b'"from"', b'"type"'),
    "chat-json": (b'"role"', b'"from"', b'"type"'),
    "engine-metrics": (b"# HELP", b"# TYPE"),
    "vllm-log": (b'"levelname"',),
    "sglang-log": (b'"request_parameters"', b'"event"'),
    "llama-log": (b'"log"',),
    "litellm": (
        b'"model_parameters"',
        b'"proxy_server_request"',
        b'"standard_logging_object"',
        b'"litellm_params"',
        b'"hidden_params"',
        b'"args"',
        b'"kwargs"',
        b'"cost"',
    ),  # fmt: skip
}


READERS: Places[type[Reader]] = Places("lore.formats", _BUILT_IN)


def recognise(head: bytes) -> type[Reader] | None:
    """Return lore's own reader of a file that begins like this; None where it is no recording."""
    reader = reader_of(head)
    return None if reader is None else type(reader)


def reader_of(head: bytes) -> Reader | None:
    """Make lore's own reader of a file that begins like this; what was sliced to recognise it is not sliced again."""
    if not may_be_recording(head):
        return next((READERS[name]() for name in ENGINE_LOGS if READERS[name].recognises(head)), None)
    if is_crowded(head):
        return None
    line = next(each(head), b"").strip(SPACE)
    opening = table(line) or {}
    if len(line) == len(head.strip(SPACE)) and is_plain_request(opening):
        return Bodies(Sliced.of(line, opening))  # by far the most in folders of bodies: the others need not look
    for name in READERS:
        if (
            name in BUILT_IN
            and opening.keys() >= _OPENINGS.get(name, frozenset())
            and (name not in _PACKED or head.startswith(OPENING))
            and (name not in _SIGNS or any(sign in head for sign in _SIGNS[name]))
            and READERS[name].recognises(head)
        ):
            return READERS[name]()
    return None
