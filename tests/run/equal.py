"""What must be the same of a session and of the log that it was converted to."""

import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from helpers.states import dump_state
from lore.commands import convert as converting
from lore.commands.fold import fold
from lore.model.canonical import canonical
from lore.recording.agents.companions import companions
from lore.recording.base import Problems
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.run.checking.verdicts import CheckContext

NO_PLACE = {"path": "", "line": None, "fingerprint": ""}


class Seen(NamedTuple):
    """All that lore says about a session, without the places where it stands and the problems of reading."""

    folded: bytes
    state: bytes
    turns: list[tuple[Any, ...]]
    bodies: list[bytes]


def replay(path: str, options: Options | None = None) -> Seen:
    """Fold, assemble and write every turn."""
    options = options or Options()
    result = msgspec.structs.replace(fold(path, options).result, problems=[])
    recording = options.open(path, Problems(), subagents=True)
    turns, bodies = [], []
    for turn in recording.turns():
        signs = tuple(msgspec.structs.replace(sign, line=None) for sign in turn.signs)
        bare = msgspec.structs.replace(turn, line=None, byte=None, source=None, basis=None, signs=signs)  # type: ignore[arg-type]
        turns.append(msgspec.structs.astuple(bare))
        bodies.append(recording.dialect_for(recording.state).write(turn.prompt) + turn.prompt.fidelity.encode())
    order = sorted(range(len(turns)), key=lambda n: turns[n][:2])
    return Seen(
        canonical(msgspec.json.encode(result)),
        dump_state(recording.state),
        [turns[n] for n in order],
        [bodies[n] for n in order],
    )


def judged(*paths: str, options: Options | None = None) -> list[Any]:
    """The findings about pairs of turns, without their places, as an agent's user reads them."""
    result = check(list(paths), CheckContext(audience="user", options=options or Options())).result
    pairs = [finding for finding in result.findings if finding.code[:5] in ("LORE1", "LORE3")]
    return sorted((msgspec.structs.replace(finding, **NO_PLACE) for finding in pairs), key=repr)


def placeless(findings: list[Any]) -> str:
    """Findings without the lines that their evidence names."""
    return re.sub(r" \(line [\d,]+ of the log\)| at line [\d,]+ of the log|\bline=\d+", "", repr(findings))


def converted(path: str, options: Options | None = None) -> bytes:
    """The log that a session is converted to."""
    return b"".join(converting.convert_recording((options or Options()).open(path, Problems(), subagents=True)))


def assert_same(path: str, options: Options | None = None) -> bytes:
    """A session and the log it is converted to say the same; returns the log."""
    data = converted(path, options)
    with tempfile.TemporaryDirectory() as folder:
        converted_path = str(Path(folder, "made.jsonl"))
        Path(converted_path).write_bytes(data)
        expected, other = replay(path, options), replay(converted_path)
        assert other.folded == expected.folded
        assert other.state == expected.state
        assert other.turns == expected.turns
        assert other.bodies == expected.bodies
        assert placeless(judged(converted_path)) == placeless(judged(path, *companions(path), options=options))
        assert converted(converted_path) == data, "converted again it stays as it is"
    return data
