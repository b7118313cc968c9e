"""`lore replay` shows no credential that a server quotes or a prompt holds."""

import json

import pytest

from cli.running import lore
from helpers.credentials import SAMPLES
from helpers.matrix import some
from hostile.planting import PLACES, planted, put
from hostile.test_credentials import shows, whole
from plugins.replay.engines import Everything, serving, status


@pytest.mark.parametrize("kind", some(SAMPLES))
def test_replay_shows_no_credential(kind, tmp_path, monkeypatch):
    """Neither in the server's error, nor in the report of a prompt."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.sleep", lambda _: None)
    sample = SAMPLES[kind]
    file = put(planted(PLACES["message"], (sample.text, whole(sample).text)))
    engine = Everything()
    told = json.dumps({"error": {"message": f"{'word ' * 30}{sample.text} is wrong"}}).encode()
    engine.failing = [status(503, told)]
    with serving(engine) as url:
        words = ("replay", file, "--server", url, "--dialect", "anthropic", "-o", "c.jsonl", "-v")
        ran = lore(*words, "--json")
        engine.failing = [status(400, told)]
        refused = lore(*words, "--force")
    said = ran.out + ran.err + refused.out + refused.err
    assert engine.asked
    assert shows(sample, said) == shows(whole(sample), said) == []
