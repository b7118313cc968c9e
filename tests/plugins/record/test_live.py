"""`--live`: a line per request, which quotes it only with `-v`."""

from multiprocessing import Pipe
from pathlib import Path

import pytest

from hostile.test_current_folder import marks, run
from hostile.test_current_folder import trapped as trapped  # a fixture
from lore.run.rules import PACKAGED
from lore_plugins.record import live

_LIVE = """
from lore.run.rules import PACKAGED
from lore_plugins.record.live import LiveProcess
if __name__ == "__main__":
    LiveProcess("capture.jsonl", 0, PACKAGED, content=False).stop()
"""
CAPTURE = Path(__file__).resolve().parents[3] / "fixtures" / "captures" / "lore-capture" / "breaks.jsonl"


@pytest.mark.parametrize("content", [False, True])
def test_live_quotes_content_only_with_v(content, capsys, monkeypatch):
    monkeypatch.setattr(live.signal, "signal", lambda *_: None)
    theirs, ours = Pipe(duplex=False)
    ours.close()

    live._print_verdicts(theirs, str(CAPTURE), 0, PACKAGED, content)

    printed = capsys.readouterr().err
    assert "turn 2" in printed
    assert "LORE101" in printed
    assert ("2026-03-02T09:00:01Z" in printed) is content
    assert ('"system[0]"' in printed) is content


def test_live_process_imports_nothing_from_current_folder(trapped):
    done = run(_LIVE, trapped)
    assert (done.returncode, done.stderr, marks(trapped)) == (0, b"", [])
