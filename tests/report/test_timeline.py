"""`lore fold` shows blocks that only the provider can read."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from msgspec import Raw

from lore.model.items import AssistantMessage, RawBlock, TextBlock
from lore.report.console import Console
from lore.report.timeline import write_row


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}, "[encrypted reasoning]"),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look first."}], "encrypted_content": "g"},
         "[reasoning: Look first.]"),
        ({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}, "[reasoning: hm]"),
        ({"type": "reasoning", "summary": []}, "[reasoning]"),
        ({"type": "reasoning", "summary": 7, "content": [7, {"text": 7}]}, "[reasoning]"),
        ({"type": "redacted_thinking", "data": "EmwK"}, "[encrypted redacted_thinking]"),
        ({"type": "compaction", "encrypted_content": "gAAAA"}, "[encrypted compaction]"),
        ({"type": "web_search_call", "id": "x"}, '[{"type": "web_search_call", "id": "x"}]'),
    ],
)  # fmt: skip
def test_encrypted_block_is_named_with_its_summary(block: dict[str, Any], shown: str, capsys):
    blocks = (RawBlock(Raw(json.dumps(block).encode()), "openai-responses"),)
    write_row(AssistantMessage("a", blocks=blocks), Console(sys.stdout, colour=False, terminal=False))
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize(("terminal", "width", "size"), [(True, 60, 49), (True, 140, 129), (False, 60, 100)])
def test_timeline_text_is_cut_to_one_line(terminal, width, size, capsys):
    words = "word " * 100
    blocks = (TextBlock(Raw(json.dumps(words).encode())),)
    write_row(AssistantMessage("a", blocks=blocks), Console(sys.stdout, colour=False, terminal=terminal, width=width))
    (shown,) = capsys.readouterr().out.splitlines()
    assert shown == f"assistant  {words[: size - 1]}…"
