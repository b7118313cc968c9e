"""The table of readers: when readers are imported, and signs that agree with their readers."""

import json
import subprocess
import sys
from pathlib import Path

from helpers.each import each
from lore.formats.captures import layouts, litellm
from lore.formats.claude import records as claude_records
from lore.formats.registry import FORMATS, READERS, plug_in_of, reader_of
from lore.model.codes import Problem
from lore.recording.base import load_plugins
from lore.testing import everything

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

LOOK = """
import sys
from lore.formats.registry import READERS, reader_of
before = "lore.formats.codex.reader" in sys.modules
found = reader_of(b'{"model":"m","messages":[{"role":"user","content":"x"}]}')
print(before, found.name, "codex" in READERS, "lore.formats.codex.reader" in sys.modules, READERS["codex"].name)
"""


def test_reader_is_imported_when_it_is_used():
    process = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, check=True, text=True)
    assert process.stdout.split() == ["False", "bodies", "True", "False", "codex"]


def test_signs_equal_words_of_the_readers():
    def quoted(words):
        return tuple(f'"{word}"'.encode() for word in words)

    assert FORMATS["claude-code"].signs == (*claude_records._IDS, *claude_records._ANSWER)
    assert FORMATS["proxy"].signs == quoted(dict.fromkeys(path.rpartition(".")[2] for path in layouts.COMMON.request))
    assert FORMATS["litellm"].signs == quoted((*litellm.PAYLOAD, *litellm.ANSWERED))


def test_row_of_every_format_has_a_reader():
    assert FORMATS.keys() <= set(READERS)


def test_rows_of_documents_agree_with_their_readers():
    load_plugins()
    rows = {name: row for name, row in FORMATS.items() if not (row.packed or row.text)}
    assert {name for name, row in rows.items() if row.document} == {
        name for name in rows if not getattr(READERS[name], "reads_arrays", False)
    }


def test_formats_of_the_core_are_in_no_plugin():
    assert not [name for name, row in FORMATS.items() if plug_in_of(name) and not row.place.startswith("lore_plugins.")]


LOGS = (
    "claude-code/compaction.jsonl", "codex/rollout.jsonl", "copilot/events.jsonl", "gemini-cli/stream.jsonl",
    "kimi-code/wire.jsonl", "managed-agents/session.jsonl", "qwen-code/chat.jsonl", "assembled/tool_loop.jsonl",
    "captures/claude-events/breaks.jsonl", "captures/litellm/stable.jsonl", "captures/lore-capture/breaks.jsonl",
    "captures/otel-genai/breaks.jsonl", "captures/proxy/breaks.jsonl", "captures/continuations/breaks.jsonl",
    "sessions/tool_loop.jsonl",
)  # fmt: skip


def printed(record: str) -> str:
    return json.dumps(json.loads(record), indent=2, ensure_ascii=False)


WRITTEN = {
    "printed": lambda lines: "\n".join(map(printed, lines)),
    "first_printed": lambda lines: "\n".join((printed(lines[0]), *lines[1:])),
    "others_printed": lambda lines: "\n".join((lines[0], *map(printed, lines[1:]))),
    "array": lambda lines: f"[{','.join(lines)}]",
    "array_of_lines": lambda lines: "[\n" + ",\n".join(lines) + "\n]\n",
    "array_after_first": lambda lines: f"{printed(lines[0])}\n[\n" + ",\n".join(map(printed, lines[1:])) + "\n]\n",
    "arrays": lambda lines: f"[{','.join(lines[:2])}]\n[{','.join(lines[2:])}]\n",
    "printed_array": lambda lines: "[\n" + ",\n".join(map(printed, lines)) + "\n]\n",
    "member": lambda lines: f'{{"exported": 1, "records": [{",".join(lines)}], "more": []}}',
    "inner_member": lambda lines: f'{{"result":\n{{"of": [1], "data": [\n{",".join(map(printed, lines))}\n]}}}}',
    "pairs_on_lines": lambda lines: (
        "\n".join(map(" ".join, zip(lines[::2], lines[1::2], strict=False))) + (lines[-1] if len(lines) % 2 else "")
    ),
    "one_line": "".join,
    "crlf": lambda lines: "\ufeff\r\n" + "\r\n\r\n".join(map(printed, lines)),
    "comment": lambda lines: "# exported\n// by hand\n" + "\n".join(lines),
    "rest_of_record": lambda lines: lines[0][len(lines[0]) // 2 :] + "\n" + "\n".join(lines),
    "rest_of_printed_record": lambda lines: "\n".join(printed(lines[0]).split("\n")[2:] + [*map(printed, lines)]),
    "nul_bytes": lambda lines: "\0" * 40 + lines[0] + "\n" + "\n".join("\0" * 9 + line for line in lines[1:]) + "\0",
}


def read_values(data: bytes) -> list[tuple[type, object]]:
    """Return the kinds of what the reader of a file finds, with usage; without problems."""
    values = [read.value for read in everything(reader_of(data), data) if not isinstance(read.value, Problem)]
    return [(type(value), getattr(value, "usage", None)) for value in values]


@each("log, written", {f"{log} {written}": (log, written) for log in LOGS for written in WRITTEN})
def test_records_written_otherwise_equal_lines(log, written):
    lines = (FIXTURES / log).read_text().splitlines()
    assert read_values(WRITTEN[written](lines).encode()) == read_values("\n".join(lines).encode())


@each(("readme.md", "source.ts", "settings.json"))
def test_file_with_records_among_text_is_not_recognised(name):
    record = (FIXTURES / LOGS[0]).read_text().splitlines()[0]
    texts = {
        "readme.md": f"# Logs\n\nA record:\n\n```json\n{record}\n```\n",
        "source.ts": f"export const RECORD =\n{record}\n;",
        "settings.json": '{"tools": [{"type": "user", "name": "x"}], "hooks": [{"event": "request", "id": 1}]}',
    }
    assert reader_of(texts[name].encode()) is None


def test_torn_array_is_read_up_to_its_end():
    lines = (FIXTURES / LOGS[0]).read_bytes()
    array = b"[" + lines.replace(b"\n", b",")[:-30]
    values = [read.value for read in everything(reader_of(array), array)]
    assert len(values) > 5
    assert [value.code for value in values if isinstance(value, Problem)] == ["LORE202"]


def test_arrays_of_several_lines_are_no_records():
    """Regression: only the records of the first line were read."""
    call = {"request": {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}, "response": {}}
    line = json.dumps({"run": 1, "calls": [call]}).encode() + b"\n"
    assert reader_of(line) is not None
    assert reader_of(line + line) is None


FAR = [
    ("codex", {"type": "session_meta", "payload": {}}),
    ("kimi-code", {"time": 1, "type": "usage.record"}),  # a sign that is no plain word
]


@each("format, record", FAR)
def test_sign_far_from_the_start_is_found(format, record):
    line = json.dumps({"padding": "x" * 9_999, **record}).encode() + b"\n"
    assert reader_of(line).name == format
