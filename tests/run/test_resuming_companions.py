"""A checkpoint of a session whose subagents wrote files of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from lore.recording.opening import Options
from lore.report.forms.json_report import render
from lore.run.checkpoints import fold_resumed
from lore.run.folding import fold

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "claude-code" / "subagents_folder"


def test_a_resumed_fold_has_the_subagents_chains_that_a_cold_one_has(tmp_path):
    """Resuming read the session's own file alone."""
    folder = tmp_path / "project"
    shutil.copytree(FIXTURES, folder)
    (log,) = folder.glob("*.jsonl")
    whole = log.read_bytes()
    cut = whole.index(b"\n", len(whole) // 2) + 1
    log.write_bytes(whole[:cut])
    fold_resumed(str(log), Options(), str(tmp_path / "checkpoint"))
    log.write_bytes(whole)
    resumed = fold_resumed(str(log), Options(), str(tmp_path / "checkpoint"))
    assert resumed.refused is None
    cold = render(fold(str(log), Options()).result)
    assert render(resumed.folded.result) == cold
    assert len(json.loads(cold)["session"]["chains"]) > 1
