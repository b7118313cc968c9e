"""`lore replay --redact` hides the contents of a recording."""

import json
from pathlib import Path
from typing import get_type_hints

import pytest

from lore.commands.main import main
from lore.report.redacted import CHANGES, ROWS
from lore_plugins.replay.results import Replayed, ReplayedLayout, ReplayEstimate
from plugins.replay.engines import VLLM, Engine, serving, status

pytest.importorskip("httpx")

CLOCK = Path(__file__).resolve().parents[3] / "fixtures" / "recordings" / "clock_in_system.jsonl"
QUOTED = "2026-11-20T08:01:02Z"  # in its prompts


@pytest.mark.parametrize("redact", [False, True])
def test_redact_hides_quoted_prompts(redact, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.sleep", lambda _: None)
    options = ["--redact"] if redact else []
    with serving(VLLM()) as url:
        command = ["replay", str(CLOCK), "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl", *options]
        assert main([*command, "--json"]) == 0
        answer = capsys.readouterr().out
        assert main([*command, "--resume"]) == 0
        table = capsys.readouterr().out
    assert "LORE101" in table
    assert [QUOTED in text for text in (answer, table)] == [not redact] * 2


def test_redact_hides_what_a_server_quotes(tmp_path, monkeypatch, capsys):
    """An error may quote the request."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.sleep", lambda _: None)
    engine = VLLM()
    engine.failing = [status(503, b'{"error":{"message":"QUOTED"}}'), status(400, b'{"error":{"message":"QUOTED"}}')]
    with serving(engine) as url:
        command = ["replay", str(CLOCK), "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl"]
        assert main([*command, "--redact"]) == 2
    said = capsys.readouterr()
    assert "answers 400" in said.err
    assert "QUOTED" not in said.err + said.out


def test_redact_hides_private_model_names(tmp_path, monkeypatch, capsys):
    """The name is in no cause: only `redacted` removes it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.sleep", lambda _: None)
    bodies = [json.loads(line)["request"] for line in CLOCK.read_bytes().splitlines()]
    Path("r.jsonl").write_text(
        "".join(json.dumps({**body, "model": "Ann's secret model"}) + "\n" for body in bodies), "utf-8"
    )
    with serving(Engine()) as url:
        command = ["replay", "r.jsonl", "--server", url, "--dialect", "openai-chat", "-o", "c.jsonl", "--json"]
        assert main([*command, "--redact"]) == 0
        redacted = capsys.readouterr().out
        assert main([*command, "--resume"]) == 0
        plain = capsys.readouterr().out
    assert ["Ann's secret model" in text for text in (redacted, plain)] == [False, True]


def test_every_text_of_a_replay_has_its_row():
    texts = [
        (struct, name)
        for struct in (Replayed, ReplayedLayout, ReplayEstimate)
        for name, hint in get_type_hints(struct).items()
        if name in struct.__struct_fields__ and "str" in str(hint)
    ]
    rows = [getattr(struct, "SHOWN", {}).get(name) or ROWS.get(name) for struct, name in texts]
    assert [text for text, row in zip(texts, rows, strict=True) if row not in CHANGES] == []
