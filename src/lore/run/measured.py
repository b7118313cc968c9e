"""Logs of engines in a simulation (`--measured`): a plug-in reads them, and compares measurements with predictions.

Without such a plug-in nothing is measured, and naming a log is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import UnsetType

from lore.errors import lacks_plug_in
from lore.model.results.measured import MeasuredResult
from lore.recording.base import Problems, Recording
from lore.recording.opening import Options
from lore.report.measured import engine_measures

if TYPE_CHECKING:
    from lore.recording.inputs import Input
    from lore.run.simulation import PlayedTurn


class Measuring(Protocol):
    """Collects turns and measurements as recordings are simulated once."""

    def follow(self, recording: Recording, played: Iterable[PlayedTurn]) -> Iterable[PlayedTurn]:
        """Pass a recording's turns on."""
        ...

    def result(self) -> MeasuredResult | UnsetType:
        """Return the measurements and their comparison; unset if there are no logs."""
        ...


class MeasuredRun(Protocol):
    """The logs that measured a run, read."""

    @property
    def cache(self) -> str | None:
        """The cache of all logs, or of all inputs if they are logs; None if there are several."""
        ...

    def play(self) -> Measuring:
        """Start measuring one simulation."""
        ...


class EngineMeasures(Protocol):
    """Reads logs of engines; a plug-in publishes it under `lore.measured`, with `lore.report.measured.MeasuredView`."""

    def read(self, paths: Sequence[str], files: Sequence[Input], options: Options, problems: Problems) -> MeasuredRun:
        """Read the logs at these paths; `files` are simulated. Raises LoreError for a file that measures nothing."""
        ...


def read_logs(paths: Sequence[str], files: Sequence[Input], options: Options, problems: Problems) -> MeasuredRun | None:
    """Read the logs of a run; None if no plug-in reads them. Raises LoreError for a file without measurements."""
    found = cast("EngineMeasures | None", engine_measures())
    if found is not None:
        return found.read(paths, files, options, problems)
    if paths:
        raise lacks_plug_in("engines", "--measured")
    return None
