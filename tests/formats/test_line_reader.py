"""A line that is no record: the same problem, whatever the format."""

from __future__ import annotations

import pytest

from helpers.each import each
from lore.formats.agents.gemini import GeminiCli
from lore.formats.agents.qwen import QwenCode
from lore.formats.base import Reader
from lore.formats.captures.bodies import Bodies
from lore.formats.captures.litellm import LiteLLM
from lore.formats.captures.lore_capture import LoreCapture
from lore.formats.captures.recorders import ProxyLines
from lore.formats.captures.telemetry import ClaudeEvents, GenAI
from lore.formats.claude.reader import ClaudeCode
from lore.formats.codex.reader import Codex
from lore.formats.copilot.reader import Copilot
from lore.formats.kimi.code import KimiCode
from lore.formats.lines import LineCutter, LineReader
from lore.formats.lore_log import AssembledLog, LoreLog
from lore.formats.pi.reader import Pi
from lore.formats.plain_chat.reader import Chat
from lore.formats.registry import READERS
from lore.formats.sidecode import Sidecode
from lore.model.codes import Problem
from lore.model.events import CacheReset
from lore.testing import everything

BY_LINES = (
    AssembledLog, Bodies, Chat, ClaudeCode, ClaudeEvents, Codex, Copilot, GeminiCli, GenAI, KimiCode, LiteLLM,
    LoreCapture, LoreLog, Pi, ProxyLines, QwenCode, Sidecode,
)  # fmt: skip
LADDER = (
    (b'{"a":\n{}\n', "LORE201", 1),
    (b'{}\n{"a":', "LORE202", 2),
    (b"{}\n{} {}\n", "LORE209", 2),
    (b"{}\n" + b"x" * 200 + b"\n", "LORE217", 2),
    (b"{}\n\xff\n", "LORE201", 2),
    (b"{}\n" + b"[" * 3000 + b"\n", "LORE201", 2),
)


def test_every_reader_of_lines_is_one():
    own = [one for one in READERS.values() if one.__module__.startswith("lore.")]
    assert {one for one in own if issubclass(one, LineReader)} == set(BY_LINES)


@pytest.mark.parametrize(("data", "code", "line"), LADDER)
@each(BY_LINES)
def test_a_line_that_is_no_record_is_the_same_problem_for_every_reader(
    reader: type[Reader], data: bytes, code: str, line: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(LineCutter, "limit", 48 if code == "LORE217" else 4096)
    problems = {(read.value.code, read.line) for read in everything(reader(), data) if isinstance(read.value, Problem)}
    assert (code, line) in problems


def test_records_that_stand_on_one_line_are_read_where_the_first_holds_nan():
    """Python's `json.dumps` writes NaN: what stood behind it on the line was lost."""
    log = (
        b'{"kind":"session_started","v":1,"session_id":"s"}\n{"kind":"x","v":NaN}{"kind":"cache_reset","reason":"r"}\n'
    )
    found = [read.value for read in everything(READERS["lore"](), log)]
    assert any(isinstance(value, CacheReset) for value in found)
