"""What the fuzzer begins with: fixtures, its own seeds, real recordings where there are any, and these."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from hostile.captured import WRITERS, capture

ROOT = Path(__file__).resolve().parents[2]
SEEDS = Path(__file__).resolve().parent / "corpus"
CORPUS = Path(os.environ.get("LORE_CORPUS") or ROOT.parent / "shared" / "corpus")
LARGEST = 24 * 1024  # of a bigger recording its beginning is taken, to the end of a line

LORE = (
    b'{"kind":"session_started","v":1,"session_id":"s","model":"claude-opus-4-8","dialect":"anthropic",'
    b'"system":"Be brief.","tools":[{"name":"read","input_schema":{}}]}\n'
    b'{"kind":"layer","name":"house","when":"once_at_start","text":"Tabs, not spaces."}\n'
    b'{"kind":"knowledge","op":"add","id":"abcdef","category":"c","title":"t","content":"x"}\n'
    b'{"kind":"append","item":{"type":"user_message","uuid":"u1","text":"hi"}}\n'
    b'{"kind":"turn_started","turn":1,"at":"2026-01-01T00:00:00Z","context":{"current_time":"noon",'
    b'"memory_recall":[{"id":"m","title":"t","content":"c","score":0.5}],"working_context":{"project_dir":"/x"}}}\n'
    b'{"kind":"append","item":{"type":"assistant_message","uuid":"a1","text":"so","response_id":"r1"}}\n'
    b'{"kind":"patch_text","uuid":"a1","delta_text":" it is \\ud83d"}\n'
    b'{"kind":"append","item":{"type":"tool_call","uuid":"t1","call_id":"c1","name":"read","input":{"a":1.0},'
    b'"status":"running","response_id":"r1"}}\n'
    b'{"kind":"turn_completed","turn":1,"at":"2026-01-01T00:00:09Z","usage":{"uncached_tokens":3,"read_tokens":0,'
    b'"write_tokens":900,"output_tokens":7},"verdict":{"reason":"messages_changed"}}\n'
    b'{"kind":"patch_tool_call","call_id":"c1","status":"completed","output":[{"type":"text","text":"out"}]}\n'
    b'{"kind":"turn_started","turn":2,"at":"2026-01-01T00:01:00Z"}\n'
    b'{"kind":"tool_result_cleared","call_ids":["c1"]}\n'
    b'{"kind":"compact_started","trigger":"auto"}\n'
    b'{"kind":"compact_applied","uuid":"d1","trigger":"auto","preserved_uuids":["a1"],"summary":"what was"}\n'
    b'{"kind":"remove","uuids":["a1"]}\n'
    b'{"kind":"session_changed","model":"gpt-5","params":{"max_tokens":5}}\n'
    b'{"kind":"prompt_delta","seq":1,"selector":{"target":"messages","insert_at":1},"content":[]}\n'
    b'{"kind":"context_persisted","turn":1,"insert_at":1,"content":"x"}\n'
    b'{"kind":"cache_reset","reason":"asked"}\n'
    b'{"kind":"turn_started","turn":3,"chain":"agent-1"}\n'
)
CLAUDE = (
    b'{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s","isSidechain":false,'
    b'"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"hi"}}\n'
    b'{"type":"assistant","uuid":"2","parentUuid":"1","sessionId":"s","isSidechain":false,"message":{"id":"m1",'
    b'"model":"claude-opus-4-8","content":[{"type":"tool_use","id":"t1","name":"Read","input":{}}],"usage":'
    b'{"input_tokens":3,"cache_read_input_tokens":0,"cache_creation_input_tokens":900,"output_tokens":5}}}\n'
    b'{"type":"user","uuid":"3","parentUuid":"2","sessionId":"s","isSidechain":false,"message":{"role":"user",'
    b'"content":[{"type":"tool_result","tool_use_id":"t1","content":"out"}]}}\n'
    b'{"type":"system","subtype":"compact_boundary","uuid":"4","parentUuid":null,"sessionId":"s",'
    b'"compactMetadata":{"trigger":"auto","preTokens":9}}\n'
    b'{"type":"user","uuid":"5","parentUuid":"4","sessionId":"s","isCompactSummary":true,'
    b'"message":{"role":"user","content":"what was"}}\n'
    b'{"type":"assistant","uuid":"6","parentUuid":"5","sessionId":"s","isSidechain":true,"agentId":"a",'
    b'"message":{"id":"m2","model":"claude-opus-4-8","content":[{"type":"thinking","thinking":"","signature":"x"}]}}\n'
)
ANTHROPIC = (
    b'{"model":"claude-opus-4-8","max_tokens":9,"tools":[{"name":"read","input_schema":{"type":"object"}}],'
    b'"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":['
    b'{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"read",'
    b'"input":{"a":1.0}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":'
    b'"text","text":"out","cache_control":{"type":"ephemeral"}}]}]}]}\n'
)
CHAT = (
    b'{"model":"gpt-5","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"},'
    b'{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read",'
    b'"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"out"}],"tools":[{"type":"function",'
    b'"function":{"name":"read","parameters":{}}}]}\n'
)
RESPONSES = (
    b'{"model":"gpt-5.6","instructions":"Be brief.","store":false,"tools":[{"type":"function","name":"read",'
    b'"parameters":{}}],"input":[{"role":"user","content":[{"type":"input_text","text":"hi",'
    b'"prompt_cache_breakpoint":{"mode":"explicit"}}]},{"type":"reasoning","summary":[]},{"type":"function_call",'
    b'"call_id":"c1","name":"read","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"out"}]}\n'
)
GEMINI = (
    b'{"model":"models/gemini-3","system_instruction":{"role":"x","parts":[{"text":"Be brief."}]},"tools":[{'
    b'"functionDeclarations":[{"name":"read"}],"x":1},{"googleSearch":{}}],"contents":[{"role":"user","parts":[{'
    b'"text":"hi"}]},{"role":"model","parts":[{"functionCall":{"name":"read","args":{"a":1.0}}}]}]}\n'
)
BEDROCK = (
    b'{"modelId":"m","system":[{"text":"Be brief."},{"cachePoint":{"type":"default"}}],"toolConfig":{"tools":[{'
    b'"toolSpec":{"name":"read"}},{"cachePoint":{"type":"default"}}],"toolChoice":{}},"messages":[{"role":"user",'
    b'"content":[{"cachePoint":{"type":"default"}},{"text":"hi"},{"cachePoint":{"type":"default"}},{"text":"x"}]}]}\n'
)
RECORDS = (
    b'{"ts":1767225600,"request":' + ANTHROPIC.strip() + b',"response":{"usage":{"input_tokens":3}}}\n'
    b'{"timestamp":"2026-01-01T00:00:00Z","request":' + CHAT.strip() + b',"usage":{"prompt_tokens":9}}\n'
)
ASSEMBLED = (
    b'{"turn":1,"chain":"main","dialect":"anthropic","keep_segments":0,"keep_bytes":0,"append":[{"section":"system",'
    b'"path":"system[0]","kind":"text","data":"{\\"type\\":\\"text\\",\\"text\\":\\"a\\"}"},{"section":"messages",'
    b'"path":"messages[0]","kind":"envelope","data":"\\"role\\":\\"user\\""},{"section":"messages","path":'
    b'"messages[0].content[0]","kind":"block","data":"{}","breakpoint":{"type":"ephemeral"},"origin":"user"}],'
    b'"tail_segments":0,"tail_bytes":0,"reset":null,"model":"m","breakpoints":[[2,{"type":"ephemeral"}]],'
    b'"params":{"max_tokens":5}}\n'
    b'{"turn":2,"chain":"main","dialect":"anthropic","keep_segments":2,"keep_bytes":39,"append":[{"section":"messages",'
    b'"path":"messages[0].content[0]","kind":"block","data":"[1]"}],"tail_segments":1,"tail_bytes":3,'
    b'"reset":"compaction"}\n'
)
INLINE: dict[str, bytes] = {
    "lore": LORE, "assembled": ASSEMBLED, "claude": CLAUDE, "anthropic": ANTHROPIC, "chat": CHAT,
    "responses": RESPONSES, "gemini": GEMINI, "bedrock": BEDROCK, "records": RECORDS, "empty": b"",
    **{f"capture-{kind}": capture(kind) for kind in WRITERS},
}  # fmt: skip


class Sample(NamedTuple):
    """An input to begin with; `private` where it is somebody's recording."""

    name: str
    data: bytes
    private: bool = False


def gather() -> list[Sample]:
    """Return all inputs to begin with."""
    found = [Sample(name, data) for name, data in INLINE.items()]
    for folder, pattern in ((ROOT / "fixtures", "**/*.json*"), (SEEDS, "*.bin"), (CORPUS, "c*/*.jsonl")):
        private = folder == CORPUS
        found.extend(Sample(path.name, _beginning(path), private) for path in sorted(folder.glob(pattern)))
    return found


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    return data if len(data) <= LARGEST else data[: data.rfind(b"\n", 0, LARGEST) + 1] or data[:LARGEST]
