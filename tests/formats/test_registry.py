"""The table of readers: when readers are imported, and signs that agree with their readers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.each import each
from lore.formats.captures import layouts, litellm
from lore.formats.claude import records as claude_records
from lore.formats.registry import FORMATS, READERS, plug_in_of, reader_of
from lore.model.codes import Problem
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
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["False", "bodies", "True", "False", "codex"]


def test_signs_equal_words_of_the_readers():
    def quoted(words):
        return tuple(f'"{word}"'.encode() for word in words)

    assert FORMATS["claude-code"].signs == claude_records.MARKERS
    assert FORMATS["proxy"].signs == quoted(dict.fromkeys(path.rpartition(".")[2] for path in layouts.COMMON.request))
    assert FORMATS["litellm"].signs == quoted((*litellm.PAYLOAD, *litellm.ANSWERED))


def test_row_of_every_format_has_a_reader():
    assert FORMATS.keys() <= set(READERS)


def test_formats_of_the_core_are_in_no_plugin():
    assert not [name for name, row in FORMATS.items() if plug_in_of(name) and not row.place.startswith("lore_plugins.")]


LOGS = ("claude-code/compaction.jsonl", "codex/rollout.jsonl", "kimi-code/wire.jsonl", "gemini-cli/stream.jsonl")


@pytest.mark.parametrize("indent", [None, 2])
@each(LOGS)
def test_log_in_one_array_equals_lines(log, indent):
    lines = (FIXTURES / log).read_bytes()
    records = [json.loads(line) for line in lines.splitlines()]
    array = json.dumps(records, indent=indent, separators=(",", ":"), ensure_ascii=False).encode()
    found = [type(reader_of(data)) for data in (lines, array)]
    events, listed = (
        [read.value for read in everything(kind(), data)] for kind, data in zip(found, (lines, array), strict=True)
    )
    assert found[0] is found[1]
    assert [type(event) for event in listed] == [type(event) for event in events]


def test_torn_array_is_read_up_to_its_end():
    lines = (FIXTURES / LOGS[0]).read_bytes()
    array = b"[" + lines.replace(b"\n", b",")[:-30]
    found = [read.value for read in everything(reader_of(array), array)]
    assert len(found) > 5
    assert [value.code for value in found if isinstance(value, Problem)] == ["LORE202"]
