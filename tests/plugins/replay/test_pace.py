"""`--pace`: recorded gaps, shortened."""

from pathlib import Path

import pytest

from helpers.each import each
from lore.commands.main import main
from lore.errors import LoreError
from lore_plugins.replay.replaying import parse_pace
from plugins.replay.engines import VLLM, serving

pytest.importorskip("httpx")

STABLE = Path(__file__).resolve().parents[3] / "fixtures" / "recordings" / "stable.jsonl"


@each("pace, gap, waited", [
    ("1x", 300, 300), ("10x", 300, 30), ("2s", 300, 2), ("2s", 1, 1), ("500ms", 300, 0.5), ("1m", 300, 60),
    ("0", 300, 0), ("10x,2s", 300, 2), ("10x,2s", 10, 1), ("1x", -5, 0),
])  # fmt: skip
def test_pace_divides_and_bounds_gaps(pace, gap, waited):
    assert parse_pace(pace).shorten(gap) == pytest.approx(waited)


@each(["", "0x", "fast", "-1s", "nan", "1e3s", "10x;2s", "١x"])
def test_invalid_pace_is_refused(text):
    with pytest.raises(LoreError, match="is invalid"):
        parse_pace(text)


def test_replay_waits_for_recorded_gaps(tmp_path, monkeypatch, capsys):
    """The time of the requests themselves counts towards the gap."""
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    monkeypatch.chdir(tmp_path)
    with serving(VLLM()) as url:
        assert main(["replay", str(STABLE), "--server", url, "--dialect", "openai-chat", "--pace", "1x"]) == 0
    long = [wait for wait in waits if wait > 1]
    assert len(long) == 3
    assert all(wait <= 60 for wait in long)
