"""The table of readers: what is imported when, and signs that say what their readers do."""

from __future__ import annotations

import subprocess
import sys

from lore.formats.captures import litellm
from lore.formats.captures import recorders as captures
from lore.formats.claude import records as claude_records
from lore.formats.registry import FORMATS, READERS, plug_in_of

LOOK = """
import sys
from lore.formats.registry import READERS, reader_of
before = "lore.formats.codex.reader" in sys.modules
found = reader_of(b'{"model":"m","messages":[{"role":"user","content":"x"}]}')
print(before, found.name, "codex" in READERS, "lore.formats.codex.reader" in sys.modules, READERS["codex"].name)
"""


def test_a_reader_is_imported_when_it_is_asked_for_and_not_when_another_one_is():
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["False", "bodies", "True", "False", "codex"]


def test_signs_are_the_words_that_readers_look_for():
    def quoted(words):
        return tuple(f'"{word}"'.encode() for word in words)

    assert FORMATS["claude-code"].signs == claude_records.MARKERS
    assert FORMATS["proxy"].signs == quoted(dict.fromkeys(path.rpartition(".")[2] for path in captures.COMMON.request))
    assert FORMATS["litellm"].signs == quoted((*litellm.PAYLOAD, *litellm.ANSWERED))


def test_row_of_every_format_has_a_reader():
    assert FORMATS.keys() <= set(READERS)


def test_formats_of_the_core_are_in_no_plugin():
    assert not [name for name, row in FORMATS.items() if plug_in_of(name) and not row.place.startswith("lore_plugins.")]
