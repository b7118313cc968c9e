"""The table of readers, in the order in which they are asked whether a file is theirs."""

from __future__ import annotations

from lore.formats.base import Reader
from lore.formats.bodies import Bodies, BodyPairs
from lore.formats.captures import BODY, Cassette, ClaudeTap, Har, Proxy, ProxyList
from lore.formats.claude_code import ClaudeCode
from lore.formats.claude_records import MARKERS
from lore.formats.cline import Cline
from lore.formats.cline_task import ClineTask
from lore.formats.codex import Codex
from lore.formats.copilot import Copilot
from lore.formats.flue import Flue
from lore.formats.folders import OPENING
from lore.formats.gemini_cli import GeminiCli, GeminiCliDocument
from lore.formats.http import is_plain_request
from lore.formats.inspect_log import InspectArchive, InspectLog
from lore.formats.kimi_cli import KimiCli, KimiCliSession
from lore.formats.kimi_code import KimiCode
from lore.formats.lines import SPACE, each, is_crowded, may_be_recording
from lore.formats.litellm import ANSWERED, PAYLOAD, Completions, LiteLLM
from lore.formats.llama_log import LlamaLog
from lore.formats.lore_capture import OPENING as CAPTURE_OPENING
from lore.formats.lore_capture import LoreCapture
from lore.formats.lore_log import AssembledLog, LoreLog
from lore.formats.mini_swe_agent import MiniSweAgent
from lore.formats.opencode import OpenCode
from lore.formats.openfang import OpenFang
from lore.formats.openhands import OpenHands
from lore.formats.pi import Pi
from lore.formats.plain_chat import Chat, ChatDocument
from lore.formats.prometheus import Metrics
from lore.formats.qwen_code import QwenCode
from lore.formats.sglang_log import SglangLog
from lore.formats.sidecode import Sidecode
from lore.formats.swe_agent import SweAgent
from lore.formats.telemetry import ClaudeEvents, GenAI
from lore.formats.vcr import Vcr
from lore.formats.vllm_log import VllmLog
from lore.model.jsonslice import Sliced, table

# Text, of which a line may be JSON: the only ones that are asked where a file cannot be JSON.
ENGINE_LOGS: dict[str, type[Reader]] = {
    "engine-metrics": Metrics,
    "vllm-log": VllmLog,
    "sglang-log": SglangLog,
    "llama-log": LlamaLog,
}
READERS: dict[str, type[Reader]] = {
    "sidecode": Sidecode,  # before lore, whose own reader takes any event
    "lore": LoreLog,
    "gemini-cli": GeminiCli,
    "gemini-cli-json": GeminiCliDocument,
    "kimi-code": KimiCode,
    "kimi-cli": KimiCli,
    "kimi-cli-session": KimiCliSession,
    "qwen-code": QwenCode,  # before Claude Code, whose records have the same members around the message
    "claude-code": ClaudeCode,
    "codex": Codex,
    "copilot": Copilot,
    "pi": Pi,
    "opencode": OpenCode,
    "assembled": AssembledLog,
    "flue": Flue,
    "openfang": OpenFang,
    "openhands": OpenHands,
    "mini-swe-agent": MiniSweAgent,
    "swe-agent": SweAgent,
    "cline": Cline,
    "cline-task": ClineTask,
    "har": Har,
    "vcr": Vcr,
    "claude-tap": ClaudeTap,
    "cassette": Cassette,
    "lore-capture": LoreCapture,
    "proxy": Proxy,
    "proxy-list": ProxyList,
    "body-pairs": BodyPairs,
    "completions": Completions,
    "inspect-archive": InspectArchive,
    "inspect": InspectLog,
    "claude-events": ClaudeEvents,
    "otel-genai": GenAI,
    "litellm": LiteLLM,
    **ENGINE_LOGS,
    "bodies": Bodies,
    "chat": Chat,
    "chat-json": ChatDocument,
}
LAST = frozenset(("chat", "chat-json"))  # of which a file is only where no reader of another package takes it
BUILT_IN = frozenset(READERS)
# What lore's own files say in their first record: where that is not there, their readers need not slice it again.
_OPENINGS = {"sidecode": frozenset(("kind",)), "lore": frozenset(("kind",)), "assembled": frozenset(("turn", "chain"))}
# One of these stands in the beginning of each file of a format: where none does, its reader need not look.
_SIGNS: dict[str, tuple[bytes, ...]] = {
    "claude-code": MARKERS,
    "flue": (b'"parentId"', b'"leafId"', b'"newEntries"', b'"removedEntryIds"'),
    "codex": (b'"payload"',),
    "copilot": (b'"parentId"',),
    "pi": (b'"session"',),
    "gemini-cli": (b'"projectHash"',),
    "kimi-code": (b'"protocol_version"',),
    "kimi-cli": (b'"protocol_version"', b'"timestamp"', b'"role"'),
    "kimi-cli-session": (OPENING,),
    "qwen-code": (b'"parentUuid"',),
    "gemini-cli-json": (b'"projectHash"',),
    "opencode": (b'"info"',),
    "openfang": (b'"role"',),
    "openhands": (OPENING,),
    "mini-swe-agent": (b'"mini_version"', b'"mini-swe-agent'),
    "swe-agent": (b'"trajectory"',),
    "cline": (b'"ts"', b'"system_prompt"', b'"metrics"'),
    "cline-task": (OPENING,),
    "har": (b'"entries"',),
    "vcr": (b"interactions",),
    "claude-tap": (b'"packets"',),
    "cassette": (b'"entries"',),
    "lore-capture": (CAPTURE_OPENING,),
    "proxy": tuple(f'"{key}"'.encode() for key in BODY),
    "proxy-list": (b'"headers"',),
    "body-pairs": (OPENING,),
    "completions": (OPENING,),
    "inspect-archive": (OPENING,),
    "inspect": (b'"eval"',),
    "claude-events": (b"api_request_body", b"api_response_body"),
    "otel-genai": (b'"gen_ai.',),
    "chat": (b'"role"', b'"from"', b'"type"'),
    "chat-json": (b'"role"', b'"from"', b'"type"'),
    "engine-metrics": (b"# HELP", b"# TYPE"),
    "vllm-log": (b'"levelname"',),
    "sglang-log": (b'"request_parameters"', b'"event"'),
    "llama-log": (b'"log"',),
    "litellm": tuple(f'"{key}"'.encode() for key in (*PAYLOAD, *ANSWERED)),
}


def recognise(head: bytes) -> type[Reader] | None:
    """Return lore's own reader of a file that begins like this; None where it is no recording."""
    reader = reader_of(head)
    return None if reader is None else type(reader)


def reader_of(head: bytes) -> Reader | None:
    """Make lore's own reader of a file that begins like this; what was sliced to recognise it is not sliced again."""
    if not may_be_recording(head):
        return next((kind() for kind in ENGINE_LOGS.values() if kind.recognises(head)), None)
    if is_crowded(head):
        return None
    line = next(each(head), b"").strip(SPACE)
    opening = table(line) or {}
    if len(line) == len(head.strip(SPACE)) and is_plain_request(opening):
        return Bodies(Sliced.of(line, opening))  # by far the most in folders of bodies: the others need not look
    for name, kind in READERS.items():
        if (
            name in BUILT_IN
            and opening.keys() >= _OPENINGS.get(name, frozenset())
            and (name not in _SIGNS or any(sign in head for sign in _SIGNS[name]))
            and kind.recognises(head)
        ):
            return kind()
    return None
