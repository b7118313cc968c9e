"""`--live`: a line a request; what requests say stands in none without `-v`."""

from __future__ import annotations

from multiprocessing import Pipe
from pathlib import Path

import pytest

from lore.run.dated import PACKAGED
from lore.run.live import record_live

CAPTURE = Path(__file__).resolve().parents[2] / "fixtures" / "captures" / "lore-capture" / "breaks.jsonl"


@pytest.mark.parametrize("content", [False, True])
def test_content_is_printed_with_v_alone(content, capsys, monkeypatch):
    monkeypatch.setattr(record_live.signal, "signal", lambda *_: None)
    theirs, ours = Pipe(duplex=False)
    ours.close()

    record_live._print(theirs, str(CAPTURE), 0, PACKAGED, content)

    printed = capsys.readouterr().err
    assert "turn 2" in printed
    assert "LORE101" in printed
    assert ("2026-03-02T09:00:01Z" in printed) is content
    assert ('"system[0]"' in printed) is content
