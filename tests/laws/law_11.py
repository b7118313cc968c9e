"""For law 11: every recording of the fixtures and the corpus, listed once for all tests, and a comparison of judges."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from conftest import CORPUS, ROOT, recordings
from lore.errors import LoreError
from lore.model.cause import Place
from lore.model.turn import Turn
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run.rules import PACKAGED

PLACE = Place("session.jsonl")
FIXTURES = ROOT / "fixtures"
FOLDERS = ("causes", "recordings", "sessions", "claude-code", "captures")
LOOK_ALIKE = ("negative", "negative.jsonl")  # of a code: recordings without it, for `tests/test_catalogue.py`
READ = Options()


def listed(*folders: Path) -> list[str]:
    """Return the recordings in folders, each file or packed folder once."""
    every = inputs([str(folder) for folder in folders if folder.is_dir()])
    return [recording.path for recording in every if reader_of(recording.path) is not None]


@cache
def reader_of(path: str) -> str | None:
    """Return the format of a file; None if it is not a recording."""
    try:
        return READ.open(path).reader.name
    except LoreError:
        return None


def short(path: str) -> str:
    """Return the path of a recording below its folder."""
    below = CORPUS if Path(path).is_relative_to(CORPUS) else FIXTURES
    return Path(path).relative_to(below).as_posix()


OWN = listed(*(FIXTURES / name for name in FOLDERS))
REAL_CASES = recordings(map(Path, listed(CORPUS)))


def assert_quick_judge_agrees(turns: Iterable[Turn]) -> int:
    """Compare both judges turn by turn; return how many pairs the quick one did not make."""
    whole, quick, spared = PACKAGED.judge(), PACKAGED.judge(quick=True), 0
    for turn in turns:
        full, fast = whole.turn(turn), quick.turn(turn)
        place = f"turn {turn.number} of {turn.chain}"
        assert (full.causes, full.lost_tokens) == (fast.causes, fast.lost_tokens), place
        assert (full.wasted_tokens, full.unexplained_tokens) == (fast.wasted_tokens, fast.unexplained_tokens), place
        assert (full.compared, full.was_foreseen) == (fast.compared, fast.was_foreseen), place
        spared += full.pair is not None and fast.pair is None
    assert whole.finish(PLACE) == quick.finish(PLACE)
    return spared
